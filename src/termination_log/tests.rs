//! The file and what others have written into it.

use std::io::Write;

use tempfile::{NamedTempFile, TempDir};

use super::*;

const FIRST: &str = r#"{"outro":1,"msg":"this is the provisional record","final":false}"#;
const LAST: &str = r#"{"outro":1,"msg":"this is the final one","final":true}"#;

fn file_with(text: &str) -> (NamedTempFile, TerminationLog) {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("write");
    let log = TerminationLog::new(&ReportTo::Path(file.path().into()), false);
    (file, log)
}

fn text(file: &NamedTempFile) -> String {
    fs::read_to_string(file.path()).expect("read")
}

fn append_text(file: &NamedTempFile, text: &str) {
    let mut file = OpenOptions::new().append(true).open(file.path()).expect("open");
    file.write_all(text.as_bytes()).expect("write");
}

#[test]
fn the_final_record_takes_the_place_of_the_provisional_one() {
    let (file, mut log) = file_with("");
    log.write_provisional(FIRST);
    assert_eq!(text(&file), format!("{FIRST}\n"));
    log.write_final(LAST);
    assert_eq!(text(&file), format!("{LAST}\n"));
}

#[test]
fn what_the_application_wrote_is_kept_whole_wherever_it_stands() {
    for before in ["", "before\n", "before"] {
        for between in ["", "between\n", "between"] {
            let (file, mut log) = file_with(before);
            log.write_provisional(FIRST);
            append_text(&file, between);
            log.write_final(LAST);
            let theirs = format!("{before}{between}");
            let newline = if theirs.is_empty() || theirs.ends_with('\n') { "" } else { "\n" };
            assert_eq!(text(&file), format!("{theirs}{newline}{LAST}\n"), "{before:?} {between:?}");
            append_text(&file, "after");
            assert_eq!(text(&file), format!("{theirs}{newline}{LAST}\nafter"));
        }
    }
}

#[test]
fn a_writer_with_its_own_offset_overwrites_our_record_and_loses_nothing() {
    let (mut file, mut log) = file_with("first ");
    log.write_provisional(FIRST);
    // The application goes on where it was, on top of our record.
    file.write_all(b"second").expect("write");
    log.write_final(LAST);
    assert_eq!(text(&file), format!("first second\n{LAST}\n"));
}

#[test]
fn a_file_that_was_written_anew_gets_the_final_record_at_its_end() {
    let (file, mut log) = file_with("old text\n");
    log.write_provisional(FIRST);
    fs::write(
        file.path(),
        "all new, and longer than what was there before, so that offsets mean nothing any more, really\n",
    )
    .expect("write");
    log.write_final(LAST);
    let text = text(&file);
    assert!(text.starts_with("all new") && text.ends_with(&format!("really\n{LAST}\n")), "{text}");
}

#[test]
fn a_long_text_behind_our_record_keeps_it() {
    let (file, mut log) = file_with("");
    log.write_provisional(FIRST);
    let long = "x".repeat(100_000);
    append_text(&file, &long);
    log.write_final(LAST);
    assert_eq!(text(&file), format!("{FIRST}\n{long}\n{LAST}\n"));
}

#[test]
fn a_path_that_does_not_exist_is_made_and_what_cannot_be_written_is_left_alone() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("report");
    TerminationLog::new(&ReportTo::Path(path.clone()), false).write_final(LAST);
    assert_eq!(fs::read_to_string(path).expect("read"), format!("{LAST}\n"));
    // Neither a panic nor a change: there is nothing to see but a warning in the log.
    for path in [directory.path().into(), directory.path().join("none/report"), PathBuf::from("/dev/full")] {
        let mut log = TerminationLog::new(&ReportTo::Path(path), false);
        log.write_provisional(FIRST);
        log.write_final(LAST);
    }
}

#[test]
fn nothing_is_written_for_off_nor_for_auto_unless_process_1() {
    assert_eq!(TerminationLog::new(&ReportTo::Off, true).path, None);
    assert_eq!(TerminationLog::new(&ReportTo::Auto, false).path, None);
}

#[test]
fn the_kubelets_mount_is_found_whatever_its_path() {
    let uid = "0f4b3f4e-8a4c-4a53-a0c8-5a6cf2d0d0c1";
    let line = |root: &str, at: &str| format!("742 731 254:1 {root} {at} rw,relatime - ext4 /dev/vda1 rw\n");
    let hosts = line(&format!("/var/lib/kubelet/pods/{uid}/etc-hosts"), "/etc/hosts");
    let volume = line(&format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/a"), "/a");
    let log = |at: &str| line(&format!("/var/lib/kubelet/pods/{uid}/containers/app/12ab34cd"), at);
    let found = |text: String| mount_point(&text);
    assert_eq!(found(format!("{hosts}{volume}")), None);
    assert_eq!(found(format!("{hosts}{}", log("/dev/termination-log"))), Some("/dev/termination-log".into()));
    assert_eq!(found(format!("{volume}{}", log("/a\\040b\\134c"))), Some("/a b\\c".into()));
    assert_eq!(found(line("/pods/u/containers/app/not-hex", "/x")), None);
}

//! Where an explicit path leads: wherever that is, nothing waits for it and nothing fails because of it.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use super::mount::{c_path, make_read_only, put_tmpfs};
use super::{File, POLITE, record, stopped};
use crate::harness::{Finished, Start, everywhere, no_fork_meanwhile};

/// The run is as without a report, but for a warning that names the file.
#[track_caller]
fn assert_warned(finished: &Finished, path: &Path) {
    assert_eq!(finished.code, 7, "{}", finished.stderr);
    let words = format!("cannot write the report to {}", path.display());
    assert!(finished.stderr.contains(&words), "{}", finished.stderr);
}

#[test]
fn a_path_from_where_we_were_started_is_followed() {
    everywhere(|start| {
        let file = File::new();
        let start = start.in_directory(file.scratch.path()).env("OUTRO_REPORT", "report");
        assert_eq!(stopped(start, POLITE).code, 7);
        assert_eq!(file.record()["final"], true);
    });
}

#[test]
fn a_missing_directory_is_a_warning() {
    everywhere(|start| {
        let file = File::new();
        let path = file.scratch.join("missing/report");
        assert_warned(&stopped(start.env("OUTRO_REPORT", &path), POLITE), &path);
    });
}

#[test]
fn a_directory_is_a_warning() {
    everywhere(|start| {
        let file = File::new();
        fs::create_dir(&file.path).unwrap();
        assert_warned(&stopped(file.for_report_of(start), POLITE), &file.path);
    });
}

#[test]
fn a_read_only_file_system_is_a_warning() {
    everywhere(|start| {
        let file = File::new();
        fs::write(&file.path, "the reason").unwrap();
        let directory = c_path(file.scratch.path());
        let start = file.for_report_of(start).before_exec(move || make_read_only(&directory));
        assert_warned(&stopped(start, POLITE), &file.path);
        assert_eq!(file.text(), "the reason");
    });
}

#[test]
fn a_full_file_system_is_a_warning() {
    everywhere(|start| {
        let file = File::new();
        let directory = c_path(file.scratch.path());
        let start = file.for_report_of(start).before_exec(move || put_tmpfs(&directory, c"size=4k"));
        let fill = format!("cat /dev/zero >{}", file.scratch.join("rest").display());
        let script = format!("{fill} 2>/dev/null; exec \"$@\"");
        let actor = crate::harness::actor();
        let words = [&["sh", "-c", &script, "sh", actor.to_str().unwrap()][..], &POLITE.split(' ').collect::<Vec<_>>()];
        let mut init = start.command(&words.concat()).spawn();
        init.wait_for_stdout("main: ready");
        init.signal(libc::SIGTERM);
        assert_warned(&init.finish(), &file.path);
    });
}

#[test]
fn a_device_that_takes_nothing_is_a_warning() {
    everywhere(|start| {
        let full = Path::new("/dev/full");
        assert_warned(&stopped(start.env("OUTRO_REPORT", full), POLITE), full);
    });
}

fn make_fifo(path: &Path) {
    let _guard = no_fork_meanwhile();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_fifo_without_a_reader_is_a_warning() {
    everywhere(|start| {
        let file = File::new();
        make_fifo(&file.path);
        assert_warned(&stopped(file.for_report_of(start), POLITE), &file.path);
    });
}

#[test]
fn a_fifo_with_a_reader_gets_both_records() {
    everywhere(|start| {
        let file = File::new();
        make_fifo(&file.path);
        let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&file.path).unwrap();
        assert_eq!(stopped(file.for_report_of(start), POLITE).code, 7);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let finals: Vec<_> = text.lines().map(|line| record(&format!("{line}\n"))["final"].clone()).collect();
        assert_eq!(finals, [false, true]);
    });
}

#[test]
fn a_faulty_configuration_is_reported_at_once_and_a_missing_path_does_not_hinder() {
    everywhere(|start| {
        let file = File::new();
        let path = file.scratch.join("missing/report");
        let finished = start.env("OUTRO_REPORT", &path).options(&["--grace", "soon"]).main("exit 0").run();
        assert_eq!(finished.code, 125);
        assert!(finished.stderr.contains("--grace=soon"), "{}", finished.stderr);
    });
}

#[test]
fn nothing_is_written_when_the_report_is_off() {
    everywhere(|start: Start| {
        let file = File::new();
        let start = start.in_directory(file.scratch.path()).env("OUTRO_REPORT", "off");
        assert_eq!(stopped(start, POLITE).code, 7);
        assert_eq!(fs::read_dir(file.scratch.path()).unwrap().count(), 0);
    });
}

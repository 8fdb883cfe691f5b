//! The file is the application's, too: not a byte of its own is lost.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use super::{File, POLITE, ready, record};
use crate::harness::{everywhere, side_by_side};

/// How the application writes.
#[derive(Clone, Copy, PartialEq)]
enum Writer {
    Appending,
    /// Where it has stopped writing, whatever has been put there meanwhile.
    AtItsOffset,
    /// It empties the file first, as `>` does in a shell.
    Replacing,
}

fn open(path: &Path, writer: Writer) -> fs::File {
    let mut options = OpenOptions::new();
    match writer {
        Writer::Appending => options.append(true),
        Writer::AtItsOffset => options.write(true),
        Writer::Replacing => options.write(true).truncate(true),
    };
    options.create(true).open(path).unwrap()
}

/// The application writes `before` the stop and `between` our two records; gives what is in the file in the end.
fn written(writer: Writer, before: &str, between: &str) {
    everywhere(|start| {
        let file = File::new();
        let mut application = open(&file.path, writer);
        application.write_all(before.as_bytes()).unwrap();
        let mut init = ready(file.for_report_of(start.options(&["--delay", "1h"])), "name main echo 10 exit 7");
        init.signal(libc::SIGTERM);
        file.wait_for_provisional(&mut init);
        if writer == Writer::Replacing {
            application = open(&file.path, writer);
        }
        application.write_all(between.as_bytes()).unwrap();
        init.signal(libc::SIGUSR1);
        assert_eq!(init.finish().code, 7);

        let kept = if writer == Writer::Replacing { between.to_owned() } else { format!("{before}{between}") };
        let newline = if kept.is_empty() || kept.ends_with('\n') { "" } else { "\n" };
        let text = file.text();
        let ours = text.strip_prefix(&format!("{kept}{newline}"));
        let ours = ours.unwrap_or_else(|| panic!("{kept:?} is not kept:\n{text}"));
        assert_eq!(record(ours)["final"], true, "{text}");
    });
}

/// Longer than any record of ours.
const LONG: &str = concat!("a line that is as long as ten of its kind", "\n");

#[test]
fn what_the_application_writes_is_kept() {
    let long = LONG.repeat(50);
    let texts = [
        ("", ""),
        ("before\n", ""),
        ("before", ""),
        ("", "between\n"),
        ("", "between"),
        ("before\n", "between"),
        ("before", "between\n"),
        ("before", &long),
        (&long, "between"),
    ];
    let writers =
        [("appending", Writer::Appending), ("at its offset", Writer::AtItsOffset), ("replacing", Writer::Replacing)];
    side_by_side(writers, |writer| {
        for (before, between) in texts {
            written(writer, before, between);
        }
    });
}

/// As the one before a restart left it.
#[test]
fn an_earlier_record_is_kept() {
    everywhere(|start| {
        let file = File::new();
        let earlier = "{\"outro\":1,\"final\":false}\n";
        fs::write(&file.path, earlier).unwrap();
        assert_eq!(super::stopped(file.for_report_of(start), POLITE).code, 7);
        let text = file.text();
        assert_eq!(record(text.strip_prefix(earlier).unwrap())["final"], true);
    });
}

#[test]
fn an_ordinary_end_leaves_the_file_alone() {
    everywhere(|start| {
        let file = File::new();
        let start = file.for_report_of(start.options(&["--grace", "24h"]));
        assert_eq!(start.main("orphan [ exit 3 ] exit 0").run().code, 0);
        assert!(!file.path.exists());
    });
    everywhere(|start| {
        let file = File::new();
        fs::write(&file.path, "the reason").unwrap();
        assert_eq!(file.for_report_of(start).main("exit 7").run().code, 7);
        assert_eq!(file.text(), "the reason");
    });
}

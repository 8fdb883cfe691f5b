//! The report: what it says, where it goes, and what is left alone.

mod kubelet;
mod log;
mod memory;
mod mount;
mod place;
mod records;
mod sender;
mod shared_file;
mod stragglers;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Finished, Running, Scratch, Start};

/// The longest record, without its newline.
const LONGEST: usize = 1024;

/// A file for a report, in a directory of its own.
struct File {
    scratch: Scratch,
    path: PathBuf,
}

impl File {
    /// It does not exist yet.
    fn new() -> File {
        let scratch = Scratch::new();
        let path = scratch.join("report");
        File { scratch, path }
    }

    fn for_report_of(&self, start: Start) -> Start {
        start.env("OUTRO_REPORT", &self.path)
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }

    /// Waits for the record that is written at T0.
    fn wait_for_provisional(&self, init: &mut Running) {
        wait_for_provisional(&self.path, init);
    }

    /// The record, which is all that is in the file.
    fn record(&self) -> Value {
        record(&self.text())
    }
}

fn wait_for_provisional(path: &Path, init: &mut Running) {
    let is_there = |text: String| text.contains("\"final\":false") && text.contains("}\n");
    init.wait_until("the provisional record", |_| fs::read_to_string(path).is_ok_and(is_there));
}

/// Reads a record that is one line, and all of `text`.
#[track_caller]
fn record(text: &str) -> Value {
    let line = text.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {text:?}"));
    assert!(!line.contains('\n') && line.len() <= LONGEST, "{line}");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Starts main, asks it to stop when it is ready, and waits for the end.
fn stopped(start: Start, words: &str) -> Finished {
    let mut init = ready(start, words);
    init.signal(libc::SIGTERM);
    init.finish()
}

fn ready(start: Start, words: &str) -> Running {
    let mut init = start.main(words).spawn();
    init.wait_for_stdout("main: ready\n");
    init
}

const POLITE: &str = "name main echo 15 exit 7";

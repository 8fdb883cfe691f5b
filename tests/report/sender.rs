//! Who sent the stop signal.

use std::fs::File as Descriptor;
use std::io::Write;

use serde_json::{Value, json};

use super::{File, POLITE, ready};
use crate::harness::{Start, everywhere, pipe};

/// Asserts who sent it, and how that is put into words.
#[track_caller]
fn assert_from(record: &Value, from: &Value, words: &str) {
    assert_eq!(&record["from"], from, "{record}");
    assert!(record["msg"].as_str().unwrap().contains(words), "{record}");
}

#[test]
fn a_sender_outside_has_no_number() {
    everywhere(|start| {
        let file = File::new();
        super::stopped(file.for_report_of(start), POLITE);
        assert_from(&file.record(), &json!({"where": "outside", "pid": 0, "uid": 0}), "from outside the container");
    });
}

#[test]
fn a_sender_inside_has_a_number_and_a_name() {
    for (start, init, main) in [(Start::outro(), 1, 2), (Start::outro().not_as_pid1(), 2, 3)] {
        let file = File::new();
        let words = format!("comm sender block 15 kill {init} 15 echo 15 exit 7");
        assert_eq!(file.for_report_of(start).main(&words).run().code, 7);
        let from = json!({"where": "inside", "pid": main, "uid": 0, "comm": "sender"});
        assert_from(&file.record(), &from, &format!("from process {main} (sender) inside the container"));
    }
}

/// The parent is a shell: process 2, below an actor.
#[test]
fn a_parent_is_called_one() {
    let file = File::new();
    let (stdin, mut ours) = pipe();
    let script = r#""$@" & outro=$!; read go; kill -TERM $outro; wait $outro"#;
    let start = Start::outro().below(&["sh", "-c", script, "sh"], 1).stdin(stdin);
    let init = ready(file.for_report_of(start), POLITE);
    ours.write_all(b"go\n").unwrap();
    assert_eq!(init.finish().code, 7);
    let from = json!({"where": "parent", "pid": 2, "uid": 0, "comm": "sh"});
    assert_from(&file.record(), &from, "from the parent process 2 (sh)");
}

/// The keys go to the foreground group, which is ours when main was not given the terminal.
#[test]
fn a_key_comes_from_the_terminal() {
    let file = File::new();
    let null = Descriptor::open("/dev/null").unwrap();
    let start = file.for_report_of(Start::outro()).on_a_terminal().with_descriptor(0, null);
    let mut init = start.options(&["--delay", "10ms"]).main("echo 2 exit 7").spawn();
    init.expect("ready");
    init.terminal().write_all(b"\x03").unwrap();
    assert_eq!(init.finish().code, 7);
    let record = file.record();
    assert_eq!(record["signal"], "INT");
    assert_from(&record, &json!({"where": "terminal", "pid": 0, "uid": 0}), "SIGINT from the terminal");
}

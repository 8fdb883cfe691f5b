//! Who had to be killed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::File;
use crate::harness::{actor, everywhere};

/// Main ends at TERM; these are the names of the orphans that do not.
fn record_of(start: crate::harness::Start, names: &[&[u8]]) -> serde_json::Value {
    let file = File::new();
    let mut words = vec![actor().into_os_string()];
    for name in names {
        let orphan: [&[u8]; 11] =
            [b"orphan", b"[", b"session", b"ignore", b"15", b"comm", name, b"say", b"orphan", b"pause", b"]"];
        words.extend(orphan.map(|word| OsStr::from_bytes(word).to_owned()));
    }
    words.extend(["name", "main", "echo", "15", "exit", "7"].map(Into::into));
    let start = file.for_report_of(start).options(&["--grace", "24h", "--margin", "10", "--linger", "300ms"]);
    let mut init = start.command(&words).spawn();
    let count = names.len() + 1;
    init.wait_until("everyone to be ready", |init| init.stdout().lines().count() == count);
    init.signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 7);
    file.record()
}

#[test]
fn any_name_is_told() {
    everywhere(|start| {
        let names: [&[u8]; 3] = [b"a \"quoted\" \\name", b"two\nlines\x01", b"\xff\xfe\xe2\x82"];
        let record = record_of(start, &names);
        let mut told: Vec<&str> =
            record["stragglers"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
        told.sort();
        // The kernel keeps 15 bytes of a name.
        assert_eq!(told, ["a \"quoted\" \\nam", "two\nlines\u{1}", "\u{fffd}\u{fffd}\u{fffd}"]);
        assert_eq!(record["killed"], 3);
    });
}

#[test]
fn eight_are_named_and_all_are_counted() {
    everywhere(|start| {
        let names: [&[u8]; 20] = [b"fifteen bytes !"; 20];
        let record = record_of(start, &names);
        assert_eq!(record["stragglers"], json!(["fifteen bytes !"; 8].to_vec()));
        assert_eq!((&record["killed"], &record["cause"]), (&json!(20), &json!("stop")));
        let message = record["msg"].as_str().unwrap();
        assert!(
            message.contains("20 other processes did not end and had to be killed (fifteen bytes !, "),
            "{message}"
        );
        assert!(message.ends_with(", …)"), "{message}");
    });
}

#[test]
fn names_that_are_long_in_json_do_not_make_the_record_too_long() {
    everywhere(|start| {
        let names: [&[u8]; 8] = [&[1; 15]; 8];
        let record = record_of(start, &names);
        assert_eq!(record["killed"], 8);
    });
}

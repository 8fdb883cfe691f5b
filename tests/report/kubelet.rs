//! `auto`: the file that the kubelet has mounted, found by the name of its source.

use std::fs;
use std::path::{Path, PathBuf};

use super::mount::{bind, c_path, create, put_tmpfs};
use super::{POLITE, ready, record, stopped, wait_for_provisional};
use crate::harness::{Scratch, Start};

/// A node's disk with a termination message file of a pod on it.
struct Node {
    scratch: Scratch,
    /// The kubelet's name of the file.
    message: PathBuf,
}

impl Node {
    fn new() -> Node {
        let scratch = Scratch::new();
        let directory = scratch.join("pods/0a1b2c3d-4e5f-6789-abcd-ef0123456789/containers/app");
        fs::create_dir_all(&directory).unwrap();
        let message = directory.join("1f2e3d4c");
        fs::write(&message, "").unwrap();
        Node { scratch, message }
    }

    /// The file is mounted where the container's `terminationMessagePath` says.
    fn mounted_at(&self, start: Start, path: &Path) -> Start {
        fs::write(path, "").unwrap();
        let (source, target) = (c_path(&self.message), c_path(path));
        start.before_exec(move || bind(&source, &target))
    }

    /// The same at the default path, in a /dev that is the container's own.
    fn mounted_at_default(&self, start: Start) -> Start {
        let source = c_path(&self.message);
        start.before_exec(move || {
            put_tmpfs(c"/dev", c"size=64k")?;
            create(DEFAULT)?;
            bind(&source, DEFAULT)
        })
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.message).unwrap()
    }
}

const DEFAULT: &std::ffi::CStr = c"/dev/termination-log";

#[test]
fn the_mounted_file_gets_the_report_at_its_default_path() {
    let node = Node::new();
    assert_eq!(stopped(node.mounted_at_default(Start::outro()), POLITE).code, 7);
    assert_eq!(record(&node.text())["final"], true);
}

#[test]
fn the_mounted_file_gets_the_report_wherever_it_is_mounted() {
    for name in ["message", "a message\twith\\spaces"] {
        let node = Node::new();
        let start = node.mounted_at(Start::outro().env("OUTRO_REPORT", "auto"), &node.scratch.join(name));
        let mut init = ready(start.options(&["--delay", "1h"]), "name main echo 10 exit 7");
        init.signal(libc::SIGTERM);
        wait_for_provisional(&node.message, &mut init);
        init.signal(libc::SIGUSR1);
        assert_eq!(init.finish().code, 7);
        assert_eq!(record(&node.text())["final"], true);
    }
}

#[test]
fn a_default_path_that_is_there_is_used_without_the_kubelet() {
    let node = Node::new();
    let start = Start::outro().before_exec(|| {
        put_tmpfs(c"/dev", c"size=64k")?;
        create(DEFAULT)
    });
    let mut init = ready(start.options(&["--delay", "1h"]), "name main echo 10 exit 7");
    // Seen from here, and kept open beyond the end of its mount namespace.
    let path = PathBuf::from(format!("/proc/{}/root/dev/termination-log", init.init().0));
    let mut file = fs::File::open(&path).unwrap();
    init.signal(libc::SIGTERM);
    wait_for_provisional(&path, &mut init);
    init.signal(libc::SIGUSR1);
    assert_eq!(init.finish().code, 7);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    assert_eq!(record(&text)["final"], true);
    assert_eq!(node.text(), "");
}

#[test]
fn an_outro_that_is_not_process_1_leaves_the_pods_message_alone() {
    let node = Node::new();
    let start = Start::outro().not_as_pid1();
    assert_eq!(stopped(node.mounted_at_default(start), POLITE).code, 7);
    assert_eq!(node.text(), "");
}

#[test]
fn the_mounted_file_is_left_alone_when_the_report_is_off_or_goes_elsewhere() {
    let node = Node::new();
    let start = Start::outro().env("OUTRO_REPORT", "off");
    assert_eq!(stopped(node.mounted_at_default(start), POLITE).code, 7);
    assert_eq!(node.text(), "");

    let elsewhere = node.scratch.join("elsewhere");
    let start = Start::outro().env("OUTRO_REPORT", &elsewhere);
    assert_eq!(stopped(node.mounted_at_default(start), POLITE).code, 7);
    assert_eq!(node.text(), "");
    assert_eq!(record(&fs::read_to_string(elsewhere).unwrap())["final"], true);
}

#[test]
fn a_program_that_cannot_be_started_is_reported_to_the_kubelet() {
    let node = Node::new();
    assert_eq!(node.mounted_at_default(Start::outro()).command(&["/nonexistent"]).run().code, 127);
    assert_eq!(record(&node.text())["cause"], "exec-error");

    let node = Node::new();
    let start = node.mounted_at_default(Start::outro().options(&["--grace", "soon"]));
    assert_eq!(start.main("exit 0").run().code, 125);
    assert_eq!(record(&node.text())["cause"], "config-error");
}

#[test]
fn an_ordinary_failure_leaves_the_message_to_the_end_of_the_log() {
    let node = Node::new();
    assert_eq!(node.mounted_at_default(Start::outro().options(&["--grace", "10"])).main("exit 1").run().code, 1);
    assert_eq!(node.text(), "");
}

#[test]
fn without_a_file_of_the_kubelet_nothing_is_written_or_said() {
    let start = Start::outro().before_exec(|| put_tmpfs(c"/dev", c"size=64k"));
    let finished = stopped(start, POLITE);
    assert_eq!(finished.code, 7);
    assert!(!finished.stderr.contains("report"), "{}", finished.stderr);
}

//! Processes that the kernel killed for want of memory.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::mount::c_path;
use super::{File, stopped};
use crate::harness::{Start, may_skip};

/// A memory cgroup of one test.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Version 1 or 2, whichever has the memory controller here.
    fn new(name: &str) -> Option<Cgroup> {
        let (v1, v2) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let name = format!("outro-test-{}-{name}", std::process::id());
        let (directory, limit) = if v1.join("memory.limit_in_bytes").exists() {
            (v1.join(name), "memory.limit_in_bytes")
        } else if fs::read_to_string(v2.join("cgroup.controllers")).is_ok_and(|list| list.contains("memory")) {
            fs::write(v2.join("cgroup.subtree_control"), "+memory").ok()?;
            (v2.join(name), "memory.max")
        } else {
            return None;
        };
        fs::create_dir(&directory).ok()?;
        let cgroup = Cgroup(directory);
        fs::write(cgroup.0.join(limit), "33554432").ok()?;
        Some(cgroup)
    }

    fn with_all_below(&self, start: Start) -> Start {
        let processes = c_path(&self.0.join("cgroup.procs"));
        start.before_exec(move || super::mount::write(&processes, b"0"))
    }
}

impl Drop for Cgroup {
    /// Its processes have ended, but the kernel may not have put all of them away.
    fn drop(&mut self) {
        while fs::remove_dir(&self.0).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY)) {
            std::thread::yield_now();
        }
    }
}

/// The report on a main that is asked to stop, after it has done this.
fn record_in_a_cgroup(name: &str, words: &str) -> Option<Value> {
    let Some(cgroup) = Cgroup::new(name) else {
        assert!(may_skip(), "this test needs a memory cgroup");
        return None;
    };
    let file = File::new();
    let start = cgroup.with_all_below(file.for_report_of(Start::outro()));
    assert_eq!(stopped(start, &format!("{words} name main echo 15 exit 7")).code, 7);
    Some(file.record())
}

#[test]
fn a_process_that_the_kernel_killed_is_counted() {
    let Some(record) = record_in_a_cgroup("counted", "child [ hog ] wait") else { return };
    assert!(record["oom_kills"].as_u64().is_some_and(|kills| kills >= 1), "{record}");
    let message = record["msg"].as_str().unwrap();
    assert!(message.contains("out of memory: the kernel has killed"), "{message}");
}

#[test]
fn nobody_is_accused_of_want_of_memory_without_one() {
    let Some(record) = record_in_a_cgroup("none", "") else { return };
    assert_eq!(record["oom_kills"], 0);
    assert!(!record["msg"].as_str().unwrap().contains("memory"), "{record}");
}

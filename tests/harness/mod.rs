//! Starts an init, talks to it and waits for what it does.
//!
//! A test describes a [`Start`], gets a [`Running`], waits for events on it and ends with [`Running::finish`]. Nothing
//! here sleeps to let something happen: every wait is for an event or a condition, and one watchdog bounds all of them.

mod files;
mod places;
mod process;
mod running;
mod start;
mod trace;

pub use files::{Scratch, actor, broken_pipe, no_fork_meanwhile, outro, pipe};
pub use places::{everywhere, side_by_side};
pub use process::{Process, Signals};
pub use running::{Finished, Running};
pub use start::{Proc, Start, drop_capability, fill_with_nothing, set_limit};

use std::cell::Cell;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const PATIENCE_WITH_KNOWN_FAILURES: Duration = Duration::from_secs(3);

thread_local! {
    static EXPECTING_FAILURE: Cell<bool> = const { Cell::new(false) };
}

/// The watchdog: how long a test waits for one event before it gives up.
fn patience() -> Duration {
    if EXPECTING_FAILURE.get() { PATIENCE_WITH_KNOWN_FAILURES } else { PATIENCE }
}

/// Runs `body` with a short watchdog: it is expected to fail, perhaps by waiting for something that never comes.
pub fn expecting_failure<T>(body: impl FnOnce() -> T) -> T {
    EXPECTING_FAILURE.set(true);
    let outcome = body();
    EXPECTING_FAILURE.set(false);
    outcome
}

/// A test that cannot run here fails, unless a person at a desk allows it to be skipped. Never in CI.
pub fn may_skip() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("OUTRO_TEST_ALLOW_SKIP") && !is_set("CI")
}

/// Nothing works without namespaces: where skipping is allowed, the whole crate is.
fn need_root() {
    // SAFETY: no memory is involved.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root && may_skip() {
        println!("OUTRO_TEST_ALLOW_SKIP: without root no test of this crate is judged");
        std::process::exit(0);
    }
    assert!(is_root, "the tests need root, for pid namespaces");
}

/// Whether the test must be skipped, because `tool` is not installed and skipping is allowed.
pub fn lacks(tool: &str) -> bool {
    let found = std::env::split_paths(start::SEARCH_PATH).any(|directory| directory.join(tool).exists());
    assert!(found || may_skip(), "this test needs {tool}");
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    !found
}

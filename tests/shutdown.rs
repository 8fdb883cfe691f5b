//! The stop: from the first stop signal until nobody is left.
//!
//! What cannot be tested: a process in an uninterruptible sleep, which no KILL ends. The kernel makes process 1 wait
//! for it, and there is no such sleep to be had on request.

mod check;
mod deadline;
mod drain;
mod exit_code;
mod linger;
mod prepare;

use std::fs::File;
use std::time::{Duration, Instant};

use crate::harness::{Finished, Process, Running, Start, pipe};

/// Longer than the watchdog: whoever waits for that long fails.
const NEVER: &str = "1h";

/// Starts main, which plays `words`, and waits until each of `names` has said that it is ready.
fn ready(start: Start, words: &str, names: &[&str]) -> Running {
    let mut init = start.main(words).spawn();
    names.iter().for_each(|name| init.wait_for_stdout(&format!("{name}: ready\n")));
    init
}

/// Sends TERM, and says when that was: T0 is not before it.
fn stop(init: &mut Running) -> Instant {
    let at = Instant::now();
    init.signal(libc::SIGTERM);
    at
}

/// Nothing that was promised for `after` may have happened earlier.
#[track_caller]
fn assert_not_before(after: Duration, since: Instant) {
    let elapsed = since.elapsed();
    assert!(elapsed >= after, "{elapsed:?} after the stop, and not {after:?}");
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// An outro that is an ordinary process, below a shell that stays when outro has ended.
struct Watched {
    init: Running,
    shell: Process,
    stays: File,
}

impl Watched {
    fn ready(start: Start, words: &str, names: &[&str]) -> Watched {
        let script = "\"$@\"; code=$?; echo outro has ended; read end; exit $code";
        let (stdin, stays) = pipe();
        let mut init = ready(start.below(&["sh", "-c", script, "sh"], 1).stdin(stdin), words, names);
        let shell = init.init().parent();
        Watched { init, shell, stays }
    }

    /// Waits for outro's end, and says who is left.
    fn left(&mut self) -> Vec<Process> {
        self.init.wait_for_stdout("outro has ended\n");
        let mut left = self.shell.parent().children();
        left.retain(|process| *process != self.shell && !process.is_gone());
        left
    }

    /// Whoever has been killed may still be on its way out.
    fn finish_when_nobody_is_left(mut self) -> Finished {
        self.left();
        let (shell, top) = (self.shell, self.shell.parent());
        self.init.wait_until("nobody to be left", |_| top.children() == [shell]);
        self.finish()
    }

    fn finish(self) -> Finished {
        drop(self.stays);
        self.init.finish()
    }
}

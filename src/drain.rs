//! The drain command: one process in its own group, run once beside the delay.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsString};
use std::process::ExitStatus;
use std::time::Instant;

use nix::unistd::Pid;

use crate::report::{self, DrainResult, end_of};
use crate::signal::Signal;
use crate::spawn::{Child, Program, Setup};
use crate::supervise::Start;
use crate::sweep;
use crate::sys::{self, Received};
use crate::values::tenths;

/// What a drain command is told: the stop signal, main's pid, the milliseconds until the deadline (missing without a
/// grace), and the milliseconds since our start.
pub const VARIABLES: [&str; 4] = ["OUTRO_SIGNAL", "OUTRO_CHILD_PID", "OUTRO_DEADLINE_MS", "OUTRO_UPTIME_MS"];

/// A drain command that was tried.
pub struct Drain {
    program: Program,
    /// `None`: no process could be made.
    child: Option<Child>,
    started_at: Instant,
    ended: Option<(Instant, DrainResult)>,
    timed_out: bool,
}

impl Drain {
    /// Starts `command` with what main got, and `VARIABLES` with these values. A failure is logged and kept for the
    /// report.
    pub fn start(command: &[OsString], start: &Start, values: [Option<String>; 4], now: Instant) -> Drain {
        let is_ours = |entry: &CStr| {
            let entry = entry.to_bytes();
            VARIABLES.iter().any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
        };
        let kept = start.environment.iter().filter(|entry| !is_ours(entry)).map(|entry| Cow::Borrowed(*entry));
        let added = VARIABLES.iter().zip(values).filter_map(|(name, value)| {
            let entry = CString::new(format!("{name}={}", value?)).ok()?;
            Some(Cow::Owned(entry))
        });
        let environment = kept.chain(added).collect();
        let program = Program::new(command, environment);
        let setup = Setup { foreground: false, aside: Some(&start.directory) };
        match program.spawn(start.inherited, &setup) {
            Ok(child) => Drain { program, child: Some(child), started_at: now, ended: None, timed_out: false },
            Err(errno) => {
                log::warn!(target: "drain", "the drain command was not started: fork: {}", sys::reason(errno));
                let failed = DrainResult::Failed(format!("fork: {}", sys::reason(errno)));
                Drain { program, child: None, started_at: now, ended: Some((now, failed)), timed_out: false }
            }
        }
    }

    pub fn has_started(&self) -> bool {
        self.child.is_some()
    }

    /// Its process group, which has the number of its leader.
    pub fn group(&self) -> Option<Pid> {
        self.child.as_ref().map(|child| child.pid)
    }

    /// Takes note of what it tells of a failure to exec.
    pub fn hear(&mut self, received: &Received) {
        self.child.iter_mut().for_each(|child| child.hear(received));
    }

    /// Its time is over: its whole group is asked to go.
    pub fn terminate(&mut self) {
        self.timed_out = self.ended.is_none();
        log::warn!(target: "drain", "the drain command has not ended: SIGTERM to its group");
        self.group().map(sweep::group).into_iter().for_each(sweep::terminate);
    }

    /// The end of whoever of its group is left. Its leader may have been reaped: the number is not used again while
    /// anybody is in the group, and half a second is too short for all numbers to be used once.
    pub fn kill(&self) {
        if let Some(group) = self.group().map(sweep::group) {
            sweep::send(group, Signal::KILL);
        }
    }

    /// Nothing of ours outlives us.
    pub fn kill_if_running(&self) {
        if self.ended.is_none() {
            self.kill();
        }
    }

    /// Takes note of the end of a process; says whether it was the drain's.
    pub fn reaped(&mut self, pid: Pid, status: ExitStatus, now: Instant) -> bool {
        let Some(child) = self.child.as_ref().filter(|child| child.pid == pid && self.ended.is_none()) else {
            return false;
        };
        let took = tenths(now.saturating_duration_since(self.started_at));
        let result = match child.failure(&self.program, status) {
            Some(error) => {
                log::warn!(target: "drain", "the drain command failed: {error}");
                DrainResult::Failed(error.to_string())
            }
            None if status.success() => {
                log::info!(target: "drain", "the drain command {} after {took}", end_of(status));
                DrainResult::Ended(status)
            }
            None => {
                log::warn!(target: "drain", "the drain command {} after {took}", end_of(status));
                DrainResult::Ended(status)
            }
        };
        self.ended = Some((now, result));
        true
    }

    /// What the report says of it.
    pub fn facts(&self, now: Instant) -> report::Drain {
        let (until, result) = self.ended.clone().unwrap_or((now, DrainResult::Running));
        report::Drain { result, took: until.saturating_duration_since(self.started_at), timed_out: self.timed_out }
    }
}

//! Exit codes: the one place where they are named and where main's end becomes ours.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::shutdown::Reason;
use crate::signal::Signal;
use crate::values::ExitMap;

/// Our deadline killed main. The same as timeout(1); 137 would read as out of memory.
pub const DEADLINE: u8 = 124;
/// We failed ourselves: configuration, usage, fork. The same as env(1), nohup(1) and docker run.
pub const OWN_FAILURE: u8 = 125;
/// The program was found and cannot be run (POSIX shell, "Exit Status for Commands").
pub const NOT_RUNNABLE: u8 = 126;
/// The program was not found (same source).
pub const NOT_FOUND: u8 = 127;
/// A person asked three times and got a KILL: 128 + INT.
pub const PERSON: u8 = 130;

/// What the configuration says about the exit code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExitRules {
    pub map: ExitMap,
    /// In place of 0 when a stop was asked for.
    pub on_stop: Option<u8>,
    /// When our deadline killed main; `None`: the child's own code, which is 137.
    pub on_deadline: Option<u8>,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Main's wait status; `None` if nobody could tell us.
    pub main: Option<ExitStatus>,
    /// Why everyone was killed, if so.
    pub killed: Option<Reason>,
    /// Main lived when everyone was killed.
    pub main_was_killed: bool,
    /// The stop was asked for before main had ended.
    pub stopped: bool,
}

impl End {
    /// Whether it was the deadline that ended main: it may have ended by itself in the last moment.
    pub fn is_deadline(self) -> bool {
        let by_kill = self.main.is_none_or(|status| status.signal() == Some(libc::SIGKILL));
        self.killed == Some(Reason::Deadline) && self.main_was_killed && by_kill
    }

    /// The exit code: a person's kill, the deadline, else main's code, mapped.
    pub fn code(self, rules: &ExitRules) -> u8 {
        if self.killed == Some(Reason::Person) {
            return PERSON;
        }
        if self.is_deadline() {
            return rules.on_deadline.unwrap_or_else(|| rules.map.apply(after_signal(Signal::KILL)));
        }
        match self.main {
            Some(status) => mapped(rules, of_child(status), self.stopped),
            None => OWN_FAILURE,
        }
    }
}

/// The exit code when a stop signal came before main was started.
pub fn before_start(rules: &ExitRules, signal: Signal) -> u8 {
    mapped(rules, after_signal(signal), true)
}

/// Whether a child of ours may have ended because it could not exec.
pub fn may_be_exec_error(status: ExitStatus) -> bool {
    [NOT_FOUND, NOT_RUNNABLE].iter().any(|&code| status.code() == Some(i32::from(code)))
}

fn mapped(rules: &ExitRules, code: u8, stopped: bool) -> u8 {
    match (rules.map.apply(code), rules.on_stop) {
        (0, Some(on_stop)) if stopped => on_stop,
        (code, _) => code,
    }
}

/// A child's code, or 128 + n for one that a signal ended.
fn of_child(status: ExitStatus) -> u8 {
    match (status.code(), status.signal().and_then(Signal::new)) {
        (Some(code), _) => u8::try_from(code).unwrap_or(OWN_FAILURE),
        (None, Some(signal)) => after_signal(signal),
        (None, None) => OWN_FAILURE,
    }
}

fn after_signal(signal: Signal) -> u8 {
    u8::try_from(128 + signal.number()).unwrap_or(OWN_FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(map: &str) -> ExitRules {
        let map = if map.is_empty() { ExitMap::default() } else { map.parse().expect("valid") };
        ExitRules { map, on_stop: None, on_deadline: Some(DEADLINE) }
    }

    fn end(status: i32) -> End {
        End { main: Some(ExitStatus::from_raw(status)), killed: None, main_was_killed: false, stopped: false }
    }

    #[test]
    fn every_code_and_every_signal_comes_out_as_a_shell_would_show_it() {
        for code in 0..=255 {
            assert_eq!(i32::from(end(code << 8).code(&rules(""))), code);
        }
        for signal in 1..=64 {
            assert_eq!(i32::from(end(signal).code(&rules(""))), 128 + signal, "signal {signal}");
            assert_eq!(i32::from(end(signal | 0x80).code(&rules(""))), 128 + signal, "{signal}, core dumped");
        }
    }

    #[test]
    fn the_map_comes_first_and_then_the_code_for_a_stop() {
        let rules = ExitRules { on_stop: Some(75), ..rules("143=0,126=1") };
        assert_eq!(end(15).code(&rules), 0);
        assert_eq!(End { stopped: true, ..end(15) }.code(&rules), 75);
        assert_eq!(End { stopped: true, ..end(0) }.code(&rules), 75);
        assert_eq!(End { stopped: true, ..end(3 << 8) }.code(&rules), 3);
        assert_eq!(end(126 << 8).code(&rules), 1, "a child's own 126 is a code like others");
        assert_eq!(before_start(&rules, Signal::TERM), 75);
        assert_eq!(before_start(&rules, Signal::INT), 130);
    }

    #[test]
    fn our_own_codes_are_not_mapped() {
        let rules = ExitRules { on_stop: Some(0), ..rules("124=0,125=0,130=0,137=1") };
        let killed = |reason| End { killed: Some(reason), main_was_killed: true, stopped: true, ..end(9) };
        assert_eq!(killed(Reason::Deadline).code(&rules), DEADLINE);
        assert_eq!(killed(Reason::Person).code(&rules), PERSON);
        assert_eq!(End { main: None, ..end(0) }.code(&rules), OWN_FAILURE);
        let child = ExitRules { on_deadline: None, ..rules };
        assert_eq!(killed(Reason::Deadline).code(&child), 1, "the child's 137 is mapped");
    }

    #[test]
    fn a_main_that_ended_by_itself_at_the_deadline_keeps_its_code() {
        let late = End { killed: Some(Reason::Deadline), main_was_killed: true, stopped: true, ..end(7 << 8) };
        assert_eq!(late.code(&rules("")), 7);
        let others = End { main_was_killed: false, ..end(9) };
        assert_eq!(End { killed: Some(Reason::Deadline), ..others }.code(&rules("")), 137);
    }
}

//! The end: what there is to report, and with which code we leave.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::{Killed, Supervisor};
use crate::drain::Drain;
use crate::exit::End;
use crate::processes;
use crate::report::{self, Cause, Facts};
use crate::shutdown::Reason;
use crate::spawn::ExecError;

impl Supervisor<'_> {
    /// Everything that is known now.
    pub(super) fn facts(&self, cause: Cause, now: Instant, exit: u8) -> Facts {
        let stop = self.stop.as_ref();
        let until = stop.map(|stop| stop.at).or(self.app.ended.map(|ended| ended.at)).unwrap_or(now);
        // Until main got its signal, or ended, or now, if it is still waiting.
        let told_at = self.app.stopped_at.or(self.app.ended.map(|ended| ended.at)).unwrap_or(now);
        let waited = stop.map_or(Duration::ZERO, |stop| told_at.saturating_duration_since(stop.at));
        let main = self.app.ended.map(|ended| {
            let since = self.app.stopped_at.or(stop.filter(|s| !s.after_main).map(|s| s.at));
            report::Main {
                status: ended.status,
                took: ended.at.saturating_duration_since(since.unwrap_or(self.start.at)),
                unasked: self.app.stopped_at.is_none(),
                killed_by_us: self.app.kill_was_sent,
                before_stop: stop.is_some_and(|stop| stop.after_main),
            }
        });
        Facts {
            cause,
            stop: stop.map(|stop| stop.said.clone()),
            uptime: until.duration_since(self.start.at),
            grace: self.plan.grace,
            delay: self.plan.shutdown.delay,
            delayed: waited.min(self.plan.shutdown.delay),
            used: stop.map(|stop| now.duration_since(stop.at)),
            drain: self.drain.as_ref().map(|drain| drain.facts(now)),
            main,
            stragglers: self.stragglers.clone(),
            killed: self.straggler_count,
            repeats: self.policy.repeats(),
            oom_kills: None,
            error: None,
            exit,
        }
    }

    /// The end: the exit code, the report if there is something to report, the last line of the log.
    pub(super) fn finish(mut self, now: Instant) -> u8 {
        self.drain.iter().for_each(Drain::kill_if_running);
        let status = self.app.ended.and_then(|ended| ended.status);
        let end = End {
            main: status,
            killed: self.killed.map(|killed| killed.reason),
            main_was_killed: self.killed.is_some_and(|killed| killed.main_lived),
            stopped: self.stop.as_ref().is_some_and(|stop| !stop.after_main),
        };
        let by_signal = status.is_none_or(|status| status.signal().is_some());
        let cause = match (self.killed, &self.stop) {
            (Some(Killed { reason: Reason::Person, .. }), _) => Cause::UserKill,
            _ if end.is_deadline() => Cause::Deadline,
            (_, Some(_)) => Cause::Stop,
            _ if by_signal => Cause::ChildSignal,
            (Some(_), None) => Cause::ChildExit,
            // An ordinary end, even with an error, is the application's to explain.
            (None, None) => return end.code(&self.plan.exit),
        };
        let code = end.code(&self.plan.exit);
        let mut facts = self.facts(cause, now, code);
        facts.oom_kills = self.start.is_pid_1().then(processes::oom_kills).flatten();
        self.say_last(&facts);
        code
    }

    /// Main could not be executed.
    pub(super) fn not_started(mut self, error: &ExecError, now: Instant) -> u8 {
        self.drain.iter().for_each(Drain::kill_if_running);
        let code = error.code();
        let facts = Facts { error: Some(error.to_string()), main: None, ..self.facts(Cause::ExecError, now, code) };
        self.say_last(&facts);
        code
    }

    fn say_last(&mut self, facts: &Facts) {
        self.termination_log().write_final(&facts.record(true));
        facts.log();
    }
}

//! The loop: wait for a signal or a time, reap, ask the policy, carry out its answer.
//!
//! From here on nothing can fail: there is no `?` on an error and nobody to hand one to. What goes wrong is logged.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{Pid, getpgid};

use crate::drain::Drain;
use crate::exit::{self, End};
use crate::plan::Plan;
use crate::processes;
use crate::receive::{Signals, is_for_main, sender};
use crate::report::{self, Cause, Facts, end_of};
use crate::shutdown::{Action, Event, Reason, Shutdown, StopMain};
use crate::signal::{Signal, SignalSet};
use crate::spawn::{Child, ExecError, Inherited, Program};
use crate::sweep::{self, Sweeper};
use crate::sys::{self, Reaped, Received};
use crate::termination_log::TerminationLog;
use crate::values::{milliseconds, seconds, tenths};

/// What was found when we started.
pub struct Start {
    pub at: Instant,
    pub pid: Pid,
    pub inherited: Inherited,
    /// Where we were started, and where the drain command runs.
    pub directory: PathBuf,
    /// What main gets, and the drain command.
    pub environment: Vec<&'static CStr>,
}

impl Start {
    /// Whether we are the first process of a pid namespace.
    pub fn is_pid_1(&self) -> bool {
        self.pid == Pid::from_raw(1)
    }
}

/// Main runs, or ran.
struct Main {
    program: Program,
    child: Child,
    /// When it got its stop signal.
    stopped_at: Option<Instant>,
    ended: Option<Ended>,
}

impl Main {
    /// Why it never ran, if it has ended for that reason.
    fn exec_error(&self) -> Option<ExecError> {
        self.child.failure(&self.program, self.ended?.status?)
    }
}

#[derive(Clone, Copy)]
struct Ended {
    at: Instant,
    /// `None`: it is gone, and nobody told us how.
    status: Option<ExitStatus>,
}

/// The stop that was asked for.
struct Stop {
    at: Instant,
    said: report::Stop,
    /// Main was gone already.
    after_main: bool,
}

/// What one turn's reaping found.
#[derive(Default)]
struct Ends {
    main: bool,
    drain: bool,
    childless: bool,
}

/// Everyone was killed.
#[derive(Clone, Copy)]
struct Killed {
    reason: Reason,
    main_lived: bool,
}

pub struct Supervisor<'a> {
    plan: &'a Plan,
    start: &'a Start,
    policy: Shutdown,
    signals: Signals,
    sweeper: Sweeper,
    main: Main,
    drain: Option<Drain>,
    stop: Option<Stop>,
    /// Main's whole group has had the stop signal.
    group_was_stopped: bool,
    killed: Option<Killed>,
    stragglers: Vec<String>,
    straggler_count: u32,
    /// Signals that could not be forwarded: one line each is enough.
    unforwarded: SignalSet,
    termination_log: Option<TerminationLog>,
}

impl<'a> Supervisor<'a> {
    pub fn new(plan: &'a Plan, start: &'a Start, program: Program, child: Child) -> Supervisor<'a> {
        Supervisor {
            plan,
            start,
            policy: Shutdown::new(plan.shutdown.clone()),
            signals: Signals::default(),
            sweeper: Sweeper::new(start.is_pid_1()),
            main: Main { program, child, stopped_at: None, ended: None },
            drain: None,
            stop: None,
            group_was_stopped: false,
            killed: None,
            stragglers: Vec::new(),
            straggler_count: 0,
            unforwarded: SignalSet::default(),
            termination_log: None,
        }
    }

    /// Runs until it is time to leave, and says with which code.
    pub fn run(mut self) -> u8 {
        loop {
            let received = self.signals.next(self.policy.deadline());
            let now = sys::now();
            received.iter().filter(|received| received.signal == Signal::EXEC_FAILED).for_each(|told| self.hear(told));
            // Before anything is signalled: a pid is ours until it has been waited for.
            let ends = self.reap(now);
            if let Some(error) = self.main.exec_error() {
                return self.not_started(&error, now);
            }
            if self.turn(received, &ends, now).is_break() {
                return self.finish(now);
            }
        }
    }

    /// Hands everything that has happened to the policy, the signal first: a stop that is taken in the same turn as
    /// main's end came before it.
    fn turn(&mut self, received: Option<Received>, ends: &Ends, now: Instant) -> ControlFlow<()> {
        if let Some(received) = received.filter(|received| is_for_main(received, self.start.pid)) {
            let action = self.policy.step(Event::Signal(received.signal), now);
            self.carry_out(action, Some(&received), now)?;
        }
        let events = [
            (ends.main, Event::MainExited),
            (ends.drain, Event::DrainExited),
            (ends.childless, Event::Childless),
            (true, Event::Tick),
        ];
        for (_, event) in events.into_iter().filter(|(happened, _)| *happened) {
            let action = self.policy.step(event, now);
            self.carry_out(action, None, now)?;
        }
        ControlFlow::Continue(())
    }

    fn carry_out(&mut self, action: Action, received: Option<&Received>, now: Instant) -> ControlFlow<()> {
        match action {
            Action::Nothing => {}
            Action::Forward(signal) => self.forward(signal, received),
            Action::Begin { drain, stop_main } => return self.begin(drain, stop_main.as_ref(), received, now),
            Action::Stop(stop_main) => self.stop_main(&stop_main, received, now),
            Action::Escalate(signal) => {
                log::info!(target: "escalate", "SIG{signal} to the app, which has not ended yet");
                self.deliver(signal, None);
            }
            Action::TerminateOthers => self.terminate_others(),
            Action::TerminateDrain => self.drain.iter_mut().for_each(Drain::terminate),
            Action::KillDrain => self.drain.iter().for_each(Drain::kill),
            Action::KillAll(reason) => self.kill_all(reason),
            Action::KillAgain => self.sweeper.kill(&self.groups()),
            Action::Count => log::debug!("a repeated stop signal changes nothing"),
            Action::Exit => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// T0. In this order, since all that follows may never happen if the platform gives less time than it said: the
    /// log line, the drain, the drain file, the signal to main, the provisional report.
    fn begin(
        &mut self,
        drain: bool,
        stop_main: Option<&StopMain>,
        received: Option<&Received>,
        now: Instant,
    ) -> ControlFlow<()> {
        let Some(received) = received else {
            return ControlFlow::Continue(());
        };
        let said = report::Stop { signal: received.signal, from: sender(received) };
        self.stop = Some(Stop { at: now, after_main: self.main.ended.is_some(), said: said.clone() });
        log_stop(&said, now.duration_since(self.start.at), self.plan);
        let mut failed = false;
        if drain {
            let drain = self.start_drain(&said, now);
            failed = !drain.has_started();
            self.drain = Some(drain);
        }
        if self.main.ended.is_none() {
            self.create_drain_file();
        }
        if let Some(stop_main) = stop_main {
            self.stop_main(stop_main, Some(received), now);
        }
        let record = self.facts(Cause::Stop, now, 0).record(false);
        self.termination_log().write_provisional(&record);
        if failed {
            let action = self.policy.step(Event::DrainExited, now);
            return self.carry_out(action, None, now);
        }
        ControlFlow::Continue(())
    }

    fn start_drain(&self, said: &report::Stop, now: Instant) -> Drain {
        let command = self.plan.drain.as_deref().unwrap_or_default();
        let left = self.policy.deadline_at().map(|at| at.saturating_duration_since(now));
        let uptime = now.duration_since(self.start.at);
        // In the order of `drain::VARIABLES`. What is missing here is missing there, whatever we were started with.
        let values = [
            Some(said.signal.to_string()),
            Some(self.main.child.pid.to_string()),
            left.map(|left| milliseconds(left).to_string()),
            Some(milliseconds(uptime).to_string()),
        ];
        Drain::start(command, self.start, values, now)
    }

    fn create_drain_file(&self) {
        let Some(path) = &self.plan.drain_file else { return };
        if let Err(error) = sys::open_nonblocking(OpenOptions::new().write(true).create(true).truncate(false), path) {
            log::warn!(target: "drain-file", "cannot create {}: {error}", path.display());
        }
    }

    /// Main gets its stop signal.
    fn stop_main(&mut self, stop_main: &StopMain, received: Option<&Received>, now: Instant) {
        for step in &stop_main.skipped {
            log::warn!(target: "escalate", "{step} is not between the stop signal and the deadline, and is skipped");
        }
        if self.main.ended.is_some() {
            return;
        }
        self.main.stopped_at = Some(now);
        match self.plan.signal_map.apply(stop_main.signal) {
            Some(signal) => {
                log::debug!("SIG{signal} to the app");
                self.group_was_stopped = self.plan.group;
                self.deliver(signal, received);
            }
            None => log::debug!("the signal map drops SIG{}", stop_main.signal),
        }
    }

    fn forward(&mut self, signal: Signal, received: Option<&Received>) {
        match self.plan.signal_map.apply(signal) {
            Some(signal) => self.deliver(signal, received),
            None => log::debug!("SIG{signal} is dropped"),
        }
    }

    /// Sends a signal to main, or to its group, and CONT if it is stopped and could not see a signal that ends it.
    fn deliver(&mut self, signal: Signal, received: Option<&Received>) {
        if self.main.ended.is_some() {
            return;
        }
        let pid = self.main.child.pid;
        // Main may have left the group that we made for it; then the group is none of our business.
        let is_group = self.plan.group && getpgid(Some(pid)) == Ok(pid);
        let target = if is_group { sweep::group(pid) } else { pid };
        let with_value = received.filter(|received| !is_group && carries_value(received));
        let queued = with_value.map_or(Err(Errno::EINVAL), |received| sys::requeue(pid, signal, received));
        match queued.or_else(|_| sys::kill(target, signal)) {
            Ok(()) => log::trace!("SIG{signal} to {target}"),
            Err(errno) if !self.unforwarded.contains(signal) => {
                self.unforwarded.insert(signal);
                log::warn!(target: "forward", "SIG{signal} could not be forwarded to the app (pid {pid}): {errno}");
            }
            Err(errno) => log::debug!("SIG{signal} to {target}: {errno}"),
        }
        if self.stop.is_some() && self.main.stopped_at.is_some() && sys::is_stopped(pid) {
            sweep::send(target, Signal::CONT);
        }
    }

    fn terminate_others(&mut self) {
        let main = self.main.child.pid;
        let main_lives = self.main.ended.is_none();
        let drain_group = self.drain.as_ref().and_then(Drain::group).filter(|_| self.policy.drain_is_handled());
        let group_was_stopped = self.group_was_stopped;
        let count = self.sweeper.terminate(main, |process| {
            (main_lives && process.pid == main)
                || (group_was_stopped && process.group == main)
                || drain_group == Some(process.group)
        });
        let why = if main_lives { "the app has not ended yet" } else { "the app has ended" };
        match count {
            Some(0) => {}
            Some(count) => {
                log::info!(target: "terminate", processes = count as u64; "{why}: SIGTERM to {count} other(s)");
            }
            None => log::info!(target: "terminate", "{why}: SIGTERM to everyone"),
        }
    }

    fn kill_all(&mut self, reason: Reason) {
        let main_lived = self.main.ended.is_none();
        self.killed = Some(Killed { reason, main_lived });
        let why = match reason {
            Reason::Deadline => "the deadline has come",
            Reason::LingerOver => "the time to finish is over",
            Reason::Person => "a third SIGINT",
        };
        let what = if main_lived { "the app and everyone else" } else { "everyone who is left" };
        log::warn!(target: "kill", "{why}: SIGKILL to {what}");
        self.sweeper.kill(&self.groups());
    }

    /// The process groups that we have made.
    fn groups(&self) -> Vec<Pid> {
        let drain = self.drain.as_ref().and_then(Drain::group);
        [self.main.child.pid].into_iter().chain(drain).collect()
    }

    /// Reaps until nobody is left to reap, whatever woke us: the number of SIGCHLDs says nothing.
    fn reap(&mut self, now: Instant) -> Ends {
        let mut ends = Ends::default();
        loop {
            // After our KILL names are taken from the zombies; a name is gone with its process.
            let zombie = self.killed.and_then(|_| sys::peek_zombie());
            let name = zombie.filter(|_| self.stragglers.len() < report::STRAGGLERS_NAMED).and_then(processes::name);
            let reaped = sys::reap(zombie);
            self.hear_why(&reaped);
            match reaped {
                Reaped::NoneReady => break,
                Reaped::NoneLeft => {
                    ends.childless = true;
                    if self.main.ended.is_none() {
                        self.main.ended = Some(Ended { at: now, status: None });
                        ends.main = true;
                    }
                    break;
                }
                Reaped::Process(pid, status) if pid == self.main.child.pid && self.main.ended.is_none() => {
                    self.main.ended = Some(Ended { at: now, status: Some(status) });
                    ends.main = true;
                }
                Reaped::Process(pid, status) => {
                    let is_drain = self.drain.as_mut().is_some_and(|drain| drain.reaped(pid, status, now));
                    ends.drain |= is_drain;
                    self.reaped_other(pid, status, name, is_drain);
                }
            }
        }
        if ends.main {
            self.log_main_end();
        }
        ends
    }

    /// A child that could not exec has told us why before it ended, by a signal that may still be pending.
    fn hear_why(&mut self, reaped: &Reaped) {
        let Reaped::Process(_, status) = reaped else { return };
        if matches!(status.code(), Some(code) if code == i32::from(exit::NOT_FOUND) || code == i32::from(exit::NOT_RUNNABLE))
        {
            while let Some(told) = sys::wait_signal(Signal::EXEC_FAILED.into(), Some(Duration::ZERO)) {
                self.hear(&told);
            }
        }
    }

    fn hear(&mut self, told: &Received) {
        self.main.child.hear(told);
        self.drain.iter_mut().for_each(|drain| drain.hear(told));
    }

    fn reaped_other(&mut self, pid: Pid, status: ExitStatus, name: Option<String>, is_drain: bool) {
        use std::os::unix::process::ExitStatusExt;
        if self.killed.is_some() && status.signal() == Some(libc::SIGKILL) {
            self.straggler_count = self.straggler_count.saturating_add(1);
            self.stragglers.extend(name.filter(|_| self.stragglers.len() < report::STRAGGLERS_NAMED));
        } else if self.plan.warn_on_reap && !is_drain {
            log::warn!(target: "reap", pid = pid.as_raw(); "reaped an orphan: pid {pid} {}", end_of(status));
        }
    }

    fn log_main_end(&self) {
        let Some(ended) = self.main.ended.filter(|_| self.stop.is_some()) else { return };
        let end = ended.status.map_or_else(|| "is gone".into(), end_of);
        log::info!(target: "app-ended", "the app {end}");
    }

    fn termination_log(&mut self) -> &mut TerminationLog {
        let (to, is_pid_1) = (&self.plan.report, self.start.is_pid_1());
        self.termination_log.get_or_insert_with(|| TerminationLog::new(to, is_pid_1))
    }

    fn facts(&self, cause: Cause, now: Instant, exit: u8) -> Facts {
        let stop = self.stop.as_ref();
        let until = stop.map(|stop| stop.at).or(self.main.ended.map(|ended| ended.at)).unwrap_or(now);
        // Until main got its signal, or ended, or now, if it is still waiting.
        let told_at = self.main.stopped_at.or(self.main.ended.map(|ended| ended.at)).unwrap_or(now);
        let waited = stop.map_or(Duration::ZERO, |stop| told_at.saturating_duration_since(stop.at));
        let main = self.main.ended.map(|ended| {
            let since = self.main.stopped_at.or(stop.filter(|s| !s.after_main).map(|s| s.at));
            report::Main {
                status: ended.status,
                took: ended.at.saturating_duration_since(since.unwrap_or(self.start.at)),
                unasked: self.main.stopped_at.is_none(),
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
    fn finish(mut self, now: Instant) -> u8 {
        use std::os::unix::process::ExitStatusExt;
        self.drain.iter().for_each(Drain::kill_if_running);
        let status = self.main.ended.and_then(|ended| ended.status);
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

    fn not_started(mut self, error: &ExecError, now: Instant) -> u8 {
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

/// Whether the kernel lets us pass a signal on with what its sender attached (rt_sigqueueinfo(2)).
fn carries_value(received: &Received) -> bool {
    received.code() < 0 && received.code() != libc::SI_TKILL
}

fn log_stop(said: &report::Stop, uptime: Duration, plan: &Plan) {
    let pid = if said.from.pid == 0 && said.from.origin == report::Origin::Outside { " (pid 0)" } else { "" };
    let time = plan.grace.map_or("no deadline".into(), |grace| format!("{} budget", seconds(grace.budget())));
    let delay = plan.shutdown.delay_that_fits();
    let delay = if delay.is_zero() { String::new() } else { format!(", {} delay", seconds(delay)) };
    log::info!(
        target: "stop",
        signal = said.signal.to_string().as_str(),
        from = said.from.origin.name(),
        pid = said.from.pid,
        uid = said.from.uid,
        uptime_ms = milliseconds(uptime);
        "{}{pid} after {}, {time}{delay}", said.sentence(), tenths(uptime)
    );
}

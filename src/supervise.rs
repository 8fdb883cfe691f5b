//! The loop: wait for a signal or a time, reap, ask the policy, carry out its answer.
//!
//! From here on nothing can fail: there is no `?` on an error and nobody to hand one to. What goes wrong is logged.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::app::App;
use crate::drain::Drain;
use crate::exit;
use crate::plan::Plan;
use crate::processes;
use crate::receive::{Signals, is_for_main, sender};
use crate::report::{self, Cause, end_of};
use crate::shutdown::{Action, Event, Reason, Shutdown, StopMain};
use crate::signal::Signal;
use crate::spawn::{Child, Inherited, Program};
use crate::sweep::Sweeper;
use crate::sys::{self, Reaped, Received};
use crate::termination_log::TerminationLog;
use crate::values::{milliseconds, seconds, tenths};

mod ending;

/// What was found when we started.
pub struct Start {
    pub at: Instant,
    pub pid: Pid,
    /// Who started us; it may have ended since.
    pub parent: Pid,
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

/// The stop that was asked for.
struct Stop {
    at: Instant,
    said: report::Stop,
    /// Main was gone already.
    after_main: bool,
}

/// So many children are reaped in one turn. Each may take 60 µs where thousands are alive, and whoever makes orphans as
/// fast as we reap them must not keep us from our signals and from the clock.
const REAPED_A_TURN: usize = 64;

/// What one turn's reaping found.
#[derive(Default)]
struct Ends {
    /// There may be more to reap: the next turn begins at once.
    more: bool,
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
    app: App,
    drain: Option<Drain>,
    stop: Option<Stop>,
    killed: Option<Killed>,
    stragglers: Vec<String>,
    straggler_count: u32,
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
            app: App::new(program, child, plan.group, plan.signal_map.clone()),
            drain: None,
            stop: None,
            killed: None,
            stragglers: Vec::new(),
            straggler_count: 0,
            termination_log: None,
        }
    }

    /// Runs until it is time to leave, and says with which code.
    pub fn run(mut self) -> u8 {
        let mut more = false;
        loop {
            let received = self.signals.next(if more { Some(sys::now()) } else { self.policy.deadline() });
            let now = sys::now();
            received.iter().filter(|received| received.signal == Signal::EXEC_FAILED).for_each(|told| self.hear(told));
            // Before anything is signalled: a pid is ours until it has been waited for.
            let ends = self.reap(now);
            more = ends.more;
            if let Some(error) = self.app.exec_error() {
                return self.not_started(&error, now);
            }
            if self.turn(received.as_ref(), &ends, now).is_break() {
                return self.finish(now);
            }
        }
    }

    /// Hands everything that has happened to the policy, the signal first: a stop that is taken in the same turn as
    /// main's end came before it.
    fn turn(&mut self, received: Option<&Received>, ends: &Ends, now: Instant) -> ControlFlow<()> {
        if let Some(received) = received.filter(|received| is_for_main(received, self.start.pid)) {
            let action = self.policy.step(Event::Signal(received.signal), now);
            self.carry_out(action, Some(received), now)?;
        }
        if ends.main && self.stop.is_none() {
            self.take_pending_stop(now)?;
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

    /// A stop that is still in the queue when main's end is found came before it, too: it must not be forgotten.
    fn take_pending_stop(&mut self, now: Instant) -> ControlFlow<()> {
        match sys::wait_signal(self.plan.shutdown.stop_signals, Some(Duration::ZERO)) {
            Some(received) if is_for_main(&received, self.start.pid) => {
                let action = self.policy.step(Event::Signal(received.signal), now);
                self.carry_out(action, Some(&received), now)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn carry_out(&mut self, action: Action, received: Option<&Received>, now: Instant) -> ControlFlow<()> {
        match action {
            Action::Nothing => {}
            Action::Forward(signal) => self.app.forward(signal, received),
            Action::Begin { drain, stop_main } => return self.begin(drain, stop_main.as_ref(), received, now),
            Action::Stop(stop_main) => {
                let signal = self.plan.signal_map.apply(stop_main.signal);
                let what = signal.map_or("no signal, as the map says,".into(), |signal| format!("SIG{signal}"));
                log::info!(target: "app-stopped", "{what} to the app");
                self.stop_main(&stop_main, received, now);
            }
            Action::Escalate(signal) => {
                log::info!(target: "escalate", "SIG{signal} to the app, which has not ended yet");
                self.app.deliver(signal, None);
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
        let said = report::Stop { signal: received.signal, from: sender(received, self.start.parent) };
        // An end that was found in this very turn came after the signal.
        let after_main = self.app.ended.is_some_and(|ended| ended.at < now);
        self.stop = Some(Stop { at: now, after_main, said: said.clone() });
        log_stop(&said, now.duration_since(self.start.at), self.plan);
        let mut failed = false;
        if drain {
            let drain = self.start_drain(&said, now);
            failed = !drain.has_started();
            self.drain = Some(drain);
        }
        if !after_main {
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
            Some(self.app.pid().to_string()),
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
        self.app.stop(stop_main.signal, received, now);
    }

    fn terminate_others(&mut self) {
        let main = self.app.pid();
        let main_lives = self.app.lives();
        let drain_group = self.drain.as_ref().and_then(Drain::group).filter(|_| self.policy.drain_is_handled());
        let group_was_stopped = self.app.group_was_stopped;
        let count = self.sweeper.terminate(main, |process| {
            (main_lives && process.pid == main)
                || (group_was_stopped && process.group == main)
                || drain_group == Some(process.group)
        });
        let why = if main_lives { "the app has not ended yet" } else { "the app has ended" };
        match count {
            Some(0) => {}
            Some(count) => {
                let processes = report::count(count as u64, "other process", "other processes");
                log::info!(target: "terminate", processes = count as u64; "{why}: SIGTERM to {processes}");
            }
            None if self.start.is_pid_1() => log::info!(target: "terminate", "{why}: SIGTERM to everyone"),
            None => log::info!(target: "terminate", "{why}: SIGTERM to its process group"),
        }
    }

    fn kill_all(&mut self, reason: Reason) {
        let main_lived = self.app.lives();
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
        [self.app.pid()].into_iter().chain(drain).collect()
    }

    /// Reaps until nobody is left to reap, whatever woke us: the number of SIGCHLDs says nothing. Long queues are left
    /// to the next turn, which comes at once.
    fn reap(&mut self, now: Instant) -> Ends {
        let mut ends = Ends::default();
        for _ in 0..REAPED_A_TURN {
            // After our KILL names are taken from the zombies; a name is gone with its process.
            let zombie = self.killed.and_then(|_| sys::peek_zombie());
            let name = zombie.filter(|_| self.stragglers.len() < report::STRAGGLERS_NAMED).and_then(processes::name);
            match sys::reap(zombie) {
                Reaped::NoneReady => return ends,
                Reaped::NoneLeft => {
                    ends.childless = true;
                    if self.app.lives() {
                        ends.main = true;
                        self.app.end(None, now, self.stop.is_some());
                    }
                    return ends;
                }
                Reaped::Process(pid, status) => {
                    if exit::may_be_exec_error(status) {
                        self.hear_pending();
                    }
                    if pid == self.app.pid() && self.app.lives() {
                        ends.main = true;
                        self.app.end(Some(status), now, self.stop.is_some());
                    } else if self.drain.as_mut().is_some_and(|drain| drain.reaped(pid, status, now)) {
                        ends.drain = true;
                    } else {
                        self.reaped_other(pid, status, name);
                    }
                }
            }
        }
        ends.more = true;
        ends
    }

    /// A child that could not exec has told us why before it ended, by a signal that may still be pending.
    fn hear_pending(&mut self) {
        while let Some(told) = sys::wait_signal(Signal::EXEC_FAILED.into(), Some(Duration::ZERO)) {
            self.hear(&told);
        }
    }

    fn hear(&mut self, told: &Received) {
        self.app.hear(told);
        self.drain.iter_mut().for_each(|drain| drain.hear(told));
    }

    fn reaped_other(&mut self, pid: Pid, status: ExitStatus, name: Option<String>) {
        if self.killed.is_some() && status.signal() == Some(libc::SIGKILL) {
            self.straggler_count = self.straggler_count.saturating_add(1);
            self.stragglers.extend(name.filter(|_| self.stragglers.len() < report::STRAGGLERS_NAMED));
        } else if self.plan.warn_on_reap {
            log::warn!(target: "reap", pid = pid.as_raw(); "reaped an orphan: pid {pid} {}", end_of(status));
        }
    }

    fn termination_log(&mut self) -> &mut TerminationLog {
        let (to, is_pid_1) = (&self.plan.report, self.start.is_pid_1());
        self.termination_log.get_or_insert_with(|| TerminationLog::new(to, is_pid_1))
    }
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

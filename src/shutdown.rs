//! The shutdown policy: what to do when, decided without a system call, a clock or a log.
//!
//! `step` takes an event and the time and gives back one intention; `deadline` says when it wants to be asked again.
//! Whatever carries the intentions out reports back only through later events, so every story can be played in a
//! test. `Tick` ends every turn: what is due later in the same turn is found by the next one.
//!
//! | phase     | stop signal            | main ended           | drain ended     | no child left | time                       |
//! |-----------|------------------------|----------------------|-----------------|---------------|----------------------------|
//! | running   | begin the stop         | linger or exit       | —               | exit          | —                          |
//! | preparing | count it               | linger, drain ≤ 2 s  | stop main (1)   | exit          | end drain, stop main       |
//! | stopping  | forward it             | linger or exit       | —               | exit          | escalate, sweep, D: kill   |
//! | lingering | fix D, or count it     | —                    | exit (2)        | exit          | end drain, then kill       |
//! | killing   | —                      | —                    | —               | exit          | kill again, then leave     |
//! | over      | —                      | —                    | —               | —             | exit                       |
//!
//! (1) once the delay is over; (2) once the time to linger is over. In every phase the second INT ends the preparation
//! and the third kills, if the stop takes time at all. A drain at its limit gets TERM, and KILL half a second later.
//!
//! Times: T0 first stop signal; B budget; D = T0 + B, fixed once; R = min(2 s, B/4); preparation ends by D − R.

use std::time::{Duration, Instant};

use crate::signal::{Signal, SignalSet};

/// How long the drain may go on after main has ended by itself.
const DRAIN_AFTER_MAIN: Duration = Duration::from_secs(2);
/// From the drain's TERM to its KILL.
const DRAIN_KILL_AFTER: Duration = Duration::from_millis(500);
/// How long others may finish when main ended by itself and there is a grace.
const LINGER_UNASKED: Duration = Duration::from_secs(2);
/// Pause between two KILLs of everyone: a process may fork while we walk the tree.
const KILL_INTERVAL: Duration = Duration::from_millis(100);
/// The longest reserve.
const LONGEST_RESERVE: Duration = Duration::from_secs(2);

/// What the configuration says about the shutdown. Durations from T0 unless said otherwise.
#[derive(Clone, Debug)]
pub struct Rules {
    /// B: how much of the grace is ours; `None` without a grace.
    pub budget: Option<Duration>,
    /// How long to keep serving before main gets its signal.
    pub delay: Duration,
    /// How long the drain command may run; `None` without one.
    pub drain_limit: Option<Duration>,
    /// How long to wait for others after main's end, where that is said explicitly.
    pub linger: Option<Duration>,
    /// Further signals to main.
    pub escalation: Vec<Step>,
    /// What starts a shutdown.
    pub stop_signals: SignalSet,
    /// How long to reap after KILL.
    pub kill_wait: Duration,
}

impl Rules {
    /// For how long main is left alone after the stop signal, at the most: the delay, as far as it fits.
    pub fn delay_that_fits(&self) -> Duration {
        self.budget.map_or(self.delay, |budget| self.delay.min(budget.saturating_sub(reserve(budget))))
    }
}

/// A further signal to main.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub signal: Signal,
    pub at: Offset,
}

/// When a step is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offset {
    AfterStop(Duration),
    BeforeDeadline(Duration),
}

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Signal(Signal),
    MainExited,
    DrainExited,
    /// No child is left: nobody to wait for.
    Childless,
    /// The end of a turn.
    Tick,
}

/// What to do now.
#[must_use]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Nothing,
    /// Pass this signal on to main, through the map.
    Forward(Signal),
    /// T0: say so, start the drain, signal main if it is due now, leave the provisional report.
    Begin {
        drain: bool,
        stop_main: Option<StopMain>,
    },
    /// The preparation is over: main gets its stop signal.
    Stop(StopMain),
    /// A further signal to main, as it is.
    Escalate(Signal),
    /// TERM and CONT to everyone but main and those who had their TERM.
    TerminateOthers,
    /// TERM to the drain's group.
    TerminateDrain,
    /// KILL to the drain's group.
    KillDrain,
    /// KILL to everyone.
    KillAll(Reason),
    /// KILL to everyone who has come since.
    KillAgain,
    /// A repeated stop signal, which changes nothing.
    Count,
    /// Leave. Whoever is still here is the kernel's business.
    Exit,
}

/// The stop signal for main, to be mapped, and the steps that come too early or too late to be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopMain {
    pub signal: Signal,
    pub skipped: Vec<Step>,
}

/// Why everyone was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// D has come.
    Deadline,
    /// The time to linger was over before D.
    LingerOver,
    /// A person's third INT.
    Person,
}

/// Where we are. What only one phase needs lives in that phase.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    /// Main does not know yet.
    Preparing {
        stop: Stop,
        until: Instant,
    },
    /// Main has its signal. `steps` are in the order in which they are due; `sweep_at` is D − R.
    Stopping {
        stop: Stop,
        steps: Vec<(Instant, Signal)>,
        sweep_at: Option<Instant>,
    },
    /// Main is gone, others are finishing; `stop` is missing if nobody asked for that. `kill`: whoever is left at the
    /// end is killed, since there was time to go.
    Lingering {
        stop: Option<Stop>,
        until: Instant,
        kill: bool,
    },
    /// Everyone was killed, and is being reaped.
    Killing {
        again_at: Instant,
        leave_at: Instant,
    },
    Over,
}

/// The stop that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stop {
    signal: Signal,
    deadline: Option<Deadline>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Deadline {
    /// D.
    at: Instant,
    /// D − R.
    reserve_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drain {
    NotStarted,
    Running {
        until: Instant,
    },
    /// It had its TERM. Its group may outlive its leader, so it gets its KILL in any case.
    Terminated {
        kill_at: Instant,
    },
    Done,
}

#[derive(Clone)]
pub struct Shutdown {
    rules: Rules,
    phase: Phase,
    drain: Drain,
    /// Stop signals that were INT: a person's.
    interrupts: u32,
    /// Stop signals after the first.
    repeats: u32,
}

/// R: what main keeps of the budget after the preparation, at the least.
pub fn reserve(budget: Duration) -> Duration {
    LONGEST_RESERVE.min(budget / 4)
}

impl Shutdown {
    pub fn new(rules: Rules) -> Shutdown {
        Shutdown { rules, phase: Phase::Running, drain: Drain::NotStarted, interrupts: 0, repeats: 0 }
    }

    /// How often a stop signal came after the first.
    pub fn repeats(&self) -> u32 {
        self.repeats
    }

    /// D, from T0 until everyone is killed.
    pub fn deadline_at(&self) -> Option<Instant> {
        self.stop()?.deadline.map(|deadline| deadline.at)
    }

    fn stop(&self) -> Option<Stop> {
        match self.phase {
            Phase::Preparing { stop, .. } | Phase::Stopping { stop, .. } => Some(stop),
            Phase::Lingering { stop, .. } => stop,
            Phase::Running | Phase::Killing { .. } | Phase::Over => None,
        }
    }

    /// Whether the drain's group is to be left alone by a sweep: it has its own limit, or had its TERM.
    pub fn drain_is_handled(&self) -> bool {
        matches!(self.drain, Drain::Running { .. } | Drain::Terminated { .. })
    }

    /// When `step` wants a `Tick`, at the latest; `None`: only something else can make a difference.
    pub fn deadline(&self) -> Option<Instant> {
        let drain_at = match self.drain {
            Drain::Running { until } => Some(until),
            Drain::Terminated { kill_at } => Some(kill_at),
            Drain::NotStarted | Drain::Done => None,
        };
        let phase_at = match &self.phase {
            Phase::Running => None,
            // The drain is waited for: its end, or its limit, is what comes next.
            Phase::Preparing { until, .. } | Phase::Lingering { until, .. } => (!self.draining()).then_some(*until),
            Phase::Stopping { steps, sweep_at, .. } => {
                let step_at = steps.first().map(|(at, _)| *at);
                [step_at, *sweep_at, self.deadline_at()].into_iter().flatten().min()
            }
            Phase::Killing { again_at, leave_at } => Some(*again_at.min(leave_at)),
            Phase::Over => None,
        };
        drain_at.into_iter().chain(phase_at).min()
    }

    /// The answer to one event.
    pub fn step(&mut self, event: Event, now: Instant) -> Action {
        match event {
            Event::Signal(signal) if self.rules.stop_signals.contains(signal) => self.stop_signal(signal, now),
            Event::Signal(signal) if self.main_lives() => Action::Forward(signal),
            Event::Signal(_) => Action::Nothing,
            Event::MainExited => self.main_exited(now),
            Event::DrainExited => self.drain_exited(now),
            Event::Childless => self.leave(),
            Event::Tick => self.tick(now),
        }
    }

    fn stop_signal(&mut self, signal: Signal, now: Instant) -> Action {
        let takes_time = self.takes_time();
        self.repeats = self.repeats.saturating_add(u32::from(self.stop().is_some()));
        self.interrupts = self.interrupts.saturating_add(u32::from(signal == Signal::INT));
        // How insistent a person is. Without a stop that takes time there is nothing to hurry.
        let insistence = if signal == Signal::INT && takes_time { self.interrupts } else { 0 };
        match &mut self.phase {
            Phase::Running => self.begin(signal, now),
            Phase::Preparing { .. } | Phase::Stopping { .. } | Phase::Lingering { .. } if insistence >= 3 => {
                self.kill(Reason::Person, now)
            }
            Phase::Preparing { until, .. } if insistence == 2 => {
                *until = now;
                self.drain.end_by(now);
                Action::Count
            }
            Phase::Preparing { .. } => Action::Count,
            Phase::Stopping { .. } => Action::Forward(signal),
            Phase::Lingering { stop: stop @ None, until, .. } => {
                let begun = Stop::new(signal, &self.rules, now);
                *until = begun.not_after_deadline(*until);
                *stop = Some(begun);
                Action::Begin { drain: false, stop_main: None }
            }
            Phase::Lingering { .. } => Action::Count,
            Phase::Killing { .. } | Phase::Over => Action::Nothing,
        }
    }

    /// T0.
    fn begin(&mut self, signal: Signal, now: Instant) -> Action {
        let stop = Stop::new(signal, &self.rules, now);
        if let Some(limit) = self.rules.drain_limit {
            self.drain = Drain::Running { until: stop.not_after_reserve(now + limit) };
        }
        let drain = self.draining();
        if drain || !self.rules.delay.is_zero() {
            self.phase = Phase::Preparing { stop, until: stop.not_after_reserve(now + self.rules.delay) };
            Action::Begin { drain, stop_main: None }
        } else {
            Action::Begin { drain, stop_main: Some(self.stop_main(stop, now)) }
        }
    }

    /// Main is to get its signal: from here on the steps and the sweep have their times.
    fn stop_main(&mut self, stop: Stop, now: Instant) -> StopMain {
        let mut steps: Vec<(Instant, Signal)> = Vec::new();
        let mut skipped = Vec::new();
        for &step in &self.rules.escalation {
            match stop.step_at(step.at, now) {
                Some(at) => {
                    let later = steps.iter().position(|(other, _)| at < *other).unwrap_or(steps.len());
                    steps.insert(later, (at, step.signal));
                }
                None => skipped.push(step),
            }
        }
        self.phase = Phase::Stopping { stop, steps, sweep_at: stop.deadline.map(|deadline| deadline.reserve_at) };
        StopMain { signal: stop.signal, skipped }
    }

    fn main_exited(&mut self, now: Instant) -> Action {
        match self.phase {
            Phase::Running | Phase::Preparing { .. } | Phase::Stopping { .. } => self.linger(now),
            Phase::Lingering { .. } | Phase::Killing { .. } | Phase::Over => Action::Nothing,
        }
    }

    /// Main is gone: the others are asked to go, too, and get their time.
    fn linger(&mut self, now: Instant) -> Action {
        let stop = self.stop();
        let preparing = matches!(self.phase, Phase::Preparing { .. });
        let default = match (self.deadline_at(), self.rules.budget) {
            (Some(deadline_at), _) => deadline_at.saturating_duration_since(now),
            (None, Some(_)) => LINGER_UNASKED,
            (None, None) => Duration::ZERO,
        };
        let linger = self.rules.linger.unwrap_or(default);
        let until = stop.map_or(now + linger, |stop| stop.not_after_deadline(now + linger));
        self.drain.end_by(now + DRAIN_AFTER_MAIN);
        // With a grace even a deadline that has passed meanwhile ends in a KILL: we leave nobody behind.
        let kill = self.rules.linger.map_or(self.rules.budget.is_some(), |linger| !linger.is_zero());
        self.phase = Phase::Lingering { stop, until, kill };
        if kill || preparing { Action::TerminateOthers } else { self.tick(now) }
    }

    fn drain_exited(&mut self, now: Instant) -> Action {
        match self.drain {
            Drain::Running { .. } => {
                self.drain = Drain::Done;
                self.tick(now)
            }
            Drain::NotStarted | Drain::Terminated { .. } | Drain::Done => Action::Nothing,
        }
    }

    fn tick(&mut self, now: Instant) -> Action {
        match self.drain {
            Drain::Running { until } if until <= now => {
                self.drain = Drain::Terminated { kill_at: now + DRAIN_KILL_AFTER };
                return Action::TerminateDrain;
            }
            Drain::Terminated { kill_at } if kill_at <= now => {
                self.drain = Drain::Done;
                return Action::KillDrain;
            }
            Drain::NotStarted | Drain::Running { .. } | Drain::Terminated { .. } | Drain::Done => {}
        }
        let draining = self.draining();
        let deadline_at = self.deadline_at();
        match &mut self.phase {
            Phase::Running => Action::Nothing,
            Phase::Preparing { stop, until } if *until <= now && !draining => {
                let stop = *stop;
                Action::Stop(self.stop_main(stop, now))
            }
            Phase::Preparing { .. } => Action::Nothing,
            Phase::Stopping { .. } if deadline_at.is_some_and(|at| at <= now) => self.kill(Reason::Deadline, now),
            Phase::Stopping { steps, .. } if steps.first().is_some_and(|(at, _)| *at <= now) => {
                Action::Escalate(steps.remove(0).1)
            }
            Phase::Stopping { sweep_at, .. } if sweep_at.is_some_and(|at| at <= now) => {
                *sweep_at = None;
                Action::TerminateOthers
            }
            Phase::Stopping { .. } => Action::Nothing,
            Phase::Lingering { until, kill, .. } if *until <= now && !draining => {
                let due = deadline_at.is_some_and(|at| at <= now);
                match (*kill, self.drain) {
                    (true, _) => self.kill(if due { Reason::Deadline } else { Reason::LingerOver }, now),
                    (false, Drain::Terminated { .. }) => {
                        self.drain = Drain::Done;
                        Action::KillDrain
                    }
                    (false, Drain::NotStarted | Drain::Running { .. } | Drain::Done) => self.leave(),
                }
            }
            Phase::Lingering { .. } => Action::Nothing,
            Phase::Killing { leave_at, .. } if *leave_at <= now => self.leave(),
            Phase::Killing { again_at, .. } if *again_at <= now => {
                *again_at = now + KILL_INTERVAL;
                Action::KillAgain
            }
            Phase::Killing { .. } => Action::Nothing,
            Phase::Over => Action::Exit,
        }
    }

    fn kill(&mut self, reason: Reason, now: Instant) -> Action {
        self.phase = Phase::Killing { again_at: now + KILL_INTERVAL, leave_at: now + self.rules.kill_wait };
        self.drain = Drain::Done;
        Action::KillAll(reason)
    }

    fn leave(&mut self) -> Action {
        self.phase = Phase::Over;
        Action::Exit
    }

    fn main_lives(&self) -> bool {
        match self.phase {
            Phase::Running | Phase::Preparing { .. } | Phase::Stopping { .. } => true,
            // While everyone is being killed a signal makes no difference any more.
            Phase::Lingering { .. } | Phase::Killing { .. } | Phase::Over => false,
        }
    }

    fn draining(&self) -> bool {
        matches!(self.drain, Drain::Running { .. })
    }

    /// Whether a stop is more than a forwarded signal: only then does a person need a way to hurry it.
    fn takes_time(&self) -> bool {
        self.rules.budget.is_some() || self.rules.drain_limit.is_some() || !self.rules.delay.is_zero()
    }
}

impl Stop {
    fn new(signal: Signal, rules: &Rules, now: Instant) -> Stop {
        let deadline = rules.budget.map(|budget| {
            let at = now + budget;
            Deadline { at, reserve_at: at - reserve(budget) }
        });
        Stop { signal, deadline }
    }

    fn not_after_deadline(self, instant: Instant) -> Instant {
        self.deadline.map_or(instant, |deadline| deadline.at.min(instant))
    }

    fn not_after_reserve(self, instant: Instant) -> Instant {
        self.deadline.map_or(instant, |deadline| deadline.reserve_at.min(instant))
    }

    /// When a step is due, if main gets its signal now; `None` if that is before the signal, or not before D.
    fn step_at(self, offset: Offset, now: Instant) -> Option<Instant> {
        let deadline_at = self.deadline.map(|deadline| deadline.at);
        let at = match offset {
            Offset::AfterStop(after) => now + after,
            Offset::BeforeDeadline(before) => deadline_at?.checked_sub(before)?,
        };
        (at >= now && deadline_at.is_none_or(|deadline| at < deadline)).then_some(at)
    }
}

impl Drain {
    /// Moves the limit of a running drain forward to `instant`, never back.
    fn end_by(&mut self, instant: Instant) {
        if let Drain::Running { until } = self {
            *until = instant.min(*until);
        }
    }
}

#[cfg(test)]
mod every_story;
#[cfg(test)]
mod stories;

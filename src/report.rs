//! The report: one line of JSON that says why the container ended, with a sentence for people in front.
//!
//! Facts in, text out. Where the line goes is `termination_log.rs`'s business.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::plan::Grace;
use crate::signal::Signal;
use crate::values::{self, seconds, tenths};

/// The longest record, in bytes, without the newline: four of them fit into what the kubelet reads.
pub const LONGEST: usize = 1024;
/// How many stragglers are named.
pub const STRAGGLERS_NAMED: usize = 8;

/// Why we ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    Stop,
    StopBeforeStart,
    Deadline,
    UserKill,
    ChildExit,
    ChildSignal,
    ConfigError,
    ExecError,
}

/// Everything the report tells. What did not happen is `None`, empty or 0.
#[derive(Clone, Debug)]
pub struct Facts {
    pub cause: Cause,
    pub stop: Option<Stop>,
    /// From our start to the stop, or to main's end where there was none.
    pub uptime: Duration,
    pub grace: Option<Grace>,
    /// What was configured, and what came of it.
    pub delay: Duration,
    pub delayed: Duration,
    /// From the stop until now.
    pub used: Option<Duration>,
    pub drain: Option<Drain>,
    pub main: Option<Main>,
    /// Names of processes other than main that our KILL ended, at most `STRAGGLERS_NAMED`, and how many there were.
    pub stragglers: Vec<String>,
    pub killed: u32,
    pub repeats: u32,
    pub oom_kills: Option<u64>,
    /// What kept us from starting main.
    pub error: Option<String>,
    pub exit: u8,
}

/// The stop signal and where it came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    pub signal: Signal,
    pub from: Sender,
}

/// Who sent a signal, as far as the kernel tells (sigaction(2), `si_code` and `si_pid`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    pub origin: Origin,
    /// 0 where it has no number here.
    pub pid: i32,
    pub uid: u32,
    pub name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A process that our pid namespace does not know: the runtime, the kubelet.
    Outside,
    /// A process of this container.
    Inside,
    /// The kernel, for a key or a hang-up.
    Terminal,
    /// The process that started us.
    Parent,
}

/// How the drain command went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drain {
    pub result: DrainResult,
    pub took: Duration,
    pub timed_out: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DrainResult {
    Running,
    Ended(ExitStatus),
    Failed(String),
}

/// How main ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Main {
    /// `None`: it is gone, and nobody could tell us how.
    pub status: Option<ExitStatus>,
    /// Since it got its stop signal; since the stop if it did not get one; since its start without a stop.
    pub took: Duration,
    /// It ended before it got the signal.
    pub unasked: bool,
    /// We have sent it a KILL before its time was over, because somebody has configured that.
    pub killed_by_us: bool,
    /// It had ended before the stop was asked for; `took` is since its start.
    pub before_stop: bool,
}

impl Facts {
    /// Facts of a run in which nothing has happened yet.
    pub fn new(cause: Cause, uptime: Duration) -> Facts {
        Facts {
            cause,
            stop: None,
            uptime,
            grace: None,
            delay: Duration::ZERO,
            delayed: Duration::ZERO,
            used: None,
            drain: None,
            main: None,
            stragglers: Vec::new(),
            killed: 0,
            repeats: 0,
            oom_kills: None,
            error: None,
            exit: 0,
        }
    }

    /// The last line of the log.
    pub fn log(&self) {
        let level = match self.cause {
            Cause::Stop | Cause::StopBeforeStart | Cause::ChildExit => log::Level::Info,
            Cause::Deadline | Cause::UserKill | Cause::ChildSignal => log::Level::Warn,
            Cause::ConfigError | Cause::ExecError => log::Level::Error,
        };
        log::log!(target: "end", level, cause = self.cause.name(), exit = self.exit; "{}", self.sentence());
    }

    /// The last line of the log and the `msg` of the final record.
    pub fn sentence(&self) -> String {
        let error = self.error.as_deref().unwrap_or("no reason is known");
        match (self.cause, &self.stop) {
            (Cause::ConfigError, _) => format!("the app was not started: {error}"),
            (Cause::ExecError, _) => error.to_owned(),
            (Cause::StopBeforeStart, Some(stop)) => {
                format!("{} before the app was started; it was not started", stop.sentence())
            }
            (_, Some(stop)) => {
                let first = format!("{} after {}", stop.sentence(), tenths(self.uptime));
                self.join([Some(first), self.delay_part(), self.drain_part(), self.app_part(), self.stragglers_part()])
            }
            (_, None) => self.join([self.app_part(), self.stragglers_part()]),
        }
    }

    /// The `msg` of the provisional record: what is known at T0.
    pub fn provisional_sentence(&self) -> String {
        let Some(stop) = &self.stop else {
            return self.sentence();
        };
        let (plan, hint) = match self.grace {
            Some(grace) => (
                format!("own deadline in {}", seconds(grace.budget())),
                "the platform killed us earlier than OUTRO_GRACE says",
            ),
            None => ("no own deadline".into(), "the platform killed us before the app had ended"),
        };
        let (first, uptime) = (stop.sentence(), tenths(self.uptime));
        format!("{first} after {uptime}; stopping, {plan} (if this is the last record, {hint})")
    }

    /// The record, one line of JSON without a newline, at most `LONGEST` bytes.
    pub fn record(&self, is_final: bool) -> String {
        let message = if is_final { self.sentence() } else { self.provisional_sentence() };
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.into(), value);
        put("outro", json!(1));
        put("msg", json!(message));
        put("cause", json!(self.cause.name()));
        put("final", json!(is_final));
        put("signal", json!(self.stop.as_ref().map(|stop| stop.signal.to_string())));
        put("from", self.stop.as_ref().map_or(Value::Null, |stop| stop.from.json()));
        put("uptime_s", number(self.uptime));
        put("grace_s", self.grace.map_or(Value::Null, |grace| number(grace.total)));
        put("budget_s", self.grace.map_or(Value::Null, |grace| number(grace.budget())));
        put("used_s", self.used.map_or(Value::Null, number));
        put("delay_s", number(if is_final { self.delayed } else { self.delay }));
        put("drain", self.drain.as_ref().map_or(Value::Null, Drain::json));
        put("child", self.main.as_ref().map_or(Value::Null, Main::json));
        put("stragglers", json!(self.stragglers));
        put("killed", json!(self.killed));
        put("repeats", json!(self.repeats));
        put("oom_kills", json!(self.oom_kills));
        put("exit", if is_final { json!(self.exit) } else { Value::Null });
        fit(object, message)
    }

    fn join<const N: usize>(&self, parts: [Option<String>; N]) -> String {
        let memory = self.oom_kills.filter(|kills| *kills > 0).map(|kills| {
            format!("out of memory: the kernel has killed {} of this container", count(kills, "process", "processes"))
        });
        parts.into_iter().flatten().chain(memory).collect::<Vec<_>>().join("; ")
    }

    fn delay_part(&self) -> Option<String> {
        let before_stop = self.main.is_some_and(|main| main.before_stop);
        let cut = if self.delayed < self.delay {
            format!(" cut short after {}", tenths(self.delayed))
        } else {
            String::new()
        };
        (!self.delay.is_zero() && !before_stop).then(|| format!("delay {}{cut}", seconds(self.delay)))
    }

    fn drain_part(&self) -> Option<String> {
        let drain = self.drain.as_ref()?;
        let took = tenths(drain.took);
        Some(match &drain.result {
            _ if drain.timed_out => format!("drain timed out after {took}"),
            DrainResult::Running => "drain still running".into(),
            DrainResult::Failed(reason) => format!("drain failed: {reason}"),
            DrainResult::Ended(status) if status.success() => format!("drain ok {took}"),
            DrainResult::Ended(status) => format!("drain {} after {took}", end_of(*status)),
        })
    }

    fn app_part(&self) -> Option<String> {
        let budget = self.grace.filter(|_| self.stop.is_some()).map(Grace::budget);
        let of_budget = budget.map(|budget| format!(" of {}", seconds(budget))).unwrap_or_default();
        if self.cause == Cause::Deadline {
            let (budget, total) = (budget.unwrap_or_default(), self.grace.map_or(Duration::ZERO, |g| g.total));
            return Some(format!(
                "app did not end within {} and was killed, before the platform would have done so at {}",
                seconds(budget),
                seconds(total)
            ));
        }
        if self.cause == Cause::UserKill {
            return Some("everything left was killed at once, at the third SIGINT".into());
        }
        let main = self.main?;
        let took = tenths(main.took);
        let end = main.status.map_or_else(|| "is gone, nobody knows how".into(), end_of);
        let after = match (self.stop.is_some(), main.unasked) {
            (true, true) if main.before_stop => format!("before that, after {took}"),
            (true, true) => format!("on its own {took} after that"),
            _ => format!("after {took}{of_budget}"),
        };
        let foreign = main.status.and_then(|status| status.signal()) == Some(libc::SIGKILL) && !main.killed_by_us;
        Some(format!("app {end} {after}{}", if foreign { " (outro did not send it)" } else { "" }))
    }

    fn stragglers_part(&self) -> Option<String> {
        let names = self.stragglers.join(", ");
        let all_named = usize::try_from(self.killed).is_ok_and(|killed| killed <= self.stragglers.len());
        let more = if all_named { "" } else { ", …" };
        let killed = count(u64::from(self.killed), "other process", "other processes");
        (self.killed > 0).then(|| format!("{killed} did not end and had to be killed ({names}{more})"))
    }
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::Stop => "stop",
            Cause::StopBeforeStart => "stop-before-start",
            Cause::Deadline => "deadline",
            Cause::UserKill => "user-kill",
            Cause::ChildExit => "child-exit",
            Cause::ChildSignal => "child-signal",
            Cause::ConfigError => "config-error",
            Cause::ExecError => "exec-error",
        }
    }
}

impl Stop {
    /// `SIGTERM from outside the container`.
    pub fn sentence(&self) -> String {
        format!("SIG{} from {}", self.signal, self.from.sentence())
    }
}

impl Sender {
    fn sentence(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        match self.origin {
            Origin::Outside => "outside the container".into(),
            Origin::Inside => format!("process {}{name} inside the container", self.pid),
            Origin::Terminal => "the terminal".into(),
            Origin::Parent => format!("the parent process {}{name}", self.pid),
        }
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("where".into(), json!(self.origin.name()));
        object.insert("pid".into(), json!(self.pid));
        object.insert("uid".into(), json!(self.uid));
        if let Some(name) = &self.name {
            object.insert("comm".into(), json!(name));
        }
        Value::Object(object)
    }
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Outside => "outside",
            Origin::Inside => "inside",
            Origin::Terminal => "terminal",
            Origin::Parent => "parent",
        }
    }
}

impl Drain {
    fn json(&self) -> Value {
        let mut object = match &self.result {
            DrainResult::Running => Map::new(),
            DrainResult::Ended(status) => status_json(*status),
            DrainResult::Failed(reason) => Map::from_iter([("error".into(), json!(reason))]),
        };
        object.insert("s".into(), number(self.took));
        object.insert("timeout".into(), json!(self.timed_out));
        Value::Object(object)
    }
}

impl Main {
    fn json(&self) -> Value {
        let mut object = self.status.map(status_json).unwrap_or_default();
        object.insert("s".into(), number(self.took));
        Value::Object(object)
    }
}

/// `exited 0`, `was killed by SIGSEGV (core dumped)`.
pub fn end_of(status: ExitStatus) -> String {
    match (status.code(), status.signal().and_then(Signal::new)) {
        (Some(code), _) => format!("exited {code}"),
        (None, Some(signal)) => {
            format!("was killed by SIG{signal}{}", if status.core_dumped() { " (core dumped)" } else { "" })
        }
        (None, None) => format!("ended with wait status {}", status.into_raw()),
    }
}

fn status_json(status: ExitStatus) -> Map<String, Value> {
    let mut object = Map::new();
    match status.signal().and_then(Signal::new) {
        Some(signal) => object.insert("signal".into(), json!(signal.to_string())),
        None => object.insert("exit".into(), json!(status.code())),
    };
    object
}

/// Seconds to the millisecond, as a JSON number: an integer where it is one.
fn number(duration: Duration) -> Value {
    let milliseconds = values::milliseconds(duration);
    if milliseconds.is_multiple_of(1000) { json!(milliseconds / 1000) } else { json!(milliseconds as f64 / 1000.0) }
}

/// `1 process`, `2 processes`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Makes a record fit: first the names of the stragglers go, from the last, then the end of the drain's error, then the
/// end of the sentence.
fn fit(mut object: Map<String, Value>, mut message: String) -> String {
    const SHORT: usize = 64;
    loop {
        let text = Value::Object(object.clone()).to_string();
        let excess = text.len().saturating_sub(LONGEST);
        if excess == 0 {
            return text;
        }
        if let Some(Value::Array(names)) = object.get_mut("stragglers")
            && names.pop().is_some()
        {
            continue;
        }
        if let Some(Value::String(error)) = object.get_mut("drain").and_then(|drain| drain.get_mut("error"))
            && error.len() > SHORT
        {
            *error = shortened(error, SHORT - CUT.len());
            continue;
        }
        // A character may take six bytes for every one of its own, so go step by step.
        let step = excess.div_ceil(6) + CUT.len();
        message = shortened(&message, message.len().saturating_sub(step));
        object.insert("msg".into(), json!(message));
    }
}

/// The sign that something was cut off.
const CUT: &str = "…";

/// At most `length` bytes of `text`, whole characters, and the sign of a cut.
pub fn shortened(text: &str, length: usize) -> String {
    let text = text.trim_end_matches(CUT);
    format!("{}{CUT}", text.get(..text.floor_char_boundary(length)).unwrap_or_default())
}

#[cfg(test)]
mod tests;

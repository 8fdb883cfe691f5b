//! What the configuration means: every value parsed, the time budget computed, all faults found at once.
//!
//! Pure: nothing is read from the system here, so that the plan shown by `--check` is the plan that is run.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;

use crate::cli::{Fault, Given, Input, Key};
use crate::exit::{self, ExitRules};
use crate::logging;
use crate::shutdown::{self, Offset, Rules, Step};
use crate::signal::{Signal, SignalMap, SignalSet};
use crate::values::{self, seconds};

const SHORTEST_MARGIN: Duration = Duration::from_millis(250);
const LONGEST_MARGIN: Duration = Duration::from_secs(2);
/// The drain's limit without a grace.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How long to reap after KILL without a grace.
const KILL_WAIT: Duration = Duration::from_secs(1);

/// The validated configuration.
pub struct Plan {
    /// The program and its arguments; empty only for `--check` without one.
    pub command: Vec<OsString>,
    pub grace: Option<Grace>,
    pub shutdown: Rules,
    pub drain: Option<Vec<OsString>>,
    pub drain_file: Option<PathBuf>,
    pub signal_map: SignalMap,
    /// Signals go to main's process group.
    pub group: bool,
    pub exit: ExitRules,
    pub report: ReportTo,
    pub log: logging::Config,
    /// `None`: if we are not PID 1.
    pub subreaper: Option<bool>,
    pub parent_death_signal: Option<Signal>,
    pub warn_on_reap: bool,
    /// What is valid, but will not do what its author may have thought.
    pub warnings: Vec<String>,
}

/// The platform's time and our share of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grace {
    /// G.
    pub total: Duration,
    /// M.
    pub margin: Duration,
}

/// Where the termination report goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportTo {
    /// Where the kubelet looks, if there is such a place and we are PID 1.
    Auto,
    Off,
    Path(PathBuf),
}

impl Plan {
    /// Makes the paths independent of the working directory, which we are about to leave.
    pub fn make_absolute(&mut self, directory: &Path) {
        let report = match &mut self.report {
            ReportTo::Path(path) => Some(path),
            ReportTo::Auto | ReportTo::Off => None,
        };
        for path in self.drain_file.iter_mut().chain(report) {
            *path = directory.join(&*path);
        }
    }
}

impl Grace {
    fn new(total: Duration, margin: Option<Duration>) -> Grace {
        let default = (total / 10).clamp(SHORTEST_MARGIN, LONGEST_MARGIN).min(total / 2);
        Grace { total, margin: margin.unwrap_or(default) }
    }

    /// B = G − M.
    pub fn budget(self) -> Duration {
        self.total.saturating_sub(self.margin)
    }
}

/// A configuration that cannot be run, and how to say so.
pub struct Rejected {
    /// Those of the command line first.
    pub faults: Vec<Fault>,
    pub report: ReportTo,
    pub log: logging::Config,
}

/// Validates everything that was typed.
///
/// # Errors
/// All faults at once.
pub fn plan(input: &Input) -> Result<Plan, Rejected> {
    let mut read = Reader { input, faults: input.faults.clone(), warnings: Vec::new() };
    for name in &input.unknown {
        read.warnings.push(format!("{name} is not a variable that outro knows (see outro --help)"));
    }
    let grace = read.grace();
    let delay = read.value(Key::Delay, values::duration).unwrap_or_default();
    let drain = read.bytes(Key::Drain, drain_command);
    let drain_timeout = read.value(Key::DrainTimeout, positive_duration);
    let budget = grace.map(Grace::budget);
    let default_limit = budget.map_or(DRAIN_LIMIT, |budget| budget / 2);
    let stop_signals = read.value(Key::StopSignals, stop_signals);
    let shutdown = Rules {
        budget,
        delay,
        drain_limit: drain.is_some().then(|| drain_timeout.unwrap_or(default_limit)),
        linger: read.value(Key::Linger, values::duration),
        escalation: read.value(Key::Escalate, escalation).unwrap_or_default(),
        stop_signals: stop_signals.unwrap_or_else(|| [Signal::TERM, Signal::INT].into_iter().collect()),
        kill_wait: grace.map_or(KILL_WAIT, |grace| grace.margin / 2),
    };
    read.judge_times(&shutdown, drain_timeout);
    let plan = Plan {
        command: input.command.clone(),
        grace,
        shutdown,
        drain,
        drain_file: read.bytes(Key::DrainFile, path),
        signal_map: read.value(Key::SignalMap, str::parse).unwrap_or_default(),
        group: read.value(Key::Group, values::boolean).unwrap_or(false),
        exit: ExitRules {
            map: read.value(Key::ExitMap, str::parse).unwrap_or_default(),
            on_stop: read.value(Key::ExitOnStop, values::exit_code),
            on_deadline: read.value(Key::ExitOnDeadline, on_deadline).unwrap_or(Some(exit::DEADLINE)),
        },
        report: read.bytes(Key::Report, report_to).unwrap_or(ReportTo::Auto),
        log: read.log(),
        subreaper: read.value(Key::Subreaper, values::boolean),
        parent_death_signal: read.value(Key::ParentDeathSignal, str::parse),
        warn_on_reap: read.value(Key::WarnOnReap, values::boolean).unwrap_or(false),
        warnings: read.warnings,
    };
    if input.command.is_empty() && !input.check && input.faults.is_empty() {
        read.faults.push(Fault::new("no command given (usage: outro [OPTIONS] [--] COMMAND [ARG]...)"));
    }
    if read.faults.is_empty() {
        return Ok(plan);
    }
    // Whoever turned the log off did not mean this.
    let log = logging::Config { format: plan.log.format.or(DEFAULT_LOG.format), ..DEFAULT_LOG };
    Err(Rejected { faults: read.faults, report: plan.report, log })
}

/// Takes values out of the input, and keeps what is wrong with them.
struct Reader<'a> {
    input: &'a Input,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// A setting's value, read by `parse`; `None` if it is unset, empty or faulty.
    fn value<T>(&mut self, key: Key, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.bytes(key, |bytes| parse(std::str::from_utf8(bytes).map_err(|_| "not valid UTF-8")?))
    }

    /// The same for a value that need not be UTF-8.
    fn bytes<T>(&mut self, key: Key, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Option<T> {
        let given = self.given(key)?;
        match parse(given.value.as_bytes().trim_ascii()) {
            Ok(value) => Some(value),
            Err(reason) => {
                self.faults.push(Fault::value(&given, &reason));
                None
            }
        }
    }

    fn given(&self, key: Key) -> Option<Given> {
        self.input.get(key).filter(|given| !given.value.as_bytes().trim_ascii().is_empty()).cloned()
    }

    fn grace(&mut self) -> Option<Grace> {
        let total = self.value(Key::Grace, values::duration).filter(|grace| !grace.is_zero());
        let margin = self.value(Key::Margin, values::duration);
        match (total, margin, self.given(Key::Margin)) {
            (Some(total), Some(margin), Some(given)) if margin >= total => {
                self.faults.push(Fault::value(&given, &format!("not less than the grace of {}", seconds(total))));
            }
            (None, Some(_), Some(given)) => self.warnings.push(format!("{} has no effect without a grace", given.name)),
            _ => {}
        }
        Some(Grace::new(total?, margin))
    }

    /// Warns of what does not fit the budget, and refuses what has no meaning without one.
    fn judge_times(&mut self, rules: &Rules, drain_timeout: Option<Duration>) {
        if let (Some(_), None, Some(given)) = (drain_timeout, rules.drain_limit, self.given(Key::DrainTimeout)) {
            self.warnings.push(format!("{} has no effect without a drain command", given.name));
        }
        let before_deadline = rules.escalation.iter().any(|step| matches!(step.at, Offset::BeforeDeadline(_)));
        let Some(budget) = rules.budget else {
            if let (true, Some(given)) = (before_deadline, self.given(Key::Escalate)) {
                self.faults.push(Fault::value(&given, "an offset before the deadline needs a grace"));
            }
            return;
        };
        let reserve = shutdown::reserve(budget);
        let preparation = budget.saturating_sub(reserve);
        for (key, time) in [(Key::Delay, Some(rules.delay)), (Key::DrainTimeout, drain_timeout)] {
            if let (Some(time), Some(given)) = (time.filter(|time| *time > preparation), self.given(key)) {
                self.warnings.push(format!(
                    "{} of {} does not fit: of the budget of {} the last {} are the program's, so it ends after {}",
                    given.name,
                    seconds(time),
                    seconds(budget),
                    seconds(reserve),
                    seconds(preparation)
                ));
            }
        }
        if let (Some(linger), Some(given)) = (rules.linger.filter(|linger| *linger > budget), self.given(Key::Linger)) {
            let (linger, budget) = (seconds(linger), seconds(budget));
            self.warnings.push(format!("{} of {linger} does not fit: it ends with the budget of {budget}", given.name));
        }
        let signal_at = rules.delay.min(preparation);
        for step in &rules.escalation {
            let late = match step.at {
                Offset::AfterStop(after) => after >= budget.saturating_sub(signal_at),
                Offset::BeforeDeadline(before) => before.is_zero() || before > budget.saturating_sub(signal_at),
            };
            if let (true, Some(given)) = (late, self.given(Key::Escalate)) {
                let (at, budget) = (seconds(signal_at), seconds(budget));
                self.warnings.push(format!(
                    "{}: {step} is not between the stop signal at {at} and the deadline at {budget}, and is skipped",
                    given.name
                ));
            }
        }
    }

    /// OUTRO_LOG, else tini's verbosity; each `-v` raises the level.
    fn log(&mut self) -> logging::Config {
        let given = self.value(Key::Log, log_config);
        let tini = self.input.tini_verbosity.as_ref().filter(|text| !text.is_empty());
        let tini = tini.and_then(|text| match text.to_str().and_then(|text| text.trim().parse::<i32>().ok()) {
            Some(verbosity) => Some(level(verbosity)),
            None => {
                self.warnings.push(format!("TINI_VERBOSITY={} is not a number, and has no effect", text.display()));
                None
            }
        });
        let mut config = given.unwrap_or(logging::Config { level: tini.unwrap_or(LevelFilter::Info), ..DEFAULT_LOG });
        for _ in 0..self.input.verbose {
            config.level = config.level.increment_severity();
        }
        config
    }
}

const DEFAULT_LOG: logging::Config = logging::Config { format: Some(logging::Format::Text), level: LevelFilter::Info };

/// tini's levels: 0 fatal, 1 warning (its default), 2 info, 3 debug, 4 trace.
fn level(tini_verbosity: i32) -> LevelFilter {
    match tini_verbosity {
        ..=0 => LevelFilter::Error,
        1 => LevelFilter::Warn,
        2 => LevelFilter::Info,
        3 => LevelFilter::Debug,
        4.. => LevelFilter::Trace,
    }
}

fn log_config(text: &str) -> Result<logging::Config, String> {
    let (format, level) = text.split_once(',').unwrap_or((text, "info"));
    let format = match format.trim().to_ascii_lowercase().as_str() {
        "text" => Some(logging::Format::Text),
        "json" => Some(logging::Format::Json),
        "off" => None,
        other => return Err(format!("\"{other}\" is neither text nor json nor off")),
    };
    let level = match level.trim().to_ascii_lowercase().as_str() {
        "error" => LevelFilter::Error,
        "warn" => LevelFilter::Warn,
        "info" => LevelFilter::Info,
        "debug" => LevelFilter::Debug,
        "trace" => LevelFilter::Trace,
        other => return Err(format!("\"{other}\" is none of error, warn, info, debug, trace")),
    };
    Ok(logging::Config { format, level })
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        Duration::ZERO => Err("must be more than 0".into()),
        duration => Ok(duration),
    }
}

fn stop_signals(text: &str) -> Result<SignalSet, String> {
    let signals = text.split(',').map(|name| match name.trim().parse::<Signal>()? {
        signal if !signal.is_catchable() || signal == Signal::CHLD => Err(format!("{signal} never reaches outro")),
        signal => Ok(signal),
    });
    signals.collect()
}

/// `QUIT@-1s`, `INT@10s,QUIT@-3s`.
fn escalation(text: &str) -> Result<Vec<Step>, String> {
    let step = |text: &str| {
        let (signal, offset) = text.split_once('@').ok_or_else(|| format!("\"{text}\" has no \"@\""))?;
        let duration = |text: &str| values::duration(text).map_err(|reason| format!("\"{text}\" is {reason}"));
        let at = match offset.trim().strip_prefix('-') {
            Some(offset) => Offset::BeforeDeadline(duration(offset)?),
            None => Offset::AfterStop(duration(offset.trim())?),
        };
        Ok(Step { signal: signal.trim().parse()?, at })
    };
    text.split(',').map(step).collect()
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Offset::AfterStop(after) => write!(f, "{}@{}", self.signal, seconds(after)),
            Offset::BeforeDeadline(before) => write!(f, "{}@-{}", self.signal, seconds(before)),
        }
    }
}

fn on_deadline(text: &str) -> Result<Option<u8>, String> {
    if text.eq_ignore_ascii_case("child") { Ok(None) } else { values::exit_code(text).map(Some) }
}

/// A JSON array of strings, or words with shell quoting; neither is expanded, and no shell is run.
fn drain_command(bytes: &[u8]) -> Result<Vec<OsString>, String> {
    let words: Vec<Vec<u8>> = if bytes.trim_ascii_start().starts_with(b"[") {
        let words: Vec<String> =
            serde_json::from_slice(bytes).map_err(|error| format!("not a JSON array of strings: {error}"))?;
        words.into_iter().map(String::into_bytes).collect()
    } else {
        shlex::bytes::split(bytes).ok_or("a quote or a backslash at the end is not closed")?
    };
    if words.first().is_none_or(Vec::is_empty) {
        return Err("names no command".into());
    }
    if words.iter().flatten().any(|&b| b == 0) {
        return Err("has a NUL byte".into());
    }
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

fn path(bytes: &[u8]) -> Result<PathBuf, String> {
    Ok(PathBuf::from(OsString::from_vec(bytes.to_vec())))
}

fn report_to(bytes: &[u8]) -> Result<ReportTo, String> {
    match bytes {
        word if word.eq_ignore_ascii_case(b"auto") => Ok(ReportTo::Auto),
        word if word.eq_ignore_ascii_case(b"off") => Ok(ReportTo::Off),
        bytes => path(bytes).map(ReportTo::Path),
    }
}

#[cfg(test)]
mod tests;

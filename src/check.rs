//! `--check`: the plan as a picture of the time line, with the numbers and where they come from.

use std::fmt::Write;
use std::time::Duration;

use crate::cli::{Input, Key, SETTINGS};
use crate::plan::{Plan, ReportTo};
use crate::shutdown::{self, Offset};
use crate::signal::Signal;
use crate::values::{milliseconds, seconds};

/// Columns of the time line.
const WIDTH: usize = 72;
/// Without a grace there is no end: this much of the line is drawn beyond the last thing we know.
const OPEN_END: u32 = 2;

/// A moment of the time line: when, what follows it on the line, and what happens.
struct Moment {
    at: Duration,
    fill: char,
    text: String,
}

/// The whole answer to `--check`.
pub fn picture(plan: &Plan, input: &Input) -> String {
    let moments = moments(plan);
    let mut text = String::new();
    let command: Vec<String> = plan.command.iter().map(|word| word.display().to_string()).collect();
    let _ = writeln!(
        text,
        "The shutdown of: {}\n",
        if command.is_empty() { "(no command)".into() } else { command.join(" ") }
    );
    text += &line(&moments, plan.grace.is_none());
    text += "\n  =  serving   ~  the drain command may still run   -  stopping   x  margin\n\n";
    for moment in &moments {
        let _ = writeln!(text, "{:>9}  {}", seconds(moment.at), moment.text);
    }
    let _ = writeln!(text, "\n{:<26}{:<40}from", "setting", "value");
    for setting in &SETTINGS {
        let from = input.get(setting.key).map_or("default", |given| given.name.as_str());
        let _ = writeln!(text, "{:<26}{:<40}{from}", setting.variable, value(plan, setting.key));
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "\nwarning: {warning}");
    }
    text
}

/// What happens when, in order.
fn moments(plan: &Plan) -> Vec<Moment> {
    let rules = &plan.shutdown;
    let budget = rules.budget;
    let preparation = budget.map(|budget| budget.saturating_sub(shutdown::reserve(budget)));
    let within = |time: Duration| preparation.map_or(time, |preparation| preparation.min(time));
    let drain_limit = rules.drain_limit.map(within);
    let earliest = within(rules.delay);
    let latest = drain_limit.map_or(earliest, |limit| limit.max(earliest));

    let mut moments = Vec::new();
    let mut add = |at: Duration, fill: char, text: String| {
        let after = moments.iter().position(|other: &Moment| other.at > at).unwrap_or(moments.len());
        moments.insert(after, Moment { at, fill, text });
    };
    let stop = rules.stop_signals.iter().next().unwrap_or(Signal::TERM);
    let stop = if rules.stop_signals.contains(Signal::TERM) { Signal::TERM } else { stop };
    let at_once = if latest.is_zero() { '-' } else { '=' };
    add(Duration::ZERO, at_once, format!("T0: SIG{} arrives; a line in the log, the provisional report", list(plan)));
    if let (Some(limit), Some(command)) = (drain_limit, &plan.drain) {
        let command: Vec<String> = command.iter().map(|word| word.display().to_string()).collect();
        let command = command.join(" ");
        add(Duration::ZERO, at_once, format!("the drain command starts, for at most {}: {command}", seconds(limit)));
    }
    if let Some(path) = &plan.drain_file {
        add(Duration::ZERO, at_once, format!("{} is created", path.display()));
    }
    let target = if plan.group { "the app's process group" } else { "the app" };
    let signal = match plan.signal_map.apply(stop) {
        Some(signal) => format!("SIG{signal} to {target}"),
        None => format!("the signal map drops SIG{stop}: {target} is not told"),
    };
    match (earliest < latest, rules.delay.is_zero()) {
        (false, true) => add(earliest, '-', signal),
        (false, false) => add(earliest, '-', format!("the delay is over: {signal}")),
        (true, _) => {
            add(earliest, '~', format!("{signal}, if the drain command has ended"));
            add(latest, '-', format!("{signal}, at the latest"));
        }
    }
    for step in &rules.escalation {
        match (step.at, budget) {
            (Offset::AfterStop(after), _) if budget.is_none_or(|budget| latest + after < budget) => {
                add(latest + after, '-', format!("SIG{} to {target}, if it still lives", step.signal));
            }
            (Offset::BeforeDeadline(before), Some(budget)) if budget.saturating_sub(before) >= earliest => {
                add(budget.saturating_sub(before), '-', format!("SIG{} to {target}, if it still lives", step.signal));
            }
            (Offset::AfterStop(_) | Offset::BeforeDeadline(_), _) => {}
        }
    }
    if let (Some(grace), Some(budget), Some(preparation)) = (plan.grace, budget, preparation) {
        add(preparation, '-', "SIGTERM to everyone else, if the app still lives".into());
        let code = plan.exit.on_deadline.map_or("the app's code".into(), |code| format!("code {code}"));
        add(budget, 'x', format!("our deadline: SIGKILL to everyone, exit with {code}"));
        add(grace.total, ' ', "the platform's SIGKILL".into());
    }
    moments
}

/// The line itself and, below it, as many times as fit.
fn line(moments: &[Moment], is_open: bool) -> String {
    let last = moments.last().map_or(Duration::ZERO, |moment| moment.at);
    let total = if is_open { last.max(Duration::from_secs(1)) * OPEN_END } else { last };
    let column = |at: Duration| {
        let share = milliseconds(at) * (WIDTH as u64 - 1) / milliseconds(total).max(1);
        usize::try_from(share).unwrap_or(WIDTH).min(WIDTH - 1)
    };
    let mut bar = vec![' '; WIDTH];
    for moment in moments {
        bar.iter_mut().skip(column(moment.at)).for_each(|cell| *cell = moment.fill);
    }
    for moment in moments {
        bar.iter_mut().skip(column(moment.at)).take(1).for_each(|cell| *cell = '|');
    }
    if is_open {
        bar.push('>');
    }
    let mut times = String::new();
    for moment in moments {
        let (time, column) = (seconds(moment.at), column(moment.at));
        let free = times.len();
        if column > free || free == 0 {
            let _ = write!(times, "{:1$}{time}", "", column - free);
        }
    }
    format!("  {}\n  {times}\n", bar.iter().collect::<String>())
}

fn list(plan: &Plan) -> String {
    plan.shutdown.stop_signals.to_string().replace(',', " or SIG")
}

/// A setting as it is in force.
fn value(plan: &Plan, key: Key) -> String {
    let rules = &plan.shutdown;
    let duration = |time: Option<Duration>| time.map_or("unset".into(), seconds);
    let switch = |on: bool| String::from(if on { "1" } else { "0" });
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map_or("unset".into(), |p| p.display().to_string());
    let text = |text: String| if text.is_empty() { "empty".into() } else { text };
    match key {
        Key::Grace => duration(plan.grace.map(|grace| grace.total)),
        Key::Margin => duration(plan.grace.map(|grace| grace.margin)),
        Key::Delay => seconds(rules.delay),
        Key::Drain => plan.drain.as_ref().map_or("unset".into(), |command| {
            command.iter().map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ")
        }),
        Key::DrainTimeout => duration(rules.drain_limit),
        Key::DrainFile => path(&plan.drain_file),
        Key::StopSignals => rules.stop_signals.to_string(),
        Key::SignalMap => text(plan.signal_map.to_string()),
        Key::Group => switch(plan.group),
        Key::Linger => match (rules.linger, plan.grace) {
            (Some(linger), _) => seconds(linger),
            (None, Some(_)) => "until the deadline; 2s without a stop".into(),
            (None, None) => seconds(Duration::ZERO),
        },
        Key::Escalate => text(rules.escalation.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        Key::ExitMap => text(plan.exit.map.to_string()),
        Key::ExitOnStop => plan.exit.on_stop.map_or("unset".into(), |code| code.to_string()),
        Key::ExitOnDeadline => plan.exit.on_deadline.map_or("child".into(), |code| code.to_string()),
        Key::Report => match &plan.report {
            ReportTo::Auto => "auto".into(),
            ReportTo::Off => "off".into(),
            ReportTo::Path(path) => path.display().to_string(),
        },
        Key::Log => plan.log.to_string(),
        Key::Subreaper => plan.subreaper.map_or("unless PID 1".into(), switch),
        Key::ParentDeathSignal => plan.parent_death_signal.map_or("unset".into(), |signal| signal.to_string()),
        Key::WarnOnReap => switch(plan.warn_on_reap),
    }
}

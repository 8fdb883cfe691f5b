//! What may be typed: the table of settings, with a flag and a variable each, and the words on the command line.
//!
//! Values are only collected here; what they mean, and whether they are valid, is `plan.rs`'s business. clap would
//! stop at the first fault and take an empty variable for a set one, so it gets plain strings to collect.

use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::drain;
use crate::report;

/// The settings, in the order in which they are documented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Grace,
    Margin,
    Delay,
    Drain,
    DrainTimeout,
    DrainFile,
    StopSignals,
    SignalMap,
    Group,
    Linger,
    Escalate,
    ExitMap,
    ExitOnStop,
    ExitOnDeadline,
    Report,
    Log,
    Subreaper,
    ParentDeathSignal,
    WarnOnReap,
}

/// One setting: how it is spelled, and what the help says about it.
pub struct Setting {
    pub key: Key,
    pub variable: &'static str,
    pub flag: &'static str,
    short: Option<char>,
    /// What the value is called in the help; empty for a switch.
    value: &'static str,
    pub default: &'static str,
    pub example: &'static str,
    help: &'static str,
}

const fn setting(key: Key, variable: &'static str, flag: &'static str, value: &'static str) -> Setting {
    Setting { key, variable, flag, short: None, value, default: "unset", example: "", help: "" }
}

impl Setting {
    const fn short(self, short: char) -> Setting {
        Setting { short: Some(short), ..self }
    }

    const fn text(self, default: &'static str, example: &'static str, help: &'static str) -> Setting {
        Setting { default, example, help, ..self }
    }
}

/// Every setting. These names, and no others, are taken out of the environment that main gets.
pub const SETTINGS: [Setting; 19] = [
    setting(Key::Grace, "OUTRO_GRACE", "grace", "DURATION").text(
        "unset",
        "30",
        "Time from the stop signal to the platform's SIGKILL; without it there is no deadline",
    ),
    setting(Key::Margin, "OUTRO_MARGIN", "margin", "DURATION").text(
        "a tenth of the grace, 250ms to 2s",
        "2s",
        "How long before the platform's SIGKILL our own deadline is",
    ),
    setting(Key::Delay, "OUTRO_DELAY", "delay", "DURATION").text(
        "0",
        "10s",
        "Keep serving for so long before the program gets the stop signal",
    ),
    setting(Key::Drain, "OUTRO_DRAIN", "drain", "COMMAND").text(
        "unset",
        "'[\"/app/notify\",\"stopping\"]'",
        "Command to run once at the stop: a JSON array, or words with shell quoting",
    ),
    setting(Key::DrainTimeout, "OUTRO_DRAIN_TIMEOUT", "drain-timeout", "DURATION").text(
        "half of the budget, or 10s",
        "5s",
        "How long the drain command may take",
    ),
    setting(Key::DrainFile, "OUTRO_DRAIN_FILE", "drain-file", "PATH").text(
        "unset",
        "/tmp/draining",
        "File to create at the stop, for a readiness probe to see",
    ),
    setting(Key::StopSignals, "OUTRO_STOP_SIGNALS", "stop-signals", "SIGNALS").text(
        "TERM,INT",
        "QUIT,TERM,INT",
        "Signals that start the shutdown",
    ),
    setting(Key::SignalMap, "OUTRO_SIGNAL_MAP", "signal-map", "MAP").text(
        "empty",
        "TERM=QUIT,HUP=",
        "What the program gets in place of a signal; nothing after \"=\" drops it",
    ),
    setting(Key::Group, "OUTRO_GROUP", "group", "").short('g').text(
        "0",
        "1",
        "Send signals to the program's process group, not to the program alone",
    ),
    setting(Key::Linger, "OUTRO_LINGER", "linger", "DURATION").text(
        "until the deadline; 2s without a stop; 0 without a grace",
        "5s",
        "How long other processes may finish after the program has ended",
    ),
    setting(Key::Escalate, "OUTRO_ESCALATE", "escalate", "STEPS").text(
        "empty",
        "INT@10s,QUIT@-3s",
        "Further signals to the program, at a time after the stop signal or (-) before the deadline",
    ),
    setting(Key::ExitMap, "OUTRO_EXIT_MAP", "exit-map", "MAP").short('e').text(
        "empty",
        "143=0",
        "Exit codes to replace; 143 alone means 143=0",
    ),
    setting(Key::ExitOnStop, "OUTRO_EXIT_ON_STOP", "exit-on-stop", "CODE").text(
        "unset",
        "143",
        "Exit code when a stop was asked for and the program's would be 0",
    ),
    setting(Key::ExitOnDeadline, "OUTRO_EXIT_ON_DEADLINE", "exit-on-deadline", "CODE").text(
        "124",
        "124",
        "Exit code when our deadline killed the program; \"child\" keeps its own",
    ),
    setting(Key::Report, "OUTRO_REPORT", "report", "WHERE").text(
        "auto",
        "/dev/termination-log",
        "Where the termination report goes: auto, off, or a path",
    ),
    setting(Key::Log, "OUTRO_LOG", "log", "FORMAT[,LEVEL]").text(
        "text,info",
        "json,debug",
        "text, json or off; and error, warn, info, debug or trace",
    ),
    setting(Key::Subreaper, "OUTRO_SUBREAPER", "subreaper", "").short('s').text(
        "on unless PID 1",
        "1",
        "Adopt orphans although not PID 1",
    ),
    setting(Key::ParentDeathSignal, "OUTRO_PARENT_DEATH_SIGNAL", "parent-death-signal", "SIGNAL").short('p').text(
        "unset",
        "KILL",
        "Signal to get when the parent process ends",
    ),
    setting(Key::WarnOnReap, "OUTRO_WARN_ON_REAP", "warn-on-reap", "").short('w').text(
        "0",
        "1",
        "Say so when an orphan is reaped",
    ),
];

/// What our variables begin with.
const PREFIX: &[u8] = b"OUTRO_";
/// What Kubernetes sets for a Service called "outro".
const SERVICE_PREFIXES: [&str; 2] = ["OUTRO_SERVICE_", "OUTRO_PORT"];

/// What the command line asks for.
pub enum Request {
    Help(String),
    Version,
    License,
    /// Run the command, or (`check`) only say how.
    Plan(Input),
}

/// Everything that was typed or set, unread.
pub struct Input {
    pub check: bool,
    /// Options were parsed, which leaves free memory behind.
    pub parsed: bool,
    pub command: Vec<OsString>,
    given: Vec<Given>,
    /// How often `-v` was given, and tini's variable for the same.
    pub verbose: u8,
    pub tini_verbosity: Option<OsString>,
    pub faults: Vec<Fault>,
    /// Names in the environment that look like settings and are none.
    pub unknown: Vec<String>,
}

/// A setting that was given a value.
#[derive(Clone)]
pub struct Given {
    key: Key,
    /// `--grace` or `OUTRO_GRACE`.
    pub name: String,
    pub value: OsString,
}

/// Something wrong with the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(String);

impl Fault {
    pub fn new(text: impl Into<String>) -> Fault {
        Fault(text.into())
    }

    /// A value that a setting cannot have.
    pub fn value(given: &Given, reason: &str) -> Fault {
        let example = SETTINGS.iter().find(|s| s.key == given.key).map_or("", |s| s.example);
        // The value may be long; what is wrong with it must be seen all the same.
        let value = given.value.display().to_string();
        let value = if value.len() > 80 { report::shortened(&value, 80) } else { value };
        Fault(format!("{}={value}: {reason} (example: {0}={example})", given.name))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Input {
    /// What a setting was given, if anything: the flag, else the variable.
    pub fn get(&self, key: Key) -> Option<&Given> {
        self.given.iter().find(|given| given.key == key)
    }
}

/// The entries of the environment that may be meant for us: `OUTRO_*` and `TINI_*`. Usually there are none.
struct Variables<'a>(Vec<(&'a str, &'a [u8])>);

impl<'a> Variables<'a> {
    fn new(environment: &[&'a CStr]) -> Variables<'a> {
        let ours = environment.iter().map(|entry| entry.to_bytes()).filter(|entry| is_ours_or_tinis(entry));
        Variables(ours.filter_map(split).collect())
    }

    /// The value of the first entry of this name, as getenv(3) finds it.
    fn get(&self, name: &str) -> Option<OsString> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(OsStr::from_bytes(value).to_owned())
    }
}

fn is_ours_or_tinis(entry: &[u8]) -> bool {
    entry.starts_with(PREFIX) || entry.starts_with(b"TINI_")
}

/// `NAME=value`, if the name is text.
fn split(entry: &[u8]) -> Option<(&str, &[u8])> {
    let end = entry.iter().position(|&b| b == b'=')?;
    let (name, value) = (entry.get(..end)?, entry.get(end + 1..)?);
    Some((std::str::from_utf8(name).ok()?, value))
}

/// Reads the command line and the environment. Nothing is judged but the words themselves: unknown options are
/// collected among the faults, all of them.
pub fn read(arguments: &[OsString], environment: &[&CStr]) -> Request {
    let variables = Variables::new(environment);
    let mut input = Input {
        check: false,
        parsed: false,
        command: Vec::new(),
        given: Vec::new(),
        verbose: 0,
        tini_verbosity: variables.get("TINI_VERBOSITY"),
        faults: Vec::new(),
        unknown: unknown_variables(&variables),
    };
    match arguments.get(1..).unwrap_or_default() {
        // Without an option in front there is nothing to parse. A parser would cost every start a quarter of its time.
        [first, command @ ..] if first == "--" => input.command = command.to_vec(),
        command if !command.first().is_some_and(|first| first.as_bytes().starts_with(b"-")) => {
            input.command = command.to_vec();
        }
        options => {
            if let Some(request) = parse(options, &mut input) {
                return request;
            }
        }
    }
    input.given.extend(given_variables(&variables));
    Request::Plan(input)
}

/// Parses options and what follows them into `input`, unless they ask for something else.
fn parse(words: &[OsString], input: &mut Input) -> Option<Request> {
    let mut words = [&["outro".into()], words].concat();
    let matches = loop {
        match command().try_get_matches_from(&words) {
            Ok(matches) => break matches,
            Err(error) => {
                let (word, fault) = explain(&error);
                input.faults.push(fault);
                // Clap ends at its first fault: take the word out and look for the next.
                let index = words.iter().skip(1).position(|given| is_same_option(given, &word))?;
                words.remove(index + 1);
            }
        }
    };
    if matches.get_flag("help") {
        return Some(Request::Help(help()));
    }
    if matches.get_flag("version") {
        return Some(Request::Version);
    }
    if matches.get_flag("license") {
        return Some(Request::License);
    }
    input.parsed = true;
    input.check = matches.get_flag("check");
    input.verbose = matches.get_count("verbose");
    input.command = collect(&matches, "COMMAND");
    input.given = given_flags(&matches);
    None
}

/// The environment without our own settings: what main gets.
pub fn environment_for_main(mut environment: Vec<&CStr>) -> Vec<&CStr> {
    let is_setting = |name: &str| SETTINGS.iter().any(|setting| setting.variable == name);
    environment.retain(|entry| {
        let entry = entry.to_bytes();
        !(entry.starts_with(PREFIX) && split(entry).is_some_and(|(name, _)| is_setting(name)))
    });
    environment
}

/// What clap has to know. It renders no help: the text would have to be put together at every start.
fn command() -> Command {
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let text = || clap::value_parser!(OsString);
    let settings = SETTINGS.iter().map(move |setting| {
        let arg = Arg::new(setting.flag).long(setting.flag).value_parser(text());
        let arg = match setting.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        let arg = match setting.value {
            // `--group=0` undoes OUTRO_GROUP=1.
            "" => arg.num_args(0..=1).require_equals(true).default_missing_value("1"),
            _ => arg,
        };
        arg.action(if setting.key == Key::ExitMap { ArgAction::Append } else { ArgAction::Set })
    });
    Command::new("outro")
        .args_override_self(true)
        .disable_version_flag(true)
        .disable_help_flag(true)
        .args(settings)
        .arg(Arg::new("verbose").short('v').action(ArgAction::Count))
        .arg(switch("check"))
        .arg(switch("help").short('h'))
        .arg(switch("license").short('l'))
        .arg(switch("version"))
        .arg(Arg::new("COMMAND").num_args(0..).trailing_var_arg(true).value_parser(text()))
}

/// `--help`: every option, with its variable and its default.
fn help() -> String {
    let mut text = String::from(
        "outro: a container init. It starts COMMAND, forwards signals, reaps zombies, and ends in time, with a reason.\n\n\
         Usage: outro [OPTIONS] [--] COMMAND [ARG]...\n\n\
         Every option has a variable, which is used where the flag is not given. An empty variable is unset.\n\
         DURATION: 30 (seconds), 500ms, 1.5s, 2m, 1h. SIGNAL: TERM, SIGTERM, 15, RTMIN+1.\n\n",
    );
    for setting in &SETTINGS {
        let short = setting.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        let value = if setting.value.is_empty() { String::new() } else { format!(" {}", setting.value) };
        let Setting { flag, variable, default, example, help, .. } = setting;
        text +=
            &format!("  {short}--{flag}{value}, {variable} (default: {default}; example: {example})\n      {help}\n");
    }
    text += "  -v\n      Log more; -vv still more\n  \
             --check\n      Show the plan of the shutdown and exit: 0 if it is valid, else 125\n  \
             -l, --license\n      Show the licence and exit\n  \
             -h, --help\n      Show this text and exit\n  \
             --version\n      Show the version and exit\n";
    text
}

fn collect(matches: &ArgMatches, id: &str) -> Vec<OsString> {
    matches.get_many::<OsString>(id).into_iter().flatten().cloned().collect()
}

fn given_flags(matches: &ArgMatches) -> Vec<Given> {
    let flags = SETTINGS.iter().filter_map(|setting| {
        let values = collect(matches, setting.flag);
        let name = format!("--{}", setting.flag);
        // Only the exit map may be given more than once.
        (!values.is_empty()).then(|| Given { key: setting.key, name, value: values.join(OsStr::new(",")) })
    });
    flags.collect()
}

/// Our variables, and behind them those of tini's that mean the same. An empty variable of ours is unset.
fn given_variables(variables: &Variables<'_>) -> Vec<Given> {
    let ours = SETTINGS.iter().filter_map(|setting| {
        let value = variables.get(setting.variable).filter(|value| !value.is_empty())?;
        Some(Given { key: setting.key, name: setting.variable.into(), value })
    });
    let tinis = [(Key::Subreaper, "TINI_SUBREAPER"), (Key::Group, "TINI_KILL_PROCESS_GROUP")];
    let tinis = tinis.into_iter().filter_map(|(key, name)| {
        // tini looks only whether they are set; that a plain "no" means on is the one thing not to copy.
        let value = variables.get(name)?.to_ascii_lowercase();
        let off = ["0", "false", "no", "off"].iter().any(|no| value == *no);
        Some(Given { key, name: name.into(), value: if off { "0" } else { "1" }.into() })
    });
    ours.chain(tinis).collect()
}

fn unknown_variables(variables: &Variables<'_>) -> Vec<String> {
    let is_known = |name: &str| {
        SETTINGS.iter().any(|setting| setting.variable == name)
            || drain::VARIABLES.contains(&name)
            || SERVICE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let names = variables.0.iter().map(|(name, _)| *name);
    names.filter(|name| name.as_bytes().starts_with(PREFIX) && !is_known(name)).map(str::to_owned).collect()
}

/// The word that clap stumbled over, and what is wrong with it.
fn explain(error: &clap::Error) -> (String, Fault) {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let word = context(ContextKind::InvalidArg);
    // Clap names an option with its value: "--grace <DURATION>".
    let option = word.split([' ', '=', '[']).next().unwrap_or_default().to_owned();
    let fault = match error.kind() {
        ErrorKind::UnknownArgument => format!("{option}: unknown option (see outro --help)"),
        ErrorKind::InvalidValue if context(ContextKind::InvalidValue).is_empty() => format!("{option}: needs a value"),
        ErrorKind::TooManyValues => format!("{option}: takes no value"),
        _ => error.to_string().trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned(),
    };
    (option, Fault(fault))
}

/// Whether `word` is the option that clap complained about: itself, with a value, or within a cluster (`-xv`).
fn is_same_option(word: &OsStr, option: &str) -> bool {
    let word = String::from_utf8_lossy(word.as_bytes());
    let cluster = || option.len() == 2 && word.starts_with('-') && !word.starts_with("--");
    word == option
        || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
        || cluster() && option.chars().nth(1).is_some_and(|letter| word.contains(letter))
}

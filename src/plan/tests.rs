//! Every setting with good and bad values, and how the times are computed.

use std::ffi::CString;

use super::*;
use crate::cli::{self, Request};

/// Reads a command line and an environment, both written with spaces.
fn input(arguments: &[&str], variables: &[&str]) -> Input {
    let arguments: Vec<OsString> = ["outro"].iter().chain(arguments).map(OsString::from).collect();
    let variables: Vec<CString> = variables.iter().map(|v| CString::new(*v).expect("no NUL")).collect();
    let variables: Vec<&std::ffi::CStr> = variables.iter().map(CString::as_c_str).collect();
    match cli::read(&arguments, &variables) {
        Request::Plan(input) => input,
        Request::Help(_) | Request::Version | Request::License => panic!("not a plan: {arguments:?}"),
    }
}

fn valid(arguments: &[&str], variables: &[&str]) -> Plan {
    match plan(&input(arguments, variables)) {
        Ok(plan) => plan,
        Err(rejected) => panic!("{:?}", rejected.faults),
    }
}

fn faults(arguments: &[&str], variables: &[&str]) -> Vec<String> {
    match plan(&input(arguments, variables)) {
        Ok(_) => Vec::new(),
        Err(rejected) => rejected.faults.iter().map(ToString::to_string).collect(),
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

#[test]
fn the_margin_is_a_tenth_within_bounds_and_never_more_than_half() {
    let cases =
        [("2", 1750), ("10", 9000), ("15", 13_500), ("30", 28_000), ("120", 118_000), ("0.2", 100), ("0.5", 250)];
    for (grace, budget) in cases {
        let plan = valid(&["--grace", grace, "x"], &[]);
        assert_eq!(plan.grace.map(Grace::budget), Some(Duration::from_millis(budget)), "{grace}");
    }
    let plan = valid(&["x"], &["OUTRO_GRACE=30", "OUTRO_MARGIN=5"]);
    assert_eq!(plan.shutdown.budget, Some(Duration::from_secs(25)));
    assert_eq!(plan.shutdown.kill_wait, Duration::from_millis(2500));
    assert_eq!(valid(&["x"], &["OUTRO_GRACE=0"]).grace, None);
}

#[test]
fn the_drain_has_half_of_the_budget_or_ten_seconds() {
    let limit = |variables: &[&str]| valid(&["x"], variables).shutdown.drain_limit;
    assert_eq!(limit(&["OUTRO_DRAIN=a", "OUTRO_GRACE=30"]), Some(Duration::from_secs(14)));
    assert_eq!(limit(&["OUTRO_DRAIN=a"]), Some(Duration::from_secs(10)));
    assert_eq!(limit(&["OUTRO_DRAIN=a", "OUTRO_DRAIN_TIMEOUT=3"]), Some(Duration::from_secs(3)));
    assert_eq!(limit(&["OUTRO_GRACE=30"]), None);
}

#[test]
fn a_flag_beats_a_variable_and_an_empty_variable_is_unset() {
    assert_eq!(valid(&["--delay=2", "x"], &["OUTRO_DELAY=5"]).shutdown.delay, Duration::from_secs(2));
    assert!(!valid(&["--group=0", "x"], &["OUTRO_GROUP=1"]).group);
    assert!(valid(&["-g", "x"], &["OUTRO_GROUP=0"]).group);
    let empty: Vec<String> = cli::SETTINGS.iter().map(|setting| format!("{}=", setting.variable)).collect();
    let empty: Vec<&str> = empty.iter().map(String::as_str).collect();
    let plan = valid(&["x"], &empty);
    assert_eq!((plan.grace, plan.exit.on_deadline, plan.report), (None, Some(124), ReportTo::Auto));
    assert_eq!(plan.warnings, Vec::<String>::new());
}

#[test]
fn tinis_variables_are_on_when_set_and_off_for_a_plain_no() {
    let group = |variable: &str| valid(&["x"], &[variable]).group;
    for on in ["", "1", "yes", "anything"] {
        assert!(group(&format!("TINI_KILL_PROCESS_GROUP={on}")), "{on}");
    }
    for off in ["0", "false", "NO", "off"] {
        assert!(!group(&format!("TINI_KILL_PROCESS_GROUP={off}")), "{off}");
    }
    assert_eq!(valid(&["x"], &["TINI_SUBREAPER=", "OUTRO_SUBREAPER=0"]).subreaper, Some(false));
    let level = |variables: &[&str]| valid(&["-v", "x"], variables).log.level;
    assert_eq!(level(&["TINI_VERBOSITY=1"]), LevelFilter::Info);
    assert_eq!(level(&["TINI_VERBOSITY=3", "OUTRO_LOG=text,error"]), LevelFilter::Warn);
    assert_eq!(level(&[]), LevelFilter::Debug);
    assert_eq!(valid(&["x"], &["TINI_VERBOSITY=loud"]).warnings.len(), 1);
}

#[test]
fn a_drain_command_is_an_array_or_words_and_nothing_is_expanded() {
    let drain = |text: &str| valid(&["--drain", text, "x"], &[]).drain;
    assert_eq!(drain(r#"["/app/a b", "$HOME", ""]"#), Some(words(&["/app/a b", "$HOME", ""])));
    assert_eq!(
        drain(r#"notify 'a b' "c d" e\ f $HOME *"#),
        Some(words(&["notify", "a b", "c d", "e f", "$HOME", "*"]))
    );
    for bad in ["[", "[1]", "[]", r#"[""]"#, "{}x 'open", r#"["a\u0000b"]"#, "''"] {
        let found = faults(&["--drain", bad, "x"], &[]);
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
        assert!(found[0].starts_with("--drain=") && found[0].contains("example"), "{}", found[0]);
    }
}

#[test]
fn steps_are_read_and_written_alike() {
    let escalation = valid(&["--grace=30", "--escalate", "INT@10s, quit@-1.5s", "x"], &[]).shutdown.escalation;
    let written: Vec<String> = escalation.iter().map(ToString::to_string).collect();
    assert_eq!(written, ["INT@10s", "QUIT@-1.5s"]);
    for bad in ["INT", "INT@", "INT@-", "INT@x", "NOPE@1s", "@1s", "INT@1s,", "INT@1s@2s"] {
        assert_eq!(faults(&["--grace=30", "--escalate", bad, "x"], &[]).len(), 1, "{bad}");
    }
    assert!(faults(&["--escalate=QUIT@-1s", "x"], &[])[0].contains("needs a grace"));
    assert!(faults(&["--escalate=QUIT@1s", "x"], &[]).is_empty());
}

#[test]
fn all_faults_are_found_at_once_with_value_reason_and_example() {
    let variables = [
        "OUTRO_GRACE=soon",
        "OUTRO_MARGIN=-1",
        "OUTRO_DELAY=1d",
        "OUTRO_DRAIN=[1]",
        "OUTRO_DRAIN_TIMEOUT=0",
        "OUTRO_STOP_SIGNALS=KILL",
        "OUTRO_SIGNAL_MAP=TERM",
        "OUTRO_GROUP=maybe",
        "OUTRO_LINGER=25h",
        "OUTRO_ESCALATE=INT",
        "OUTRO_EXIT_MAP=256",
        "OUTRO_EXIT_ON_STOP=x",
        "OUTRO_EXIT_ON_DEADLINE=never",
        "OUTRO_LOG=loud",
        "OUTRO_SUBREAPER=2",
        "OUTRO_PARENT_DEATH_SIGNAL=SIGNONE",
        "OUTRO_WARN_ON_REAP=y",
    ];
    let found = faults(&["--frob", "--nope=1", "x"], &variables);
    assert!(found[0].starts_with("--frob: unknown option") && found[1].starts_with("--nope: unknown"), "{found:?}");
    assert_eq!(found.len(), variables.len() + 2, "{found:#?}");
    for variable in variables {
        let fault = found.iter().find(|fault| fault.starts_with(&format!("{variable}: "))).expect(variable);
        let name = variable.split('=').next().unwrap_or_default();
        assert!(fault.contains(&format!("(example: {name}=")), "{fault}");
    }
}

#[test]
fn the_examples_of_the_settings_are_valid() {
    for setting in &cli::SETTINGS {
        let variables =
            [format!("{}={}", setting.variable, setting.example.trim_matches('\'')), "OUTRO_GRACE=60".into()];
        let variables = variables.each_ref().map(String::as_str);
        assert_eq!(faults(&["x"], &variables), Vec::<String>::new());
    }
}

#[test]
fn a_margin_has_to_be_less_than_the_grace() {
    assert_eq!(faults(&["x"], &["OUTRO_GRACE=2", "OUTRO_MARGIN=2"]).len(), 1);
    assert!(faults(&["x"], &["OUTRO_GRACE=2", "OUTRO_MARGIN=1.999"]).is_empty());
    assert!(faults(&["x"], &["OUTRO_GRACE=2", "OUTRO_MARGIN=0"]).is_empty());
}

#[test]
fn what_does_not_fit_is_warned_about_with_its_numbers() {
    let warnings = |variables: &[&str]| valid(&["x"], variables).warnings;
    let delay = warnings(&["OUTRO_GRACE=30", "OUTRO_DELAY=27"]);
    assert!(delay.len() == 1 && ["27s", "28s", "2s", "26s"].iter().all(|n| delay[0].contains(n)), "{delay:?}");
    assert_eq!(warnings(&["OUTRO_GRACE=30", "OUTRO_DELAY=26"]), Vec::<String>::new());
    assert_eq!(warnings(&["OUTRO_GRACE=30", "OUTRO_DRAIN=a", "OUTRO_DRAIN_TIMEOUT=29"]).len(), 1);
    assert_eq!(warnings(&["OUTRO_GRACE=30", "OUTRO_LINGER=29"]).len(), 1);
    assert_eq!(warnings(&["OUTRO_GRACE=30", "OUTRO_ESCALATE=INT@28s,QUIT@-29s,ABRT@1s"]).len(), 2);
    assert_eq!(warnings(&["OUTRO_MARGIN=1"]).len(), 1);
    assert_eq!(warnings(&["OUTRO_DRAIN_TIMEOUT=1"]).len(), 1);
}

#[test]
fn unknown_variables_are_warned_about_and_those_of_a_service_are_not() {
    let variables = [
        "OUTRO_GRACEE=1",
        "OUTRO_SERVICE_HOST=10.0.0.1",
        "OUTRO_PORT=tcp://10.0.0.1:80",
        "OUTRO_PORT_80_TCP_ADDR=10.0.0.1",
        "OUTRO_CHILD_PID=2",
        "OUTROS=1",
    ];
    let warnings = valid(&["x"], &variables).warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("OUTRO_GRACEE"), "{warnings:?}");
}

#[test]
fn options_end_at_the_first_word_that_is_none() {
    let command = |arguments: &[&str]| valid(arguments, &[]).command;
    assert_eq!(command(&["ls", "-l", "--grace", "x"]), words(&["ls", "-l", "--grace", "x"]));
    assert_eq!(command(&["-g", "ls", "-l", "--", "-x"]), words(&["ls", "-l", "--", "-x"]));
    assert_eq!(command(&["--", "-x", "--", "y"]), words(&["-x", "--", "y"]));
    assert_eq!(command(&["-g", "--", "--", "y"]), words(&["--", "y"]));
    assert_eq!(command(&["-vvg", "-e143", "-p", "KILL", "-sw", "x"]), words(&["x"]));
    let plan = valid(&["-vvg", "-e143", "-e", "1=2", "-pKILL", "-sw", "x"], &[]);
    assert!(plan.group && plan.warn_on_reap && plan.subreaper == Some(true));
    assert_eq!((plan.exit.map.apply(143), plan.exit.map.apply(1)), (0, 2));
    assert_eq!(plan.parent_death_signal, Some(Signal::KILL));
}

#[test]
fn a_missing_command_is_a_fault_except_for_a_check() {
    assert_eq!(faults(&[], &[]).len(), 1);
    assert_eq!(faults(&["-g"], &[]).len(), 1);
    assert_eq!(faults(&["--"], &[]).len(), 1);
    assert!(faults(&["--check"], &[]).is_empty());
}

#[test]
fn values_that_are_not_text_are_faults_but_paths_may_be_anything() {
    use std::os::unix::ffi::OsStringExt;
    let arguments = |flag: &str| {
        let value = OsString::from_vec([format!("--{flag}=").as_bytes(), b"\xff"].concat());
        [OsString::from("outro"), value, "x".into()]
    };
    let result = |flag: &str| match cli::read(&arguments(flag), &[]) {
        Request::Plan(input) => plan(&input).map(|plan| plan.drain_file).map_err(|rejected| rejected.faults.len()),
        Request::Help(_) | Request::Version | Request::License => panic!("{flag}"),
    };
    assert_eq!(result("grace"), Err(1));
    assert_eq!(result("drain-file"), Ok(Some(OsString::from_vec(b"\xff".to_vec()).into())));
}

//! The command line and the variables: what is accepted, what is refused, and how that is said.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::harness::{Finished, Start};

const SETTINGS: [(&str, &str); 19] = [
    ("OUTRO_GRACE", "--grace"),
    ("OUTRO_MARGIN", "--margin"),
    ("OUTRO_DELAY", "--delay"),
    ("OUTRO_DRAIN", "--drain"),
    ("OUTRO_DRAIN_TIMEOUT", "--drain-timeout"),
    ("OUTRO_DRAIN_FILE", "--drain-file"),
    ("OUTRO_STOP_SIGNALS", "--stop-signals"),
    ("OUTRO_SIGNAL_MAP", "--signal-map"),
    ("OUTRO_GROUP", "--group"),
    ("OUTRO_LINGER", "--linger"),
    ("OUTRO_ESCALATE", "--escalate"),
    ("OUTRO_EXIT_MAP", "--exit-map"),
    ("OUTRO_EXIT_ON_STOP", "--exit-on-stop"),
    ("OUTRO_EXIT_ON_DEADLINE", "--exit-on-deadline"),
    ("OUTRO_REPORT", "--report"),
    ("OUTRO_LOG", "--log"),
    ("OUTRO_SUBREAPER", "--subreaper"),
    ("OUTRO_PARENT_DEATH_SIGNAL", "--parent-death-signal"),
    ("OUTRO_WARN_ON_REAP", "--warn-on-reap"),
];

/// Runs outro with just these words.
fn outro(words: &[&str]) -> Finished {
    Start::outro().options(words).run()
}

/// Runs outro with these options and a main that says that it was started.
fn start(options: &[&str]) -> Start {
    Start::outro().options(options).main("say started exit 0")
}

fn assert_refused(finished: &Finished, words: &[&str]) {
    assert_eq!((finished.code, finished.stdout.as_str()), (125, ""), "{words:?}\n{}", finished.stderr);
    for word in words {
        assert!(finished.stderr.contains(word), "{word:?} is missing in:\n{}", finished.stderr);
    }
    assert!(finished.stderr.lines().all(|line| line.starts_with("outro: ")), "{}", finished.stderr);
}

#[test]
fn help_names_every_option_and_variable() {
    let help = outro(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    let others = ["-g", "-e", "-s", "-p", "-w", "-v", "-l", "-h", "--version", "--check"];
    for word in SETTINGS.iter().flat_map(|(variable, flag)| [variable, flag]).chain(&others) {
        assert!(help.stdout.contains(word), "{word} is missing in:\n{}", help.stdout);
    }
    assert_eq!(outro(&["-h"]).stdout, help.stdout);
}

#[test]
fn help_does_not_need_a_command_and_does_not_run_one() {
    assert_eq!(start(&["-h"]).run().stdout, outro(&["-h"]).stdout);
}

#[test]
fn the_version_names_the_program_and_the_commit() {
    let version = outro(&["--version"]);
    assert_eq!((version.code, version.stderr.as_str()), (0, ""));
    let commit = version.stdout.strip_prefix(concat!("outro ", env!("CARGO_PKG_VERSION"), " - git."));
    assert!(commit.is_some_and(|commit| commit.trim_end().len() >= 7), "{}", version.stdout);
}

#[test]
fn called_as_tini_it_gives_its_version_as_tini_does() {
    for name in ["tini", "docker-init", "podman-init", "/sbin/docker-init", "/run/podman-init"] {
        let version = Start::outro().called(name).option("--version").run();
        let expected = concat!("tini version ", env!("CARGO_PKG_VERSION"), " - git.");
        assert!(version.code == 0 && version.stdout.starts_with(expected), "{name}: {}", version.stdout);
    }
}

#[test]
fn it_starts_programs_whatever_it_is_called() {
    for name in ["docker-init", "", "/"] {
        assert_eq!(Start::outro().called(name).main("exit 7").run().code, 7);
    }
}

#[test]
fn the_licence_travels_with_the_program() {
    for option in ["-l", "--license"] {
        let licence = outro(&[option]);
        assert_eq!(licence.code, 0);
        assert!(licence.stdout.contains("MIT") && licence.stdout.contains("Permission is hereby granted"));
    }
}

#[test]
fn without_a_command_the_usage_is_shown() {
    for words in [&[][..], &["--"], &["-v"], &["--grace", "30"]] {
        assert_refused(&outro(words), &["no command", "usage"]);
    }
}

#[test]
fn after_two_dashes_an_option_is_a_program() {
    let finished = outro(&["--", "-x"]);
    assert_eq!(finished.code, 127);
    assert!(finished.stderr.contains("-x"), "{}", finished.stderr);
}

#[test]
fn options_may_be_clustered_and_may_hold_their_value() {
    for options in [
        &["-vg"][..],
        &["-vvg"],
        &["-sgw"],
        &["-gp", "KILL"],
        &["-gpKILL"],
        &["-p", "9"],
        &["-e143"],
        &["-ge143"],
        &["-e", "143"],
        &["--exit-map=143"],
        &["-e", "1", "-e", "2"],
        &["-g", "-g", "-s", "-s", "-w", "-w"],
        &["--grace", "5", "--grace=6"],
    ] {
        let finished = start(options).run();
        assert_eq!((finished.code, finished.stdout.as_str()), (0, "started\n"), "{options:?}\n{}", finished.stderr);
    }
}

#[test]
fn an_unknown_option_is_refused() {
    for option in ["-x", "--nonexistent", "--nonexistent=1", "-gx"] {
        assert_refused(&start(&[option]).run(), &["unknown option", "--help"]);
    }
}

#[test]
fn an_option_without_its_value_is_refused() {
    for option in ["-e", "-p", "--grace", "--drain"] {
        assert_refused(&outro(&[option]), &["value"]);
    }
}

/// For each setting a value that means nothing.
const BAD_VALUES: [(&str, &str); 23] = [
    ("OUTRO_GRACE", "soon"),
    ("OUTRO_GRACE", "-1"),
    ("OUTRO_GRACE", "25h"),
    ("OUTRO_GRACE", "99999999999999999999"),
    ("OUTRO_MARGIN", "1d"),
    ("OUTRO_DELAY", "1.5.5"),
    ("OUTRO_DRAIN", "[\"unclosed\""),
    ("OUTRO_DRAIN", "[]"),
    ("OUTRO_DRAIN", "'unclosed"),
    ("OUTRO_DRAIN_TIMEOUT", "0"),
    ("OUTRO_STOP_SIGNALS", "TERM,NOSIG"),
    ("OUTRO_STOP_SIGNALS", "KILL"),
    ("OUTRO_SIGNAL_MAP", "TERM"),
    ("OUTRO_SIGNAL_MAP", "TERM=NOSIG"),
    ("OUTRO_SIGNAL_MAP", "TERM=99"),
    ("OUTRO_GROUP", "maybe"),
    ("OUTRO_ESCALATE", "QUIT"),
    ("OUTRO_ESCALATE", "QUIT@-1s"),
    ("OUTRO_EXIT_MAP", "256=0"),
    ("OUTRO_EXIT_ON_STOP", "x"),
    ("OUTRO_EXIT_ON_DEADLINE", "256"),
    ("OUTRO_LOG", "xml"),
    ("OUTRO_PARENT_DEATH_SIGNAL", "0"),
];

#[test]
fn a_bad_value_is_refused_with_its_name_its_value_and_an_example() {
    for (variable, value) in BAD_VALUES {
        let finished = start(&[]).env(variable, value).run();
        assert_refused(&finished, &[variable, value, "example"]);
    }
}

#[test]
fn a_bad_value_of_a_flag_is_refused_under_the_name_of_the_flag() {
    assert_refused(&start(&["--grace", "soon"]).run(), &["--grace", "soon", "example"]);
    assert_refused(&start(&["-e", "256"]).run(), &["256", "example"]);
}

#[test]
fn a_bad_value_is_shown_though_it_is_not_utf8() {
    let finished = start(&[]).env("OUTRO_GRACE", OsStr::from_bytes(b"\xff")).run();
    assert_refused(&finished, &["OUTRO_GRACE", "example"]);
}

#[test]
fn all_faults_are_shown_at_once() {
    let start = Start::outro()
        .env("OUTRO_GRACE", "soon")
        .env("OUTRO_GROUP", "maybe")
        .env("OUTRO_LOG", "xml")
        .env("OUTRO_LINGER", "-1")
        .options(&["--nonexistent", "-e", "256", "-p", "NOSIG", "--delay"]);
    let words = ["OUTRO_GRACE", "OUTRO_GROUP", "OUTRO_LOG", "OUTRO_LINGER", "--nonexistent", "256", "NOSIG", "--delay"];
    assert_refused(&start.run(), &words);
}

#[test]
fn a_margin_must_be_less_than_the_grace() {
    let finished = start(&["--grace", "5", "--margin", "5"]).run();
    assert_refused(&finished, &["margin", "grace"]);
    assert_eq!(start(&["--grace", "5", "--margin", "4.9"]).run().code, 0);
}

#[test]
fn a_switch_can_be_turned_off() {
    for option in ["--group=0", "--subreaper=no", "--warn-on-reap=off"] {
        assert_eq!(start(&[option]).run().code, 0, "{option}");
    }
}

#[test]
fn an_empty_variable_is_unset() {
    let start = SETTINGS.iter().fold(start(&[]), |start, (variable, _)| start.env(variable, ""));
    let finished = start.run();
    assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (0, "started\n", ""));
}

#[test]
fn the_flag_beats_a_bad_variable() {
    let finished = start(&["--grace", "5"]).env("OUTRO_GRACE", "6").run();
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
}

#[test]
fn an_unknown_variable_of_our_kind_is_a_warning() {
    let finished = start(&[]).env("OUTRO_GARCE", "30").run();
    assert_eq!((finished.code, finished.stdout.as_str()), (0, "started\n"));
    assert!(finished.stderr.starts_with("outro: ") && finished.stderr.contains("OUTRO_GARCE"), "{}", finished.stderr);
}

/// Kubernetes sets these for a Service that is called "outro".
#[test]
fn variables_of_a_service_are_no_warning() {
    let names = ["OUTRO_SERVICE_HOST", "OUTRO_SERVICE_PORT_HTTP", "OUTRO_PORT", "OUTRO_PORT_80_TCP_ADDR"];
    let start = names.iter().fold(start(&[]), |start, name| start.env(name, "10.0.0.1"));
    assert_eq!(start.run().stderr, "");
}

#[test]
fn exit_codes_are_replaced() {
    for (map, code, expected) in [
        ("143=0", 143, 0),
        ("143", 143, 0),
        ("143=0,7=3", 7, 3),
        ("0=5", 0, 5),
        ("7=8,8=9", 7, 8),
        ("7=3", 8, 8),
        ("127=0", 127, 0),
    ] {
        let words = format!("exit {code}");
        assert_eq!(Start::outro().env("OUTRO_EXIT_MAP", map).main(&words).run().code, expected, "{map}");
        assert_eq!(Start::outro().options(&["-e", map]).main(&words).run().code, expected, "{map}");
    }
    assert_eq!(Start::outro().options(&["-e", "143"]).main("die 15").run().code, 0);
    assert_eq!(Start::outro().options(&["-e", "1", "-e", "2=9"]).main("exit 2").run().code, 9);
}

#[test]
fn our_own_codes_are_not_replaced() {
    assert_eq!(outro(&["-e", "127", "--", "/nonexistent"]).code, 127);
    assert_eq!(outro(&["-e", "126", "--", "/"]).code, 126);
    assert_eq!(outro(&["-e", "125"]).code, 125);
}

#[test]
fn a_check_shows_the_time_line_and_starts_nothing() {
    let start = start(&["--check", "--grace", "30", "--delay", "5", "--signal-map", "TERM=QUIT"]);
    let finished = start.run();
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
    for word in ["28", "30", "5", "QUIT"] {
        assert!(finished.stdout.contains(word), "{word} is missing in:\n{}", finished.stdout);
    }
    assert!(!finished.stdout.lines().any(|line| line == "started"), "{}", finished.stdout);
}

#[test]
fn a_check_needs_no_command() {
    assert_eq!(outro(&["--check"]).code, 0);
    assert_eq!(outro(&["--check", "--grace", "10"]).code, 0);
}

#[test]
fn a_check_of_a_bad_plan_fails() {
    assert_refused(&start(&["--check", "--grace", "soon"]).run(), &["--grace", "soon"]);
}

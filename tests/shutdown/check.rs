//! `--check`: the plan as a picture.

use crate::harness::{Finished, Start};

fn check(options: &[&str]) -> Finished {
    Start::outro().option("--check").options(options).main("say started exit 0").run()
}

fn picture(options: &[&str]) -> String {
    let checked = check(options);
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
    assert!(!checked.stdout.contains("started\n"));
    checked.stdout
}

/// What the picture says happens at `time`.
#[track_caller]
fn assert_at(picture: &str, time: &str, event: &str) {
    let said =
        picture.lines().any(|line| line.trim_start().strip_prefix(time).is_some_and(|said| said.contains(event)));
    assert!(said, "{event:?} at {time}:\n{picture}");
}

/// The row of a setting: its value, and where that comes from.
#[track_caller]
fn assert_setting(picture: &str, name: &str, value: &str, from: &str) {
    let row = picture.lines().find(|line| line.split_whitespace().next() == Some(name));
    let row = row.unwrap_or_else(|| panic!("no {name}:\n{picture}"));
    assert!(row.contains(value) && row.ends_with(from), "{name}, {value} from {from}: {row}");
}

#[test]
fn the_picture_shows_what_happens_and_when() {
    let picture =
        picture(&["--grace", "30", "--delay", "5", "--drain", "notify 'a b'", "--drain-file", "/run/draining"]);
    assert_at(&picture, "0s", "T0: SIGINT or SIGTERM");
    assert_at(&picture, "0s", "notify a b");
    assert_at(&picture, "0s", "/run/draining");
    assert_at(&picture, "5s", "SIGTERM to the app");
    assert_at(&picture, "14s", "SIGTERM to the app");
    assert_at(&picture, "26s", "SIGTERM to everyone else");
    assert_at(&picture, "28s", "SIGKILL to everyone, exit with code 124");
    assert_at(&picture, "30s", "the platform's SIGKILL");
}

#[test]
fn the_picture_shows_the_signals_that_main_gets() {
    let options = ["--grace", "20", "--signal-map", "TERM=INT", "--escalate", "QUIT@-3s,HUP@4s", "-g"];
    let picture = picture(&options);
    assert_at(&picture, "0s", "SIGINT to the app's process group");
    assert_at(&picture, "4s", "SIGHUP");
    assert_at(&picture, "15s", "SIGQUIT");
    assert_at(&picture, "18s", "SIGKILL");
}

#[test]
fn without_a_grace_the_picture_has_no_deadline() {
    let picture = picture(&[]);
    assert_at(&picture, "0s", "SIGTERM to the app");
    assert!(!picture.contains("SIGKILL"), "{picture}");
}

#[test]
fn the_picture_names_the_source_of_each_setting() {
    let checked = Start::outro()
        .options(&["--check", "--grace", "30"])
        .env("OUTRO_GRACE", "20")
        .env("OUTRO_DELAY", "1500ms")
        .env("OUTRO_DRAIN_FILE", "")
        .env("TINI_KILL_PROCESS_GROUP", "")
        .main("exit 0")
        .run();
    assert_eq!(checked.code, 0);
    for (name, value, from) in [
        ("OUTRO_GRACE", "30s", "--grace"),
        ("OUTRO_DELAY", "1.5s", "OUTRO_DELAY"),
        ("OUTRO_DRAIN_FILE", "unset", "default"),
        ("OUTRO_GROUP", "1", "TINI_KILL_PROCESS_GROUP"),
        ("OUTRO_MARGIN", "2s", "default"),
        ("OUTRO_EXIT_ON_DEADLINE", "124", "default"),
        ("OUTRO_REPORT", "auto", "default"),
    ] {
        assert_setting(&checked.stdout, name, value, from);
    }
}

#[test]
fn the_picture_warns_of_what_does_not_fit() {
    let options = ["--grace", "10", "--delay", "9", "--drain", "notify", "--drain-timeout", "8", "--linger", "30"];
    let picture = picture(&[&options[..], &["--escalate", "QUIT@1h"]].concat());
    for words in ["--delay of 9s", "--drain-timeout of 8s", "--linger of 30s", "QUIT@3600s"] {
        let warning = picture.lines().find(|line| line.starts_with("warning: ") && line.contains(words));
        assert!(warning.is_some(), "{words}:\n{picture}");
    }
    assert_at(&picture, "7s", "SIGTERM to the app");
}

#[test]
fn a_check_names_every_fault() {
    let checked = check(&["--grace", "soon", "--delay", "1d", "--drain", "[]", "--escalate", "QUIT"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (125, ""));
    for words in ["--grace=soon", "--delay=1d", "--drain=[]", "--escalate=QUIT"] {
        assert!(checked.stderr.contains(words), "{words}:\n{}", checked.stderr);
    }
}

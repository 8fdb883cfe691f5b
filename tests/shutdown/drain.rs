//! The drain command, and the file that tells a probe that we are stopping.

use std::path::PathBuf;
use std::time::Instant;

use super::{NEVER, Watched, assert_not_before, ms, ready, stop};
use crate::harness::{Finished, Process, Running, Scratch, Start, actor as actor_path, everywhere, pipe, side_by_side};

/// A drain command that plays these words.
pub fn actor(words: &str) -> String {
    format!("{} {words}", actor_path().display())
}

fn draining(start: Start, words: &str) -> Start {
    start.env("OUTRO_DRAIN", actor(words))
}

/// Main ends at TERM.
const POLITE: &str = "name main echo 15 exit 7";

/// Main, polite, is asked to stop, and does with code 7.
fn stopped(start: Start) -> Finished {
    let mut init = ready(start, POLITE, &["main"]);
    stop(&mut init);
    let finished = init.finish();
    assert_eq!((finished.code, finished.count("main: got 15")), (7, 1), "{finished:?}");
    finished
}

fn drain_process(init: &mut Running) -> Process {
    let process = init.init();
    init.wait_for("the drain process", |_| process.children().get(1).copied())
}

fn variables(finished: &Finished) -> Vec<(&str, &str)> {
    let variables = finished.stdout.lines().filter_map(|line| line.split_once('='));
    let mut variables: Vec<_> = variables.filter(|(name, _)| name.starts_with("OUTRO_")).collect();
    variables.sort();
    variables
}

#[test]
fn main_gets_its_signal_when_the_drain_has_ended() {
    everywhere(|start| {
        let mut init = ready(draining(start, "name drain echo 10 say done"), POLITE, &["main"]);
        stop(&mut init);
        init.wait_for_stdout("drain: ready");
        let drain = drain_process(&mut init);
        init.signal(libc::SIGHUP);
        init.wait_for_stdout("main: got 1 ");
        drain.signal(libc::SIGUSR1);
        let finished = init.finish();
        let said: Vec<&str> = finished.stdout.lines().filter(|line| !line.ends_with("ready")).collect();
        let order = [
            "main: got 1 code 0 value 0",
            "drain: got 10 code 0 value 0",
            "drain: done",
            "main: got 15 code 0 value 0",
        ];
        assert_eq!((finished.code, said), (7, order.to_vec()));
    });
}

#[test]
fn the_drain_runs_beside_the_delay() {
    everywhere(|start| {
        let mut init = ready(draining(start.options(&["--delay", "300ms"]), "say drained"), POLITE, &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("main: got 15");
        assert_not_before(ms(300), stopped_at);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("drained")), (7, 1));
    });
}

#[test]
fn the_drain_is_told_what_happens() {
    everywhere(|start| {
        let start = start.env("OUTRO_GRACE", "20").env("OUTRO_DRAIN", "env").env("KEPT", "this");
        let mut init = ready(start, "family name main echo 15 exit 7", &["main"]);
        let main = init.line().split(' ').nth(1).unwrap().to_owned();
        stop(&mut init);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("KEPT=this")), (7, 1));
        let variables = variables(&finished);
        let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
        let expected = ["OUTRO_CHILD_PID", "OUTRO_DEADLINE_MS", "OUTRO_SIGNAL", "OUTRO_UPTIME_MS"];
        assert_eq!(names, expected);
        let number = |index: usize| variables[index].1.parse::<u64>().unwrap();
        assert_eq!((variables[0].1, variables[2].1), (main.as_str(), "TERM"));
        assert_eq!(number(1), 18_000);
        assert!(number(3) < 20_000);
    });
}

#[test]
fn without_a_grace_the_drain_is_told_no_deadline() {
    everywhere(|start| {
        let finished = stopped(start.env("OUTRO_DRAIN", "env").env("OUTRO_DEADLINE_MS", "stale"));
        let names: Vec<&str> = variables(&finished).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["OUTRO_CHILD_PID", "OUTRO_SIGNAL", "OUTRO_UPTIME_MS"]);
    });
}

#[test]
fn the_drain_reads_nothing_and_starts_where_we_were_started() {
    everywhere(|start| {
        let scratch = Scratch::new();
        let (stdin, _ours) = pipe();
        let start = start.in_directory(scratch.path()).stdin(stdin);
        let finished = stopped(start.env("OUTRO_DRAIN", "readlink -f /proc/self/fd/0 /proc/self/cwd"));
        let directory = scratch.path().canonicalize().unwrap();
        assert!(finished.stdout.contains(&format!("/dev/null\n{}\n", directory.display())), "{}", finished.stdout);
    });
}

#[test]
fn the_drain_leads_a_group_of_its_own() {
    everywhere(|start| {
        let finished = stopped(draining(start, "name drain family"));
        let family = finished.stdout.lines().find(|line| line.starts_with("drain: pid")).unwrap();
        let numbers: Vec<&str> = family.split(' ').collect();
        assert_eq!(numbers[2], numbers[6], "{family}");
    });
}

#[test]
fn the_drain_runs_once_however_often_we_are_asked_to_stop() {
    everywhere(|start| {
        let mut init = ready(draining(start, "name drain echo 10"), POLITE, &["main"]);
        for _ in 0..20 {
            stop(&mut init);
            init.wait_until_idle();
        }
        init.wait_for_stdout("drain: ready");
        drain_process(&mut init).signal(libc::SIGUSR1);
        let finished = init.finish();
        let counts = (finished.count("drain: ready"), finished.count("main: got 15"));
        assert_eq!((finished.code, counts), (7, (1, 1)), "{}", finished.stdout);
    });
}

#[test]
fn words_of_the_drain_are_quoted_as_in_a_shell_or_in_json() {
    let shell = actor(r#"say 'two  words' say "it's" say $HOME say a\ b"#);
    let actor = actor_path();
    let json = format!(r#"["{}", "say", "two  words", "say", "it's", "say", "$HOME", "say", "a b"]"#, actor.display());
    for command in [shell, json] {
        everywhere(|start| {
            let finished = stopped(start.env("HOME", "/root").env("OUTRO_DRAIN", &command));
            assert!(finished.stdout.contains("two  words\nit's\n$HOME\na b\n"), "{}", finished.stdout);
        });
    }
}

#[test]
fn a_drain_that_fails_stops_nothing() {
    let failures = [
        ("/nonexistent/drain now", "/nonexistent/drain"),
        ("/", "Permission denied"),
        ("false", "exited 1"),
        ("sh -c 'kill -9 $$'", "SIGKILL"),
    ];
    side_by_side(failures.map(|failure| (failure.0, failure)), |(command, words)| {
        everywhere(|start| {
            let finished = stopped(start.env("OUTRO_DRAIN", command));
            let warning = finished.stderr.lines().find(|line| line.contains("drain") && line.contains(words));
            assert!(warning.is_some(), "{}", finished.stderr);
        });
    });
}

#[test]
fn at_its_limit_the_drains_group_gets_term_and_main_its_signal() {
    everywhere(|start| {
        let start = start.options(&["--drain-timeout", "300ms", "--warn-on-reap"]);
        let start = draining(start, "child [ pause ] pause");
        let mut init = ready(start, "name main echo 10 exit 7", &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("main: got 15");
        assert_not_before(ms(300), stopped_at);
        init.wait_for_stderr("the drain command was killed by SIGTERM");
        init.wait_until("its child's end", |init| {
            let stderr = init.stderr();
            stderr.lines().any(|line| line.contains("reaped an orphan") && line.ends_with("killed by SIGTERM"))
        });
        init.signal(libc::SIGUSR1);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn a_drain_that_ignores_term_is_killed_half_a_second_later() {
    everywhere(|start| {
        let start = draining(start.options(&["--drain-timeout", "200ms"]), "name drain echo 0");
        let mut init = ready(start, "name main echo 10 exit 7", &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("drain: ready");
        let drain = drain_process(&mut init);
        init.wait_for_stdout("main: got 15");
        init.wait_until("the drain to be killed", |_| drain.is_gone());
        assert_not_before(ms(200 + 500), stopped_at);
        init.signal(libc::SIGUSR1);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn a_drain_that_ignores_term_does_not_outlive_us() {
    let start = draining(Start::outro().options(&["--drain-timeout", "100ms"]), "name drain echo 0");
    let mut watched = Watched::ready(start, POLITE, &["main"]);
    stop(&mut watched.init);
    let finished = watched.finish_when_nobody_is_left();
    assert_eq!((finished.code, finished.count("drain: ready")), (7, 1));
}

#[test]
fn by_default_the_drain_has_half_of_the_budget() {
    everywhere(|start| {
        let start = draining(start.options(&["--grace", "14", "--margin", "10"]), "pause");
        let mut init = ready(start, POLITE, &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("main: got 15");
        assert_not_before(ms(2000), stopped_at);
        let finished = init.finish();
        assert!(finished.stderr.contains("the drain command was killed by SIGTERM"), "{}", finished.stderr);
        assert_eq!(finished.code, 7);
    });
}

#[test]
fn when_main_has_ended_the_drain_has_two_more_seconds() {
    everywhere(|start| {
        let options = ["--drain-timeout", NEVER, "--grace", "24h"];
        let start = draining(start.options(&options), "name drain say ready pause");
        let mut init = ready(start, "name main echo 10 exit 7", &["main"]);
        stop(&mut init);
        init.wait_for_stdout("drain: ready");
        let main_ended_at = Instant::now();
        init.signal(libc::SIGUSR1);
        let finished = init.finish();
        assert_not_before(ms(2000), main_ended_at);
        assert!(finished.stderr.contains("the drain command was killed by SIGTERM"), "{}", finished.stderr);
        assert_eq!((finished.code, finished.count("main: got 15")), (7, 0));
    });
}

#[test]
fn when_main_has_ended_the_end_of_the_drain_is_ours() {
    everywhere(|start| {
        let start = draining(start.options(&["--delay", NEVER]), "name drain echo 10");
        let mut init = ready(start, "name main echo 10 exit 7", &["main"]);
        stop(&mut init);
        init.wait_for_stdout("drain: ready");
        let drain = drain_process(&mut init);
        init.signal(libc::SIGUSR1);
        init.wait_for_stderr("exited 7");
        drain.signal(libc::SIGUSR1);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("drain: got 15")), (7, 0));
    });
}

/// Its own limit has given it its TERM; main's end brings no other.
#[test]
fn a_drain_that_had_its_term_gets_no_other() {
    everywhere(|start| {
        let options = ["--grace", NEVER, "--drain-timeout", "100ms"];
        let finished = stopped(draining(start.options(&options), "name drain echo 0"));
        assert!(finished.count("drain: got 15") <= 1, "{}", finished.stdout);
    });
}

#[test]
fn whom_a_drain_has_left_behind_is_asked_to_go_after_main() {
    everywhere(|start| {
        let words = "name drain child [ name helper echo 15 ] exit 0";
        let mut init =
            ready(draining(start.options(&["--grace", NEVER]), words), "name main echo 10 exit 7", &["main"]);
        stop(&mut init);
        init.wait_for_stdout("helper: ready");
        init.wait_for_stdout("main: got 15");
        init.signal(libc::SIGUSR1);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("helper: got 15")), (7, 1), "{}", finished.stdout);
    });
}

// --- the drain file ---

fn marking(start: Start, path: impl Into<PathBuf>) -> Start {
    start.env("OUTRO_DRAIN_FILE", path.into()).options(&["--delay", NEVER])
}

#[test]
fn the_drain_file_is_created_at_once_where_we_were_started() {
    everywhere(|start| {
        let scratch = Scratch::new();
        let mut init = ready(marking(start.in_directory(scratch.path()), "draining"), POLITE, &["main"]);
        let file = scratch.join("draining");
        assert!(!file.exists());
        stop(&mut init);
        init.wait_until("the drain file", |_| file.exists());
        assert!(!init.stdout().contains("main: got"));
    });
}

#[test]
fn a_drain_file_of_an_earlier_run_is_removed_at_the_start() {
    everywhere(|start| {
        let scratch = Scratch::new();
        let file = scratch.file("draining", "", 0o644);
        let mut init = ready(marking(start, &file), POLITE, &["main"]);
        assert!(!file.exists());
        stop(&mut init);
        init.wait_until("the drain file", |_| file.exists());
    });
}

#[test]
fn a_drain_file_that_cannot_be_created_is_a_warning() {
    let scratch = Scratch::new();
    for path in [scratch.join("missing/draining"), scratch.path().to_owned()] {
        everywhere(|start| {
            let finished = stopped(start.env("OUTRO_DRAIN_FILE", &path));
            assert!(finished.stderr.contains(&format!("cannot create {}", path.display())), "{}", finished.stderr);
        });
    }
}

//! S6: PostgreSQL waits for its clients at TERM (smart), disconnects them at INT (fast), and drops dead at QUIT (immediate).

use crate::engines::container::{Container, Run};
use crate::engines::image::apps;
use crate::engines::timeline::Who;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;

const READY: &str = "database system is ready to accept connections";
const RECOVERY: &str = "database system was not properly shut down; automatic recovery in progress";

/// A database with one client that has a session, and nothing to do.
fn with_an_idle_client(run: Run) -> (Container, Child) {
    let run = run.option("--user postgres");
    let container = run.start(&["./postgres.sh"]).ready(READY);
    let mut client = container.exec_interactive(&["psql", "--host=/tmp", "--tuples-only", "postgres"]);
    client.stdin.as_mut().expect("piped").write_all(b"select 'connected';\n").expect("a client");
    let mut answer = String::new();
    BufReader::new(client.stdout.as_mut().expect("piped")).read_line(&mut answer).expect("an answer");
    assert!(answer.contains("connected"), "{answer}");
    (container, client)
}

/// Starts the stopped database once more: does it have to recover?
fn recovers_at_the_next_start(container: &mut Container) -> bool {
    container.restart();
    container.timeline.wait_for_several(2, Who::App, READY);
    container.timeline.count(Who::App, RECOVERY) > 0
}

#[test]
fn s6_postgres_shuts_down_fast_and_has_nothing_to_recover() {
    let Some(image) = apps() else { return };
    let run = Run::of(image).story("S6 postgres, TERM=INT").env("OUTRO_GRACE=30").env("OUTRO_SIGNAL_MAP=TERM=INT");
    let (mut container, mut client) = with_an_idle_client(run);
    assert_eq!(container.stop_and_wait(30), 0);
    let _ = client.wait();
    container.timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::App, "received fast shutdown request"),
        (Who::App, "database system is shut down"),
        (Who::Engine, "die exitCode=0"),
    ]);
    assert!(!recovers_at_the_next_start(&mut container), "{}", container.timeline);
}

#[test]
fn s6_postgres_that_gets_term_waits_for_its_client_until_the_last_sweep_disconnects_it() {
    let Some(image) = apps() else { return };
    let run = Run::of(image).story("S6 postgres, TERM").env("OUTRO_GRACE=6");
    let (mut container, mut client) = with_an_idle_client(run);
    let code = container.stop_and_wait(6);
    let _ = client.wait();
    let timeline = &container.timeline;
    assert_eq!(code, 0, "{timeline}");
    timeline.assert_order(&[
        (Who::App, "received smart shutdown request"),
        (Who::App, "terminating connection due to administrator command"),
        (Who::App, "database system is shut down"),
        (Who::Engine, "die exitCode=0"),
    ]);
    // B = 5.4, R = 1.35
    assert!(timeline.time_of(Who::App, "terminating connection") >= 3.9, "{timeline}");
    assert!(!recovers_at_the_next_start(&mut container), "{}", container.timeline);
}

#[test]
fn s6_under_tini_postgres_is_killed_waiting_and_has_to_recover() {
    let Some(image) = apps() else { return };
    let run = Run::of(image).story("S6 postgres under tini").under_tini();
    let (mut container, mut client) = with_an_idle_client(run);
    assert_eq!(container.stop_and_wait(2), 137);
    let _ = client.wait();
    assert!(recovers_at_the_next_start(&mut container), "{}", container.timeline);
}

#[test]
fn s6_escalation_goes_from_smart_to_fast() {
    let Some(image) = apps() else { return };
    let run = Run::of(image)
        .story("S6 postgres, smart then fast")
        .env("OUTRO_GRACE=30")
        .env("OUTRO_ESCALATE=INT@1s,QUIT@-5s");
    let (mut container, mut client) = with_an_idle_client(run);
    assert_eq!(container.stop_and_wait(30), 0);
    let _ = client.wait();
    container.timeline.assert_order(&[
        (Who::App, "received smart shutdown request"),
        (Who::App, "received fast shutdown request"),
        (Who::App, "database system is shut down"),
        (Who::Engine, "die exitCode=0"),
    ]);
    assert_eq!(container.timeline.count(Who::App, "received immediate shutdown request"), 0, "{}", container.timeline);
    assert!(!recovers_at_the_next_start(&mut container), "{}", container.timeline);
}

//! S6: PostgreSQL waits for its clients at TERM (smart), disconnects them at INT (fast), and drops dead at QUIT (immediate).

use crate::engines::container::{Container, Run};
use crate::engines::image::{Image, apps};
use crate::engines::timeline::Who;
use std::io::{BufRead, BufReader, Write};
use std::process::Child;

const READY: &str = "database system is ready to accept connections";
const RECOVERY: &str = "database system was not properly shut down; automatic recovery in progress";

/// A database with one client that has a session, and nothing to do.
fn with_an_idle_client(image: &'static Image, story: &str, options: &[&str]) -> (Container, Child) {
    let run = options.iter().fold(Run::of(image).story(story).option("--user postgres"), |run, option| run.env(option));
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
    let (mut container, mut client) =
        with_an_idle_client(image, "S6 postgres, TERM=INT", &["OUTRO_GRACE=30", "OUTRO_SIGNAL_MAP=TERM=INT"]);
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
fn s6_postgres_waits_for_its_client_until_the_deadline_if_it_gets_term() {
    let Some(image) = apps() else { return };
    let (mut container, mut client) = with_an_idle_client(image, "S6 postgres, TERM", &["OUTRO_GRACE=3"]);
    assert_eq!(container.stop_and_wait(3), 124);
    let _ = client.wait();
    container
        .timeline
        .assert_order(&[(Who::App, "received smart shutdown request"), (Who::Engine, "die exitCode=124")]);
    assert!(recovers_at_the_next_start(&mut container), "{}", container.timeline);
}

#[test]
fn s6_escalation_goes_from_smart_to_fast() {
    let Some(image) = apps() else { return };
    let (mut container, mut client) = with_an_idle_client(
        image,
        "S6 postgres, smart then fast",
        &["OUTRO_GRACE=30", "OUTRO_ESCALATE=INT@1s,QUIT@-5s"],
    );
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

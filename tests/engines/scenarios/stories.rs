//! What people asked for: a job that was killed by nobody knows whom, a preemption window, and an engine that loses patience.

use super::{server, start_node};
use crate::engines::client::{Request, WebHook};
use crate::engines::container::{Container, Run};
use crate::engines::image::{apps, scratch};
use crate::engines::timeline::Who;
use std::thread;
use std::time::Duration;

/// A batch job whose end is told to a web hook.
fn start_job(story: &str) -> Option<Container> {
    let run = Run::of(apps()?).story(story).option("--network host").with_message_file("/dev/termination-log");
    let hook = WebHook::listen(&run.timeline);
    let drain = format!("OUTRO_DRAIN=[\"python3\", \"/apps/notify.py\", \"{}\", \"stopping\"]", hook.port);
    let run = run.env("OUTRO_GRACE=30").env("OUTRO_EXIT_ON_STOP=143").env(&drain);
    Some(run.start(&["python3", "job.py"]).ready("ready"))
}

#[test]
fn story_1_a_job_that_is_killed_says_when_from_where_and_after_how_long_and_does_not_succeed() {
    let Some(mut container) = start_job("story 1 a killed job") else {
        return;
    };
    thread::sleep(Duration::from_secs(11)); // the story is about "11 seconds", so that they are real
    assert_eq!(container.stop_and_wait(30), 143);

    let timeline = &container.timeline;
    timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::Outro, "SIGTERM from outside the container (pid 0) after 11."),
        (Who::Client, "was told: stopping OUTRO_SIGNAL=TERM"),
        (Who::App, "got SIGTERM, cleaning up"),
        (Who::Engine, "die exitCode=143"),
    ]);
    assert!(timeline.time_of(Who::Outro, "SIGTERM from outside") < 5.0, "at once:\n{timeline}");
    let record = container.record();
    assert_eq!((&record["child"]["exit"], &record["exit"]), (&0.into(), &143.into()), "{timeline}");
    assert_eq!((&record["from"]["where"], &record["drain"]["exit"]), (&"outside".into(), &0.into()), "{timeline}");
    assert!(record["uptime_s"].as_f64().is_some_and(|s| (11.0..20.0).contains(&s)), "{timeline}");
}

#[test]
fn story_1_the_web_hook_knows_even_if_the_node_is_gone_a_moment_later() {
    let Some(mut container) = start_job("story 1 the node is gone") else {
        return;
    };
    container.signal("TERM");
    container.timeline.wait_for(Who::Client, "was told: stopping OUTRO_SIGNAL=TERM");
    container.signal("KILL");
    assert_eq!(container.wait(), 137);
    assert_eq!(container.timeline.count(Who::App, "result written"), 0, "{}", container.timeline);
}

/// A Node server with a request under way leaves within the window, with a delay and a reason.
fn leaves_within(window: u32, delay: &str) {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, &format!("story 2 window {window}, delay {delay}"));
    let run = run.env(&format!("OUTRO_GRACE={window}")).env(&format!("OUTRO_DELAY={delay}"));
    let mut container = start_node(run, port, 1000);
    container.signal("TERM");
    container.timeline.wait_for(Who::Outro, "SIGTERM");
    let request = Request::send(&container.timeline, port, "/"); // the load balancer does not know yet
    assert_eq!(container.stop_and_wait(window), 0);
    assert!(request.succeeds(), "{}", container.timeline);

    let timeline = &container.timeline;
    assert!(!container.was_forced(), "{timeline}");
    assert!(timeline.time_of(Who::Engine, "die") < f64::from(window), "{timeline}");
    assert_eq!(timeline.count(Who::App, "got SIGTERM"), 1, "{timeline}");
    let record = container.record();
    assert!(record["msg"].as_str().is_some_and(|msg| msg.contains("SIGTERM from outside")), "{timeline}");
    assert_eq!((&record["grace_s"], &record["exit"]), (&window.into(), &0.into()), "{timeline}");
}

#[test]
fn story_2_a_node_server_leaves_within_a_preemption_window_of_15_seconds() {
    leaves_within(15, "4");
}

#[test]
fn story_2_a_node_server_leaves_within_a_preemption_window_of_25_seconds() {
    leaves_within(25, "4");
}

#[test]
fn story_2_a_delay_longer_than_the_window_does_not_eat_it() {
    leaves_within(15, "20");
}

fn went_without_force(container: &Container) {
    let timeline = &container.timeline;
    assert!(!container.was_forced(), "{timeline}");
    assert_eq!(timeline.count(Who::Engine, "kill signal=9"), 0, "{timeline}");
}

#[test]
fn story_3_a_go_program_gets_every_signal_once() {
    let Some(image) = scratch() else { return };
    let mut container = Run::of(image).story("story 3 every signal once").start(&["polite"]).ready("ready");
    let signals = [("INT", "got interrupt"), ("USR1", "defined signal 1"), ("USR2", "defined signal 2")];
    for (signal, heard) in signals {
        container.signal(signal);
        container.timeline.wait_for(Who::App, heard);
    }
    assert_eq!(container.stop_and_wait(30), 0);
    let timeline = &container.timeline;
    for (_, heard) in signals {
        assert_eq!(timeline.count(Who::App, heard), 1, "{timeline}");
    }
    assert_eq!(timeline.count(Who::App, "got terminated"), 1, "{timeline}");
}

#[test]
fn story_3_another_stop_signal_is_translated_for_a_go_program() {
    let Some(image) = scratch() else { return };
    let run = Run::of(image)
        .story("story 3 stop signal USR2")
        .option("--stop-signal USR2")
        .env("OUTRO_STOP_SIGNALS=USR2")
        .env("OUTRO_GRACE=30");
    let mut container = run.env("OUTRO_SIGNAL_MAP=USR2=TERM").start(&["polite"]).ready("ready");
    assert_eq!(container.stop_and_wait(30), 0);
    container.timeline.assert_order(&[(Who::Platform, "docker stop"), (Who::App, "got terminated")]);
}

#[test]
fn story_3_a_long_stop_timeout_is_not_waited_for_by_a_program_that_leaves() {
    let Some(image) = scratch() else { return };
    let run = Run::of(image).option("--stop-timeout 80").env("OUTRO_GRACE=80");
    let mut container = run.start(&["polite"]).ready("ready");
    container.stop_by_its_own_timeout();
    assert_eq!(container.wait(), 0);
    assert!(container.timeline.time_of(Who::Engine, "die") < 60.0, "{}", container.timeline);
    went_without_force(&container);
}

#[test]
fn story_3_the_engine_never_loses_patience_with_a_program_that_does_not_exit() {
    let Some(image) = scratch() else { return };
    let run = Run::of(image)
        .story("story 3 a program that never exits")
        .option("--stop-timeout 6")
        .env("OUTRO_GRACE=6")
        .with_message_file("/dev/termination-log");
    let mut container = run.start(&["deaf"]).ready("ready");
    container.stop_by_its_own_timeout();
    assert_eq!(container.wait(), 124);
    assert_eq!(container.timeline.count(Who::App, "got terminated"), 1, "{}", container.timeline);
    went_without_force(&container);
}

#[test]
fn story_3_under_tini_the_engine_does() {
    let Some(image) = scratch() else { return };
    let mut container = Run::of(image)
        .story("story 3 under tini")
        .option("--stop-timeout 2")
        .under_tini()
        .start(&["/app", "deaf"])
        .ready("ready");
    container.stop_by_its_own_timeout();
    assert_eq!(container.wait(), 137);
    assert!(container.was_forced(), "{}", container.timeline);
}

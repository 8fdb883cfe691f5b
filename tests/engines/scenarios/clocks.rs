//! S10 to S12: the time there is was not the time that was promised, or a person has no patience, or others go first.

use super::{server, start_node};
use crate::engines::container::Run;
use crate::engines::image::{apps, tiny};
use crate::engines::timeline::Who;
use std::process::{Child, Command};

#[test]
fn s10_a_platform_with_less_patience_than_promised_leaves_a_record_all_the_same() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S10 two seconds of thirty");
    let mut container = start_node(run.env("OUTRO_GRACE=30").env("OUTRO_DELAY=10"), port, 100);
    assert_eq!(container.stop_and_wait(2), 137);

    let timeline = &container.timeline;
    timeline.assert_order(&[(Who::Outro, "SIGTERM from outside the container"), (Who::Engine, "kill signal=9")]);
    assert_eq!(timeline.count(Who::App, "got SIGTERM"), 0, "the delay held it back:\n{timeline}");
    let record = container.record();
    assert_eq!((&record["cause"], &record["final"]), (&"stop".into(), &false.into()), "{timeline}");
    assert!(record["msg"].as_str().is_some_and(|msg| msg.contains("last record")), "{timeline}");
}

/// Ignores what it is sent, but says so.
const STUBBORN: &str = "trap 'echo got INT' INT; trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.1; done";

fn press_ctrl_c(docker: &Child) {
    let pressed = Command::new("kill").args(["-INT", &docker.id().to_string()]).status();
    assert!(pressed.is_ok_and(|status| status.success()), "docker run is gone");
}

#[test]
fn s11_a_person_at_a_desk_skips_the_delay_with_the_second_ctrl_c_and_kills_with_the_third() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image)
        .story("S11 three times Ctrl-C")
        .env("OUTRO_GRACE=100")
        .env("OUTRO_DELAY=50")
        .with_message_file("/dev/termination-log");
    let (mut container, mut docker) = run.start_attached(&["sh", "-c", STUBBORN]);
    container.timeline.wait_for(Who::App, "ready");
    press_ctrl_c(&docker);
    container.timeline.wait_for(Who::Outro, "SIGINT");
    press_ctrl_c(&docker);
    container.timeline.wait_for(Who::App, "got INT");
    container.signal("INT"); // docker's client leaves at the third, and may not pass it on
    assert_eq!(container.wait(), 130);
    let _ = docker.wait();

    let timeline = &container.timeline;
    assert_eq!(timeline.count(Who::App, "got INT"), 1, "{timeline}");
    assert!(timeline.time_of(Who::App, "got INT") < 40.0, "{timeline}");
    assert_eq!(container.record()["cause"], "user-kill", "{timeline}");
}

#[test]
fn s11_composes_second_ctrl_c_is_a_kill_that_only_the_log_explains() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image)
        .story("S11 compose kills")
        .env("OUTRO_GRACE=20")
        .env("OUTRO_DELAY=8")
        .option("--stop-timeout 20");
    let mut container = run.start(&["sh", "-c", STUBBORN]).ready("ready");
    container.signal("TERM");
    container.timeline.wait_for(Who::Outro, "SIGTERM from outside the container");
    container.signal("KILL");
    assert_eq!(container.wait(), 137);
    assert_eq!(container.timeline.count(Who::App, "got TERM"), 0, "{}", container.timeline);
}

#[test]
fn s12_a_sidecar_leaves_after_the_main_container_within_what_is_left() {
    let Some(image) = apps() else { return };
    let mut main = Run::of(image)
        .story("S12 main container")
        .env("OUTRO_GRACE=15")
        .start(&["python3", "worker.py"])
        .ready("ready");
    let (run, port) = server(image, "S12 sidecar");
    let mut sidecar = start_node(run.env("OUTRO_GRACE=5"), port, 100);

    sidecar.exec(&["touch", "/tmp/main-is-going"]); // the sidecar's preStop, at the same moment
    assert_eq!(main.stop_and_wait(15), 0);
    assert_eq!(sidecar.timeline.count(Who::App, "got SIGTERM"), 0, "it serves the main container to its end");
    assert_eq!(sidecar.stop_and_wait(5), 0);
    assert!(!sidecar.was_forced(), "{}", sidecar.timeline);
    assert_eq!(sidecar.record()["final"], true, "{}", sidecar.timeline);
}

#[test]
fn s12_a_sidecar_with_two_seconds_left_still_says_why() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image)
        .story("S12 sidecar with two seconds")
        .env("OUTRO_GRACE=5")
        .with_message_file("/dev/termination-log");
    let mut sidecar = run.start(&["sh", "-c", STUBBORN]).ready("ready");
    assert_eq!(sidecar.stop_and_wait(2), 137);
    assert_eq!(sidecar.record()["final"], false, "{}", sidecar.timeline);
}

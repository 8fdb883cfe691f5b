//! Two clocks: the engine's patience outside, OUTRO_GRACE inside. Ours has to be the shorter one, and to say so.

use super::container::Run;
use super::image::tiny;
use super::timeline::Who;

const DEAF: &str = "trap '' TERM; echo ready; while :; do sleep 0.1; done";

#[test]
fn a_main_that_ignores_sigterm_ends_by_our_deadline_before_the_engine_uses_force() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image)
        .story("deadline before the force")
        .env("OUTRO_GRACE=5")
        .with_message_file("/dev/termination-log");
    let mut container = run.start(&["sh", "-c", DEAF]).ready("ready");
    assert_eq!(container.stop_and_wait(5), 124);

    let timeline = &container.timeline;
    assert!(!container.was_forced(), "{timeline}");
    assert_eq!(timeline.count(Who::Engine, "kill signal=9"), 0, "{timeline}");
    assert!(timeline.time_of(Who::Engine, "die") >= 4.4, "{timeline}");
    let record = container.record();
    assert_eq!(record["cause"], "deadline", "{timeline}");
    assert_eq!(record["child"]["signal"], "KILL", "{timeline}");
    assert_eq!(record["exit"], 124, "{timeline}");
}

#[test]
fn a_grace_longer_than_the_engine_has_leaves_the_provisional_record() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image)
        .story("grace longer than the engine has")
        .env("OUTRO_GRACE=30")
        .with_message_file("/dev/termination-log");
    let mut container = run.start(&["sh", "-c", DEAF]).ready("ready");
    assert_eq!(container.stop_and_wait(2), 137);

    let timeline = &container.timeline;
    assert!(container.was_forced(), "{timeline}");
    timeline.assert_order(&[(Who::Outro, "SIGTERM from outside the container"), (Who::Engine, "kill signal=9")]);
    assert_eq!(container.record()["final"], false, "{timeline}");
}

#[test]
fn without_a_grace_the_engine_decides_as_it_does_under_tini() {
    let Some(image) = tiny() else { return };
    for run in [Run::of(image), Run::of(image).under_tini()] {
        let mut container = run.start(&["sh", "-c", DEAF]).ready("ready");
        assert_eq!(container.stop_and_wait(1), 137, "{}", container.timeline);
        assert!(container.was_forced());
    }
}

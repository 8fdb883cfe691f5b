//! S3: Java and its shutdown hooks, slow and quick.

use crate::engines::container::Run;
use crate::engines::image::apps;
use crate::engines::timeline::Who;

#[test]
fn s3_a_shutdown_that_takes_too_long_ends_by_our_deadline_with_the_culprit_named() {
    let Some(image) = apps() else { return };
    let script = "trap '(trap \"\" TERM; exec sleep 40) & wait $!; exit 0' TERM; echo ready; while :; do sleep 0.1 & wait $!; done";
    let run = Run::of(image).story("S3 slow shutdown").env("OUTRO_GRACE=6").with_message_file("/dev/termination-log");
    let mut container = run.start(&["sh", "-c", script]).ready("ready");
    assert_eq!(container.stop_and_wait(6), 124);

    let timeline = &container.timeline;
    assert!(timeline.time_of(Who::Engine, "die") >= 5.3, "{timeline}");
    assert!(!container.was_forced(), "{timeline}");
    let record = container.record();
    assert_eq!(record["cause"], "deadline", "{timeline}");
    assert_eq!(record["child"]["signal"], "KILL", "{timeline}");
    assert_eq!(record["stragglers"], serde_json::json!(["sleep"]), "{timeline}");
}

#[test]
fn s3_a_slow_jvm_dumps_its_threads_before_the_deadline() {
    let Some(image) = apps() else { return };
    let run = Run::of(image)
        .story("S3 thread dump of a slow JVM")
        .env("OUTRO_GRACE=8")
        .env("OUTRO_ESCALATE=QUIT@-2s")
        .with_message_file("/dev/termination-log");
    let mut container = run.start(&["java", "Slow.java", "40"]).ready("ready");
    assert_eq!(container.stop_and_wait(8), 124);

    let timeline = &container.timeline;
    timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::App, "flushing"),
        (Who::App, "Full thread dump"),
        (Who::App, "\"flush-to-disk\""),
        (Who::Engine, "die exitCode=124"),
    ]);
    assert!(timeline.time_of(Who::App, "Full thread dump") >= 5.0, "{timeline}");
    assert_eq!(container.record()["cause"], "deadline", "{timeline}");
}

#[test]
fn s3_the_143_of_a_well_behaved_jvm_becomes_0() {
    let Some(image) = apps() else { return };
    for (map, code) in [("", 143), ("143=0", 0)] {
        let run = Run::of(image).env("OUTRO_GRACE=30").env(&format!("OUTRO_EXIT_MAP={map}"));
        let mut container = run.start(&["java", "Slow.java", "0"]).ready("ready");
        assert_eq!(container.stop_and_wait(30), code, "{}", container.timeline);
        container.timeline.assert_order(&[(Who::App, "flushing"), (Who::Engine, "die")]);
    }
}

//! The termination message, in a file that is mounted as the kubelet mounts it.

use super::container::Run;
use super::image::tiny;
use super::timeline::Who;

const POLITE: &str = "trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.1; done";

/// Stops a polite program whose termination message is mounted here, and checks what became of the message.
fn leaves_a_record_in(path: &str) {
    let Some(image) = tiny() else { return };
    let run = Run::of(image).env("OUTRO_GRACE=30").with_message_file(path);
    let mut container = run.start(&["sh", "-c", POLITE]).ready("ready");
    assert_eq!(container.message(), "", "nothing has happened yet");
    assert_eq!(container.stop_and_wait(30), 0);

    let (record, timeline) = (container.record(), &container.timeline);
    assert_eq!(container.message().lines().count(), 1, "the provisional record is replaced:\n{timeline}");
    assert_eq!((&record["cause"], &record["final"]), (&"stop".into(), &true.into()), "{timeline}");
    assert_eq!(record["from"]["where"], "outside", "{timeline}");
    assert_eq!((&record["child"]["exit"], &record["exit"]), (&0.into(), &0.into()), "{timeline}");
}

#[test]
fn the_kubelets_file_is_found_at_its_usual_path() {
    leaves_a_record_in("/dev/termination-log");
}

#[test]
fn the_kubelets_file_is_found_at_any_other_path() {
    leaves_a_record_in("/var/run/why did it end");
}

#[test]
fn a_plain_exit_leaves_the_message_to_the_kubelets_fallback() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image).env("OUTRO_GRACE=30").with_message_file("/dev/termination-log");
    let mut container = run.start(&["sh", "-c", "echo a reason in the log >&2; exit 3"]);
    assert_eq!(container.wait(), 3);
    assert_eq!(container.message(), "", "{}", container.timeline);
}

#[test]
fn what_the_application_writes_into_the_message_stays() {
    let Some(image) = tiny() else { return };
    let script =
        "trap 'echo -n my own reason >> /dev/termination-log; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let run = Run::of(image).env("OUTRO_GRACE=30").with_message_file("/dev/termination-log");
    let mut container = run.start(&["sh", "-c", script]).ready("ready");
    assert_eq!(container.stop_and_wait(30), 0);
    let message = container.message();
    assert!(message.starts_with("my own reason\n"), "{message}");
    assert_eq!(container.record()["final"], true, "{}", container.timeline);
}

#[test]
fn a_configuration_error_is_in_the_message_and_nothing_is_started() {
    let Some(image) = tiny() else { return };
    let run = Run::of(image).env("OUTRO_GRACE=soon").env("OUTRO_DELAY=-1").with_message_file("/dev/termination-log");
    let mut container = run.start(&["echo", "started"]);
    assert_eq!(container.wait(), 125);
    let timeline = &container.timeline;
    assert_eq!(timeline.count(Who::App, "started"), 0, "{timeline}");
    for bad in ["soon", "-1"] {
        assert!(timeline.told_by(Who::Outro).contains(bad), "{bad}:\n{timeline}");
    }
    assert_eq!(container.record()["cause"], "config-error", "{timeline}");
}

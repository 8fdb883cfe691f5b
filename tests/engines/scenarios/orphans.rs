//! S9: thousands of orphans while running, and one process that will not go.

use crate::engines::container::{Container, Run};
use crate::engines::image::apps;
use crate::engines::timeline::Who;
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

const STORM: &str = "trap 'exit 0' TERM
for i in $(seq 1000); do (sleep 0.1 &); done
echo stormed
(trap '' TERM; echo ready; exec sleep 600) &
while :; do wait; done";

fn zombies(container: &Container) -> usize {
    let states = container.exec(&["sh", "-c", "ps -eo stat="]);
    states.lines().filter(|state| state.starts_with('Z')).count()
}

fn until_no_zombie_is_left(container: &Container) {
    let patience = Instant::now() + Duration::from_secs(60);
    while zombies(container) > 0 {
        assert!(Instant::now() < patience, "{} zombies:\n{}", zombies(container), container.timeline);
        thread::sleep(Duration::from_millis(100)); // between two looks at a condition: zombies announce nothing
    }
}

#[test]
fn s9_orphans_are_reaped_and_the_one_that_will_not_go_is_killed_at_the_deadline() {
    let Some(image) = apps() else { return };
    let run = Run::of(image)
        .story("S9 fork storm and a straggler")
        .env("OUTRO_GRACE=4")
        .with_message_file("/dev/termination-log");
    let mut container = run.start(&["sh", "-c", STORM]).ready("ready");
    until_no_zombie_is_left(&container);
    assert_eq!(container.stop_and_wait(4), 0);

    let timeline = &container.timeline;
    assert!(timeline.time_of(Who::Engine, "die") >= 3.5, "{timeline}");
    assert!(!container.was_forced(), "{timeline}");
    let record = container.record();
    assert_eq!((&record["killed"], &record["stragglers"]), (&json!(1), &json!(["sleep"])), "{timeline}");
    assert_eq!(record["child"]["exit"], 0, "{timeline}");
}

#[test]
fn s9_without_a_grace_nobody_is_waited_for_as_under_tini() {
    let Some(image) = apps() else { return };
    for run in [Run::of(image), Run::of(image).under_tini()] {
        let mut container = run.start(&["sh", "-c", STORM]).ready("ready");
        until_no_zombie_is_left(&container);
        assert_eq!(container.stop_and_wait(60), 0, "{}", container.timeline);
        assert!(container.timeline.time_of(Who::Engine, "die") < 30.0, "{}", container.timeline);
    }
}

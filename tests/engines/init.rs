//! Who is PID 1, and what the engines make of it: `docker run --init`, `docker info`, ENTRYPOINT, a locked-down container.

use super::container::{Run, version_line};
use super::engine::outro;
use super::image::{scratch, tiny};
use super::timeline::Who;

/// Prints each of three signals, and leaves with 7 at the third.
const ECHO: &str =
    "trap 'echo got USR1' USR1; trap 'echo got TERM; exit 7' TERM; echo ready; while :; do sleep 0.1; done";

#[test]
fn docker_init_is_our_program_and_hands_back_the_exit_code() {
    let Some(image) = tiny() else { return };
    let words = "cat /proc/1/cmdline | tr '\\0' ' '; echo; cmp /proc/1/exe /outro && echo the same; exit 3";
    let mut container = Run::of(image).option("--init --entrypoint=").start(&["sh", "-c", words]);
    assert_eq!(container.wait(), 3);
    let said = container.timeline.told_by(Who::App);
    assert!(said.starts_with("/sbin/docker-init -- sh -c cat"), "{said}");
    assert!(said.ends_with("the same\n"), "{said}");
}

#[test]
fn docker_stop_reaches_the_program_through_docker_init() {
    let Some(image) = tiny() else { return };
    let mut container = Run::of(image).option("--init --entrypoint=").start(&["sh", "-c", ECHO]).ready("ready");
    container.signal("USR1");
    container.timeline.wait_for(Who::App, "got USR1");
    assert_eq!(container.stop_and_wait(30), 7);
    container.timeline.assert_order(&[(Who::App, "got USR1"), (Who::App, "got TERM"), (Who::Engine, "die exitCode=7")]);
    assert!(!container.was_forced());
}

#[test]
fn docker_info_names_our_program_and_its_commit() {
    let Some(image) = tiny() else { return };
    let info = image.engine.run(&["info", "--format", "{{.InitBinary}} {{.InitCommit.ID}}"]);
    let version = version_line();
    let (_, commit) = version.split_once(" - git.").unwrap_or_else(|| panic!("docker finds no commit in {version:?}"));
    assert_eq!(info, format!("{} {commit}", outro().display()));
}

#[test]
fn docker_init_calls_itself_tini_so_that_docker_can_read_its_version() {
    let Some(image) = tiny() else { return };
    let mut container = Run::of(image).option("--init --entrypoint=/sbin/docker-init").start(&["--version"]);
    assert_eq!(container.wait(), 0);
    let said = container.timeline.told_by(Who::App);
    assert!(said.starts_with("tini version "), "{said}");
}

#[test]
fn an_image_from_scratch_needs_nothing_but_the_entry_point() {
    let Some(image) = scratch() else { return };
    let mut container = Run::of(image).start(&["polite"]).ready("ready");
    container.signal("USR2");
    container.timeline.wait_for(Who::App, "got user defined signal 2");
    assert_eq!(container.stop_and_wait(30), 0);
    container.timeline.assert_order(&[(Who::App, "got terminated"), (Who::Engine, "die exitCode=0")]);
}

#[test]
fn a_missing_program_in_an_image_from_scratch_is_127_and_named() {
    let Some(image) = scratch() else { return };
    let mut container = Run::of(image).option("--entrypoint=/outro").start(&["--", "/no/such"]);
    assert_eq!(container.wait(), 127);
    assert!(container.timeline.told_by(Who::Outro).contains("/no/such"), "{}", container.timeline);
}

#[test]
fn a_locked_down_container_works_as_any_other() {
    let Some(image) = scratch() else { return };
    let locked = "--read-only --user 1000 --cap-drop ALL --security-opt no-new-privileges --pids-limit 20";
    let run = Run::of(image).option(locked).env("OUTRO_GRACE=30").with_message_file("/dev/termination-log");
    let mut container = run.start(&["polite"]).ready("ready");
    assert_eq!(container.stop_and_wait(30), 0);
    assert_eq!(container.record()["cause"], "stop", "{}", container.timeline);
}

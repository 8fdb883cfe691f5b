//! S4: a shell script that starts the server without `exec`, and stays its parent.

use super::server;
use crate::engines::client::Request;
use crate::engines::container::{Container, Run};
use crate::engines::image::apps;
use crate::engines::timeline::Who;

/// The script, with a request on its way that Node needs so long for.
fn busy_behind_a_shell(run: Run, port: u16, prologue: &str, work_ms: u32) -> (Container, Request) {
    let script = format!("{prologue} true; node server.js {port} {work_ms}; echo done");
    let container = run.start(&["sh", "-c", &script]).ready("ready");
    let request = Request::send(&container.timeline, port, "/slow");
    container.timeline.wait_for(Who::App, "busy");
    (container, request)
}

#[test]
fn s4_the_server_behind_a_shell_finishes_its_request() {
    let Some(image) = apps() else { return };
    for group in ["0", "1"] {
        let (run, port) = server(image, &format!("S4 shell without exec, group {group}"));
        let run = run.env("OUTRO_GRACE=20").env(&format!("OUTRO_GROUP={group}"));
        let (mut container, request) = busy_behind_a_shell(run, port, "", 1500);
        let code = container.stop_and_wait(20);
        assert!(request.succeeds(), "{}", container.timeline);
        let timeline = &container.timeline;
        assert_eq!(code, 143, "{timeline}");
        assert_eq!(timeline.count(Who::App, "got SIGTERM"), 1, "{timeline}");
        assert_eq!(container.record()["stragglers"], serde_json::json!([]), "{timeline}");
    }
}

#[test]
fn s4_under_tini_the_server_behind_a_shell_is_killed_at_work() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S4 shell without exec, under tini");
    let (mut container, request) = busy_behind_a_shell(run.under_tini(), port, "", 1500);
    assert_eq!(container.stop_and_wait(20), 143);
    assert!(!request.succeeds(), "{}", container.timeline);
    assert_eq!(container.timeline.count(Who::App, "got SIGTERM"), 0, "{}", container.timeline);
}

#[test]
fn s4_a_shell_with_a_trap_keeps_the_signal_from_the_server_until_the_last_sweep() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S4 shell with a trap");
    let trap = "trap 'echo cleaned; exit 0' TERM;";
    let (mut container, request) = busy_behind_a_shell(run.env("OUTRO_GRACE=6"), port, trap, 30_000);
    assert_eq!(container.stop_and_wait(6), 124);
    assert!(!request.succeeds());
    let timeline = &container.timeline;
    // B = 5.4, R = 1.35
    assert!(timeline.time_of(Who::App, "got SIGTERM") >= 3.9, "{timeline}");
    assert_eq!(timeline.count(Who::App, "cleaned"), 0, "{timeline}");
}

#[test]
fn s4_group_mode_cures_a_shell_with_a_trap() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S4 shell with a trap, group 1");
    let trap = "trap 'echo cleaned; exit 0' TERM;";
    let run = run.env("OUTRO_GRACE=20").env("OUTRO_GROUP=1");
    let (mut container, request) = busy_behind_a_shell(run, port, trap, 1500);
    assert_eq!(container.stop_and_wait(20), 0);
    assert!(request.succeeds(), "{}", container.timeline);
    let timeline = &container.timeline;
    timeline.assert_order(&[
        (Who::App, "got SIGTERM"),
        (Who::Client, "GET /slow: 2 bytes"),
        (Who::App, "cleaned"),
        (Who::Engine, "die exitCode=0"),
    ]);
}

//! S2 and S7: Python workers, celery and gunicorn. That the signal goes to the main process alone is the point.

use super::server;
use crate::engines::client::Request;
use crate::engines::container::{Container, Run};
use crate::engines::image::apps;
use crate::engines::timeline::Who;

#[test]
fn s2_a_queue_worker_finishes_its_job() {
    let Some(image) = apps() else { return };
    let run = Run::of(image).story("S2 worker").env("OUTRO_GRACE=10").with_message_file("/dev/termination-log");
    let mut container = run.start(&["python3", "worker.py"]).ready("ready");
    assert_eq!(container.stop_and_wait(10), 0);
    let timeline = &container.timeline;
    timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::App, "got SIGTERM"),
        (Who::App, "job done"),
        (Who::Engine, "die exitCode=0"),
    ]);
    assert!(container.record()["msg"].as_str().is_some_and(|msg| msg.contains("exited 0")), "{timeline}");
}

#[test]
fn s2_a_worker_without_a_handler_dies_at_once_and_does_not_hang_as_pid_1_would() {
    let Some(image) = apps() else { return };
    let run = Run::of(image).story("S2 worker without a handler").env("OUTRO_GRACE=60");
    let mut container = run.start(&["python3", "worker.py", "simple"]).ready("ready");
    assert_eq!(container.stop_and_wait(60), 143, "{}", container.timeline);
    assert!(container.timeline.time_of(Who::Engine, "die") < 30.0, "{}", container.timeline);

    let mut bare = Run::of(image)
        .story("S2 worker as PID 1")
        .without_init()
        .start(&["python3", "worker.py", "simple"])
        .ready("ready");
    assert_eq!(bare.stop_and_wait(2), 137, "{}", bare.timeline);
}

#[test]
fn s2_with_no_variable_set_a_worker_ends_as_it_does_under_tini() {
    let Some(image) = apps() else { return };
    for (mode, code) in [("polite", 0), ("simple", 143)] {
        for run in [Run::of(image), Run::of(image).under_tini()] {
            let mut container = run.start(&["python3", "worker.py", mode]).ready("ready");
            assert_eq!(container.stop_and_wait(30), code, "{mode}:\n{}", container.timeline);
        }
    }
}

/// A worker with one task under way, and the container of its broker.
struct Celery {
    worker: Container,
    _broker: Container,
    _socket: tempfile::TempDir,
}

/// Celery, doing a task of as many seconds.
fn start_celery(story: &str, variables: &[&str], seconds: u32) -> Option<Celery> {
    let image = apps()?;
    let _socket = tempfile::tempdir().expect("a directory");
    let run = |title: &str| Run::of(image).story(title).mount(_socket.path(), "/broker");
    let redis = ["redis-server", "--port", "0", "--unixsocket", "/broker/redis.sock"];
    let _broker = run(&format!("{story}, broker")).start(&redis).ready("ready to accept connections");
    let run = variables.iter().fold(run(story), |run, variable| run.env(variable));
    let worker = run.start(&["./celery.sh", &seconds.to_string()]).ready("task started");
    Some(Celery { worker, _broker, _socket })
}

#[test]
fn s7_celery_ends_warm_because_only_its_master_is_signalled() {
    let Some(mut celery) = start_celery("S7 celery, warm", &["OUTRO_GRACE=30"], 3) else { return };
    assert_eq!(celery.worker.stop_and_wait(30), 0);
    celery.worker.timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::App, "Warm shutdown"),
        (Who::App, "task done"),
        (Who::Engine, "die exitCode=0"),
    ]);
}

#[test]
fn s7_celery_loses_its_task_when_the_whole_group_is_signalled() {
    let variables = ["OUTRO_GRACE=8", "OUTRO_GROUP=1"];
    let Some(mut celery) = start_celery("S7 celery, group", &variables, 4) else { return };
    celery.worker.stop_and_wait(8);
    assert_eq!(celery.worker.timeline.count(Who::App, "task done"), 0, "{}", celery.worker.timeline);
}

#[test]
fn s7_celery_with_an_endless_task_is_shut_down_cold_before_the_deadline() {
    let variables = ["OUTRO_GRACE=8", "OUTRO_ESCALATE=QUIT@-5s"];
    let Some(mut celery) = start_celery("S7 celery, cold", &variables, 300) else { return };
    let code = celery.worker.stop_and_wait(8);
    let timeline = &celery.worker.timeline;
    timeline.assert_order(&[
        (Who::App, "Warm shutdown"),
        (Who::App, "Cold shutdown"),
        (Who::App, "Restoring 1 unacknowledged message"),
        (Who::Engine, "die"),
    ]);
    assert!(code != 124 && code != 137, "exit {code}:\n{timeline}");
    assert!(!celery.worker.was_forced(), "{timeline}");
}

#[test]
fn s7_gunicorn_finishes_the_request_it_is_working_on() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S7 gunicorn");
    let bind = format!("127.0.0.1:{port}");
    let command = ["gunicorn", "--bind", &bind, "--graceful-timeout", "15", "--worker-tmp-dir", "/dev/shm", "wsgi"];
    let mut container = run.env("OUTRO_GRACE=20").start(&command).ready("Booting worker");
    let request = Request::send(&container.timeline, port, "/");
    container.timeline.wait_for(Who::App, "busy");
    assert_eq!(container.stop_and_wait(20), 0);
    assert!(request.succeeds(), "{}", container.timeline);
    let timeline = &container.timeline;
    timeline.assert_order(&[
        (Who::App, "Handling signal: term"),
        (Who::Client, "GET /: 2 bytes"),
        (Who::App, "Shutting down: Master"),
        (Who::Engine, "die exitCode=0"),
    ]);
}

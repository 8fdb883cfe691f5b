//! S1: a Node HTTP server behind a load balancer that needs a while to forget it.

use super::{server, start_node};
use crate::engines::client::{Polled, Poller, Request};
use crate::engines::container::Container;
use crate::engines::image::apps;
use crate::engines::timeline::Who;
use std::time::Duration;

/// A client asks all the time while the container is stopped. Returns the exit code, too.
fn stop_under_load(container: &mut Container, port: u16) -> (i32, Polled) {
    let poller = Poller::start(&container.timeline, port);
    container.timeline.wait_for(Who::Client, "GET /: 2 bytes");
    let code = container.stop_and_wait(10);
    (code, poller.stop())
}

#[test]
fn s1_a_node_server_refuses_nobody_while_the_load_balancers_forget_it() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S1 node with a delay");
    let mut container = start_node(run.env("OUTRO_GRACE=10").env("OUTRO_DELAY=3"), port, 1000);
    let (code, polled) = stop_under_load(&mut container, port);

    let timeline = &container.timeline;
    assert_eq!(code, 0, "{timeline}");
    timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::Outro, "SIGTERM from outside the container"),
        (Who::Client, "GET /: 2 bytes"),
        (Who::App, "got SIGTERM"),
        (Who::Client, "GET /: 2 bytes"),
        (Who::Engine, "die exitCode=0"),
    ]);
    assert!(timeline.time_of(Who::App, "got SIGTERM") >= 2.9, "{timeline}");
    let (stop, term) = (timeline.get(Who::Engine, "kill").at, timeline.get(Who::App, "got SIGTERM").at);
    let (failed, asked) = polled.failed_between(stop, term - Duration::from_millis(200));
    assert!(failed == 0 && asked > 5, "{failed} of {asked} failed:\n{timeline}");
    let record = container.record();
    assert_eq!((&record["cause"], &record["delay_s"]), (&"stop".into(), &3.into()), "{timeline}");
    assert_eq!(record["child"]["exit"], 0, "{timeline}");
}

#[test]
fn s1_under_tini_connections_are_refused_from_the_first_moment() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S1 node under tini");
    let mut container = start_node(run.under_tini(), port, 1000);
    let (code, polled) = stop_under_load(&mut container, port);

    let timeline = &container.timeline;
    assert_eq!(code, 0, "{timeline}");
    let stop = timeline.get(Who::Engine, "kill").at;
    let (failed, asked) = polled.failed_between(stop, stop + Duration::from_secs(3));
    assert!(failed > 0, "none of {asked} failed:\n{timeline}");
}

#[test]
fn s1_a_crash_during_the_delay_ends_the_delay_with_the_applications_code() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S1 crash during the delay");
    let container = start_node(run.env("OUTRO_GRACE=60").env("OUTRO_DELAY=40"), port, 100);
    container.signal("TERM");
    container.timeline.wait_for(Who::Outro, "SIGTERM");
    let crash = Request::send(&container.timeline, port, "/crash");

    let mut container = container;
    assert_eq!(container.wait(), 7);
    assert!(!crash.succeeds());
    let timeline = &container.timeline;
    assert!(timeline.time_of(Who::Engine, "die") < 30.0, "{timeline}");
    assert_eq!(timeline.count(Who::App, "got SIGTERM"), 0, "{timeline}");
}

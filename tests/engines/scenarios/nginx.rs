//! S5: nginx takes TERM as "drop everything" and QUIT as "finish what you began".

use super::server;
use crate::engines::client::Request;
use crate::engines::container::{Container, Run};
use crate::engines::image::apps;
use crate::engines::timeline::Who;

/// nginx, four seconds before the end of a download.
fn in_the_middle_of_a_download(run: Run, port: u16) -> (Container, Request) {
    let container = run.start(&["./nginx.sh", &port.to_string()]).ready("start worker process ");
    let first = Request::send(&container.timeline, port, "/none");
    first.succeeds();
    let request = Request::send(&container.timeline, port, "/file");
    (container, request)
}

#[test]
fn s5_nginx_is_asked_to_quit_and_a_download_finishes() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S5 nginx, TERM=QUIT");
    let run = run.env("OUTRO_GRACE=20").env("OUTRO_DELAY=1").env("OUTRO_SIGNAL_MAP=TERM=QUIT");
    let (mut container, download) = in_the_middle_of_a_download(run, port);
    assert_eq!(container.stop_and_wait(20), 0);
    assert!(download.succeeds(), "{}", container.timeline);
    let timeline = &container.timeline;
    timeline.assert_order(&[
        (Who::Platform, "docker stop"),
        (Who::App, "signal 3 (SIGQUIT) received"),
        (Who::Client, "GET /file: 400000 bytes"),
        (Who::Engine, "die exitCode=0"),
    ]);
    assert!(timeline.time_of(Who::App, "(SIGQUIT) received") >= 0.9, "{timeline}");
}

#[test]
fn s5_an_image_with_stopsignal_quit_works_when_quit_is_named_as_a_stop_signal() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S5 nginx, STOPSIGNAL QUIT");
    let run = run.option("--stop-signal QUIT").env("OUTRO_GRACE=20").env("OUTRO_STOP_SIGNALS=QUIT,TERM,INT");
    let (mut container, download) = in_the_middle_of_a_download(run, port);
    assert_eq!(container.stop_and_wait(20), 0);
    assert!(download.succeeds(), "{}", container.timeline);
    assert_eq!(container.record()["signal"], "QUIT", "{}", container.timeline);
}

#[test]
fn s5_under_tini_the_download_is_cut_off() {
    let Some(image) = apps() else { return };
    let (run, port) = server(image, "S5 nginx under tini");
    let (mut container, download) = in_the_middle_of_a_download(run.under_tini(), port);
    assert_eq!(container.stop_and_wait(20), 0);
    assert!(!download.succeeds(), "{}", container.timeline);
}

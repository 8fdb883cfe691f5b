//! The log: what is said and what is not, and that saying it never holds up or ends anything.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use serde_json::Value;

use crate::harness::{Running, Start, broken_pipe, pipe};

const LOUDEST: (&str, &str) = ("OUTRO_LOG", "text,trace");

fn loudest() -> Start {
    Start::outro().env(LOUDEST.0, LOUDEST.1)
}

/// The log of a run with a start, a signal, an orphan, a stop and an end by a signal.
fn log_of_an_eventful_run(start: Start) -> String {
    let mut init = start.main("orphan [ exit 3 ] echo 10 unblock pause").spawn();
    init.expect("ready");
    init.wait_until("only main is left", |init| init.init().children().len() == 1);
    init.signal_and_hear(libc::SIGUSR1);
    init.signal(libc::SIGTERM);
    let finished = init.finish();
    assert_eq!(finished.code, 143);
    finished.stderr
}

#[test]
fn a_stop_is_logged_with_the_signal_and_the_end_with_the_code() {
    let log = log_of_an_eventful_run(Start::outro());
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("outro: ")), "{log}");
    assert!(lines.first().is_some_and(|first| first.contains("SIGTERM")), "{log}");
    assert!(lines.last().is_some_and(|last| last.contains("SIGTERM")), "{log}");
    assert!(lines.len() >= 2, "{log}");
}

#[test]
fn a_main_that_a_signal_kills_is_mentioned() {
    let log = Start::outro().main("die 11").run().stderr;
    assert!(log.contains("SIGSEGV"), "{log}");
}

#[test]
fn a_main_that_fails_is_no_business_of_the_log() {
    assert_eq!(Start::outro().main("exit 1").run().stderr, "");
}

fn lines_said(start: Start) -> usize {
    log_of_an_eventful_run(start.options(&["-w"])).lines().count()
}

#[test]
fn each_level_says_more() {
    let at = |level| lines_said(Start::outro().env("OUTRO_LOG", level));
    let [error, warn, info, debug] = ["text,error", "text,warn", "text,info", "text,debug"].map(at);
    assert_eq!(error, 0);
    assert!(error < warn && warn < info && info < debug, "{error} {warn} {info} {debug}");
    assert!(debug <= at("text,trace"));
    assert_eq!(at("text"), info);
}

#[test]
fn the_level_can_be_raised_with_v() {
    assert!(lines_said(Start::outro().options(&["-v"])) > lines_said(Start::outro()));
}

#[test]
fn tinis_variable_for_the_level_is_honoured() {
    let with = |verbosity| lines_said(Start::outro().env("TINI_VERBOSITY", verbosity));
    assert!(with("3") > with("0"));
    assert_eq!(with(""), lines_said(Start::outro()));
}

#[test]
fn the_log_can_be_off() {
    assert_eq!(log_of_an_eventful_run(Start::outro().options(&["-w"]).env("OUTRO_LOG", "off")), "");
    let finished = Start::outro().env("OUTRO_LOG", "off").command(&["/nonexistent"]).run();
    assert_eq!((finished.code, finished.stderr.as_str()), (127, ""));
}

#[test]
fn every_line_in_json_is_an_object_with_a_level_and_a_message() {
    let awkward = "/nonexistent/\"quoted\\ \u{e4}\n\t\x01";
    let failure = Start::outro().env("OUTRO_LOG", "json,trace").command(&[awkward]).run().stderr;
    let eventful = log_of_an_eventful_run(Start::outro().options(&["-w"]).env("OUTRO_LOG", "json,trace"));
    let refused = Start::outro().env("OUTRO_LOG", "json").env("OUTRO_GRACE", "soon").main("exit 0").run().stderr;
    assert!(!failure.is_empty() && !eventful.is_empty() && !refused.is_empty());
    for line in [failure, eventful, refused].iter().flat_map(|log| log.lines()) {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(object["level"].is_string() && object["msg"].is_string(), "{line}");
    }
}

#[test]
fn a_name_with_a_line_break_stays_one_line() {
    let log = Start::outro().command(&["/nonexistent\noutro: forged"]).run().stderr;
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_very_long_name_gives_a_line_that_a_pipe_takes_whole() {
    for format in ["text", "json"] {
        let start = Start::outro().env("OUTRO_LOG", format);
        let finished = start.command(&[format!("/{}", "\u{e4}".repeat(20_000))]).run();
        assert_eq!(finished.code, 126);
        assert!(finished.stderr.lines().all(|line| line.len() < libc::PIPE_BUF), "{}", finished.stderr);
        assert!(finished.stderr.ends_with('\n'));
    }
}

#[test]
fn nothing_of_ours_goes_to_stdout() {
    let bytes = "binary \u{0}\u{1}\n without an end";
    let (reader, mut writer) = pipe();
    writer.write_all(bytes.as_bytes()).unwrap();
    drop(writer);
    let finished = loudest().stdin(reader).options(&["-vvv", "-w"]).command(&["cat"]).run();
    assert_eq!((finished.code, finished.stdout.as_str()), (0, bytes));
}

/// A pipe that takes no more, as when nobody reads the container's log, and what it holds.
fn full_pipe() -> (File, File, usize) {
    let (reader, mut writer) = pipe();
    set_flags(&writer, libc::O_NONBLOCK);
    let mut held = 0;
    while let Ok(written) = writer.write(b"x") {
        held += written;
    }
    set_flags(&writer, 0);
    (reader, writer, held)
}

fn set_flags(writer: &File, flags: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) }, 0);
}

fn is_nonblocking(writer: &File) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

fn forwards_and_ends(mut init: Running) {
    init.expect("ready");
    for _ in 0..10 {
        init.signal_and_hear(libc::SIGUSR1);
    }
    init.signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 7);
}

const MAIN: &str = "orphan [ exit 3 ] echo 15 exit 7";

#[test]
fn a_full_pipe_holds_up_nothing() {
    let (_unread, writer, _) = full_pipe();
    let ours = writer.try_clone().unwrap();
    forwards_and_ends(loudest().options(&["-w"]).stderr(writer).main(MAIN).spawn());
    assert!(!is_nonblocking(&ours), "the flag is shared with main");
}

#[test]
fn a_full_pipe_does_not_hold_up_a_failure_to_start() {
    let (_unread, writer, _) = full_pipe();
    assert_eq!(loudest().stderr(writer).command(&["/nonexistent"]).run().code, 127);
}

#[test]
fn lines_that_a_full_pipe_did_not_take_are_counted() {
    let (mut reader, writer, held) = full_pipe();
    let mut init = loudest().stderr(writer).main(MAIN).spawn();
    init.expect("ready");
    init.signal_and_hear(libc::SIGUSR1);
    let process = init.init();
    init.wait_until("the lines to be dropped", |_| process.is_idle());
    reader.read_exact(&mut vec![0; held]).unwrap();
    init.signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 7);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(said.lines().next().is_some_and(|first| first.contains("dropped")), "{said}");
}

#[test]
fn a_pipe_that_main_made_nonblocking_is_written_to_and_left_so() {
    let (mut reader, writer) = pipe();
    set_flags(&writer, libc::O_NONBLOCK);
    let ours = writer.try_clone().unwrap();
    forwards_and_ends(loudest().stderr(writer).main(MAIN).spawn());
    assert!(is_nonblocking(&ours));
    drop(ours);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(said.contains("SIGTERM"), "{said}");
}

#[test]
fn a_broken_pipe_ends_nothing() {
    forwards_and_ends(loudest().options(&["-w"]).stderr(broken_pipe()).main(MAIN).spawn());
    assert_eq!(loudest().stderr(broken_pipe()).command(&["/nonexistent"]).run().code, 127);
}

#[test]
fn a_full_disk_ends_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    forwards_and_ends(loudest().options(&["-w"]).stderr(full).main(MAIN).spawn());
}

#[test]
fn a_closed_stderr_ends_nothing() {
    forwards_and_ends(loudest().options(&["-w"]).without_descriptors(&[2]).main(MAIN).spawn());
}

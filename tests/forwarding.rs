//! Which signals reach main, and as what: the map, the group, and what is kept back.

use std::os::fd::OwnedFd;

use crate::harness::{Running, Start, broken_pipe, drop_capability, set_limit};

fn echoing(start: Start) -> Running {
    let mut init = start.main("echo 0").spawn();
    init.expect("ready");
    init
}

fn with_map(map: &str) -> Running {
    echoing(Start::outro().env("OUTRO_SIGNAL_MAP", map))
}

/// Proves that a signal is kept back: one that is sent after it arrives before it.
fn is_kept_back(init: &mut Running, number: i32) {
    init.signal(number);
    let process = init.init();
    init.wait_until("the signal to be taken", |_| process.is_idle());
    init.signal_and_hear(libc::SIGURG);
}

#[test]
fn a_mapped_signal_reaches_main_as_another() {
    let mut init = with_map("TERM=QUIT,HUP=USR1");
    init.signal(libc::SIGTERM);
    init.hear(libc::SIGQUIT);
    init.signal(libc::SIGHUP);
    init.hear(libc::SIGUSR1);
    init.signal_and_hear(libc::SIGUSR2);
}

#[test]
fn the_map_is_applied_to_every_repeat() {
    let mut init = with_map("TERM=QUIT");
    for _ in 0..3 {
        init.signal(libc::SIGTERM);
        init.hear(libc::SIGQUIT);
    }
}

#[test]
fn the_map_is_applied_once_not_in_a_chain() {
    let mut init = with_map("HUP=USR1,USR1=USR2");
    init.signal(libc::SIGHUP);
    init.hear(libc::SIGUSR1);
    init.signal(libc::SIGUSR1);
    init.hear(libc::SIGUSR2);
}

#[test]
fn signals_have_many_names() {
    let first = libc::SIGRTMIN();
    let last = libc::SIGRTMAX();
    for (map, from, to) in [
        ("SIGHUP=SIGUSR1", libc::SIGHUP, libc::SIGUSR1),
        ("hup=sigUsr1", libc::SIGHUP, libc::SIGUSR1),
        ("1=10", libc::SIGHUP, libc::SIGUSR1),
        ("HUP=RTMIN+3", libc::SIGHUP, first + 3),
        ("SIGRTMIN=HUP", first, libc::SIGHUP),
        ("rtmax-2=64", last - 2, 64),
    ] {
        let mut init = with_map(map);
        init.signal(from);
        init.hear(to);
    }
}

#[test]
fn the_flag_beats_the_variable() {
    let mut init = echoing(Start::outro().env("OUTRO_SIGNAL_MAP", "HUP=USR1").options(&["--signal-map", "HUP=USR2"]));
    init.signal(libc::SIGHUP);
    init.hear(libc::SIGUSR2);
}

#[test]
fn a_signal_that_is_mapped_to_nothing_is_dropped() {
    is_kept_back(&mut with_map("HUP="), libc::SIGHUP);
}

#[test]
fn a_mapped_real_time_signal_keeps_its_value() {
    let mut init = with_map("RTMIN=RTMIN+1");
    init.init().queue(libc::SIGRTMIN(), 42);
    init.expect(&format!("got {} code {} value 42", libc::SIGRTMIN() + 1, libc::SI_QUEUE));
}

#[test]
fn in_group_mode_a_real_time_signal_goes_without_its_value() {
    let mut init = echoing(Start::outro().options(&["-g"]));
    init.init().queue(libc::SIGRTMIN(), 42);
    init.hear(libc::SIGRTMIN());
}

#[test]
fn sigchld_is_ours_alone() {
    is_kept_back(&mut echoing(Start::outro()), libc::SIGCHLD);
}

#[test]
fn the_signals_of_libc_are_nobodys() {
    for number in [32, 33] {
        is_kept_back(&mut echoing(Start::outro()), number);
    }
}

/// outro writes a line about each signal, which raises SIGPIPE in itself.
#[test]
fn the_sigpipe_of_our_own_log_is_not_forwarded() {
    let mut init = echoing(Start::outro().env("OUTRO_LOG", "text,trace").stderr(broken_pipe()));
    for _ in 0..3 {
        is_kept_back(&mut init, libc::SIGCHLD);
        init.signal_and_hear(libc::SIGUSR1);
    }
}

#[test]
fn a_sigpipe_from_somebody_else_is_forwarded() {
    let mut init = echoing(Start::outro());
    init.signal_and_hear(libc::SIGPIPE);
}

#[test]
fn the_sigxfsz_of_our_own_log_is_not_forwarded() {
    let full = tempfile::tempfile().unwrap();
    let start = Start::outro().env("OUTRO_LOG", "text,trace").stderr(OwnedFd::from(full));
    let mut init = echoing(start.before_exec(|| set_limit(libc::RLIMIT_FSIZE, 0)));
    for _ in 0..3 {
        is_kept_back(&mut init, libc::SIGCHLD);
        init.signal_and_hear(libc::SIGUSR1);
    }
}

/// Whether a signal to outro reached a second member of main's group.
fn signals_the_group(start: Start) -> bool {
    let mut init = start.main("child [ name member echo 0 ] echo 0").spawn();
    let _readies = [init.line(), init.line()];
    let member = init.main().children()[0];
    init.signal(libc::SIGUSR1);
    let process = init.init();
    init.wait_until("the signal to be forwarded", |_| process.is_idle());
    member.signal(libc::SIGUSR2);
    let mut reached = false;
    loop {
        let line = init.line();
        reached |= line.starts_with("member: got 10 ");
        if line.starts_with("member: got 12 ") {
            return reached;
        }
    }
}

#[test]
fn the_group_gets_signals_when_asked_for() {
    assert!(!signals_the_group(Start::outro()));
    assert!(signals_the_group(Start::outro().options(&["-g"])));
    assert!(signals_the_group(Start::outro().options(&["--group"])));
    for (value, group) in [("1", true), ("yes", true), ("TRUE", true), ("on", true), ("0", false), ("no", false)] {
        assert_eq!(signals_the_group(Start::outro().env("OUTRO_GROUP", value)), group, "OUTRO_GROUP={value}");
    }
}

#[test]
fn tinis_variable_for_the_group_works_as_in_tini_but_for_off() {
    for on in ["", "1", "true", "yes", "on", "anything"] {
        assert!(signals_the_group(Start::outro().env("TINI_KILL_PROCESS_GROUP", on)), "{on:?}");
    }
    for off in ["0", "false", "no", "off"] {
        assert!(!signals_the_group(Start::outro().env("TINI_KILL_PROCESS_GROUP", off)), "{off:?}");
    }
}

#[test]
fn our_own_variable_beats_tinis() {
    let both = Start::outro().env("TINI_KILL_PROCESS_GROUP", "1").env("OUTRO_GROUP", "0");
    assert!(!signals_the_group(both));
}

#[test]
fn a_forward_that_fails_is_logged() {
    const CAP_KILL: libc::c_ulong = 5;
    let start = Start::outro().before_exec(|| drop_capability(CAP_KILL));
    let mut init = start.main("user 1000 echo 15 exit 7").spawn();
    init.expect("ready");
    init.signal(libc::SIGUSR1);
    init.wait_for_stderr("Operation not permitted");
    init.main().signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 7);
}

#[test]
fn a_stopped_main_is_continued_to_get_a_stop_signal() {
    let mut init = Start::outro().main("stop pause").spawn();
    let main = init.main();
    init.wait_until("main to stop", |_| main.is_stopped());
    init.signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 143);
}

#[test]
fn we_are_never_stopped_by_a_job_control_signal() {
    let mut init = echoing(Start::outro());
    for number in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        init.signal_and_hear(number);
        let process = init.init();
        init.wait_until("rest", |_| process.is_idle());
    }
}

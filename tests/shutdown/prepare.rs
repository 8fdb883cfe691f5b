//! Between the stop and main's signal: the delay, repeated stops, a person's INTs, and what is no stop at all.

use super::{NEVER, assert_not_before, ms, ready, stop};
use crate::harness::{Signals, Start, everywhere};

fn delayed(start: Start) -> Start {
    start.options(&["--delay", NEVER])
}

#[test]
fn main_gets_its_signal_when_the_delay_is_over() {
    everywhere(|start| {
        let mut init = ready(start.options(&["--delay", "300ms"]), "name main echo 15 exit 7", &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("main: got 15");
        assert_not_before(ms(300), stopped_at);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn other_signals_reach_main_during_the_delay() {
    everywhere(|start| {
        let mut init = delayed(start).main("echo 0").spawn();
        init.expect("ready");
        stop(&mut init);
        init.wait_until_idle();
        init.signal_and_hear(libc::SIGUSR1);
        init.signal_and_hear(libc::SIGHUP);
    });
}

#[test]
fn a_main_that_ends_during_the_delay_ends_it() {
    everywhere(|start| {
        let words = "orphan [ session name orphan echo 15 ] name main echo 10 exit 7";
        let mut init = ready(delayed(start).options(&["--grace", NEVER]), words, &["orphan", "main"]);
        stop(&mut init);
        init.wait_until_idle();
        init.signal(libc::SIGUSR1);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1));
        assert_eq!(finished.count("main: got 15"), 0, "{}", finished.stdout);
    });
}

#[test]
fn a_stopped_main_gets_its_signal_and_is_continued() {
    everywhere(|start| {
        let mut init = ready(start.options(&["--delay", "100ms"]), "name main echo 18 exit 7", &["main"]);
        let main = init.main();
        main.signal(libc::SIGSTOP);
        init.wait_until("main to stop", |_| main.is_stopped());
        stop(&mut init);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("main: got 15")), (7, 1));
    });
}

#[test]
fn in_group_mode_the_stop_goes_to_the_group() {
    everywhere(|start| {
        let words = "child [ name member echo 15 ] name main echo 15 wait exit 7";
        let mut init = ready(start.options(&["-g", "--delay", "100ms"]), words, &["member", "main"]);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("member: got 15"), finished.count("main: got 15")), (7, 1, 1));
    });
}

#[test]
fn the_second_int_ends_the_delay_and_the_third_kills() {
    everywhere(|start| {
        let mut init = delayed(start).main("echo 0").spawn();
        init.expect("ready");
        init.signal(libc::SIGINT);
        init.wait_until_idle();
        init.signal_and_hear(libc::SIGUSR1);
        init.signal_and_hear(libc::SIGINT);
        init.signal(libc::SIGINT);
        assert_eq!(init.finish().code, 130);
    });
}

/// The first of three INTs that follow a TERM changes nothing.
#[test]
fn only_ints_are_counted_as_a_persons() {
    everywhere(|start| {
        let mut init = delayed(start).main("echo 0").spawn();
        init.expect("ready");
        for number in [libc::SIGTERM, libc::SIGTERM, libc::SIGTERM, libc::SIGINT] {
            init.signal(number);
            init.wait_until_idle();
        }
        init.signal_and_hear(libc::SIGUSR1);
        init.signal(libc::SIGINT);
        init.hear(libc::SIGTERM);
        init.signal(libc::SIGINT);
        assert_eq!(init.finish().code, 130);
    });
}

#[test]
fn the_second_int_ends_the_drain_too() {
    everywhere(|start| {
        let drain = super::drain::actor("name drain say ready pause");
        let mut init = ready(start.env("OUTRO_DRAIN", drain), "name main echo 0", &["main"]);
        init.signal(libc::SIGINT);
        init.wait_for_stdout("drain: ready");
        init.signal(libc::SIGINT);
        init.wait_for_stdout("main: got 2 ");
        init.wait_for_stderr("the drain command was killed by SIGTERM");
    });
}

#[test]
fn with_a_grace_the_second_int_is_forwarded_and_the_third_kills() {
    everywhere(|start| {
        let mut init = start.options(&["--grace", NEVER]).main("echo 0").spawn();
        init.expect("ready");
        init.signal_and_hear(libc::SIGINT);
        init.signal_and_hear(libc::SIGINT);
        init.signal(libc::SIGINT);
        assert_eq!(init.finish().code, 130);
    });
}

#[test]
fn without_a_grace_every_stop_signal_is_forwarded() {
    everywhere(|start| {
        let mut init = start.main("echo 10 exit 7").spawn();
        init.expect("ready");
        for number in [[libc::SIGINT; 5], [libc::SIGTERM; 5]].into_iter().flatten() {
            init.signal_and_hear(number);
        }
        init.signal(libc::SIGUSR1);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn a_signal_that_was_ignored_at_our_start_is_only_forwarded() {
    everywhere(|start| {
        let ignored = Signals::of(&[libc::SIGTERM]);
        let start = delayed(start).options(&["--grace", "24h"]).with_signals(Signals::NONE, ignored);
        let mut init = ready(start, "name main echo 15 exit 7", &["main"]);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!((finished.code, finished.stderr.as_str()), (7, ""));
    });
}

#[test]
fn other_stop_signals_can_be_named() {
    everywhere(|start| {
        let mut init = delayed(start).options(&["--stop-signals", "QUIT,USR2"]).main("echo 0").spawn();
        init.expect("ready");
        init.signal_and_hear(libc::SIGTERM);
        init.signal_and_hear(libc::SIGINT);
        init.signal(libc::SIGQUIT);
        init.wait_until_idle();
        init.signal_and_hear(libc::SIGTERM);
        init.wait_for_stderr("SIGQUIT");
    });
}

#[test]
fn main_gets_the_stop_signal_through_the_map() {
    everywhere(|start| {
        let start = start.options(&["--delay", "100ms", "--signal-map", "TERM=QUIT"]);
        let mut init = start.main("echo 3 exit 7").spawn();
        init.expect("ready");
        stop(&mut init);
        init.hear(libc::SIGQUIT);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn a_stop_signal_that_the_map_drops_still_begins_the_stop() {
    everywhere(|start| {
        let start = start.options(&["--signal-map", "TERM=", "--grace", "500ms"]);
        let mut init = ready(start, "name main echo 0", &["main"]);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("main: got")), (124, 0), "{}", finished.stdout);
    });
}

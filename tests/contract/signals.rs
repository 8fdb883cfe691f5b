//! Signals reach main: all of them, once, and whenever they come.

use crate::harness::{Signals, Start, drop_capability, lacks, set_limit};

use super::{ordinary, pid1, promise, signalling_the_group};

/// What an entry hook may take; the dynamic loader needs tens of thousands.
const FIRST_INSTRUCTIONS: usize = 40;

/// Everything that can be caught, but for SIGCHLD (the init's own) and glibc's internal 32 and 33.
fn forwardable() -> impl Iterator<Item = i32> {
    let kept_back = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, 32, 33];
    Signals::ALL.numbers().filter(move |number| !kept_back.contains(number))
}

fn echoes_every_signal_once(start: Start) {
    let mut init = start.main("echo 0").spawn();
    init.expect("ready");
    for number in forwardable() {
        init.signal_and_hear(number);
    }
    // The fence: a signal that had been forwarded twice would be heard before this one.
    init.signal_and_hear(libc::SIGUSR1);
}

#[test]
fn every_signal_reaches_main_exactly_once() {
    promise(|| echoes_every_signal_once(pid1()));
}

#[test]
fn every_signal_reaches_main_exactly_once_below_an_ordinary_process() {
    promise(|| echoes_every_signal_once(ordinary()));
}

#[test]
fn every_signal_reaches_the_group_exactly_once() {
    promise(|| echoes_every_signal_once(signalling_the_group()));
}

#[test]
fn a_real_time_signal_keeps_its_value() {
    promise(|| {
        let mut init = pid1().main("echo 0").spawn();
        init.expect("ready");
        for (number, value) in [(libc::SIGRTMIN(), 1), (libc::SIGRTMIN() + 3, -7), (libc::SIGRTMAX(), i32::MAX)] {
            init.init().queue(number, value);
            init.expect(&format!("got {number} code {} value {value}", libc::SI_QUEUE));
        }
    });
}

#[test]
fn real_time_signals_of_one_number_do_not_coalesce() {
    promise(|| {
        let mut init = pid1().main("echo 0").spawn();
        init.expect("ready");
        let process = init.init();
        process.signal(libc::SIGSTOP);
        init.wait_until("the init to stop", |_| process.is_stopped());
        (1..=20).for_each(|value| process.queue(libc::SIGRTMIN(), value));
        process.signal(libc::SIGCONT);
        // CONT is forwarded, too.
        let heard: Vec<String> = (0..21).map(|_| init.line()).collect();
        assert_eq!(heard.iter().filter(|line| line.starts_with("got 34 ")).count(), 20, "{heard:?}");
    });
}

#[test]
fn a_signal_goes_to_main_alone() {
    promise(|| {
        let mut init = pid1().main("child [ name member echo 0 ] echo 0").spawn();
        let readies = [init.line(), init.line()];
        assert!(readies.contains(&"member: ready".into()));
        init.signal_and_hear(libc::SIGUSR1);
        init.signal_and_hear(libc::SIGUSR2);
    });
}

#[test]
fn in_group_mode_a_signal_reaches_every_member_of_mains_group() {
    promise(|| {
        let mut init = signalling_the_group().main("child [ name member echo 0 ] echo 0").spawn();
        let _readies = [init.line(), init.line()];
        init.signal(libc::SIGHUP);
        let mut heard = [init.line(), init.line()];
        heard.sort();
        assert_eq!(heard, ["got 1 code 0 value 0", "member: got 1 code 0 value 0"]);
    });
}

/// In group mode the init signals a group that main may not have made yet. strace holds back every setpgid.
#[test]
fn a_signal_before_the_group_exists_is_not_lost() {
    promise(|| {
        if lacks("strace") {
            return;
        }
        let held_back = ["strace", "-f", "-o/dev/null", "-etrace=setpgid", "-einject=setpgid:delay_enter=300000"];
        let mut init = signalling_the_group().below(&held_back, 1).main("pause").spawn();
        init.main();
        init.signal(libc::SIGTERM);
        assert_eq!(init.finish().code, 143);
    });
}

#[test]
fn a_signal_while_the_child_is_being_made_is_not_lost() {
    promise(|| {
        if lacks("strace") {
            return;
        }
        let calls = "clone,clone3,?fork,?vfork";
        let trace = format!("-etrace={calls}");
        let inject = format!("-einject={calls}:delay_exit=300000");
        let mut init = pid1().below(&["strace", "-f", "-o/dev/null", &trace, &inject], 1).main("pause").spawn();
        init.main();
        init.signal(libc::SIGTERM);
        assert_eq!(init.finish().code, 143);
    });
}

/// A signal that arrived before the init's first instruction, kept by a mask that the init inherits.
#[test]
fn a_signal_that_is_pending_at_entry_reaches_main() {
    promise(|| {
        let usr1 = libc::SIGUSR1;
        let start = pid1().with_signals(Signals::of(&[usr1]), Signals::NONE).before_exec(move || {
            // SAFETY: the signal is blocked.
            unsafe { libc::raise(usr1) };
            Ok(())
        });
        let mut init = start.main("echo 0").spawn();
        init.expect("ready");
        init.hear(libc::SIGUSR1);
    });
}

#[test]
fn a_stopped_main_gets_its_signal_when_it_continues() {
    promise(|| {
        let mut init = pid1().main("say ready stop pause").spawn();
        init.expect("ready");
        let main = init.main();
        init.wait_until("main to stop", |_| main.is_stopped());
        init.signal(libc::SIGHUP);
        let process = init.init();
        init.wait_until("the init to forward", |_| process.is_idle());
        main.signal(libc::SIGCONT);
        assert_eq!(init.finish().code, 128 + libc::SIGHUP);
    });
}

/// A process that the init may not signal: main has given up root, and the init has no CAP_KILL.
#[test]
fn a_signal_that_may_not_be_forwarded_is_not_the_end() {
    promise(|| {
        const CAP_KILL: libc::c_ulong = 5;
        let start = pid1().before_exec(|| drop_capability(CAP_KILL));
        let mut init = start.main("echo 10 user 1000 echo 15 exit 7").spawn();
        init.expect("ready");
        // Heard, so the start is over: catatonit's ends with an attempt of its own to signal main.
        init.signal_and_hear(libc::SIGUSR1);
        init.expect("ready");
        init.signal(libc::SIGUSR1);
        let process = init.init();
        init.wait_until("the attempt", |_| process.is_idle());
        init.main().signal(libc::SIGTERM);
        assert_eq!(init.finish().code, 7);
    });
}

/// Main makes orphans, plays the rest of its words, and more processes than processors send it one signal without a pause.
/// The limit of queued signals is counted for a whole user: a low one leaves the other tests theirs.
fn flooded_by(number: i32, rest: &str) -> Start {
    let flooders = format!("orphan [ blast 1 {number} ] ").repeat(3);
    let start = pid1().before_exec(|| set_limit(libc::RLIMIT_SIGPENDING, 1000));
    start.main(&format!("ignore {number} {flooders} orphans 100 {rest}"))
}

#[test]
fn a_flood_does_not_hide_the_end_of_main() {
    promise(|| {
        for number in [libc::SIGHUP, libc::SIGURG, libc::SIGRTMIN() + 5] {
            assert_eq!(flooded_by(number, "exit 7").run().code, 7);
        }
    });
}

#[test]
fn a_flood_does_not_stop_reaping() {
    promise(|| {
        let mut init = flooded_by(libc::SIGUSR1, "say made pause").spawn();
        init.expect("made");
        init.wait_until("main and the flooders alone", |init| init.init().children().len() == 4);
    });
}

/// Not even its first signals: a process 1 loses for ever what comes before it blocks or handles signals.
#[test]
fn every_signal_is_blocked_within_the_first_instructions() {
    promise(|| {
        // A single step unblocks SIGTRAP in whom it leads: the kernel forces the trap on it.
        let all_but_trap = Signals(Signals::BLOCKABLE.0 & !Signals::of(&[libc::SIGTRAP]).0);
        let mut blocked = Signals::NONE;
        let start = pid1().main("exit 7");
        let init = start.spawn_after_instructions(FIRST_INSTRUCTIONS, |init| blocked = init.signals("SigBlk"));
        assert_eq!(blocked, all_but_trap);
        assert_eq!(init.finish().code, 7);
    });
}

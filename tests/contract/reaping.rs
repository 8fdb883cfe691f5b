//! No zombie stays, and the end of main is never missed.

use crate::harness::{Running, Start};

use super::{ordinary, pid1, promise};

fn reaps_three_thousand_orphans(start: Start) {
    let mut init = start.main("orphans 3000 say made pause").spawn();
    init.expect("made");
    let main = init.main();
    init.wait_until("only main is left", |init| init.init().children() == [main]);
}

#[test]
fn thousands_of_orphans_are_reaped() {
    promise(|| reaps_three_thousand_orphans(pid1()));
}

#[test]
fn an_ordinary_process_adopts_and_reaps_orphans() {
    promise(|| reaps_three_thousand_orphans(ordinary()));
}

#[test]
fn an_orphan_that_lives_on_is_adopted() {
    promise(|| {
        let mut init = ordinary().main("orphan [ say orphaned pause ] pause").spawn();
        init.expect("orphaned");
        init.wait_until("two children", |init| init.init().children().len() == 2);
    });
}

/// Stops the init, lets main and an orphan end in this order, and continues it: it sees one SIGCHLD for both.
fn both_end_at_once(init: &mut Running, first_ends_main: bool) {
    init.expect("ready");
    let process = init.init();
    init.wait_until("two children", |_| process.children().len() == 2);
    let mut mortals = process.children();
    if !first_ends_main {
        mortals.reverse();
    }
    process.signal(libc::SIGSTOP);
    init.wait_until("the init to stop", |_| process.is_stopped());
    for mortal in mortals {
        mortal.signal(libc::SIGKILL);
        init.wait_until("the end of a child", |_| mortal.is_gone());
    }
    process.signal(libc::SIGCONT);
}

#[test]
fn one_sigchld_for_main_and_an_orphan_is_enough() {
    promise(|| {
        for first_ends_main in [true, false] {
            let mut init = pid1().main("orphan [ pause ] say ready pause").spawn();
            both_end_at_once(&mut init, first_ends_main);
            assert_eq!(init.finish().code, 137);
        }
    });
}

#[test]
fn a_main_that_ends_beside_an_orphan_is_never_missed() {
    promise(|| {
        for _ in 0..100 {
            assert_eq!(pid1().main("orphan [ nap 1 ] orphan [ nap 1 ] nap 1 exit 7").run().code, 7);
        }
    });
}

#[test]
fn a_main_that_ends_at_once_is_not_missed() {
    promise(|| {
        for _ in 0..100 {
            assert_eq!(pid1().command(&["true"]).run().code, 0);
        }
    });
}

/// That a child stops is nothing to wait for.
#[test]
fn a_stopped_orphan_is_not_taken_for_a_dead_one() {
    promise(|| {
        let mut init = pid1().main("orphan [ say stopping stop pause ] echo 15 exit 7").spawn();
        let mut said = [init.line(), init.line()];
        said.sort();
        assert_eq!(said, ["ready", "stopping"]);
        let orphan = init.init().children()[1];
        init.wait_until("the orphan to stop", |_| orphan.is_stopped());
        init.signal_and_hear(libc::SIGUSR1);
        assert!(orphan.is_stopped());
        init.signal(libc::SIGTERM);
        assert_eq!(init.finish().code, 7);
    });
}

//! Whom outro adopts, and what it says about those it reaps.

use crate::harness::Start;

/// The parent of an orphan, below an outro that is process 2 and not 1.
fn parent_of_an_orphan(start: Start) -> String {
    let mut init = start.not_as_pid1().main("orphan [ family ] pause").spawn();
    init.line().split(' ').nth(3).unwrap().to_owned()
}

#[test]
fn below_another_init_we_adopt_orphans() {
    assert_eq!(parent_of_an_orphan(Start::outro()), "2");
    assert_eq!(parent_of_an_orphan(Start::outro().options(&["-s"])), "2");
    assert_eq!(parent_of_an_orphan(Start::outro().env("OUTRO_SUBREAPER", "1")), "2");
    assert_eq!(parent_of_an_orphan(Start::outro().env("TINI_SUBREAPER", "")), "2");
}

#[test]
fn we_do_not_adopt_orphans_when_told_not_to() {
    for off in ["0", "false", "no", "off"] {
        assert_eq!(parent_of_an_orphan(Start::outro().env("OUTRO_SUBREAPER", off)), "1");
    }
}

/// What is said when three orphans end in three ways.
fn said_about_orphans(start: Start) -> String {
    let mut init = start.main("orphan [ exit 3 ] orphan [ exit 0 ] orphan [ die 9 ] echo 10").spawn();
    init.expect("ready");
    init.wait_until("only main is left", |init| init.init().children().len() == 1);
    init.signal(libc::SIGUSR1);
    init.finish().stderr
}

#[test]
fn reaped_orphans_are_mentioned_when_asked_for() {
    for start in [
        Start::outro().options(&["-w"]),
        Start::outro().options(&["--warn-on-reap"]),
        Start::outro().env("OUTRO_WARN_ON_REAP", "1"),
    ] {
        let said = said_about_orphans(start);
        assert_eq!(said.lines().count(), 3, "{said}");
        assert!(said.lines().all(|line| line.starts_with("outro: ")), "{said}");
    }
}

#[test]
fn reaped_orphans_are_not_mentioned_otherwise() {
    assert_eq!(said_about_orphans(Start::outro()), "");
    assert_eq!(said_about_orphans(Start::outro().env("OUTRO_WARN_ON_REAP", "0")), "");
}

/// Main's own children are its own business until it ends.
#[test]
fn a_zombie_of_a_living_parent_is_left_to_it() {
    let mut init = Start::outro().main("child [ exit 0 ] say ready pause").spawn();
    init.expect("ready");
    let main = init.main();
    init.wait_until("a zombie", |_| main.children().iter().any(|child| child.is_gone()));
    init.signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 143);
}

/// The nearest init adopts: an inner one leaves nothing to the outer one.
#[test]
fn one_init_below_another_works() {
    let inner = crate::harness::outro();
    let actor = crate::harness::actor();
    let words = [inner.to_str().unwrap(), "--", actor.to_str().unwrap(), "orphan", "[", "family", "]", "echo", "15"];
    let mut outer = Start::outro().command(&words).spawn();
    let mut said = [outer.line(), outer.line()];
    said.sort();
    assert!(said[0].contains("parent 2 "), "{said:?}");
    outer.signal(libc::SIGTERM);
    assert_eq!(outer.finish().code, 0);
}

#[test]
fn a_main_that_asks_to_be_traced_is_let_go() {
    let finished = Start::outro().main("ignore 1 traceme orphan [ exit 0 ] kill 0 1 say alive exit 7").run();
    assert_eq!((finished.code, finished.stdout.as_str()), (7, "alive\n"), "{}", finished.stderr);
}

//! The exit code of a stop.

use super::{NEVER, ready, stop};
use crate::harness::{Start, everywhere, side_by_side};

/// The code after a stop that main answers by ending as `end` says.
fn code(start: Start, options: &[&str], end: &str) -> i32 {
    let mut init = ready(start.options(options), &format!("name main echo 15 {end}"), &["main"]);
    stop(&mut init);
    init.finish().code
}

#[test]
fn the_map_is_applied_and_then_the_code_for_a_stop() {
    let cases: [(&[&str], &str, i32); 12] = [
        (&[], "exit 0", 0),
        (&[], "exit 3", 3),
        (&[], "die 15", 143),
        (&["--exit-on-stop", "143"], "exit 0", 143),
        (&["--exit-on-stop", "143"], "exit 3", 3),
        (&["--exit-on-stop", "75"], "die 15", 143),
        (&["--exit-on-stop", "75", "-e", "143"], "die 15", 75),
        (&["--exit-on-stop", "75", "-e", "0=5"], "exit 0", 5),
        (&["--exit-on-stop", "75", "-e", "3=0"], "exit 3", 75),
        (&["--exit-on-stop", "75", "-e", "75=1"], "exit 0", 75),
        (&["--exit-on-stop", "0", "-e", "143"], "die 15", 0),
        (&["--exit-on-stop", "75", "--grace", NEVER], "exit 0", 75),
    ];
    side_by_side(cases.map(|case| (case.0.join(" "), case)), |(options, end, expected)| {
        everywhere(|start| assert_eq!(code(start, options, end), expected));
    });
}

#[test]
fn without_a_stop_there_is_no_code_for_a_stop() {
    everywhere(|start| {
        assert_eq!(start.options(&["--exit-on-stop", "75", "--grace", NEVER]).main("exit 0").run().code, 0);
    });
}

#[test]
fn our_own_codes_are_not_mapped() {
    everywhere(|start| {
        let options = ["--grace", "300ms", "-e", "124=0,130=0,137=0", "--exit-on-stop", "75"];
        assert_eq!(code(start, &options, "echo 0"), 124);
    });
    everywhere(|start| {
        let mut init = start.options(&["--grace", NEVER, "-e", "130=0,137=0"]).main("echo 0").spawn();
        init.expect("ready");
        init.signal_and_hear(libc::SIGINT);
        init.signal_and_hear(libc::SIGINT);
        init.signal(libc::SIGINT);
        assert_eq!(init.finish().code, 130);
    });
}

/// The deadline came, but main had ended before it, with a code of its own.
#[test]
fn a_deadline_that_kills_only_others_leaves_mains_code() {
    everywhere(|start| {
        let start = start.options(&["--grace", "12", "--margin", "10", "--exit-on-deadline", "42"]);
        let words = "orphan [ session name orphan echo 0 ] name main echo 15 exit 3";
        let mut init = ready(start, words, &["orphan", "main"]);
        stop(&mut init);
        assert_eq!(init.finish().code, 3);
    });
}

#[test]
fn a_stop_that_is_still_pending_when_mains_end_is_found_is_not_forgotten() {
    everywhere(|start| {
        let start = start.options(&["--exit-on-stop", "143"]);
        let mut init = ready(start, "name main echo 10 exit 0", &["main"]);
        let (process, main) = (init.init(), init.main());
        process.signal(libc::SIGSTOP);
        init.wait_until("the init to stop", |_| process.is_stopped());
        init.signal(libc::SIGHUP);
        init.signal(libc::SIGTERM);
        main.signal(libc::SIGUSR1);
        init.wait_until("main to end", |_| main.state() == Some('Z'));
        process.signal(libc::SIGCONT);
        assert_eq!(init.finish().code, 143);
    });
}

//! The deadline: what happens before it, at it, and that nothing moves it.

use std::time::{Duration, Instant};

use super::{NEVER, Watched, assert_not_before, ms, ready, stop};
use crate::harness::{Running, Start, everywhere, side_by_side};

/// Main hears everything and never ends.
const DEAF: &str = "name main echo 0";

/// A budget of `budget`, whatever the margin would be by itself.
fn with_budget(start: Start, budget: Duration) -> Start {
    let grace = format!("{}ms", budget.as_millis() + 10_000);
    start.options(&["--grace", &grace, "--margin", "10s"])
}

#[test]
fn a_main_that_ignores_the_stop_is_killed_at_the_deadline() {
    let cases: [(&[&str], i32); 4] = [
        (&[], 124),
        (&["--exit-on-deadline", "child"], 137),
        (&["--exit-on-deadline", "42"], 42),
        (&["--exit-on-deadline", "child", "--exit-map", "137=1"], 1),
    ];
    side_by_side(cases.map(|case| (case.0.join(" "), case)), |(options, code)| {
        everywhere(|start| {
            let mut init = ready(with_budget(start, ms(300)).options(options), DEAF, &["main"]);
            let stopped_at = stop(&mut init);
            let finished = init.finish();
            assert_not_before(ms(300), stopped_at);
            assert_eq!(finished.code, code);
        });
    });
}

#[test]
fn nobody_outlives_the_deadline() {
    let words = "orphan [ session ignore 15 name orphan echo 0 ] child [ group name child echo 0 ] name main echo 0";
    let mut watched = Watched::ready(with_budget(Start::outro(), ms(300)), words, &["orphan", "child", "main"]);
    stop(&mut watched.init);
    assert_eq!(watched.finish_when_nobody_is_left().code, 124);
}

/// Whoever is not process 1 kills the processes below it, and nobody else's.
#[test]
fn a_process_that_is_not_ours_survives_the_deadline() {
    let script = r#"actor=$1; shift; "$@" & outro=$!; $actor name sibling echo 10 & sibling=$!
        wait $outro; code=$?; kill -USR1 $sibling; wait $sibling; exit $code"#;
    let actor = crate::harness::actor();
    let wrapper = ["sh", "-c", script, "sh", actor.to_str().unwrap()];
    let start = with_budget(Start::outro().below(&wrapper, 1), ms(300));
    let mut init =
        ready(start, "orphan [ session name orphan echo 0 ] name main echo 0", &["sibling", "orphan", "main"]);
    stop(&mut init);
    let finished = init.finish();
    assert_eq!(finished.code, 124);
    assert!(finished.stderr.contains("1 other process did not end"), "{}", finished.stderr);
    let heard: Vec<&str> = finished.stdout.lines().filter(|line| line.starts_with("sibling: got")).collect();
    assert_eq!(heard, ["sibling: got 10 code 0 value 0"]);
}

#[test]
fn repeated_stop_signals_do_not_move_the_deadline() {
    let mut init = ready(with_budget(Start::outro(), ms(700)), DEAF, &["main"]);
    let stopped_at = stop(&mut init);
    // Were each of them a new beginning, there would be no end.
    for repeats in 1.. {
        init.wait_until("an echo or the end", |init| {
            init.has_ended() || init.stdout().matches("main: got 15").count() >= repeats
        });
        if init.has_ended() {
            break;
        }
        init.signal(libc::SIGTERM);
    }
    assert_not_before(ms(700), stopped_at);
    let finished = init.finish();
    assert_eq!(finished.code, 124);
    assert!(finished.count("main: got 15") > 2);
}

#[test]
fn a_grace_of_a_fifth_of_a_second_is_enough_to_end() {
    everywhere(|start| {
        let mut init = ready(start.options(&["--grace", "200ms"]), DEAF, &["main"]);
        let stopped_at = stop(&mut init);
        assert_eq!(init.finish().code, 124);
        assert_not_before(ms(100), stopped_at);
    });
}

#[test]
fn a_long_grace_is_not_waited_for() {
    everywhere(|start| {
        let words = "orphan [ session name orphan echo 15 ] name main echo 15 exit 7";
        let mut init = ready(start.options(&["--grace", "24h"]), words, &["orphan", "main"]);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1));
    });
}

/// The whole preparation has passed while nobody could run, and so has the deadline.
#[test]
fn an_init_that_was_frozen_beyond_the_deadline_signals_main_and_then_kills_it() {
    everywhere(|start| {
        let start = with_budget(start, ms(500)).options(&["--delay", NEVER]).env("OUTRO_LOG", "text,debug");
        let mut init = ready(start, DEAF, &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stderr("SIGTERM");
        let process = init.init();
        process.signal(libc::SIGSTOP);
        init.wait_until("the init to stop", |_| process.is_stopped());
        wait_for_time(&mut init, stopped_at + ms(600));
        process.signal(libc::SIGCONT);
        let finished = init.finish();
        assert_eq!(finished.code, 124);
        let position = |words: &str| finished.stderr.find(words).unwrap_or_else(|| panic!("{words}: {finished:?}"));
        assert!(position("SIGTERM to the app") < position("SIGKILL to the app"), "{}", finished.stderr);
    });
}

fn wait_for_time(init: &mut Running, at: Instant) {
    init.wait_until("time to pass", |_| Instant::now() >= at);
}

#[test]
fn preparation_leaves_main_the_reserve() {
    let options: [&[&str]; 2] = [&["--delay", "1h"], &["--drain", "sleep 1000", "--drain-timeout", "1h"]];
    side_by_side(options.map(|options| (options[0], options)), |options| {
        everywhere(|start| {
            let start = with_budget(start, ms(8000)).options(options);
            let mut init = ready(start, "name main echo 15 exit 7", &["main"]);
            let warning = format!("{} of 3600s does not fit", options[options.len() - 2]);
            init.wait_for_stderr(&warning);
            let stopped_at = stop(&mut init);
            init.wait_for_stdout("main: got 15");
            assert_not_before(ms(6000), stopped_at);
            assert_eq!(init.finish().code, 7);
        });
    });
}

/// Others hear TERM because main hangs, and are not told again when it does end.
#[test]
fn when_main_hangs_others_get_term_before_the_deadline_and_only_once() {
    everywhere(|start| {
        let words = "orphan [ session name orphan echo 0 ] name main echo 10 exit 7";
        let mut init = ready(with_budget(start, ms(8000)), words, &["orphan", "main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("orphan: got 15");
        assert_not_before(ms(6000), stopped_at);
        init.signal(libc::SIGUSR1);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1), "{}", finished.stdout);
    });
}

// --- escalation ---

#[test]
fn steps_come_after_the_stop_signal_and_before_the_deadline() {
    everywhere(|start| {
        let start = with_budget(start, ms(3000)).options(&["--escalate", "QUIT@-2s,USR1@300ms"]);
        let mut init = ready(start, "name main echo 3 exit 7", &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("main: got 10");
        assert_not_before(ms(300), stopped_at);
        init.wait_for_stdout("main: got 3");
        assert_not_before(ms(1000), stopped_at);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("main: got 10"), finished.count("main: got 3")), (7, 1, 1));
    });
}

#[test]
fn a_step_is_counted_from_mains_signal_and_needs_no_grace() {
    everywhere(|start| {
        let start = start.options(&["--delay", "200ms", "--escalate", "INT@200ms"]);
        let mut init = ready(start, "name main echo 2 exit 7", &["main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("main: got 15");
        init.wait_for_stdout("main: got 2 ");
        assert_not_before(ms(400), stopped_at);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn steps_are_not_mapped() {
    everywhere(|start| {
        let start = start.options(&["--signal-map", "TERM=HUP,QUIT=USR1", "--escalate", "QUIT@10ms"]);
        let mut init = start.main("echo 3 exit 7").spawn();
        init.expect("ready");
        stop(&mut init);
        init.hear(libc::SIGHUP);
        init.hear(libc::SIGQUIT);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn steps_that_are_too_early_or_too_late_are_skipped_with_a_warning() {
    everywhere(|start| {
        let steps = "HUP@2s,USR2@-1900ms,QUIT@200ms";
        let start = with_budget(start, ms(2000)).options(&["--delay", "300ms", "--escalate", steps]);
        let mut init = ready(start, "name main echo 3 exit 7", &["main"]);
        stop(&mut init);
        let finished = init.finish();
        let heard = [libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR2];
        let heard = heard.map(|number| finished.count(&format!("main: got {number} ")));
        assert_eq!((finished.code, heard), (7, [1, 1, 0, 0]));
        for step in ["HUP@2s", "USR2@-1.9s"] {
            let warned = finished.stderr.lines().any(|line| line.contains(step) && line.contains("skipped"));
            assert!(warned, "{step}: {}", finished.stderr);
        }
    });
}

#[test]
fn no_step_follows_when_main_has_ended() {
    everywhere(|start| {
        let words = "orphan [ session name orphan echo 10 ] name main echo 15 exit 7";
        let start = start.options(&["--grace", NEVER, "--escalate", "QUIT@100ms"]);
        let mut init = ready(start, words, &["orphan", "main"]);
        let stopped_at = stop(&mut init);
        init.wait_for_stdout("orphan: got 15");
        wait_for_time(&mut init, stopped_at + ms(200));
        let process = init.init();
        process.children()[0].signal(libc::SIGUSR1);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("orphan: got 3 ")), (7, 0));
        assert!(!finished.stderr.contains("SIGQUIT"), "{}", finished.stderr);
    });
}

#[test]
fn a_kill_that_was_configured_is_not_denied() {
    everywhere(|start| {
        let mut init = ready(start.options(&["--grace", NEVER, "--escalate", "KILL@10ms"]), DEAF, &["main"]);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!(finished.code, 137);
        assert!(!finished.stderr.contains("did not send"), "{}", finished.stderr);
    });
}

//! Main has ended, others have not.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

use super::{NEVER, Watched, assert_not_before, ms, ready, stop};
use crate::harness::{Finished, Proc, Running, Scratch, Start, actor, everywhere, no_fork_meanwhile, side_by_side};

const ORPHAN: &str = "orphan [ session name orphan echo 15 nap 1000 say saved ] name main echo 15 exit 7";
const DEAF_ORPHAN: &str = "orphan [ session name orphan echo 0 ] name main echo 15 exit 7";

/// A budget of two seconds, and five to reap in.
const TWO_SECONDS: [&str; 4] = ["--grace", "12", "--margin", "10"];

fn stopped(start: Start, words: &str) -> Finished {
    let mut init = ready(start, words, &["orphan", "main"]);
    stop(&mut init);
    init.finish()
}

#[test]
fn an_orphan_has_time_to_save_its_work() {
    everywhere(|start| {
        let finished = stopped(start.options(&["--grace", "20"]), ORPHAN);
        assert_eq!((finished.code, finished.count("orphan: saved")), (7, 1), "{finished:?}");
    });
}

#[test]
fn a_stopped_orphan_is_continued_to_hear_its_signal() {
    everywhere(|start| {
        let words = "orphan [ session name orphan say ready stop exit 0 ] name main echo 15 exit 7";
        let mut init = ready(start.options(&["--grace", NEVER]), words, &["orphan", "main"]);
        let process = init.init();
        init.wait_until("the orphan to stop", |_| process.children().iter().any(|child| child.is_stopped()));
        stop(&mut init);
        assert_eq!(init.finish().code, 7);
    });
}

#[test]
fn an_orphan_that_ignores_term_is_killed_at_the_deadline() {
    everywhere(|start| {
        let mut init = ready(start.options(&TWO_SECONDS), DEAF_ORPHAN, &["orphan", "main"]);
        let stopped_at = stop(&mut init);
        let finished = init.finish();
        assert_not_before(ms(2000), stopped_at);
        assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1));
    });
}

#[test]
fn two_thousand_orphans_are_asked_to_go_and_waited_for() {
    everywhere(|start| {
        let words = format!("{}name main echo 15 exit 7", "child [ pause ] ".repeat(2000));
        let mut init = ready(start.options(&["--grace", NEVER]), &words, &["main"]);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!(finished.code, 7);
        assert!(finished.stderr.contains("SIGTERM to 2000 other"), "{}", finished.stderr);
    });
}

#[test]
fn without_a_grace_nobody_is_waited_for_nor_signalled() {
    let mut watched = Watched::ready(Start::outro(), DEAF_ORPHAN, &["orphan", "main"]);
    stop(&mut watched.init);
    assert_eq!(watched.left().len(), 1);
    let finished = watched.finish();
    assert_eq!((finished.code, finished.count("orphan: got")), (7, 0));
    let finished = stopped(Start::outro(), DEAF_ORPHAN);
    assert_eq!((finished.code, finished.count("orphan: got")), (7, 0));
}

/// Main ends without having been asked, while an orphan is there.
fn ends_by_itself(start: Start, words: &str) -> (Finished, Instant) {
    let mut init = ready(start, words, &["orphan", "main"]);
    let ended_at = Instant::now();
    init.signal(libc::SIGUSR1);
    (init.finish(), ended_at)
}

const DEAF_ORPHAN_UNASKED: &str = "orphan [ session name orphan echo 0 ] name main echo 10 exit 7";

#[test]
fn when_main_ends_by_itself_others_have_two_seconds() {
    everywhere(|start| {
        let (finished, ended_at) = ends_by_itself(start.options(&["--grace", NEVER]), DEAF_ORPHAN_UNASKED);
        assert_not_before(ms(2000), ended_at);
        assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1));
    });
}

#[test]
fn when_main_ends_by_itself_without_a_grace_that_is_the_end() {
    everywhere(|start| {
        let (finished, _) = ends_by_itself(start, DEAF_ORPHAN_UNASKED);
        assert_eq!((finished.code, finished.count("orphan: got")), (7, 0));
        assert_eq!(finished.stderr, "");
    });
}

/// So soon after each other that the orphan may not have heard the one before the other.
#[track_caller]
fn assert_asked_and_killed(finished: &Finished) {
    let said = &finished.stderr;
    assert!(said.contains("SIGTERM to 1 other") && said.contains("1 other process did not end"), "{said}");
    assert_eq!(finished.code, 7);
}

#[test]
fn how_long_others_may_finish_can_be_said() {
    let options: [&[&str]; 2] = [&["--linger", "400ms"], &["--linger", "400ms", "--grace", NEVER]];
    side_by_side(options.map(|options| (options.join(" "), options)), |options| {
        everywhere(|start| {
            let mut init = ready(start.options(options), DEAF_ORPHAN, &["orphan", "main"]);
            let stopped_at = stop(&mut init);
            let finished = init.finish();
            assert_not_before(ms(400), stopped_at);
            assert_asked_and_killed(&finished);
        });
        everywhere(|start| {
            let (finished, ended_at) = ends_by_itself(start.options(options), DEAF_ORPHAN_UNASKED);
            assert_not_before(ms(400), ended_at);
            assert_asked_and_killed(&finished);
        });
    });
}

#[test]
fn no_time_to_finish_means_no_signal_either() {
    everywhere(|start| {
        let finished = stopped(start.options(&["--linger", "0", "--grace", NEVER]), DEAF_ORPHAN);
        assert_eq!((finished.code, finished.count("orphan: got")), (7, 0));
    });
}

#[test]
fn a_long_time_to_finish_ends_at_the_deadline() {
    everywhere(|start| {
        let start = start.options(&TWO_SECONDS).options(&["--linger", NEVER]);
        let finished = stopped(start, DEAF_ORPHAN);
        assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1));
        assert!(finished.stderr.contains("--linger of 3600s does not fit"), "{}", finished.stderr);
    });
}

/// The time runs from main's end, and nobody drains for an application that is gone.
#[test]
fn a_stop_after_mains_end_changes_nothing() {
    everywhere(|start| {
        let options = ["--grace", NEVER, "--delay", NEVER, "--drain", "echo drained", "--exit-on-stop", "99"];
        let words = DEAF_ORPHAN_UNASKED.replace("exit 7", "exit 0");
        let mut init = ready(start.options(&options), &words, &["orphan", "main"]);
        init.signal(libc::SIGUSR1);
        init.wait_for_stdout("orphan: got 15");
        for number in [libc::SIGTERM, libc::SIGTERM, libc::SIGINT] {
            init.signal(number);
            init.wait_until_idle();
        }
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("drained"), finished.count("orphan: got 15")), (0, 0, 1));
    });
}

#[test]
fn in_group_mode_mains_group_is_not_told_twice() {
    everywhere(|start| {
        // The last signal has a higher number than TERM, since of two the lower is heard first.
        let words = "child [ name member echo 23 ] orphan [ session name orphan echo 15 ] name main echo 15 exit 7";
        let start = start.options(&["-g", "--grace", NEVER]);
        let mut init = ready(start, words, &["member", "orphan", "main"]);
        let member = init.main().children()[0];
        stop(&mut init);
        init.wait_for_stdout("orphan: got 15");
        init.wait_until("the end of the orphan", |init| init.init().children() == [member]);
        init.wait_until_idle();
        member.signal(libc::SIGURG);
        let finished = init.finish();
        assert_eq!((finished.code, finished.count("member: got 15")), (7, 1), "{}", finished.stdout);
    });
}

#[test]
fn nobody_has_to_be_waited_for_when_nobody_is_left() {
    everywhere(|start| {
        let mut init = ready(start.options(&["--grace", NEVER]), "orphans 10 name main echo 15 exit 7", &["main"]);
        init.wait_until("main to be alone", |init| init.init().children().len() == 1);
        stop(&mut init);
        let finished = init.finish();
        assert_eq!(finished.code, 7);
        assert!(!finished.stderr.contains("other"), "{}", finished.stderr);
    });
}

#[test]
fn a_person_can_end_the_waiting() {
    everywhere(|start| {
        let mut init = ready(start.options(&["--grace", NEVER]), DEAF_ORPHAN, &["orphan", "main"]);
        stop(&mut init);
        init.wait_for_stdout("orphan: got 15");
        for _ in 0..2 {
            init.signal(libc::SIGINT);
            init.wait_until_idle();
        }
        init.signal(libc::SIGINT);
        assert_eq!(init.finish().code, 130);
    });
}

// --- without a /proc of ours ---

const UNUSABLE: [(&str, Proc); 2] = [("no /proc", Proc::None), ("a foreign /proc", Proc::Foreign)];

#[test]
fn without_proc_everyone_below_process_1_gets_term() {
    side_by_side(UNUSABLE, |proc| {
        let finished = stopped(Start::outro().with_proc(proc).options(&["--grace", NEVER]), ORPHAN);
        assert_eq!((finished.code, finished.count("orphan: saved")), (7, 1), "{finished:?}");
    });
}

#[test]
fn without_proc_an_ordinary_process_signals_mains_group() {
    side_by_side(UNUSABLE, |proc| {
        let words = "child [ name orphan echo 15 nap 1000 say saved ] name main echo 15 exit 7";
        let start = Start::outro().not_as_pid1().with_proc(proc).options(&["--grace", NEVER]);
        let finished = stopped(start, words);
        assert_eq!((finished.code, finished.count("orphan: saved")), (7, 1), "{finished:?}");
    });
}

#[test]
fn without_proc_nobody_gets_term_twice() {
    let words = "orphan [ session name orphan echo 0 ] name main echo 10 exit 7";
    let start = Start::outro().with_proc(Proc::None).options(&["--grace", "10", "--margin", "2"]);
    let mut init = ready(start, words, &["orphan", "main"]);
    stop(&mut init);
    init.wait_for_stdout("orphan: got 15");
    init.signal(libc::SIGUSR1);
    let finished = init.finish();
    assert_eq!((finished.code, finished.count("orphan: got 15")), (7, 1), "{}", finished.stdout);
}

#[test]
fn without_proc_process_1_kills_everyone_at_the_deadline() {
    side_by_side(UNUSABLE, |proc| {
        let start = Start::outro().with_proc(proc).options(&TWO_SECONDS);
        assert_eq!(stopped(start, DEAF_ORPHAN).code, 7);
    });
}

/// Main's is the only group that is known without a /proc.
#[test]
fn without_proc_an_ordinary_process_kills_mains_group_at_the_deadline() {
    side_by_side(UNUSABLE, |proc| {
        let start = Start::outro().with_proc(proc).options(&TWO_SECONDS);
        let words = "child [ name orphan echo 0 ] name main echo 15 exit 7";
        let mut watched = Watched::ready(start, words, &["orphan", "main"]);
        stop(&mut watched.init);
        assert_eq!(watched.finish_when_nobody_is_left().code, 7);
    });
}

// --- sessions that were brought in from outside ---

/// A process in the namespace whose parent is outside, as `docker exec` makes one.
struct Session {
    process: Child,
    said: PathBuf,
    _scratch: Scratch,
}

impl Session {
    fn enter(init: &mut Running, words: &str) -> Session {
        let scratch = Scratch::new();
        let said = scratch.join("said");
        let output = File::create(&said).unwrap();
        let target = init.init().0.to_string();
        let mut command = Command::new("nsenter");
        command
            .args(["--pid", "--mount", "--target", &target, "--"])
            .arg(actor())
            .args(words.split(' '))
            .stdout(output);
        let process = {
            let _guard = no_fork_meanwhile();
            command.spawn().unwrap()
        };
        let session = Session { process, said, _scratch: scratch };
        init.wait_until("the session to be ready", |_| session.said().contains("ready\n"));
        session
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }
}

#[test]
fn a_session_from_outside_is_neither_signalled_nor_waited_for_and_ends_with_process_1() {
    let mut init = ready(Start::outro().options(&["--grace", NEVER]), ORPHAN, &["orphan", "main"]);
    let mut session = Session::enter(&mut init, "echo 0");
    stop(&mut init);
    let finished = init.finish();
    assert_eq!((finished.code, finished.count("orphan: saved")), (7, 1));
    assert_eq!(session.process.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert_eq!(session.said(), "ready\n");
}

#[test]
fn a_session_from_outside_is_not_waited_for_when_it_is_all_that_is_left() {
    let mut init = ready(Start::outro().options(&["--grace", NEVER]), "name main echo 15 exit 7", &["main"]);
    let mut session = Session::enter(&mut init, "echo 0");
    stop(&mut init);
    assert_eq!(init.finish().code, 7);
    assert_eq!(session.process.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert_eq!(session.said(), "ready\n");
}

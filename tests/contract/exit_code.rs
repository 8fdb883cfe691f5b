//! The init ends as main ended.

use std::fs;

use crate::harness::{Scratch, Signals, Start};

use super::{ordinary, pid1, promise};

#[test]
fn every_exit_code_of_main_is_passed_on() {
    promise(|| {
        for code in 0..=255 {
            assert_eq!(pid1().main(&format!("exit {code}")).run().code, code);
        }
    });
}

#[test]
fn a_main_that_a_signal_kills_gives_128_and_the_number() {
    promise(|| {
        let harmless =
            [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let deadly = Signals::ALL.numbers().filter(|number| !harmless.contains(number));
        for number in deadly.filter(|&number| number != libc::SIGSTOP && number != 32 && number != 33) {
            assert_eq!(pid1().main(&format!("die {number}")).run().code, 128 + number);
        }
    });
}

#[test]
fn the_code_is_the_same_below_an_ordinary_process() {
    promise(|| {
        assert_eq!(ordinary().main("exit 7").run().code, 7);
        assert_eq!(ordinary().main("die 9").run().code, 137);
    });
}

#[test]
fn a_failed_orphan_does_not_change_the_code() {
    promise(|| {
        assert_eq!(pid1().main("orphan [ exit 3 ] child [ die 9 ] wait exit 7").run().code, 7);
    });
}

fn code_of(start: Start, program: &str) -> i32 {
    start.command(&[program]).run().code
}

#[test]
fn a_program_that_is_not_found_gives_127() {
    promise(|| {
        for missing in ["/nonexistent/program", "nonexistent-program", "./nonexistent-program", ""] {
            assert_eq!(code_of(pid1(), missing), 127, "{missing:?}");
        }
    });
}

#[test]
fn a_program_without_its_interpreter_gives_127() {
    promise(|| {
        let scratch = Scratch::new();
        let script = scratch.file("script", "#!/nonexistent/interpreter\n", 0o755);
        assert_eq!(code_of(pid1(), script.to_str().unwrap()), 127);
    });
}

#[test]
fn a_file_that_may_not_be_executed_gives_126() {
    promise(|| {
        let scratch = Scratch::new();
        let not_executable = scratch.file("not-executable", "#!/bin/sh\n", 0o644);
        assert_eq!(code_of(pid1(), not_executable.to_str().unwrap()), 126);
        assert_eq!(code_of(pid1(), scratch.path().to_str().unwrap()), 126);
    });
}

#[test]
fn any_other_reason_not_to_execute_gives_126() {
    promise(|| {
        let scratch = Scratch::new();
        let program = scratch.file("program", "#!/bin/sh\n", 0o755);
        let below_a_file = program.join("program");
        assert_eq!(code_of(pid1(), below_a_file.to_str().unwrap()), 126, "ENOTDIR");

        let circle = scratch.join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        assert_eq!(code_of(pid1(), circle.to_str().unwrap()), 126, "ELOOP");

        let too_long = "a".repeat(300);
        assert_eq!(code_of(pid1(), &format!("/{too_long}")), 126, "ENAMETOOLONG");

        let _open_for_writing = fs::OpenOptions::new().append(true).open(&program).unwrap();
        assert_eq!(code_of(pid1(), program.to_str().unwrap()), 126, "ETXTBSY");
    });
}

#[test]
fn the_code_arrives_when_sigchld_was_ignored_at_entry() {
    promise(|| {
        let ignored = Signals::of(&[libc::SIGCHLD]);
        assert_eq!(pid1().with_signals(Signals::NONE, ignored).main("orphan [ exit 1 ] exit 7").run().code, 7);
        assert_eq!(ordinary().with_signals(Signals::NONE, ignored).main("exit 7").run().code, 7);
    });
}

#[test]
fn the_code_arrives_when_every_signal_was_blocked_or_ignored_at_entry() {
    promise(|| {
        let everything = Signals::BLOCKABLE;
        assert_eq!(pid1().with_signals(everything, Signals::NONE).main("exit 7").run().code, 7);
        let not_ignorable = [libc::SIGCHLD, 32, 33];
        let everything: Vec<i32> = everything.numbers().filter(|number| !not_ignorable.contains(number)).collect();
        assert_eq!(pid1().with_signals(Signals::NONE, Signals::of(&everything)).main("exit 7").run().code, 7);
    });
}

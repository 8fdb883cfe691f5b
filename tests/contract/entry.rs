//! What the init makes of its command line, and what it can start.

use crate::harness::{Proc, Scratch, Start, fill_with_nothing};

use super::{init, ordinary, pid1, promise};

#[test]
fn options_of_the_command_are_not_the_inits() {
    promise(|| {
        let shell = init().bare().options(&["sh", "-c", "exit 7"]).run();
        assert_eq!(shell.code, 7);
        let listing = init().bare().options(&["ls", "-l", "/"]).run();
        assert_eq!(listing.code, 0);
        assert!(listing.stdout.contains("root"), "{}", listing.stdout);
    });
}

#[test]
fn two_dashes_end_the_options() {
    promise(|| {
        assert_eq!(init().bare().options(&["--", "sh", "-c", "exit 7"]).run().code, 7);
        assert_eq!(pid1().options(&["--", "echo", "--", "-v"]).run().stdout, "-- -v\n");
    });
}

#[test]
fn a_program_is_looked_up_in_path() {
    promise(|| {
        let scratch = Scratch::new();
        scratch.file("greet", "#!/bin/sh\necho found\n", 0o755);
        let path = format!("/nonexistent:{}:/bin", scratch.path().display());
        assert_eq!(pid1().env("PATH", path).command(&["greet"]).run().stdout, "found\n");
    });
}

#[test]
fn a_file_without_permission_does_not_end_the_search_in_path() {
    promise(|| {
        let (closed, open) = (Scratch::new(), Scratch::new());
        closed.file("greet", "#!/bin/sh\n", 0o644);
        open.file("greet", "#!/bin/sh\necho found\n", 0o755);
        let path = format!("{}:{}", closed.path().display(), open.path().display());
        assert_eq!(pid1().env("PATH", path).command(&["greet"]).run().stdout, "found\n");
        let path = closed.path().to_str().unwrap();
        assert_eq!(pid1().env("PATH", path).command(&["greet"]).run().code, 126);
    });
}

#[test]
fn a_script_without_an_interpreter_line_is_a_shell_script() {
    promise(|| {
        let scratch = Scratch::new();
        let script = scratch.file("script", "echo \"$0 $*\"; exit 7\n", 0o755);
        let finished = pid1().command(&[script.to_str().unwrap(), "one", "two words"]).run();
        assert_eq!(finished.code, 7);
        assert_eq!(finished.stdout, format!("{} one two words\n", script.display()));
    });
}

#[test]
fn no_proc_is_needed() {
    promise(|| {
        let without_proc = |start: Start| start.with_proc(Proc::None).main("orphans 3 exit 7").run().code;
        assert_eq!(without_proc(pid1()), 7);
        assert_eq!(without_proc(ordinary()), 7);
    });
}

#[test]
fn no_dev_is_needed() {
    promise(|| {
        for closed in [&[][..], &[0], &[0, 1, 2]] {
            let start = pid1().without_descriptors(closed).before_exec(|| fill_with_nothing(c"/dev"));
            assert_eq!(start.main("exit 7").run().code, 7);
        }
    });
}

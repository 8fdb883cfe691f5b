//! On a terminal: main gets it if we had it, gives it back, and job control works as without an init.

use std::io::Write;
use std::os::fd::AsRawFd;

use crate::harness::{Running, Start, actor, lacks, outro};

fn on_a_terminal() -> Start {
    Start::outro().on_a_terminal()
}

fn echoing(start: Start) -> Running {
    let mut init = start.main("echo 0").spawn();
    init.expect("ready");
    init
}

fn type_in(init: &Running, keys: &str) {
    init.terminal().write_all(keys.as_bytes()).unwrap();
}

const CTRL_C: &str = "\x03";
const CTRL_BACKSLASH: &str = "\x1c";
const CTRL_Z: &str = "\x1a";

#[test]
fn a_key_signals_main_alone() {
    for (key, number) in [(CTRL_C, libc::SIGINT), (CTRL_BACKSLASH, libc::SIGQUIT), (CTRL_Z, libc::SIGTSTP)] {
        let mut init = echoing(on_a_terminal());
        type_in(&init, key);
        // The terminal echoes the key as ^C, without a new line.
        let line = init.line();
        assert!(line.ends_with(&format!("got {number} code {} value 0", libc::SI_KERNEL)), "{line}");
        // The fence: had we got it as well, main would hear it once more.
        init.signal_and_hear(libc::SIGUSR1);
    }
}

#[test]
fn a_new_window_size_is_told_to_main_once() {
    let mut init = echoing(on_a_terminal());
    let size = libc::winsize { ws_row: 10, ws_col: 20, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` outlives the call.
    assert_eq!(unsafe { libc::ioctl(init.terminal().as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
    init.hear(libc::SIGWINCH);
    init.signal_and_hear(libc::SIGUSR1);
}

#[test]
fn main_can_read_from_the_terminal() {
    for start in [on_a_terminal(), on_a_terminal().not_as_pid1()] {
        let mut init = start.main("terminal read exit 7").spawn();
        init.expect("foreground");
        type_in(&init, "hello\n");
        init.expect("hello");
        init.expect("read hello");
        assert_eq!(init.finish().code, 7);
    }
}

/// A shell script on a terminal, with the actor and outro as its first two arguments.
fn shell(script: &str) -> String {
    let (actor, outro) = (actor(), outro());
    let words = ["-c", script, "sh", actor.to_str().unwrap(), outro.to_str().unwrap()];
    let finished = Start::of("/bin/sh").on_a_terminal().options(&words).run();
    assert_eq!(finished.code, 0, "{}", finished.stdout);
    finished.stdout
}

#[test]
fn the_terminal_is_given_back_at_the_end() {
    assert_eq!(shell("$2 -- $1 terminal exit 3; $1 terminal"), "foreground\nforeground\n");
    assert_eq!(shell("$2 -- $1 terminal die 9 2>/dev/null; $1 terminal"), "foreground\nforeground\n");
}

#[test]
fn the_terminal_is_given_back_when_nothing_could_be_started() {
    assert_eq!(shell("$2 -- /nonexistent 2>/dev/null; $1 terminal"), "foreground\n");
}

#[test]
fn a_start_in_the_background_does_not_take_the_terminal() {
    assert_eq!(shell("set -m; $2 -- $1 terminal & wait; $1 terminal"), "background\nforeground\n");
}

/// The terminal sends TTOU to a background process that writes, and the log is written in the background.
#[test]
fn a_terminal_that_stops_writers_does_not_stop_us() {
    let said = shell("stty tostop; OUTRO_LOG=text,trace $2 -w -- $1 orphans 2 say done exit 0; $1 terminal");
    assert!(said.contains("done\n") && said.ends_with("foreground\n"), "{said}");
}

#[test]
fn a_closed_stdin_does_not_hinder_on_a_terminal() {
    let mut init = on_a_terminal().without_descriptors(&[0]).main("say hello exit 7").spawn();
    init.expect("hello");
    assert_eq!(init.finish().code, 7);
}

#[test]
fn only_the_standard_descriptors_are_handed_down_on_a_terminal() {
    let said = on_a_terminal().main("descriptors exit 0").run().stdout;
    assert_eq!(said.lines().count(), 3, "{said}");
}

/// The flags, O_NONBLOCK among them, of the descriptors that are shared with main.
fn flags(start: Start) -> Vec<String> {
    let said = start.run().stdout;
    said.lines().map(|line| line.split(" flags ").nth(1).unwrap().to_owned()).collect()
}

#[test]
fn the_flags_of_the_terminal_stay_as_they_were() {
    let directly = Start::of(actor()).on_a_terminal().options(&["descriptors"]);
    assert_eq!(flags(on_a_terminal().env("OUTRO_LOG", "text,error").main("descriptors")), flags(directly));
}

#[test]
fn any_error_of_the_terminal_is_passed_over() {
    if lacks("strace") {
        return;
    }
    for error in ["ENXIO", "ENOTTY", "EPERM", "EIO", "EINVAL"] {
        let inject = format!("-einject=ioctl:error={error}");
        let strace = ["strace", "-f", "-o/dev/null", "-etrace=ioctl", &inject];
        let finished = on_a_terminal().below(&strace, 1).main("exit 7").run();
        assert_eq!((finished.code, finished.stdout.as_str()), (7, ""), "{error}");
    }
}

#[test]
fn an_interactive_shell_has_job_control() {
    if lacks("bash") {
        return;
    }
    let script = "set -m; sleep 1000 & jobs; kill %1; fg %1 >/dev/null; echo end";
    let words = ["bash", "--norc", "--noprofile", "-ic", script];
    let finished = on_a_terminal().env("HISTFILE", "").command(&words).run();
    assert!(finished.stdout.contains("Running") && finished.stdout.contains("end\n"), "{}", finished.stdout);
    assert!(!finished.stdout.contains("job control"), "{}", finished.stdout);
}

/// The kernel tells the leader of the session, which is us, and main's group.
#[test]
fn a_terminal_that_hangs_up_ends_main() {
    let mut init = on_a_terminal().main("say ready pause").spawn();
    init.expect("ready");
    init.hang_up();
    assert_eq!(init.finish().code, 128 + libc::SIGHUP);
}

#[test]
fn without_a_terminal_nothing_is_done_or_said() {
    let finished = Start::outro().main("terminal exit 0").run();
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("no terminal\n", ""));
}

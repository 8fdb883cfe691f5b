//! Main gets what the init got, bit for bit; the init keeps nothing that is not its own.

use std::fs::File;

use crate::harness::{Scratch, Signals, Start, actor, set_limit};

use super::{init, ordinary, pid1, promise};

/// What a process says of its state: run directly, and below the init.
fn same_with_and_without_init(word: &str, prepare: impl Fn(Start) -> Start) {
    let directly = prepare(Start::of(actor())).options(&[word]).run();
    let below_the_init = prepare(pid1()).main(word).run();
    assert_eq!(directly.code, 0, "{}", directly.stderr);
    assert_eq!(below_the_init.stdout, directly.stdout);
}

#[test]
fn main_finds_every_signal_as_the_init_found_it() {
    promise(|| {
        let job_control = Signals::of(&[libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU]);
        let tables = [
            (Signals::NONE, Signals::NONE),
            (Signals::NONE, job_control),
            (job_control, Signals::NONE),
            (Signals::NONE, Signals::of(&[libc::SIGHUP])),
            (Signals::NONE, Signals::of(&[libc::SIGPIPE])),
            (Signals::of(&[libc::SIGCHLD]), Signals::NONE),
            (Signals::of(&[libc::SIGUSR2, libc::SIGTERM]), Signals::of(&[libc::SIGHUP, libc::SIGUSR1])),
            (Signals::of(&[32, 33, 34, 64]), Signals::of(&[35, 63])),
            (Signals::BLOCKABLE, Signals::of(&[libc::SIGINT, libc::SIGQUIT])),
        ];
        for (blocked, ignored) in tables {
            same_with_and_without_init("signals", |start| start.with_signals(blocked, ignored));
        }
    });
}

/// The init has to change this one for itself.
#[test]
fn main_finds_sigchld_ignored_if_the_init_found_it_so() {
    promise(|| {
        let ignored = Signals::of(&[libc::SIGCHLD]);
        same_with_and_without_init("signals", |start| start.with_signals(Signals::NONE, ignored));
    });
}

#[test]
fn main_finds_environment_directory_umask_and_limits_as_the_init_found_them() {
    promise(|| {
        let scratch = Scratch::new();
        same_with_and_without_init("state", |start| {
            start
                .env("EMPTY", "")
                .env("WITH_EQUALS", "a=b=c")
                .env("WITH\u{e4}", "\u{f6} line\nbreak")
                .in_directory(scratch.path())
                .before_exec(|| {
                    set_limit(libc::RLIMIT_CORE, 4096)?;
                    set_limit(libc::RLIMIT_NOFILE, 77)?;
                    // SAFETY: no memory is involved.
                    unsafe {
                        libc::umask(0o027);
                        libc::setpriority(libc::PRIO_PROCESS, 0, 5);
                        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                    }
                    Ok(())
                })
        });
    });
}

#[test]
fn main_finds_exactly_the_descriptors_that_the_init_found() {
    promise(|| {
        let with_descriptors = |start: Start| {
            start
                .with_descriptor(3, File::open("/etc/passwd").unwrap())
                .with_descriptor(9, File::open("/dev/zero").unwrap())
                .with_descriptor(200, File::options().append(true).open("/dev/null").unwrap())
        };
        let directly = with_descriptors(Start::of(actor())).options(&["descriptors"]).run();
        let below_the_init = with_descriptors(pid1()).main("descriptors").run();
        assert_eq!(inherited(&below_the_init.stdout), inherited(&directly.stdout));
        assert_eq!(numbers(&below_the_init.stdout), ["0", "1", "2", "3", "9", "200"]);
    });
}

/// What was said of the descriptors that are the same in two runs: not of the pipes to the test.
fn inherited(said: &str) -> Vec<&str> {
    said.lines().filter(|line| !line.starts_with("descriptor 1 ") && !line.starts_with("descriptor 2 ")).collect()
}

fn numbers(said: &str) -> Vec<&str> {
    said.lines().map(|line| line.split(' ').nth(1).unwrap()).collect()
}

#[test]
fn the_init_keeps_no_descriptor_that_it_inherited() {
    promise(|| {
        let start = pid1()
            .with_descriptor(30, File::open("/etc/passwd").unwrap())
            .with_descriptor(200, File::open("/dev/zero").unwrap());
        let mut init = start.main("echo 0").spawn();
        init.expect("ready");
        init.signal_and_hear(libc::SIGUSR1);
        let kept = init.init().descriptors();
        assert!(!kept.contains(&30) && !kept.contains(&200), "{kept:?}");
    });
}

#[test]
fn the_init_leaves_the_directory_and_main_stays_in_it() {
    promise(|| {
        let scratch = Scratch::new();
        let mut init = pid1().in_directory(scratch.path()).main("echo 0").spawn();
        init.expect("ready");
        init.signal_and_hear(libc::SIGUSR1);
        assert_eq!(init.main().directory(), scratch.path());
        assert_eq!(init.init().directory().to_str(), Some("/"));
    });
}

#[test]
fn a_directory_that_was_removed_is_no_obstacle() {
    promise(|| {
        let scratch = Scratch::new();
        let doomed = std::ffi::CString::new(scratch.join("doomed").to_str().unwrap()).unwrap();
        let start = pid1().before_exec(move || {
            // SAFETY: the string is terminated.
            unsafe {
                libc::mkdir(doomed.as_ptr(), 0o755);
                libc::chdir(doomed.as_ptr());
                libc::rmdir(doomed.as_ptr());
            }
            Ok(())
        });
        assert_eq!(start.main("exit 7").run().code, 7);
    });
}

/// All eight combinations: main says with its exit code which of 0, 1 and 2 are open.
#[test]
fn closed_standard_descriptors_stay_closed_and_do_not_hinder() {
    promise(|| {
        for open in 0..8 {
            let closed: Vec<i32> = (0..3).filter(|descriptor| open & 1 << descriptor == 0).collect();
            assert_eq!(pid1().without_descriptors(&closed).main("exit-open-stdio").run().code, open);
            assert_eq!(ordinary().without_descriptors(&closed).main("exit-open-stdio").run().code, open);
        }
    });
}

#[test]
fn main_leads_a_group_of_its_own_in_the_inits_session() {
    promise(|| {
        let session = ordinary().before_exec(|| {
            // SAFETY: no memory is involved.
            unsafe { libc::setsid() };
            Ok(())
        });
        assert_eq!(session.main("family").run().stdout, "pid 3 parent 2 group 3 session 1\n");
    });
}

#[test]
fn listen_pid_follows_the_program_it_is_meant_for() {
    promise(|| {
        let main = "environment LISTEN_PID environment LISTEN_FDS";
        let activated = pid1().env("LISTEN_PID", "1").env("LISTEN_FDS", "2").main(main).run();
        assert_eq!(activated.stdout, "LISTEN_PID 2\nLISTEN_FDS 2\n");
    });
}

#[test]
fn listen_pid_of_another_process_is_left_alone() {
    promise(|| {
        let main = "environment LISTEN_PID environment LISTEN_FDS";
        for other in ["77", "0", "", "-1", "1x", "11"] {
            let activated = pid1().env("LISTEN_PID", other).env("LISTEN_FDS", "2").main(main).run();
            assert_eq!(activated.stdout, format!("LISTEN_PID {other}\nLISTEN_FDS 2\n"));
        }
    });
}

#[test]
fn an_idle_init_does_not_wake_up() {
    promise(|| {
        let mut init = pid1().main("echo 10 nap 1200 say awake pause").spawn();
        init.expect("ready");
        let process = init.init();
        init.signal_and_hear(libc::SIGUSR1);
        init.wait_until("the init to rest", |_| process.is_idle());
        let switches = process.context_switches();
        init.expect("awake");
        assert_eq!(process.context_switches(), switches, "{} woke up", super::init().name);
    });
}

#[test]
fn nothing_is_said_on_success() {
    promise(|| {
        for start in [pid1(), ordinary(), init().bare()] {
            let finished = start.main("orphans 3 exit 0").run();
            assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (0, "", ""));
        }
    });
}

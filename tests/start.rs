//! What outro does of its own before main runs: its entry point, where it can start, and what it says when it cannot.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Proc, Scratch, Signals, Start, actor, lacks, no_fork_meanwhile, outro, set_limit};

/// After these the entry point has blocked every signal, and libc's start has hardly begun.
const FIRST_INSTRUCTIONS: usize = 40;

/// The few facts of an ELF file that matter here.
struct Elf(Vec<u8>);

impl Elf {
    const EXECUTABLE: u64 = 2;
    const INTERPRETER: u64 = 3;
    const LOAD: u64 = 1;

    fn read(program: &Path) -> Elf {
        let bytes = fs::read(program).unwrap();
        assert_eq!(bytes[..6], *b"\x7fELF\x02\x01", "64 bits, little endian");
        Elf(bytes)
    }

    fn number(&self, at: u64, size: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.0[at as usize..][..size]);
        u64::from_le_bytes(bytes)
    }

    fn kind(&self) -> u64 {
        self.number(16, 2)
    }

    fn entry(&self) -> u64 {
        self.number(24, 8)
    }

    /// Where the program headers are.
    fn segments(&self) -> impl Iterator<Item = u64> {
        let (table, size, count) = (self.number(32, 8), self.number(54, 2), self.number(56, 2));
        (0..count).map(move |index| table + index * size)
    }

    fn segment_kinds(&self) -> Vec<u64> {
        self.segments().map(|segment| self.number(segment, 4)).collect()
    }

    /// What is executed first.
    fn first_instructions(&self) -> &[u8] {
        let holds_entry = |segment: &u64| {
            let (address, size) = (self.number(segment + 16, 8), self.number(segment + 32, 8));
            self.number(*segment, 4) == Self::LOAD && (address..address + size).contains(&self.entry())
        };
        let segment = self.segments().find(holds_entry).expect("a segment with the entry point");
        let offset = self.number(segment + 8, 8) + self.entry() - self.number(segment + 16, 8);
        &self.0[offset as usize..]
    }
}

#[test]
fn the_program_is_one_static_file() {
    let elf = Elf::read(&outro());
    assert_eq!(elf.kind(), Elf::EXECUTABLE, "not position independent");
    assert!(!elf.segment_kinds().contains(&Elf::INTERPRETER), "needs a dynamic loader");
}

#[test]
fn the_entry_point_is_ours() {
    // Keep rdx; rt_sigprocmask(SIG_BLOCK, …).
    const MOV_R8_RDX: [u8; 3] = [0x49, 0x89, 0xd0];
    const MOV_EAX_14: [u8; 5] = [0xb8, 14, 0, 0, 0];
    const XOR_EDI_EDI: [u8; 2] = [0x31, 0xff];
    let expected = [&MOV_R8_RDX[..], &MOV_EAX_14, &XOR_EDI_EDI].concat();
    assert_eq!(Elf::read(&outro()).first_instructions()[..expected.len()], expected);
}

#[test]
fn the_entry_point_for_aarch64_can_be_assembled() {
    if lacks("aarch64-linux-gnu-as") || lacks("aarch64-linux-gnu-objdump") {
        return;
    }
    let directory = Scratch::new();
    let object = directory.join("entry.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/entry/aarch64.s");
    output(Command::new("aarch64-linux-gnu-as").arg("--fatal-warnings").arg("-o").args([&object, &source]));
    let code = output(Command::new("aarch64-linux-gnu-objdump").args(["-d", "--no-show-raw-insn"]).arg(&object));
    let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
    // x0 is kept around rt_sigprocmask, number 135 on aarch64, and libc's start comes next.
    let order =
        ["<outro_entry>:", "mov x9, x0", "mov x8, #0x87", "mov x0, #0x0", "svc #0x0", "mov x0, x9", "b 0 <_start>"];
    let places: Vec<_> = order.iter().map(|piece| words.find(piece)).collect();
    assert!(places.is_sorted() && !places.contains(&None), "{code}");
}

/// What a command prints, which has to succeed.
fn output(command: &mut Command) -> String {
    let _guard = no_fork_meanwhile();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_stop_before_the_start_starts_nothing() {
    for (number, code) in [(libc::SIGTERM, 143), (libc::SIGINT, 130)] {
        let start = Start::outro().main("say started exit 0");
        let init = start.spawn_after_instructions(FIRST_INSTRUCTIONS, |init| init.signal(number));
        let finished = init.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (code, ""));
    }
}

#[test]
fn the_exit_map_applies_to_a_stop_before_the_start() {
    let start = Start::outro().options(&["-e", "143"]).main("say started exit 5");
    let init = start.spawn_after_instructions(FIRST_INSTRUCTIONS, |init| init.signal(libc::SIGTERM));
    let finished = init.finish();
    assert_eq!((finished.code, finished.stdout.as_str()), (0, ""));
}

#[test]
fn any_other_signal_before_the_start_reaches_main() {
    let start = Start::outro().main("pause");
    let init = start.spawn_after_instructions(FIRST_INSTRUCTIONS, |init| init.signal(libc::SIGUSR1));
    assert_eq!(init.finish().code, 128 + libc::SIGUSR1);
}

#[test]
fn our_variables_do_not_reach_main() {
    let ours = [
        ("OUTRO_GRACE", "20"),
        ("OUTRO_MARGIN", "1"),
        ("OUTRO_DELAY", "1"),
        ("OUTRO_DRAIN", "true"),
        ("OUTRO_DRAIN_TIMEOUT", "1"),
        ("OUTRO_DRAIN_FILE", "/nonexistent/drain"),
        ("OUTRO_STOP_SIGNALS", "TERM"),
        ("OUTRO_SIGNAL_MAP", "HUP="),
        ("OUTRO_GROUP", "1"),
        ("OUTRO_LINGER", "0"),
        ("OUTRO_ESCALATE", "QUIT@-1s"),
        ("OUTRO_EXIT_MAP", "143=0"),
        ("OUTRO_EXIT_ON_STOP", "143"),
        ("OUTRO_EXIT_ON_DEADLINE", "child"),
        ("OUTRO_REPORT", "off"),
        ("OUTRO_LOG", "text,error"),
        ("OUTRO_SUBREAPER", "1"),
        ("OUTRO_PARENT_DEATH_SIGNAL", "TERM"),
        ("OUTRO_WARN_ON_REAP", "1"),
    ];
    let start = ours.into_iter().fold(Start::outro(), |start, (name, value)| start.env(name, value));
    let finished = start.command(&["env"]).run();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(!finished.stdout.contains("OUTRO_"), "{}", finished.stdout);
}

#[test]
fn only_our_variables_are_kept_from_main() {
    let others = [
        ("OUTRO_SERVICE_HOST", "10.0.0.1"),
        ("OUTRO_SERVICE_PORT", "80"),
        ("OUTRO_PORT", "tcp://10.0.0.1:80"),
        ("OUTRO_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("OUTRO_UNKNOWN", "x"),
        ("TINI_SUBREAPER", ""),
    ];
    let start = others.into_iter().fold(Start::outro(), |start, (name, value)| start.env(name, value));
    let said = start.command(&["env"]).run().stdout;
    for (name, value) in others {
        assert!(said.contains(&format!("{name}={value}\n")), "{name} is missing in {said}");
    }
}

#[test]
fn bytes_that_are_not_utf8_pass_through() {
    let invalid = OsStr::from_bytes(b"\xff\xfe");
    let test = OsStr::new(r#"test "$1" = "$(printf '\377\376')" && test "$VARIABLE" = "$1""#);
    let words = [OsStr::new("sh"), OsStr::new("-c"), test, OsStr::new("sh"), invalid];
    let start = Start::outro().env("VARIABLE", invalid).env(invalid, "x");
    assert_eq!(start.command(&words).run().code, 0);
}

#[test]
fn an_empty_argument_vector_is_a_usage_error() {
    let program = CString::new(outro().as_os_str().as_bytes()).unwrap();
    let start = Start::outro().before_exec(move || {
        let nothing = [std::ptr::null()];
        // SAFETY: both vectors are terminated. It does not return.
        unsafe { libc::execve(program.as_ptr(), nothing.as_ptr(), nothing.as_ptr()) };
        Err(std::io::Error::last_os_error())
    });
    assert_eq!(start.run().code, 125);
}

#[test]
fn a_limit_of_no_descriptors_is_no_obstacle() {
    let start = Start::outro().before_exec(|| set_limit(libc::RLIMIT_NOFILE, 0));
    assert_eq!(start.main("exit 7").run().code, 7);
}

/// A user of this number, and of no other test.
fn becoming_user(user: libc::uid_t) -> impl FnMut() -> std::io::Result<()> {
    move || {
        // SAFETY: no memory is involved.
        let changed = unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(user, user, user) == 0
                && libc::setresuid(user, user, user) == 0
        };
        if changed { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}

#[test]
fn a_fork_that_is_refused_is_reported() {
    let scratch = Scratch::new();
    let start = Start::of(scratch.install(&outro()))
        .before_exec(|| set_limit(libc::RLIMIT_NPROC, 1))
        .before_exec(becoming_user(54321));
    let finished = start.command(&["true"]).run();
    assert_eq!(finished.code, 125, "{}", finished.stderr);
    assert!(finished.stderr.contains("Resource temporarily unavailable"), "{}", finished.stderr);
}

#[test]
fn an_unprivileged_user_on_a_read_only_root_is_no_obstacle() {
    let scratch = Scratch::new();
    let actor = scratch.install(&actor());
    let start = Start::of(scratch.install(&outro()))
        .before_exec(|| {
            let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
            let none = std::ptr::null();
            // SAFETY: the one string is terminated.
            let mounted = unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) };
            if mounted == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        })
        .before_exec(|| {
            // SAFETY: no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            Ok(())
        })
        .before_exec(becoming_user(1000));
    let actor = actor.to_str().unwrap();
    let mut init = start.command(&[actor, "orphans", "3", "echo", "15", "exit", "7"]).spawn();
    init.expect("ready");
    init.signal(libc::SIGTERM);
    assert_eq!(init.finish().code, 7);
}

#[test]
fn a_proc_of_other_people_is_no_obstacle() {
    let finished = Start::outro().with_proc(Proc::Foreign).main("orphans 3 exit 7").run();
    assert_eq!((finished.code, finished.stderr.as_str()), (7, ""));
}

/// System calls that a sandbox or an old kernel may refuse: none is needed to start, to forward and to reap.
#[test]
fn a_system_call_that_is_refused_is_no_obstacle() {
    if lacks("strace") {
        return;
    }
    let calls = ["close_range", "prctl", "setpgid", "chdir", "pwritev2", "?poll,ppoll", "ioctl", "fcntl"];
    for call in calls {
        for error in ["EPERM", "ENOSYS"] {
            let (trace, inject) = (format!("-etrace={call}"), format!("-einject={call}:error={error}"));
            let strace = ["strace", "-f", "-o/dev/null", &trace, &inject];
            let mut init =
                Start::outro().env("OUTRO_LOG", "text,trace").below(&strace, 1).main("echo 15 exit 7").spawn();
            init.expect("ready");
            init.signal(libc::SIGTERM);
            let finished = init.finish();
            assert_eq!(finished.code, 7, "{call} {error}\n{}", finished.stderr);
        }
    }
}

#[test]
fn without_close_range_inherited_descriptors_are_closed_all_the_same() {
    if lacks("strace") {
        return;
    }
    let strace = ["strace", "-f", "-o/dev/null", "-etrace=close_range", "-einject=close_range:error=ENOSYS"];
    let zero = || File::open("/dev/zero").unwrap();
    let start = Start::outro().with_proc(Proc::None).with_descriptor(30, zero()).with_descriptor(200, zero());
    let mut init = start.below(&strace, 1).main("echo 0").spawn();
    init.expect("ready");
    init.signal_and_hear(libc::SIGUSR1);
    assert_eq!(init.init().descriptors(), [0, 1, 2]);
}

/// What is said when `program` cannot be started.
fn complaint_about(program: &str) -> String {
    Start::outro().command(&[program, "argument"]).run().stderr
}

#[test]
fn a_failure_to_execute_names_the_program_and_the_reason() {
    let scratch = Scratch::new();
    let closed = scratch.file("closed", "#!/bin/sh\n", 0o644);
    let below_a_file = closed.join("program");
    for (program, reason) in [
        ("nonexistent-program", "not found"),
        ("/nonexistent/program", "No such file"),
        (closed.to_str().unwrap(), "Permission denied"),
        (scratch.path().to_str().unwrap(), "Permission denied"),
        (below_a_file.to_str().unwrap(), "Not a directory"),
    ] {
        let complaint = complaint_about(program);
        assert!(complaint.starts_with("outro: "), "{complaint}");
        assert!(complaint.contains(program) && complaint.contains(reason), "{complaint}");
        assert!(!complaint.contains("argument"), "{complaint}");
    }
}

#[test]
fn a_missing_interpreter_is_told_from_a_missing_program() {
    let scratch = Scratch::new();
    let script = scratch.file("script", "#!/nonexistent/interpreter\n", 0o755);
    let hint = "interpreter";
    assert!(complaint_about(script.to_str().unwrap()).contains(hint));
    assert!(!complaint_about("/nonexistent/program").contains(hint));
}

/// Two shells: whoever kills the second makes outro, its child, an orphan.
const A_PARENT_THAT_CAN_DIE: [&str; 4] =
    ["sh", "-c", r#"sh -c '"$@" & exec sleep 1000' sh "$@" & wait; exec sleep 1000"#, "sh"];

#[test]
fn the_death_of_the_parent_sends_the_chosen_signal() {
    let usr1 = Start::outro().options(&["-p", "USR1"]);
    let usr2 = Start::outro().env("OUTRO_PARENT_DEATH_SIGNAL", "SIGUSR2");
    for (start, number) in [(usr1, libc::SIGUSR1), (usr2, libc::SIGUSR2)] {
        let mut init = start.below(&A_PARENT_THAT_CAN_DIE, 2).main("echo 0").spawn();
        init.expect("ready");
        init.init().parent().signal(libc::SIGKILL);
        init.hear(number);
    }
}

/// The parent dies between outro's start and the system call that asks to be told. strace holds that call back.
#[test]
fn a_parent_that_dies_too_early_is_noticed() {
    if lacks("strace") {
        return;
    }
    let held_back = ["strace", "-f", "-o/dev/null", "-etrace=prctl", "-einject=prctl:delay_enter=300000"];
    let wrapper = [&held_back[..], &A_PARENT_THAT_CAN_DIE[..]].concat();
    let start = Start::outro().options(&["-p", "USR1"]).below(&wrapper, 3);
    // Blocked, so that main is not killed before it is ready.
    let mut init = start.with_signals(Signals::of(&[libc::SIGUSR1]), Signals::NONE).main("echo 0").spawn();
    let asks_to_be_told = format!("{} 0x{:x} ", libc::SYS_prctl, libc::PR_SET_PDEATHSIG);
    init.wait_until("the call that is held back", |init| init.init().system_call().starts_with(&asks_to_be_told));
    init.init().parent().signal(libc::SIGKILL);
    init.expect("ready");
    init.hear(libc::SIGUSR1);
}

#[test]
fn a_failed_exec_is_explained_where_there_is_no_room_for_a_signal() {
    let start = Start::outro().before_exec(|| set_limit(libc::RLIMIT_SIGPENDING, 0));
    let finished = start.command(&["/no/such/program"]).run();
    assert_eq!(finished.code, 127);
    assert!(finished.stderr.contains("cannot run /no/such/program: No such file"), "{}", finished.stderr);
}

#[test]
fn no_program_can_make_us_believe_that_it_was_not_executed() {
    if lacks("python3") {
        return;
    }
    let forge = "import ctypes, os; ctypes.CDLL(None).sigqueue(os.getppid(), 33, ctypes.c_void_p(2)); os._exit(127)";
    let finished = Start::outro().command(&["python3", "-c", forge]).run();
    assert_eq!((finished.code, finished.stderr.as_str()), (127, ""));
}

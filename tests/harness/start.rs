//! Describes how an init is started: which program, where, with what in its hands.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::files::{actor, no_fork_meanwhile, outro};
use super::process::{Process, Signals};
use super::running::Running;
use super::trace;

pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

type Preparation = Box<dyn FnMut() -> io::Result<()> + Send + Sync>;

/// What the init finds at `/proc`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Proc {
    /// The `/proc` of its own pid namespace.
    Own,
    /// The test's: it lists other people's processes.
    Foreign,
    /// An empty directory.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Pid1,
    /// With this many processes between process 1 and the init.
    Ordinary {
        between: usize,
    },
}

/// Everything runs in a pid namespace of its own, so that nothing survives a test, and so that a mistaken `kill(-1)`
/// hits nobody else. The environment is empty but for PATH.
pub struct Start {
    init: PathBuf,
    called: Option<OsString>,
    options: Vec<OsString>,
    main: Vec<OsString>,
    wrapper: Vec<OsString>,
    place: Place,
    proc: Proc,
    terminal: bool,
    variables: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    stdin: Stdio,
    stderr: Option<Stdio>,
    preparations: Vec<Preparation>,
}

impl Start {
    /// This program as process 1 of a pid namespace.
    pub fn of(init: impl Into<PathBuf>) -> Start {
        super::need_root();
        Start {
            init: init.into(),
            called: None,
            options: Vec::new(),
            main: Vec::new(),
            wrapper: Vec::new(),
            place: Place::Pid1,
            proc: Proc::Own,
            terminal: false,
            variables: vec![("PATH".into(), SEARCH_PATH.into())],
            directory: None,
            stdin: Stdio::null(),
            stderr: None,
            preparations: Vec::new(),
        }
    }

    pub fn outro() -> Start {
        Start::of(outro())
    }

    /// As an ordinary process; process 1 is an actor that ends with the init's code.
    pub fn not_as_pid1(mut self) -> Start {
        self.place = Place::Ordinary { between: 0 };
        self
    }

    /// As an ordinary process that `words` start, for example strace, with so many processes `between` it and process 1.
    pub fn below(mut self, words: &[&str], between: usize) -> Start {
        self.wrapper = words.iter().map(OsString::from).collect();
        self.place = Place::Ordinary { between };
        self
    }

    /// Calls the init by this name: its argv[0].
    pub fn called(mut self, name: &str) -> Start {
        self.called = Some(name.into());
        self
    }

    pub fn option(mut self, option: impl AsRef<OsStr>) -> Start {
        self.options.push(option.as_ref().into());
        self
    }

    pub fn options(self, options: &[&str]) -> Start {
        options.iter().fold(self, Start::option)
    }

    /// Main is the actor, playing these words; see tests/helper/actor.c.
    pub fn main(self, words: &str) -> Start {
        let actor = actor().into();
        let words: Vec<OsString> = [actor].into_iter().chain(words.split_whitespace().map(OsString::from)).collect();
        self.command(&words)
    }

    /// Main is this command.
    pub fn command(mut self, words: &[impl AsRef<OsStr>]) -> Start {
        self.options.push("--".into());
        self.main.extend(words.iter().map(|word| word.as_ref().into()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Start {
        self.variables.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    pub fn in_directory(mut self, directory: &Path) -> Start {
        self.directory = Some(directory.into());
        self
    }

    pub fn with_proc(mut self, proc: Proc) -> Start {
        self.proc = proc;
        self
    }

    /// Descriptors 0 to 2 are a new terminal, the controlling terminal of the init's session.
    pub fn on_a_terminal(mut self) -> Start {
        self.terminal = true;
        self
    }

    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Start {
        self.stdin = stdin.into();
        self
    }

    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Start {
        self.stderr = Some(stderr.into());
        self
    }

    /// Runs between fork and exec: only system calls.
    pub fn before_exec(mut self, preparation: impl FnMut() -> io::Result<()> + Send + Sync + 'static) -> Start {
        self.preparations.push(Box::new(preparation));
        self
    }

    /// The mask and the ignored signals that the init finds at its entry.
    pub fn with_signals(self, blocked: Signals, ignored: Signals) -> Start {
        self.before_exec(move || {
            ignored.numbers().try_for_each(ignore)?;
            block(blocked)
        })
    }

    pub fn without_descriptors(self, descriptors: &[RawFd]) -> Start {
        let descriptors = descriptors.to_vec();
        self.before_exec(move || {
            // SAFETY: the descriptors belong to the forked child, which uses none of them before exec.
            descriptors.iter().try_for_each(|&descriptor| check(unsafe { libc::close(descriptor) }))
        })
    }

    /// Hands an open file down as descriptor `number`.
    pub fn with_descriptor(self, number: RawFd, file: impl Into<OwnedFd>) -> Start {
        let file = out_of_the_way(&file.into());
        // SAFETY: the descriptor table is the forked child's own.
        self.before_exec(move || check(unsafe { libc::dup2(file.as_raw_fd(), number) }))
    }

    pub fn spawn(self) -> Running {
        let depth = match self.place {
            Place::Pid1 => 0,
            Place::Ordinary { between } => 1 + between,
        };
        let terminal = self.terminal.then(open_terminal);
        let child = self.into_command(terminal.as_ref()).map(spawn_in_namespace);
        Running::new(child.unwrap(), terminal.map(|terminal| terminal.ours), depth)
    }

    /// Lets the init execute so many instructions, does something `meanwhile`, and sets it free.
    pub fn spawn_after_instructions(self, count: usize, meanwhile: impl FnOnce(Process)) -> Running {
        assert!(self.place == Place::Pid1, "only a child of this thread can be traced");
        // SAFETY: no memory is involved.
        let traced = self.before_exec(|| check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } as i32));
        let mut running = traced.spawn();
        let init = running.init();
        trace::wait_for_stop(init);
        (0..count).for_each(|_| trace::step(init));
        meanwhile(init);
        trace::let_go(init);
        running
    }

    /// Waits for the end of it.
    pub fn run(self) -> super::Finished {
        self.spawn().finish()
    }

    fn into_command(self, terminal: Option<&Terminal>) -> io::Result<Command> {
        let mut command = match self.place {
            Place::Pid1 => Command::new(&self.init),
            Place::Ordinary { .. } => {
                let mut host = Command::new(actor());
                host.arg("host").args(&self.wrapper).arg(&self.init);
                host
            }
        };
        if let Some(name) = &self.called {
            command.arg0(name);
        }
        command.args(&self.options).args(&self.main);
        command.env_clear().envs(self.variables);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        match terminal {
            Some(terminal) => {
                command.stdin(terminal.theirs.try_clone()?);
                command.stdout(terminal.theirs.try_clone()?);
                command.stderr(terminal.theirs.try_clone()?);
            }
            None => {
                command.stdin(self.stdin);
                command.stdout(Stdio::piped());
                command.stderr(self.stderr.unwrap_or_else(Stdio::piped));
            }
        }
        let (proc, has_terminal) = (self.proc, terminal.is_some());
        let mut preparations = self.preparations;
        // SAFETY: only system calls happen between fork and exec.
        unsafe {
            command.pre_exec(move || {
                close_at_exec()?;
                default_signals()?;
                die_with_the_test()?;
                mount_proc(proc)?;
                if has_terminal {
                    take_terminal()?;
                }
                preparations.iter_mut().try_for_each(|prepare| prepare())
            });
        }
        Ok(command)
    }
}

/// Starts the command as process 1 of a new pid namespace, as a child of this thread.
fn spawn_in_namespace(mut command: Command) -> Child {
    let _guard = no_fork_meanwhile();
    let home = File::open("/proc/thread-self/ns/pid").unwrap();
    // SAFETY: both calls only change where the next child of this thread is put.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) }).expect("a new pid namespace");
    let child = command.spawn();
    // SAFETY: as above.
    check(unsafe { libc::setns(home.as_raw_fd(), libc::CLONE_NEWPID) }).unwrap();
    child.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
}

fn open_terminal() -> Terminal {
    let _guard = no_fork_meanwhile();
    let (mut ours, mut theirs) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: openpty fills in two descriptors, which are ours from then on.
    unsafe {
        check(libc::openpty(&mut ours, &mut theirs, null, null.cast(), null.cast())).unwrap();
        for descriptor in [ours, theirs] {
            check(libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC)).unwrap();
        }
        Terminal { ours: OwnedFd::from_raw_fd(ours), theirs: OwnedFd::from_raw_fd(theirs) }
    }
}

/// The same file under a number that no test hands down.
fn out_of_the_way(file: &OwnedFd) -> OwnedFd {
    // SAFETY: the kernel gives a new descriptor, which is ours.
    unsafe {
        let copy = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 500);
        check(copy).unwrap();
        OwnedFd::from_raw_fd(copy)
    }
}

pub(super) fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

// What follows runs between fork and exec, where only system calls are allowed.

/// Whatever cargo or a shell left open shall not reach the init.
fn close_at_exec() -> io::Result<()> {
    // SAFETY: marks descriptors, closes none.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } as i32)
}

/// As after login, whatever the test runner ignores or blocks.
fn default_signals() -> io::Result<()> {
    (1..=64).filter(|&number| number != libc::SIGKILL && number != libc::SIGSTOP).try_for_each(|number| {
        let action = [libc::SIG_DFL as u64, 0, 0, 0];
        let null = std::ptr::null_mut::<u64>();
        // SAFETY: the kernel's sigaction is four words: handler, flags, restorer, mask. Raw, because glibc refuses 32.
        check(unsafe { libc::syscall(libc::SYS_rt_sigaction, number, &action, null, 8) } as i32)
    })?;
    block(Signals::NONE)
}

/// Bound to the thread that forked, which is the test's own.
fn die_with_the_test() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

fn mount_proc(proc: Proc) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    match proc {
        Proc::Own => mount(c"proc", c"/proc", Some(c"proc"), 0),
        Proc::Foreign => Ok(()),
        Proc::None => fill_with_nothing(c"/proc"),
    }
}

/// Hides a directory behind an empty file system.
pub fn fill_with_nothing(directory: &CStr) -> io::Result<()> {
    mount(c"none", directory, Some(c"tmpfs"), 0)
}

fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: all strings are terminated.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, std::ptr::null()) })
}

fn take_terminal() -> io::Result<()> {
    // SAFETY: no memory is involved.
    unsafe {
        check(libc::setsid())?;
        check(libc::ioctl(0, libc::TIOCSCTTY, 0))
    }
}

fn ignore(number: i32) -> io::Result<()> {
    // SAFETY: no handler is installed.
    let result = unsafe { libc::signal(number, libc::SIG_IGN) };
    if result == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Replaces the mask; raw, because glibc strips 32 and 33.
fn block(set: Signals) -> io::Result<()> {
    let null = std::ptr::null_mut::<u64>();
    // SAFETY: the set is eight bytes, as the kernel wants it.
    check(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &set.0, null, 8) } as i32)
}

pub fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` outlives the call.
    check(unsafe { libc::setrlimit(resource, &limit) })
}

/// Takes a capability from what exec can give back to root.
pub fn drop_capability(number: libc::c_ulong) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) })
}

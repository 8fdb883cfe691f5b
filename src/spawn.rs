//! Starts a program the way execvp(3) does, with exactly what we inherited: main, and the drain command.
//!
//! Everything that allocates happens before the fork; between fork and exec only async-signal-safe calls run.
//! The child tells why it could not exec by a signal with a value. That needs no descriptor and no memory, and nobody
//! waits for it, so that an exec that hangs on a dead file system holds up neither signals nor the deadline.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::exit;
use crate::signal::Signal;
use crate::sys::{self, Received};

/// Where execvp(3) looks when there is no PATH.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";

/// What the kernel and libc gave us at our start and every program of ours gets back.
#[derive(Clone, Copy)]
pub struct Inherited {
    /// The signal mask at entry.
    pub mask: u64,
    /// SIGCHLD was ignored. We cannot live with that (wait(2): children vanish unseen), the child must have it back.
    pub child_signal_ignored: bool,
}

/// A program ready to be started: nothing is left to allocate.
pub struct Program {
    name: OsString,
    /// Where it may be, in the order of the search.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<Cow<'static, CStr>>,
    /// Index in `environment` of a LISTEN_PID that names us, and has to name the child (sd_listen_fds(3)).
    listen_pid: Option<usize>,
}

/// How main and the drain command differ.
pub struct Setup<'a> {
    /// Make the new group the foreground group of the terminal on descriptor 0.
    pub foreground: bool,
    /// Read from /dev/null, in this directory.
    pub aside: Option<&'a Path>,
}

/// A started process.
pub struct Child {
    pub pid: Pid,
    /// What it has told of a failure to exec.
    told: Option<u64>,
}

/// Why a program could not be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExecError {
    name: OsString,
    errno: Errno,
    /// The file is there, so that ENOENT can only mean what it needs in order to run.
    interpreter_missing: bool,
    /// It was looked for in PATH.
    searched: bool,
}

/// Set in what a child tells besides the error number: the file is there.
const INTERPRETER_MISSING: i32 = 1 << 16;
/// What a child tells is below this. Above it there is a number that only we know, so that no program can tell us what
/// it likes.
const SECRET: u64 = !0xff_ffff;

impl Program {
    /// Whether it is looked for in PATH: its name has no slash.
    fn is_searched(&self) -> bool {
        !self.name.as_bytes().contains(&b'/')
    }

    /// Why it could not be executed.
    fn error(&self, errno: Errno, interpreter_missing: bool) -> ExecError {
        ExecError { name: self.name.clone(), errno, interpreter_missing, searched: self.is_searched() }
    }

    /// Prepares `command` (not empty) for `environment`. A NUL byte cannot occur: both came from the kernel, or were
    /// checked when the configuration was read.
    pub fn new(command: &[OsString], environment: Vec<Cow<'static, CStr>>) -> Program {
        let name = command.first().cloned().unwrap_or_default();
        let arguments = command.iter().map(|word| c_string(word.as_bytes())).collect();
        let own = format!("LISTEN_PID={}", Pid::this());
        let listen_pid = environment.iter().position(|entry| entry.to_bytes() == own.as_bytes());
        Program { candidates: candidates(&name, &environment), name, arguments, environment, listen_pid }
    }

    /// Forks, and in the child restores what was inherited and executes the program. Does not wait for the exec.
    ///
    /// # Errors
    /// Those of fork(2): EAGAIN where a limit of processes is reached, ENOMEM.
    pub fn spawn(&self, inherited: Inherited, setup: &Setup<'_>) -> Result<Child, Errno> {
        let mut plan = ExecPlan::new(self, setup);
        // SAFETY: we are single-threaded, and the child makes only system calls.
        let pid = Errno::result(unsafe { fork() })?;
        if pid == 0 {
            // SAFETY: this is the forked child, and it never returns.
            unsafe { plan.run(inherited) }
        }
        let pid = Pid::from_raw(pid);
        // On both sides, so that the group exists whoever runs first. An error means that the child was faster.
        let _ = nix::unistd::setpgid(pid, pid);
        Ok(Child { pid, told: None })
    }
}

impl Child {
    /// Takes note of what this child tells by `Signal::EXEC_FAILED`.
    pub fn hear(&mut self, received: &Received) {
        if received.sender().is_some_and(|(pid, _)| pid == self.pid.as_raw()) {
            let told = received.value().filter(|value| value & SECRET == sys::secret() & SECRET);
            self.told = told.or(self.told);
        }
    }

    /// Why the program never ran, if the child ended with `status` for that reason.
    pub fn failure(&self, program: &Program, status: ExitStatus) -> Option<ExecError> {
        let told = i32::try_from(self.told? & !SECRET).ok()?;
        let error = program.error(Errno::from_raw(told & !INTERPRETER_MISSING), told & INTERPRETER_MISSING != 0);
        (status.code() == Some(i32::from(error.code()))).then_some(error)
    }
}

impl ExecError {
    /// 127 for a program that is not there, 126 for one that is.
    pub fn code(&self) -> u8 {
        exit_code(self.errno)
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot run {}: ", self.name.display())?;
        match self.errno {
            Errno::ENOENT if self.interpreter_missing => f.write_str(
                "the file exists, but its interpreter or loader is missing (wrong #! line, CRLF line ends, or \
                 linked for another libc)",
            ),
            Errno::ENOENT if self.searched => f.write_str("not found in PATH"),
            Errno::ENOEXEC => f.write_str("Exec format error (built for another architecture, or not a program)"),
            errno => f.write_str(&sys::reason(errno)),
        }
    }
}

fn exit_code(errno: Errno) -> u8 {
    if errno == Errno::ENOENT { exit::NOT_FOUND } else { exit::NOT_RUNNABLE }
}

/// The files to try for `name`: itself if it has a slash, else in each directory of PATH. An empty directory means
/// the current one.
fn candidates(name: &OsStr, environment: &[Cow<'static, CStr>]) -> Vec<CString> {
    let name = name.as_bytes();
    if name.is_empty() || name.contains(&b'/') {
        return vec![c_string(name)];
    }
    let path = environment.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    let directories = path.unwrap_or(DEFAULT_PATH).split(|&b| b == b':');
    directories.map(|d| c_string(&[if d.is_empty() { b"." } else { d }, b"/", name].concat())).collect()
}

/// Cuts at a NUL byte, where the kernel would.
fn c_string(bytes: &[u8]) -> CString {
    let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
    CString::new(bytes).unwrap_or_default()
}

/// The bare fork. libc's would prepare parent and child for a life with threads and locks, and touch a dozen pages for
/// that, each to be copied; this child only makes system calls and is gone.
///
/// # Safety
/// In the child: no allocation, no lock, and nothing that needs libc to know which process it is in.
unsafe fn fork() -> libc::pid_t {
    let flags = libc::c_long::from(libc::SIGCHLD);
    // SAFETY: without a stack of its own the child goes on with a copy of ours, as after fork(2). The order of the
    // arguments differs between processors; those behind the flags are all zero.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    libc::pid_t::try_from(pid).unwrap_or(-1)
}

/// Everything the child needs, as pointers that are ready before the fork.
struct ExecPlan<'a> {
    program: &'a Program,
    /// Ourselves, before the fork.
    parent: Pid,
    foreground: bool,
    directory: Option<CString>,
    /// Null-terminated, with a free place in front: `/bin/sh FILE ARG…` needs one word more than `NAME ARG…`.
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    /// Room for `LISTEN_PID=` and the number of the child, which only the child knows.
    listen_pid: [u8; 32],
}

impl ExecPlan<'_> {
    fn new<'a>(program: &'a Program, setup: &Setup<'_>) -> ExecPlan<'a> {
        ExecPlan {
            program,
            parent: Pid::this(),
            foreground: setup.foreground,
            directory: setup.aside.map(|path| c_string(path.as_os_str().as_bytes())),
            arguments: iter::once(SHELL.as_ptr())
                .chain(program.arguments.iter().map(|word| word.as_ptr()))
                .chain([ptr::null()])
                .collect(),
            environment: program.environment.iter().map(|entry| entry.as_ptr()).chain([ptr::null()]).collect(),
            listen_pid: [0; 32],
        }
    }

    /// The child, from fork to exec.
    ///
    /// # Safety
    /// Only in a forked child. No allocation, no lock, no panic from here on.
    unsafe fn run(&mut self, inherited: Inherited) -> ! {
        // SAFETY: async-signal-safe calls (signal-safety(7)) on memory prepared before the fork.
        unsafe {
            libc::setpgid(0, 0);
            if self.foreground {
                // TTOU is still blocked, so a background process may do this (tcsetpgrp(3)). No terminal: no matter.
                libc::tcsetpgrp(0, libc::getpid());
            }
            if let Some(directory) = &self.directory {
                let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
                match null {
                    -1 => drop(libc::close(0)),
                    0 => {}
                    null => {
                        libc::dup2(null, 0);
                        libc::close(null);
                    }
                }
                // If it has gone the command runs in ours, which is `/`: better than not at all.
                libc::chdir(directory.as_ptr());
            }
            // Main alone gets the descriptors that were passed to us.
            if let Some(index) = self.program.listen_pid.filter(|_| self.directory.is_none()) {
                self.listen_pid = listen_pid_entry(libc::getpid());
                *self.environment.as_mut_ptr().add(index) = self.listen_pid.as_ptr().cast();
            }
            sys::set_ignored(Signal::CHLD, inherited.child_signal_ignored);
            // Last: a signal forwarded to us meanwhile takes effect here. Raw, because libc strips 32 and 33.
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &inherited.mask, ptr::null_mut::<u64>(), 8);
            let (errno, note) = self.exec();
            let told = (errno as i32 | note).unsigned_abs();
            if sys::tell(self.parent, Signal::EXEC_FAILED, u64::from(told) | sys::secret() & SECRET).is_err() {
                // No room for a signal (RLIMIT_SIGPENDING), or forbidden: our parent will know the exit code alone.
                // The heap is in order, for there is no other thread; nothing is wrong with using it here.
                let error = self.program.error(errno, note != 0);
                sys::write_nonblocking(sys::STDERR, format!("outro: error: {error}\n").as_bytes());
            }
            libc::_exit(i32::from(exit_code(errno)))
        }
    }

    /// Tries the candidates as execvp(3) does: a file that is not there, or not ours to run, does not end the search.
    /// Says why none could be executed.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn exec(&mut self) -> (Errno, i32) {
        let mut result = Errno::ENOENT;
        let mut note = 0;
        for file in &self.program.candidates {
            // SAFETY: the arrays are null-terminated and live; `arguments` has a free place in front.
            let errno = unsafe {
                let arguments = self.arguments.as_ptr();
                libc::execve(file.as_ptr(), arguments.add(1), self.environment.as_ptr());
                let errno = Errno::last();
                if errno == Errno::ENOEXEC && !is_binary(file) {
                    // A script without `#!`.
                    *self.arguments.as_mut_ptr().add(1) = file.as_ptr();
                    libc::execve(SHELL.as_ptr(), arguments, self.environment.as_ptr());
                }
                if errno == Errno::ENOENT && libc::access(file.as_ptr(), libc::F_OK) == 0 {
                    note = INTERPRETER_MISSING;
                }
                errno
            };
            match errno {
                Errno::EACCES => result = errno,
                Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE | Errno::ENODEV | Errno::ETIMEDOUT => {
                    // A directory of PATH that is a file says nothing about the program.
                    if !self.program.is_searched() {
                        result = errno;
                    }
                }
                errno => return (errno, note),
            }
        }
        (result, note)
    }
}

/// `LISTEN_PID=<pid>` and a NUL byte.
fn listen_pid_entry(pid: i32) -> [u8; 32] {
    use std::io::Write;
    let mut entry = [0; 32];
    // Formatting into an array does not allocate; ten digits fit.
    let _ = write!(&mut entry[..31], "LISTEN_PID={pid}");
    entry
}

/// Whether a file the kernel would not execute is a program for another machine rather than a script: a NUL byte in
/// its first line, as POSIX shells decide. A file that cannot be read is left to the shell.
fn is_binary(file: &CString) -> bool {
    let mut head = [0u8; 128];
    // SAFETY: async-signal-safe calls on live memory.
    let length = unsafe {
        let fd = libc::open(file.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK);
        let length = libc::read(fd, head.as_mut_ptr().cast(), head.len());
        libc::close(fd);
        usize::try_from(length).unwrap_or(0)
    };
    head.iter().take(length).take_while(|&&b| b != b'\n').any(|&b| b == 0)
}

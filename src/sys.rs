//! System calls: thin wrappers whose results are words, so that no caller looks at errno or at a wait status.
//!
//! No decision is made here. Every `unsafe` of the program is in this file, in `spawn.rs` or in `entry.rs`.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;
use signal_hook::low_level::siginfo::Origin;

use crate::signal::{Signal, SignalSet};

/// The kernel's sizeof(sigset_t), which the raw signal calls take. Libc's is larger, and libc strips 32 and 33.
const SIGSET_BYTES: usize = 8;

/// An error number in libc's words (strerror(3)).
pub fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The monotonic clock: no step of the wall clock moves it, and it goes on while the cgroup is frozen.
#[allow(clippy::disallowed_methods, reason = "the one place where the clock is read")]
pub fn now() -> Instant {
    Instant::now()
}

/// A signal that was pending for us, with what the kernel tells about its sender.
pub struct Received {
    info: libc::siginfo_t,
    pub signal: Signal,
}

impl Received {
    /// How it was sent: `SI_USER`, `SI_QUEUE`, `SI_KERNEL`, … (sigaction(2)).
    pub fn code(&self) -> i32 {
        self.info.si_code
    }

    /// The sender's pid, as our namespace sees it (0: outside of it), and uid; `None` where the kernel itself sent it.
    pub fn sender(&self) -> Option<(i32, u32)> {
        // SAFETY: `info` was filled in by rt_sigtimedwait.
        let origin = unsafe { Origin::extract(&self.info) };
        origin.process.map(|process| (process.pid, process.uid))
    }
}

impl Received {
    /// The number that its sender attached, if it was sent by sigqueue(3).
    pub fn value(&self) -> Option<u64> {
        // SAFETY: with SI_QUEUE the kernel has filled in the value.
        let value = (self.code() == libc::SI_QUEUE).then(|| unsafe { self.info.si_value() });
        value.map(|value| value.sival_ptr as usize as u64)
    }
}

/// Takes one pending signal out of `set`, waiting for it at most `timeout` (`None`: for ever).
///
/// `None` as well if something else interrupted the wait (EINTR after STOP and CONT): an ordinary turn.
pub fn wait_signal(set: SignalSet, timeout: Option<Duration>) -> Option<Received> {
    let timeout = timeout.map(|left| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(left.subsec_nanos()),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: the pointers are to live values of the types the call expects.
    let number = unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, &set.0, info.as_mut_ptr(), timeout, SIGSET_BYTES) };
    let signal = i32::try_from(number).ok().and_then(Signal::new)?;
    // SAFETY: with a signal the kernel has written all of it.
    Some(Received { info: unsafe { info.assume_init() }, signal })
}

/// Sends `signal` to a process; to a group if `pid` is negative; to everyone but ourselves if it is -1.
pub fn kill(pid: Pid, signal: Signal) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    Errno::result(unsafe { libc::kill(pid.as_raw(), signal.number()) }).map(drop)
}

/// Passes a received signal on to a process as `signal`, with the value its sender attached.
///
/// The kernel takes only `si_code` < 0 from us, and not `SI_TKILL` (rt_sigqueueinfo(2)): EPERM otherwise.
pub fn requeue(pid: Pid, signal: Signal, received: &Received) -> Result<(), Errno> {
    queue(pid, signal, &received.info)
}

/// Sends ourselves the signal that the kernel would have sent for the death of `parent`: same sender, same code.
pub fn raise_for(parent: Pid, signal: Signal) -> Result<(), Errno> {
    queue(Pid::this(), signal, &info(signal, libc::SI_USER, parent, 0))
}

/// Sends our parent a number, in the name of this process, unless somebody else has become our parent meanwhile.
/// Async-signal-safe.
pub fn tell(parent: Pid, signal: Signal, value: u64) -> Result<(), Errno> {
    if nix::unistd::getppid() == parent {
        queue(parent, signal, &info(signal, libc::SI_QUEUE, Pid::this(), value))
    } else {
        Ok(())
    }
}

/// A number that the kernel made up for this execution of the program (AT_RANDOM, getauxval(3)): a forked child has it
/// as well, another program has not.
pub fn secret() -> u64 {
    // SAFETY: AT_RANDOM is the address of sixteen bytes, not necessarily aligned.
    unsafe {
        let random = libc::getauxval(libc::AT_RANDOM) as *const u64;
        if random.is_null() { 0 } else { random.add(1).read_unaligned() }
    }
}

/// A siginfo_t as kill(2) and sigqueue(3) fill it in on 64-bit processors.
fn info(signal: Signal, code: i32, sender: Pid, value: u64) -> libc::siginfo_t {
    #[repr(C)]
    struct Sent {
        signo: i32,
        errno: i32,
        code: i32,
        padding: i32,
        pid: i32,
        uid: u32,
        value: u64,
    }
    let sent = Sent {
        signo: signal.number(),
        errno: 0,
        code,
        padding: 0,
        pid: sender.as_raw(),
        uid: nix::unistd::getuid().as_raw(),
        value,
    };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: siginfo_t is larger than `Sent`, aligned at least as strictly, and valid with every bit pattern.
    unsafe {
        info.as_mut_ptr().cast::<Sent>().write(sent);
        info.assume_init()
    }
}

fn queue(pid: Pid, signal: Signal, info: &libc::siginfo_t) -> Result<(), Errno> {
    // SAFETY: the pointer is to a live siginfo_t.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, pid.as_raw(), signal.number(), info) };
    Errno::result(result).map(drop)
}

/// What `reap` found.
pub enum Reaped {
    /// This process has ended, and its pid is free.
    Process(Pid, ExitStatus),
    /// There are children, but none has ended.
    NoneReady,
    /// There is no child at all.
    NoneLeft,
}

/// Waits for one ended child, without blocking: this one, or any.
///
/// libc's call, because nix's loses a child that was killed by a real-time signal; `__WALL`, because a child made by
/// a bare clone(2) may announce its end by another signal or by none.
pub fn reap(child: Option<Pid>) -> Reaped {
    let pid = child.map_or(-1, Pid::as_raw);
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a live integer.
        match Errno::result(unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG | libc::__WALL) }) {
            Ok(0) => return Reaped::NoneReady,
            Ok(pid) if libc::WIFSTOPPED(status) => detach(Pid::from_raw(pid), libc::WSTOPSIG(status)),
            Ok(pid) => return Reaped::Process(Pid::from_raw(pid), ExitStatus::from_raw(status)),
            Err(Errno::EINTR) => {}
            Err(_) => return Reaped::NoneLeft,
        }
    }
}

/// Lets go of a child that has asked to be traced (PTRACE_TRACEME) and has stopped for us to look at it: it gets the
/// signal that it stopped for. SIGTRAP is ptrace's own.
fn detach(child: Pid, signal: i32) {
    let signal = if signal == libc::SIGTRAP { 0 } else { signal };
    // SAFETY: no memory is involved; the address is not used.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, child.as_raw(), std::ptr::null_mut::<libc::c_void>(), signal) };
}

/// The next child that `reap` would return, still a zombie: its pid is not free and its name can be read.
pub fn peek_zombie() -> Option<Pid> {
    wait_info(libc::P_ALL, 0, libc::WEXITED | libc::__WALL)
}

/// Whether this child of ours is stopped (by STOP, TSTP, …).
pub fn is_stopped(child: Pid) -> bool {
    wait_info(libc::P_PID, child.as_raw().unsigned_abs(), libc::WSTOPPED).is_some()
}

/// The pid of a child in one of these states, which is left as it is.
fn wait_info(kind: libc::idtype_t, id: libc::id_t, states: libc::c_int) -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the pointer is to a live siginfo_t; zeroed, it is valid and says pid 0 if the call leaves it alone.
    unsafe {
        let flags = states | libc::WNOHANG | libc::WNOWAIT;
        let result = libc::waitid(kind, id, info.as_mut_ptr(), flags);
        let pid = info.assume_init().si_pid();
        (result == 0 && pid != 0).then(|| Pid::from_raw(pid))
    }
}

/// Whether `signal` is ignored, as we found it or have set it.
pub fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to a live sigaction; zeroed, it is valid and says SIG_DFL if the call leaves it alone.
    unsafe {
        libc::sigaction(signal.number(), std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Gives `signal` its default action (`SIG_DFL`) or `SIG_IGN`. Async-signal-safe.
pub fn set_ignored(signal: Signal, ignored: bool) {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(signal.number(), if ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
}

/// Asks the kernel for `signal` when our parent ends (PR_SET_PDEATHSIG).
pub fn set_parent_death_signal(signal: Signal) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.number(), 0, 0, 0) }).map(drop)
}

/// Closes every descriptor from 3 on, so that we pin no file, socket or pipe that was passed to the child.
///
/// Without close_range(2) (before Linux 5.9, or a sandbox): at most `FALLBACK` descriptors, since the limit of a
/// process may be a thousand million.
pub fn close_inherited() {
    const FALLBACK: RawFd = 4096;
    // SAFETY: nothing in this process owns a descriptor from 3 on when this is called.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for fd in 3..FALLBACK {
                libc::close(fd);
            }
        }
    }
}

/// Gives free memory back to the system, where libc has a call for that (glibc: malloc_trim(3)).
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no memory in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Descriptors 0 and 2, open or not. std's handle for the first would come with a buffer of 8 KiB.
// SAFETY: nothing in this program closes them; a call on a closed descriptor is an error like others.
pub const STDIN: BorrowedFd<'static> = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
// SAFETY: as above.
pub const STDERR: BorrowedFd<'static> = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };

/// Whether descriptor `fd` is open.
pub fn is_open(fd: RawFd) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
}

/// Writes as much of `bytes` to `fd` as it takes without blocking, and says how much that was.
///
/// O_NONBLOCK is not an option: the open file is shared with the application. `pwritev2(RWF_NOWAIT)` asks for one
/// call what O_NONBLOCK asks for all. Where the file does not know it, poll(2) first. A terminal that has room may
/// have room for less than we want to write and would block for the rest, so it gets one byte at a time.
pub fn write_nonblocking(fd: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    let raw = fd.as_raw_fd();
    let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: the vector describes `bytes`, which the call only reads. Offset -1 means the file's own position.
    match Errno::result(unsafe { libc::pwritev2(raw, &vector, 1, -1, libc::RWF_NOWAIT) }) {
        Ok(written) => return usize::try_from(written).unwrap_or(0),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL | Errno::EPERM | Errno::ESPIPE) => {}
        // A file on disk answers EAGAIN where it would have to wait for the disk; the disk is waited for below.
        Err(Errno::EAGAIN) if is_regular(raw) => {}
        Err(_) => return 0,
    }
    // SAFETY: no memory is involved.
    let step = if unsafe { libc::isatty(raw) } == 1 { 1 } else { bytes.len() };
    let mut written = 0;
    for piece in bytes.chunks(step.max(1)) {
        let mut poll = libc::pollfd { fd: raw, events: libc::POLLOUT, revents: 0 };
        // SAFETY: the pointers are to live memory of the given lengths.
        let result = unsafe {
            if libc::poll(&mut poll, 1, 0) != 1 || poll.revents & libc::POLLOUT == 0 {
                break;
            }
            libc::write(raw, piece.as_ptr().cast(), piece.len())
        };
        match usize::try_from(result) {
            Ok(count) if count == piece.len() => written += count,
            Ok(count) => return written + count,
            Err(_) => break,
        }
    }
    written
}

fn is_regular(fd: RawFd) -> bool {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is to a live stat; zeroed, it is valid.
    unsafe { libc::fstat(fd, stat.as_mut_ptr()) == 0 && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFREG }
}

/// Opens a file without ever waiting for a peer (a FIFO without reader fails) and without becoming its terminal's
/// controller.
pub fn open_nonblocking(options: &mut std::fs::OpenOptions, path: &std::path::Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// The environment block as the kernel passed it: `NAME=value` entries, which need not be UTF-8.
pub fn environment() -> impl Iterator<Item = &'static CStr> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: nothing in this program changes the environment, so the block and its strings live unchanged.
    let mut next = unsafe { environ };
    std::iter::from_fn(move || {
        // SAFETY: the block ends with a null pointer, after which `next` is not moved on.
        unsafe {
            if next.is_null() || (*next).is_null() {
                return None;
            }
            let entry = CStr::from_ptr(*next);
            next = next.add(1);
            Some(entry)
        }
    })
}

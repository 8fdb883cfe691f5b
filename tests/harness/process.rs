//! Another process, seen from the test's own pid namespace: signals to it, facts about it from `/proc`.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A set of signals, as the kernel writes it: bit n-1 for signal n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals(pub u64);

impl Signals {
    pub const ALL: Signals = Signals(!0);
    /// What a process can block: all but KILL and STOP.
    pub const BLOCKABLE: Signals = Signals(!(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1)));
    pub const NONE: Signals = Signals(0);

    pub fn of(numbers: &[i32]) -> Signals {
        Signals(numbers.iter().fold(0, |set, number| set | 1 << (number - 1)))
    }

    pub fn numbers(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |number| self.0 & 1 << (number - 1) != 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub i32);

impl Process {
    pub fn signal(self, number: i32) {
        // SAFETY: no memory is involved.
        let result = unsafe { libc::syscall(libc::SYS_kill, self.0, number) };
        assert_eq!(result, 0, "kill {} {number}: {}", self.0, io::Error::last_os_error());
    }

    /// Sends a signal with a value, as sigqueue(3) does.
    pub fn queue(self, number: i32, value: i32) {
        #[repr(C)]
        struct Queued {
            signal: i32,
            errno: i32,
            code: i32,
            padding: i32,
            pid: i32,
            uid: u32,
            value: u64,
            rest: [u64; 12],
        }
        let info = Queued {
            signal: number,
            errno: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            pid: std::process::id() as i32,
            uid: 0,
            value: value as u32 as u64,
            rest: [0; 12],
        };
        // SAFETY: `info` has the layout and size (128 bytes) of the kernel's siginfo_t.
        let result = unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, self.0, number, &info) };
        assert_eq!(result, 0, "sigqueue {} {number}: {}", self.0, io::Error::last_os_error());
    }

    /// The children, the oldest first; zombies too.
    pub fn children(self) -> Vec<Process> {
        let children = fs::read_to_string(self.file(&format!("task/{}/children", self.0))).unwrap_or_default();
        children.split_whitespace().map(|pid| Process(pid.parse().unwrap())).collect()
    }

    pub fn parent(self) -> Process {
        Process(self.status("PPid").parse().unwrap())
    }

    /// The number and arguments of the system call it is in; empty when it is in none, or not there.
    pub fn system_call(self) -> String {
        fs::read_to_string(self.file("syscall")).unwrap_or_default()
    }

    /// The state letter of ps(1); `None` when the process is gone.
    pub fn state(self) -> Option<char> {
        let stat = fs::read_to_string(self.file("stat")).ok()?;
        stat[stat.rfind(')')? + 1..].trim_start().chars().next()
    }

    pub fn is_sleeping(self) -> bool {
        self.state() == Some('S')
    }

    pub fn is_stopped(self) -> bool {
        self.state() == Some('T')
    }

    pub fn is_gone(self) -> bool {
        matches!(self.state(), None | Some('Z' | 'X'))
    }

    /// One line of `/proc/PID/status`.
    pub fn status(self, key: &str) -> String {
        let status = fs::read_to_string(self.file("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {key} in status")).trim().to_owned()
    }

    pub fn signals(self, key: &str) -> Signals {
        Signals(u64::from_str_radix(&self.status(key), 16).unwrap())
    }

    /// Every signal sent so far has been taken, and the process waits for the next.
    pub fn is_idle(self) -> bool {
        self.signals("ShdPnd") == Signals::NONE && self.is_sleeping()
    }

    pub fn context_switches(self) -> u64 {
        ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]
            .iter()
            .map(|key| self.status(key).parse::<u64>().unwrap())
            .sum()
    }

    /// Numbers of the open descriptors.
    pub fn descriptors(self) -> Vec<i32> {
        let open = fs::read_dir(self.file("fd")).unwrap();
        let mut open: Vec<i32> =
            open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
        open.sort();
        open
    }

    pub fn directory(self) -> PathBuf {
        fs::read_link(self.file("cwd")).unwrap()
    }

    fn file(self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0)
    }
}

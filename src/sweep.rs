//! Everyone but main: the processes that are asked to go after it, and in the end are made to.

use nix::unistd::Pid;

use crate::processes::{self, Process};
use crate::signal::Signal;
use crate::sys;

/// A sweep looks again until it finds nobody new, at most so often: a process may fork behind our back.
const ROUNDS: u32 = 3;

/// Sends TERM and KILL to whoever is below us, and remembers who had the one already.
pub struct Sweeper {
    is_pid_1: bool,
    /// Pid and start time: a number may be used again.
    terminated: Vec<(Pid, u64)>,
    /// Without `/proc`: all at once, and so only once.
    all_terminated: bool,
}

impl Sweeper {
    pub fn new(is_pid_1: bool) -> Sweeper {
        Sweeper { is_pid_1, terminated: Vec::new(), all_terminated: false }
    }

    /// TERM to everyone below us whom `spare` does not name and who has not had one, and CONT, since a stopped process
    /// does not see a TERM. Says to how many; `None` if nobody could tell.
    ///
    /// Without a usable `/proc`: to everyone as PID 1, else to `main_group`.
    pub fn terminate(&mut self, main_group: Pid, spare: impl Fn(&Process) -> bool) -> Option<usize> {
        let mut count = 0;
        for _ in 0..ROUNDS {
            let Some(everyone) = processes::descendants() else {
                if !std::mem::replace(&mut self.all_terminated, true) {
                    terminate(if self.is_pid_1 { EVERYONE } else { group(main_group) });
                }
                return None;
            };
            let is_new = |p: &Process| !spare(p) && !self.terminated.contains(&(p.pid, p.started));
            let new: Vec<Process> = everyone.into_iter().filter(is_new).collect();
            if new.is_empty() {
                break;
            }
            count += new.len();
            for process in new {
                terminate(process.pid);
                self.terminated.push((process.pid, process.started));
            }
        }
        Some(count)
    }

    /// KILL to everyone. Only PID 1 may say "everyone": for any other process that means the whole machine, so it is
    /// whoever is below us; without a usable `/proc`, `groups`.
    pub fn kill(&self, groups: &[Pid]) {
        if self.is_pid_1 {
            send(EVERYONE, Signal::KILL);
            return;
        }
        let mut killed: Vec<Pid> = Vec::new();
        for _ in 0..ROUNDS {
            let Some(everyone) = processes::descendants() else {
                groups.iter().for_each(|&leader| send(group(leader), Signal::KILL));
                return;
            };
            let new: Vec<Pid> = everyone.iter().map(|p| p.pid).filter(|pid| !killed.contains(pid)).collect();
            if new.is_empty() {
                return;
            }
            new.iter().for_each(|&pid| send(pid, Signal::KILL));
            killed.extend(new);
        }
    }
}

/// What kill(2) takes for every process but the caller and PID 1.
const EVERYONE: Pid = Pid::from_raw(-1);

/// What kill(2) takes for the process group of this leader.
pub fn group(leader: Pid) -> Pid {
    Pid::from_raw(-leader.as_raw())
}

/// TERM, and CONT so that it is seen.
pub fn terminate(target: Pid) {
    send(target, Signal::TERM);
    send(target, Signal::CONT);
}

/// A signal to somebody who may be gone, or not ours to signal: there is nothing to be done about that.
pub fn send(target: Pid, signal: Signal) {
    if let Err(errno) = sys::kill(target, signal) {
        log::debug!("SIG{signal} to {target}: {errno}");
    }
}

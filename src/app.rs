//! Main: the program that we were started for, from its start to its end, and how a signal gets to it.

use std::process::ExitStatus;
use std::time::Instant;

use nix::errno::Errno;
use nix::unistd::{Pid, getpgid};

use crate::report::end_of;
use crate::signal::{Signal, SignalMap, SignalSet};
use crate::spawn::{Child, ExecError, Program};
use crate::sweep;
use crate::sys::{self, Received};

/// Main runs, or ran.
pub struct App {
    program: Program,
    child: Child,
    /// Signals go to its process group.
    group: bool,
    map: SignalMap,
    /// When its stop signal was due, and sent unless the map drops it.
    pub stopped_at: Option<Instant>,
    pub ended: Option<Ended>,
    /// Its whole group has had the stop signal.
    pub group_was_stopped: bool,
    /// We have sent it a KILL: by a step or by the map.
    pub kill_was_sent: bool,
    /// Signals that could not be forwarded: one line each is enough.
    unforwarded: SignalSet,
}

#[derive(Clone, Copy)]
pub struct Ended {
    pub at: Instant,
    /// `None`: it is gone, and nobody told us how.
    pub status: Option<ExitStatus>,
}

impl App {
    pub fn new(program: Program, child: Child, group: bool, map: SignalMap) -> App {
        App {
            program,
            child,
            group,
            map,
            stopped_at: None,
            ended: None,
            group_was_stopped: false,
            kill_was_sent: false,
            unforwarded: SignalSet::default(),
        }
    }

    pub fn pid(&self) -> Pid {
        self.child.pid
    }

    pub fn lives(&self) -> bool {
        self.ended.is_none()
    }

    /// Takes note of what it tells of a failure to exec.
    pub fn hear(&mut self, received: &Received) {
        self.child.hear(received);
    }

    /// Why it never ran, if it has ended for that reason.
    pub fn exec_error(&self) -> Option<ExecError> {
        self.child.failure(&self.program, self.ended?.status?)
    }

    /// Takes note of its end, and says so in the log if somebody has asked for it.
    pub fn end(&mut self, status: Option<ExitStatus>, at: Instant, was_asked: bool) {
        self.ended = Some(Ended { at, status });
        if was_asked {
            log::info!(target: "app-ended", "the app {}", status.map_or_else(|| "is gone".into(), end_of));
        }
    }

    /// Its stop signal is due.
    pub fn stop(&mut self, signal: Signal, received: Option<&Received>, now: Instant) {
        if !self.lives() {
            return;
        }
        self.stopped_at = Some(now);
        self.group_was_stopped = self.is_group() && self.map.apply(signal).is_some();
        self.forward(signal, received);
    }

    /// Passes a signal on, through the map.
    pub fn forward(&mut self, signal: Signal, received: Option<&Received>) {
        match self.map.apply(signal) {
            Some(signal) => self.deliver(signal, received),
            None => log::debug!("SIG{signal} is dropped"),
        }
    }

    /// Whether signals go to the group. Main may have left the group that we made for it; then that is none of our
    /// business.
    fn is_group(&self) -> bool {
        self.group && getpgid(Some(self.pid())) == Ok(self.pid())
    }

    /// Sends a signal to main, or to its group; and CONT, if it was asked to stop and is stopped, so that it can.
    ///
    /// Main is unreaped here, so that its number is its own.
    pub fn deliver(&mut self, signal: Signal, received: Option<&Received>) {
        if !self.lives() {
            return;
        }
        let pid = self.pid();
        let is_group = self.is_group();
        let target = if is_group { sweep::group(pid) } else { pid };
        let with_value = received.filter(|received| !is_group && carries_value(received));
        let queued = with_value.map_or(Err(Errno::EINVAL), |received| sys::requeue(pid, signal, received));
        match queued.or_else(|_| sys::kill(target, signal)) {
            Ok(()) => {
                log::debug!("SIG{signal} to {target}");
                self.kill_was_sent |= signal == Signal::KILL;
            }
            Err(errno) if !self.unforwarded.contains(signal) => {
                self.unforwarded.insert(signal);
                log::warn!(target: "forward", "SIG{signal} could not be forwarded to the app (pid {pid}): {errno}");
            }
            Err(errno) => log::debug!("SIG{signal} to {target}: {errno}"),
        }
        if self.stopped_at.is_some() && sys::is_stopped(pid) {
            sweep::send(target, Signal::CONT);
        }
    }
}

/// Whether the kernel lets us pass a signal on with what its sender attached (rt_sigqueueinfo(2)).
fn carries_value(received: &Received) -> bool {
    received.code() < 0 && received.code() != libc::SI_TKILL
}

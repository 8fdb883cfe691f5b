//! The arrival of a signal: which one comes next, whether it is anybody's business, and who sent it.

use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::processes;
use crate::report::{Origin, Sender};
use crate::signal::{Signal, SignalSet};
use crate::sys::{self, Received};

/// After so many signals, everything that is pending gets a turn.
const ROUND_AFTER: u32 = 16;

/// Pending signals, each in its turn.
///
/// The kernel hands out the lowest number first, so somebody who sends HUP without a pause would keep TERM from ever
/// arriving. Every now and then, therefore, a round is made in which no number is taken twice.
#[derive(Default)]
pub struct Signals {
    /// Signals taken since the last round.
    count: u32,
    /// Which were taken in this round.
    taken: SignalSet,
}

impl Signals {
    /// The next signal; `None` when `deadline` has come, or when something else interrupted the wait.
    pub fn next(&mut self, deadline: Option<Instant>) -> Option<Received> {
        if self.count >= ROUND_AFTER {
            if let Some(received) = sys::wait_signal(SignalSet(!self.taken.0), Some(Duration::ZERO)) {
                self.taken.insert(received.signal);
                return Some(received);
            }
            *self = Signals::default();
        }
        self.count += 1;
        sys::wait_signal(SignalSet::ALL, deadline.map(|deadline| deadline.saturating_duration_since(sys::now())))
    }
}

/// Whether a signal concerns main. All do, except those that concern us: the end of a child, what the kernel raises
/// for something we (`own`) did ourselves, and the two numbers that belong to libc.
pub fn is_for_main(received: &Received, own: Pid) -> bool {
    let signal = received.signal;
    let from_kernel = received.code() > 0;
    // A write of ours that failed: SIGPIPE and SIGXFSZ come as if we had sent them (SI_USER, own pid).
    let from_us = received.code() == libc::SI_USER && received.sender().is_some_and(|(pid, _)| pid == own.as_raw());
    let our_fault = from_kernel && (signal.is_fault() || signal.number() == libc::SIGXCPU);
    !(signal == Signal::CHLD || signal.is_reserved() || from_us || our_fault)
}

/// Who sent a signal (sigaction(2)): the kernel by itself, somebody without a number in our pid namespace, or a
/// process, among them `parent`, which has started us.
pub fn sender(received: &Received, parent: Pid) -> Sender {
    let Some((pid, uid)) = received.sender() else {
        return Sender { origin: Origin::Terminal, pid: 0, uid: 0, name: None };
    };
    let process = Pid::from_raw(pid);
    let origin = match pid {
        0 => Origin::Outside,
        _ if process == parent => Origin::Parent,
        _ => Origin::Inside,
    };
    Sender { origin, pid, uid, name: (pid != 0).then(|| processes::name(process)).flatten() }
}

//! outro: the first process of a container. It starts one program, forwards signals, reaps orphans, and ends in time
//! and with a reason. This page is the whole of its life; `docs/design.md` says why it is so.

#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]
// Process 1 must not be able to panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice
    )
)]
// The tests have a world of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

mod app;
mod check;
mod cli;
mod drain;
#[allow(unsafe_code)]
mod entry;
mod exit;
mod logging;
mod plan;
mod processes;
mod receive;
mod report;
mod shutdown;
mod signal;
#[allow(unsafe_code)]
mod spawn;
mod supervise;
mod sweep;
#[allow(unsafe_code)]
mod sys;
mod terminal;
mod termination_log;
mod values;
mod version;

use std::borrow::Cow;
use std::ffi::{CStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{Pid, getppid};

use cli::Request;
use plan::{Plan, Rejected, ReportTo};
use report::{Cause, Facts};
use signal::Signal;
use spawn::{Child, Inherited, Program, Setup};
use supervise::{Start, Supervisor};
use sys::{Reaped, Received};
use terminal::Terminal;
use termination_log::TerminationLog;

/// How often, and how long apart, a fork that found no free process is tried again.
const FORK_ATTEMPTS: u32 = 10;
const FORK_PAUSE: Duration = Duration::from_millis(50);

/// From the arguments to the exit code. All signals are blocked, and have been since the first instruction.
pub fn run(arguments: &[OsString]) -> i32 {
    let start = sys::now();
    let environment: Vec<&'static CStr> = sys::environment().collect();
    let name = arguments.first().cloned().unwrap_or_default();
    match cli::read(arguments, &environment) {
        Request::Help(text) => version::print(&text),
        Request::Version => version::print(&version::line(&name)),
        Request::License => version::print(version::LICENSE),
        Request::Plan(input) => match plan::plan(&input) {
            Ok(plan) if input.check => version::print(&check::picture(&plan, &input)),
            Ok(plan) => i32::from(supervise(plan, input.parsed, environment, start)),
            Err(rejected) => i32::from(reject(&rejected)),
        },
    }
}

/// A configuration with faults: all of them, and nothing is started.
fn reject(rejected: &Rejected) -> u8 {
    logging::init(rejected.log);
    for fault in &rejected.faults {
        log::error!(target: "config", "{fault}");
    }
    let faults: Vec<String> = rejected.faults.iter().map(ToString::to_string).collect();
    could_not_start(&rejected.report, Cause::ConfigError, faults.join("; "), Duration::ZERO)
}

/// Says why main was not started, and with which code that ends.
fn could_not_start(to: &ReportTo, cause: Cause, error: String, uptime: Duration) -> u8 {
    let facts = Facts { error: Some(error), exit: exit::OWN_FAILURE, ..Facts::new(cause, uptime) };
    TerminationLog::new(to, is_pid_1()).write_final(&facts.record(true));
    facts.log();
    exit::OWN_FAILURE
}

fn is_pid_1() -> bool {
    Pid::this() == Pid::from_raw(1)
}

/// Starts main and stays with it to the end.
fn supervise(mut plan: Plan, parsed: bool, environment: Vec<&'static CStr>, at: Instant) -> u8 {
    logging::init(plan.log);
    plan.warnings.iter().for_each(|warning| log::warn!(target: "config", "{warning}"));
    let parent = getppid();
    ask_for_parents_death(plan.parent_death_signal, parent);
    adopt_orphans(plan.subreaper);
    let inherited = Inherited { mask: entry::mask(), child_signal_ignored: sys::is_ignored(Signal::CHLD) };
    if inherited.child_signal_ignored {
        // Children would vanish unseen (wait(2)).
        sys::set_ignored(Signal::CHLD, false);
    }
    // Who has a signal ignored for us (nohup(1), a shell's background job) does not mean to stop us by it.
    plan.shutdown.stop_signals = plan.shutdown.stop_signals.iter().filter(|&signal| !sys::is_ignored(signal)).collect();
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    plan.make_absolute(&directory);
    remove_stale_drain_file(plan.drain_file.as_deref());

    let environment = cli::environment_for_main(environment);
    let program = Program::new(&plan.command, environment.iter().copied().map(Cow::Borrowed).collect());
    let start = Start { at, pid: Pid::this(), parent, inherited, directory, environment };
    let terminal = Terminal::new();
    let child = match spawn(&plan, &program, inherited, &terminal) {
        Ok(child) => child,
        Err(NotStarted::Stop(received)) => return stopped_before_start(&plan, &received, parent, at),
        Err(NotStarted::Fork(errno)) => {
            let limit = processes::pids_limit().map(|limit| format!(" ({limit})")).unwrap_or_default();
            let error = format!("cannot start the app: fork: {}{limit}", sys::reason(errno));
            return could_not_start(&plan.report, Cause::ExecError, error, sys::now().duration_since(at));
        }
    };
    // Here main exists. Nothing may fail from now on.
    // What a directory or a descriptor of ours pins could not be unmounted, closed or bound again.
    let _ = nix::unistd::chdir("/");
    sys::close_inherited();
    if parsed {
        // What the parser has left behind would stay for the rest of a long life.
        sys::trim_heap();
    }
    let code = Supervisor::new(&plan, &start, program, child).run();
    terminal.give_back();
    code
}

/// `-p`: asks for a signal when our parent ends. If it has ended meanwhile, nobody else will send that signal.
fn ask_for_parents_death(signal: Option<Signal>, parent: Pid) {
    let Some(signal) = signal else { return };
    let result = sys::set_parent_death_signal(signal).and_then(|()| match getppid() {
        now if now == parent => Ok(()),
        _ => sys::raise_for(parent, signal),
    });
    if let Err(errno) = result {
        log::warn!(target: "start", "SIG{signal} at the parent's death is not to be had: {}", sys::reason(errno));
    }
}

/// Whoever is not PID 1 gets orphans only as a subreaper (PR_SET_CHILD_SUBREAPER).
fn adopt_orphans(subreaper: Option<bool>) {
    if is_pid_1() || subreaper == Some(false) {
        return;
    }
    if let Err(errno) = nix::sys::prctl::set_child_subreaper(true) {
        log::warn!(target: "start", "orphans will not be reaped, this process is no subreaper: {}", sys::reason(errno));
    }
}

/// A drain file that an earlier run has left would tell a probe that we are stopping.
fn remove_stale_drain_file(path: Option<&Path>) {
    let Some(path) = path.filter(|path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())) else {
        return;
    };
    if let Err(error) = std::fs::remove_file(path) {
        log::warn!(target: "drain-file", "cannot remove {}: {error}", path.display());
    }
}

/// Why main was not started.
enum NotStarted {
    Stop(Box<Received>),
    Fork(Errno),
}

/// Starts main, unless somebody has asked us to stop already. EAGAIN may pass: a limit of processes is reached, and
/// some of them are about to end.
fn spawn(plan: &Plan, program: &Program, inherited: Inherited, terminal: &Terminal) -> Result<Child, NotStarted> {
    let setup = Setup { foreground: terminal.is_ours(), aside: None };
    let mut pause = Duration::ZERO;
    for _ in 0..FORK_ATTEMPTS {
        if let Some(received) = sys::wait_signal(plan.shutdown.stop_signals, Some(pause)) {
            return Err(NotStarted::Stop(Box::new(received)));
        }
        match program.spawn(inherited, &setup) {
            Err(Errno::EAGAIN) => pause = FORK_PAUSE,
            result => return result.map_err(NotStarted::Fork),
        }
        while let Reaped::Process(..) = sys::reap(None) {}
    }
    Err(NotStarted::Fork(Errno::EAGAIN))
}

fn stopped_before_start(plan: &Plan, received: &Received, parent: Pid, at: Instant) -> u8 {
    let stop = report::Stop { signal: received.signal, from: receive::sender(received, parent) };
    let exit = exit::before_start(&plan.exit, received.signal);
    let uptime = sys::now().duration_since(at);
    let facts = Facts { stop: Some(stop), grace: plan.grace, exit, ..Facts::new(Cause::StopBeforeStart, uptime) };
    TerminationLog::new(&plan.report, is_pid_1()).write_final(&facts.record(true));
    facts.log();
    exit
}

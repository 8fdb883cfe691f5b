//! An init that runs: what it and its children say, where they are, how it ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use super::patience;
use super::process::Process;

/// How often a condition that no descriptor announces is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// One end of a pipe or terminal, read without blocking, and all that came out of it.
struct Stream {
    source: Option<File>,
    text: Vec<u8>,
}

impl Stream {
    fn new(source: Option<OwnedFd>) -> Stream {
        let source = source.map(File::from);
        if let Some(file) = &source {
            // SAFETY: only this end of the pipe or terminal becomes non-blocking, nobody shares it.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Stream { source, text: Vec::new() }
    }

    /// Takes what is there now. A terminal says EIO when its other side is closed.
    fn drain(&mut self) {
        let Some(source) = &mut self.source else {
            return;
        };
        match source.read_to_end(&mut self.text) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => self.source = None,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).replace("\r\n", "\n")
    }
}

pub struct Running {
    /// Process 1 of the namespace: the init itself, or the actor above it.
    top: Child,
    top_ends: OwnedFd,
    stdout: Stream,
    stderr: Stream,
    terminal: Option<File>,
    lines_taken: usize,
    depth: usize,
    ended: Option<ExitStatus>,
}

/// How it ended, and all that was said.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; minus the number of the signal that killed it, if one did.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// How many lines on standard output begin like this.
    pub fn count(&self, beginning: &str) -> usize {
        self.stdout.lines().filter(|line| line.starts_with(beginning)).count()
    }
}

impl Running {
    pub(super) fn new(mut top: Child, terminal: Option<OwnedFd>, depth: usize) -> Running {
        let stdout = match &terminal {
            Some(terminal) => Some(terminal.try_clone().unwrap()),
            None => top.stdout.take().map(OwnedFd::from),
        };
        let stderr = top.stderr.take().map(OwnedFd::from);
        Running {
            top_ends: open_pidfd(&top),
            top,
            stdout: Stream::new(stdout),
            stderr: Stream::new(stderr),
            terminal: terminal.map(File::from),
            lines_taken: 0,
            depth,
            ended: None,
        }
    }

    /// The init under test. Its number is found through its parents, never by name.
    pub fn init(&mut self) -> Process {
        self.descendant(self.depth)
    }

    /// The program that the init started.
    pub fn main(&mut self) -> Process {
        self.descendant(self.depth + 1)
    }

    /// The first child of the first child, and so on.
    fn descendant(&mut self, depth: usize) -> Process {
        let top = Process(self.top.id() as i32);
        self.wait_for("a child", |_| (0..depth).try_fold(top, |parent, _| parent.children().first().copied()))
    }

    pub fn signal(&mut self, number: i32) {
        self.init().signal(number);
    }

    /// Sends a signal and waits until main has echoed it.
    pub fn signal_and_hear(&mut self, number: i32) {
        self.signal(number);
        self.hear(number);
    }

    /// The next thing main says must be that it got this signal.
    pub fn hear(&mut self, number: i32) {
        let line = self.line();
        assert!(line.starts_with(&format!("got {number} ")), "not {number}: {line}\n{}", self.transcript());
    }

    /// The next line on standard output.
    pub fn line(&mut self) -> String {
        let number = self.lines_taken;
        let line = self.wait_for("a line", |running| {
            let text = running.stdout.text();
            let complete = text.matches('\n').count();
            (number < complete).then(|| text.lines().nth(number).unwrap().to_owned())
        });
        self.lines_taken += 1;
        line
    }

    pub fn expect(&mut self, line: &str) {
        assert_eq!(self.line(), line, "\n{}", self.transcript());
    }

    /// What has been said so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub fn wait_for_stdout(&mut self, words: &str) {
        self.wait_until(words, |running| running.stdout.text().contains(words));
    }

    pub fn wait_for_stderr(&mut self, words: &str) {
        self.wait_until(words, |running| running.stderr.text().contains(words));
    }

    /// The other side of the terminal.
    pub fn terminal(&self) -> &File {
        self.terminal.as_ref().expect("started on a terminal")
    }

    pub fn hang_up(&mut self) {
        self.terminal = None;
        self.stdout.source = None;
    }

    /// Everything that was sent to the init has been dealt with.
    pub fn wait_until_idle(&mut self) {
        let init = self.init();
        self.wait_until("the init to be idle", |_| init.is_idle());
    }

    pub fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.top.try_wait().unwrap();
        }
        self.ended.is_some()
    }

    pub fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&mut Running) -> bool) {
        self.wait_for(what, |running| condition(running).then_some(()));
    }

    /// The only place where a test waits: until the condition gives an answer. The watchdog ends it.
    pub fn wait_for<T>(&mut self, what: &str, mut answer: impl FnMut(&mut Running) -> Option<T>) -> T {
        let gives_up_at = Instant::now() + patience();
        loop {
            self.stdout.drain();
            self.stderr.drain();
            if let Some(answer) = answer(self) {
                return answer;
            }
            assert!(Instant::now() < gives_up_at, "waited in vain for: {what}\n{}", self.transcript());
            self.sleep_until_something_happens();
        }
    }

    fn sleep_until_something_happens(&self) {
        let sources = [&self.stdout.source, &self.stderr.source];
        let open = sources.into_iter().flatten().map(|file| (file.as_raw_fd(), libc::POLLIN));
        let end = self.ended.is_none().then(|| (self.top_ends.as_raw_fd(), libc::POLLIN));
        let mut polled: Vec<_> = open.chain(end).map(|(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
        // SAFETY: `polled` is as long as it says.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, GLANCE.as_millis() as i32) };
    }

    /// Waits for the end of the init and of its output.
    pub fn finish(mut self) -> Finished {
        self.wait_until("the end of the init", Running::has_ended);
        self.wait_until("the end of the output", |running| {
            running.stdout.source.is_none() && running.stderr.source.is_none()
        });
        let status = self.ended.unwrap();
        Finished {
            code: status.code().unwrap_or_else(|| -status.signal().unwrap()),
            stdout: self.stdout.text(),
            stderr: self.stderr.text(),
        }
    }

    fn transcript(&self) -> String {
        format!("--- stdout\n{}--- stderr\n{}--- ended: {:?}", self.stdout.text(), self.stderr.text(), self.ended)
    }
}

impl Drop for Running {
    /// With process 1 its whole namespace ends.
    fn drop(&mut self) {
        let _ = self.top.kill();
        let _ = self.top.wait();
    }
}

fn open_pidfd(child: &Child) -> OwnedFd {
    // SAFETY: the kernel gives a new descriptor, which is ours.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, child.id(), 0);
        assert!(descriptor >= 0, "pidfd_open: {}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(descriptor as i32)
    }
}

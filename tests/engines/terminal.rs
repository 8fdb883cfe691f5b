//! `docker run --interactive --tty`: Ctrl-C and job control, typed by the test at docker's own terminal.

use super::container::unique_name;
use super::engine::{Engine, output};
use super::image::{Image, tiny};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
/// busybox's shell, as root in `/`.
const PROMPT: &str = "/ # ";
const PATIENCE: Duration = Duration::from_secs(60);

/// A person in front of a terminal, with `docker run -it` on it.
struct Person {
    engine: &'static Engine,
    name: String,
    docker: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    read: String,
}

impl Person {
    fn runs(image: &'static Image, command: &[&str]) -> Person {
        let size = Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).expect("a terminal");
        let terminal = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        let name = unique_name();
        let words = [&["run", "-it", "--rm", "--network", "none", "--name", &name, &image.tag], command].concat();
        let mut docker = image.engine.docker(&words);
        let docker = docker.stdin(terminal()).stdout(terminal()).stderr(terminal()).spawn().expect("docker run");
        let keyboard = File::from(pty.master);
        let screen = watch(keyboard.try_clone().expect("a descriptor"));
        Person { engine: image.engine, name, docker, keyboard, screen, read: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a keyboard");
    }

    /// The terminal shows the line once, and `cat` once more, if it may read.
    fn types_to_cat(&mut self, line: &str) {
        self.types(&format!("{line}\n"));
        self.sees(line);
        self.sees(line);
    }

    /// Reads on until this stands on the screen; what stood before it is read.
    fn sees(&mut self, text: &str) {
        loop {
            if let Some(at) = self.read.find(text) {
                self.read.drain(..at + text.len());
                return;
            }
            let more = self.screen.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("{text:?} does not appear after {:?}", self.read));
            self.read += &String::from_utf8_lossy(&more);
        }
    }

    fn leaves_with(mut self, code: i32) {
        loop {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(more) => self.read += &String::from_utf8_lossy(&more),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("docker run does not end after {:?}", self.read),
            }
        }
        let ended = self.docker.wait().expect("docker run");
        assert_eq!(ended.code(), Some(code), "{:?}", self.read);
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // Gone already if all went well: then docker complains, and nobody minds.
        let _ = output(&mut self.engine.docker(&["rm", "--force", &self.name]));
        let _ = self.docker.wait();
    }
}

fn watch(mut screen: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        // EIO: the last one with this terminal open has gone.
        while let Ok(n @ 1..) = screen.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

#[test]
fn ctrl_c_interrupts_the_program_and_its_code_comes_back() {
    let Some(image) = tiny() else { return };
    let script = "trap 'echo interrupted; exit 5' INT; echo rea''dy; while :; do sleep 0.1; done";
    let mut person = Person::runs(image, &["sh", "-c", script]);
    person.sees("ready");
    person.types(CTRL_C);
    person.sees("interrupted");
    person.leaves_with(5);
}

#[test]
fn a_shell_has_job_control_and_the_terminal_below_us() {
    let Some(image) = tiny() else { return };
    let mut person = Person::runs(image, &["sh"]);
    person.sees(PROMPT);
    // What the job itself prints shows that it has the terminal: a key before that would be the shell's.
    person.types("sh -c 'echo $((6*7)); exec cat'\n");
    person.sees("42");
    person.types(CTRL_Z);
    person.sees("Stopped");
    person.sees(PROMPT);
    person.types("fg\n");
    person.sees("exec cat"); // the shell reads no more keys
    person.types_to_cat("hello");
    person.types(CTRL_C);
    person.sees(PROMPT);
    person.types("echo code $?\n");
    person.sees("code 130");
    person.types("exit 9\n");
    person.leaves_with(9);
}

#[test]
fn ctrl_c_at_a_shells_prompt_does_not_end_the_shell() {
    let Some(image) = tiny() else { return };
    let mut person = Person::runs(image, &["sh"]);
    person.sees(PROMPT);
    person.types(CTRL_C);
    person.sees(PROMPT);
    person.types("echo $((8*8))\n");
    person.sees("64");
    person.types("exit 0\n");
    person.leaves_with(0);
}

//! One run of an image: started, listened to, stopped, and removed when the test is over.

use super::engine::{Engine, output, outro};
use super::image::Image;
use super::timeline::{Timeline, Who, parse_stamp};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// How a container is going to be run. Options are docker's own.
pub struct Run {
    image: &'static Image,
    /// What stands before the command, if the entry point is not the image's own.
    entry: &'static [&'static str],
    options: Vec<String>,
    report: Option<tempfile::TempDir>,
    story: Option<String>,
    pub timeline: Arc<Timeline>,
}

pub struct Container {
    engine: &'static Engine,
    name: String,
    pub timeline: Arc<Timeline>,
    readers: Vec<JoinHandle<()>>,
    deaths: usize,
    report: Option<tempfile::TempDir>,
    story: Option<String>,
}

impl Run {
    pub fn of(image: &'static Image) -> Run {
        Run { image, entry: &[], options: Vec::new(), report: None, story: None, timeline: Arc::default() }
    }

    /// The time line is going to be printed and kept under this title, however the test ends.
    pub fn story(self, title: &str) -> Run {
        Run { story: Some(title.to_owned()), ..self }
    }

    pub fn option(mut self, option: &str) -> Run {
        self.options.extend(option.split_whitespace().map(str::to_owned));
        self
    }

    /// `NAME=value`, spaces and all.
    pub fn env(mut self, assignment: &str) -> Run {
        self.options.extend(["--env".to_owned(), assignment.to_owned()]);
        self
    }

    pub fn mount(mut self, host: &Path, inside: &str) -> Run {
        self.options.extend(["--volume".to_owned(), format!("{}:{inside}", host.display())]);
        self
    }

    /// The image's other init, for comparison.
    pub fn under_tini(self) -> Run {
        Run { entry: &["--"], ..self.option("--entrypoint=/tini") }
    }

    /// No init at all: the command is PID 1.
    pub fn without_init(self) -> Run {
        self.option("--entrypoint=/bin/env")
    }

    /// Mounts a termination message file as the kubelet does, at the path the pod asked for.
    pub fn with_message_file(mut self, inside: &str) -> Run {
        let pods = tempfile::tempdir().expect("a directory");
        let file = message_file(pods.path());
        fs::create_dir_all(file.parent().expect("a directory")).expect("the pod's directories");
        fs::write(&file, "").expect("an empty message");
        fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).expect("as the kubelet does");
        self.report = Some(pods);
        self.mount(&file, inside)
    }

    /// `docker run`, with these words for the entry point.
    pub fn start(self, command: &[&str]) -> Container {
        let (mut container, mut docker) = self.prepare("--detach", command);
        output(&mut docker).unwrap_or_else(|complaint| panic!("{docker:?}: {complaint}"));
        container.readers = container.listen(UNIX_EPOCH);
        container
    }

    /// `docker run` that stays, as a person at a desk uses it.
    pub fn start_attached(self, command: &[&str]) -> (Container, Child) {
        let (mut container, mut docker) = self.prepare("--attach=STDOUT", command);
        let docker = docker.stdout(Stdio::null()).spawn().expect("docker run");
        container.timeline.wait_for(Who::Engine, "start");
        container.readers = container.listen(UNIX_EPOCH);
        (container, docker)
    }

    fn prepare(self, mode: &str, command: &[&str]) -> (Container, Command) {
        let Run { image, entry, options, report, story, timeline } = self;
        let name = unique_name();
        image.engine.follow(&name, &timeline);
        let mut docker = image.engine.docker(&["run", mode, "--name", &name]);
        if !options.iter().any(|option| option == "--network") {
            docker.args(["--network", "none"]);
        }
        docker.args(options).arg(&image.tag).args(entry).args(command);
        let container =
            Container { engine: image.engine, name, timeline, readers: Vec::new(), deaths: 0, report, story };
        (container, docker)
    }
}

/// Unlike any other, in this run of the tests and in the next.
pub fn unique_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(1);
    format!("outro-test-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// `pods/<uid>/containers/<name>/<8 hex>`: outro knows a termination message by this shape.
fn message_file(root: &Path) -> PathBuf {
    root.join("pods/6c1c8ba2-0f4e-4b7e-9a53-5b5a4f0d8a11/containers/app/0a1b2c3d")
}

impl Container {
    /// Waits for a line of the application.
    pub fn ready(self, line: &str) -> Container {
        self.timeline.wait_for(Who::App, line);
        self
    }

    /// `docker stop`. Returns when the container is down.
    pub fn stop(&self, seconds: u32) {
        self.timeline.note(Who::Platform, &format!("docker stop --time {seconds}"));
        self.engine.run(&["stop", "--time", &seconds.to_string(), &self.name]);
    }

    /// `docker stop` without a number: what `--stop-timeout` said counts.
    pub fn stop_by_its_own_timeout(&self) {
        self.timeline.note(Who::Platform, "docker stop");
        self.engine.run(&["stop", &self.name]);
    }

    pub fn signal(&self, signal: &str) {
        self.timeline.note(Who::Platform, &format!("docker kill --signal {signal}"));
        self.engine.run(&["kill", "--signal", signal, &self.name]);
    }

    /// Runs a command beside the application, to its end.
    pub fn exec(&self, command: &[&str]) -> String {
        self.engine.run(&[&["exec", self.name.as_str()], command].concat())
    }

    /// `docker exec` of a command that the test talks to.
    pub fn exec_interactive(&self, command: &[&str]) -> Child {
        let args = [&["exec", "--interactive", self.name.as_str()], command].concat();
        let mut exec = self.engine.docker(&args);
        exec.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("docker exec")
    }

    /// Starts it again, with the files it left.
    pub fn restart(&mut self) {
        let now = SystemTime::now();
        self.engine.run(&["start", &self.name]);
        self.readers = self.listen(now);
    }

    /// Waits for the end and returns the exit code.
    pub fn wait(&mut self) -> i32 {
        self.deaths += 1;
        let died = self.timeline.wait_for_several(self.deaths, Who::Engine, "die exitCode=");
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader of the log");
        }
        if let Some(record) = self.message().lines().last() {
            self.timeline.note(Who::Report, record);
        }
        died.text["die exitCode=".len()..].parse().expect("a number")
    }

    /// Stops it and returns the exit code.
    pub fn stop_and_wait(&mut self, seconds: u32) -> i32 {
        self.stop(seconds);
        self.wait()
    }

    /// What the kubelet would read as the termination message.
    pub fn message(&self) -> String {
        let read = |pods: &tempfile::TempDir| fs::read_to_string(message_file(pods.path())).expect("the message file");
        self.report.as_ref().map(read).unwrap_or_default()
    }

    /// The last record of the termination message.
    #[track_caller]
    pub fn record(&self) -> Value {
        let message = self.message();
        let last = message.lines().last().unwrap_or_else(|| panic!("no record:\n{}", self.timeline));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last:?}"))
    }

    /// The engine's own log about this container: did it lose patience?
    pub fn was_forced(&self) -> bool {
        let id = self.engine.run(&["inspect", "--format", "{{.Id}}", &self.name]);
        let log = self.engine.log_about(&id);
        log.contains("using the force") || log.contains("failed to exit within")
    }

    /// Both streams of the log go to the time line, each line with the engine's time.
    fn listen(&self, since: SystemTime) -> Vec<JoinHandle<()>> {
        let since = format!("{:.6}", since.duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64());
        let mut logs = self.engine.docker(&["logs", "--follow", "--timestamps", "--since", &since, &self.name]);
        let mut logs = logs.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("docker logs");
        let stdout = note_lines(&self.timeline, logs.stdout.take().expect("piped"));
        let stderr = note_lines(&self.timeline, logs.stderr.take().expect("piped"));
        vec![stdout, stderr, thread::spawn(move || drop(logs.wait()))]
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Nothing to be done about a failure: the engine removes what is left when it goes.
        let _ = self.engine.docker(&["rm", "--force", "--volumes", &self.name]).output();
        self.engine.unfollow(&self.name);
        if let Some(title) = &self.story {
            self.timeline.publish(title);
        }
    }
}

fn note_lines(timeline: &Arc<Timeline>, stream: impl Read + Send + 'static) -> JoinHandle<()> {
    let timeline = Arc::clone(timeline);
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let (stamp, text) = line.split_once(' ').unwrap_or((&line, ""));
            let who = if text.starts_with("outro:") { Who::Outro } else { Who::App };
            let at = parse_stamp(stamp).unwrap_or_else(|| panic!("not a time: {stamp:?}"));
            timeline.note_at(at, who, text.trim_end());
        }
    })
}

/// The version line of the program, as an engine asks for it.
pub fn version_line() -> String {
    output(Command::new(outro()).arg("--version")).expect("--version")
}

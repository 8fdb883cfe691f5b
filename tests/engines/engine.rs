//! The Docker Engine of this test run: started by the first test that wants it, gone when the process is.

use super::timeline::{Timeline, Who};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, UNIX_EPOCH};
use std::{env, fs, thread};

/// Whose time line hears of which container, by name.
type Followers = Arc<Mutex<HashMap<String, Arc<Timeline>>>>;

pub struct Engine {
    socket: String,
    log: PathBuf,
    followers: Followers,
    /// Takes the engine down when its standard input closes, that is, when this process has ended.
    _supervisor: Child,
}

/// The program under test; another one may stand in for it, to try the tests themselves.
pub fn outro() -> PathBuf {
    env::var_os("OUTRO_TEST_INIT").map_or_else(|| env!("CARGO_BIN_EXE_outro").into(), PathBuf::from)
}

/// Kept between runs: images, compiled programs, the engine's log.
pub fn cache() -> PathBuf {
    let cache = target().join("engine-cache");
    fs::create_dir_all(&cache).expect("a cache below target/");
    cache
}

pub fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp has a parent")
}

/// `None`: this machine cannot run an engine, and skipping was allowed.
pub fn engine() -> Option<&'static Engine> {
    static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();
    ENGINE
        .get_or_init(|| available(&["dockerd", "docker", "containerd", "runc", "busybox"]).then(Engine::start))
        .as_ref()
}

/// Whether these programs are installed and we are root. If not, that is a failure, unless skipping was allowed.
pub fn available(programs: &[&str]) -> bool {
    let installed = |name: &&str| output(Command::new("sh").args(["-c", "command -v \"$0\"", name])).is_ok();
    let missing: Vec<_> = programs.iter().filter(|name| !installed(name)).collect();
    let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if root && missing.is_empty() {
        return true;
    }
    let allowed =
        env::var("OUTRO_TEST_ALLOW_SKIP").is_ok_and(|v| v == "1") && !env::var("CI").is_ok_and(|v| v == "true");
    assert!(allowed, "engine tests need root (we are: {root}) and {missing:?}; OUTRO_TEST_ALLOW_SKIP=1 skips them");
    false
}

impl Engine {
    fn start() -> Engine {
        let private = tempfile::Builder::new().prefix("outro-engine.").tempdir().expect("a private directory").keep();
        let mut supervisor = Command::new("sh")
            .args(["-c", include_str!("supervise.sh"), "supervise"])
            .args([&cache(), &private, &outro()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0) // a Ctrl-C for the tests must not reach the engine first
            .spawn()
            .expect("sh");
        let mut ready = String::new();
        BufReader::new(supervisor.stdout.take().expect("piped")).read_line(&mut ready).expect("the supervisor's word");
        let log = cache().join("dockerd.log");
        assert_eq!(ready, "ready\n", "the engine did not start:\n{}", fs::read_to_string(&log).unwrap_or_default());

        let socket = format!("unix://{}/docker.sock", private.display());
        let engine = Engine { socket, log, followers: Followers::default(), _supervisor: supervisor };
        engine.watch();
        engine
    }

    /// A `docker` command line, to be completed.
    pub fn docker(&self, args: &[&str]) -> Command {
        let mut docker = Command::new("docker");
        self.environment(docker.args(args).stdin(Stdio::null()));
        docker
    }

    /// Makes any `docker` that a command runs talk to this engine.
    pub fn environment<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("DOCKER_HOST", &self.socket).env("DOCKER_BUILDKIT", "0")
    }

    /// What a `docker` command printed. It has to succeed.
    pub fn run(&self, args: &[&str]) -> String {
        output(&mut self.docker(args)).unwrap_or_else(|complaint| panic!("docker {args:?}: {complaint}"))
    }

    /// What the engine itself logged about a container.
    pub fn log_about(&self, id: &str) -> String {
        let log = fs::read_to_string(&self.log).expect("the engine's log");
        log.lines().filter(|line| line.contains(id)).collect::<Vec<_>>().join("\n")
    }

    /// From now on the engine's events about a container go to its time line.
    pub fn follow(&self, name: &str, timeline: &Arc<Timeline>) {
        self.followers.lock().unwrap().insert(name.to_owned(), Arc::clone(timeline));
    }

    pub fn unfollow(&self, name: &str) {
        self.followers.lock().unwrap().remove(name);
    }

    /// Hands every event to whom it concerns, as long as the engine lives.
    fn watch(&self) {
        // `--since`: events from before this client is connected count, too.
        let mut events = self.docker(&["events", "--since", "1", "--format", "{{json .}}"]);
        events.stdout(Stdio::piped()).stderr(Stdio::null());
        let followers = Arc::clone(&self.followers);
        thread::spawn(move || {
            let mut events = events.spawn().expect("docker events");
            let lines = BufReader::new(events.stdout.take().expect("piped")).lines();
            for line in lines.map_while(Result::ok) {
                dispatch(&serde_json::from_str(&line).expect("an event is JSON"), &followers);
            }
            let _ = events.wait();
        });
    }
}

fn dispatch(event: &Value, followers: &Followers) {
    let attributes = &event["Actor"]["Attributes"];
    let Some(name) = attributes["name"].as_str() else {
        return;
    };
    let Some(timeline) = followers.lock().unwrap().get(name).cloned() else {
        return;
    };
    let action = event["Action"].as_str().unwrap_or("?");
    if action.starts_with("exec_") {
        return; // what the tests themselves do beside the application
    }
    let details =
        ["signal", "exitCode"].into_iter().filter_map(|key| Some(format!(" {key}={}", attributes[key].as_str()?)));
    let text = action.to_owned() + &details.collect::<String>();
    let at = Duration::from_nanos(event["timeNano"].as_u64().unwrap_or_default());
    timeline.note_at(UNIX_EPOCH + at, Who::Engine, &text);
}

/// Standard output of a command that succeeded; else both its outputs.
pub fn output(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if out.status.success() {
        return Ok(text(&out.stdout));
    }
    Err(format!("{}\n{}\n{}", out.status, text(&out.stdout), text(&out.stderr)))
}

//! `podman run --init --init-path`, with a store of its own and no daemon.

use super::container::unique_name;
use super::engine::{available, output, outro};
use super::image::fill_with_busybox;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Storage that goes with the test.
struct Podman {
    directory: tempfile::TempDir,
}

impl Podman {
    /// With one image, `tiny`: busybox and nothing else.
    fn new() -> Option<Podman> {
        if !available(&["podman", "runc", "busybox", "tar"]) {
            return None;
        }
        let podman = Podman { directory: tempfile::tempdir().expect("a directory") };
        let (root, archive) = (podman.path("image"), podman.path("image.tar"));
        fs::create_dir(&root).expect("a directory");
        fill_with_busybox(Path::new(&root));
        output(Command::new("tar").args(["-C", &root, "-cf", &archive, "."])).expect("an archive");
        podman.run(&["import", "--change", "ENV PATH=/bin", &archive, "tiny"]);
        Some(podman)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut podman = Command::new("podman");
        podman
            .args(["--root", &self.path("root"), "--runroot", &self.path("run")])
            .args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "none"])
            .args(args);
        podman
    }

    fn run(&self, args: &[&str]) -> String {
        output(&mut self.command(args)).unwrap_or_else(|complaint| panic!("podman {args:?}: {complaint}"))
    }

    /// Starts `sh -c SCRIPT` in the background below our program, and returns the container's name.
    fn start(&self, options: &[&str], script: &str) -> String {
        let name = unique_name();
        let limits = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        let init = outro();
        let args = [
            &["run", "--detach", "--log-driver", "k8s-file", "--name", &name][..],
            &limits,
            &["--init", "--init-path", init.to_str().expect("UTF-8")],
            options,
            &["tiny", "sh", "-c", script],
        ];
        self.run(&args.concat());
        name
    }

    /// `podman logs --follow` would not notice that its reader has seen enough.
    fn wait_for_line(&self, name: &str, line: &str) {
        let patience = Instant::now() + Duration::from_secs(60);
        while !self.run(&["logs", name]).lines().any(|said| said == line) {
            assert!(Instant::now() < patience, "{line:?} does not appear");
            thread::sleep(Duration::from_millis(50)); // between two looks at a condition: each starts a podman
        }
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command(&["rm", "--all", "--force", "--time", "0"]).output();
    }
}

#[test]
fn podman_init_is_our_program_and_podman_stop_reaches_the_main_process() {
    let Some(podman) = Podman::new() else { return };
    let script = "tr '\\0' ' ' < /proc/1/cmdline; echo; trap 'echo got TERM; exit 7' TERM; echo ready; while :; do sleep 0.1; done";
    let name = podman.start(&["--env", "OUTRO_GRACE=30"], script);
    podman.wait_for_line(&name, "ready");
    podman.run(&["stop", "--time", "30", &name]);
    assert_eq!(podman.run(&["wait", &name]), "7");
    let said = podman.run(&["logs", &name]);
    assert!(said.starts_with("/run/podman-init -- sh -c"), "{said}");
    assert!(said.contains("got TERM"), "{said}");
}

#[test]
fn podman_has_no_need_to_resort_to_sigkill() {
    let Some(podman) = Podman::new() else { return };
    let name = podman.start(&["--env", "OUTRO_GRACE=4"], "trap '' TERM; echo ready; while :; do sleep 0.1; done");
    podman.wait_for_line(&name, "ready");
    podman.run(&["stop", "--time", "4", &name]);
    assert_eq!(podman.run(&["wait", &name]), "124");
}

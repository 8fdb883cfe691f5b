//! `Dockerfile.example`, built by an engine that knows no registry: the base images are arguments, and made here.
//!
//! The builder is an image whose `cargo` hands over the binary that is tested anyway: what is tried is every
//! instruction of the file and the image that comes out of it, not the compiler.

use super::container::Run;
use super::engine::{Engine, output};
use super::image::{Image, build, context, fill_with_busybox, readable_by_all, scratch, tiny};
use super::timeline::Who;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const CARGO: &str = "#!/bin/sh
[ \"$*\" = 'build --release --locked --bin outro' ] && [ -f Cargo.lock ] && [ -f src/main.rs ] && [ -f .cargo/config.toml ] || exit 1
mkdir -p target/release && cp /prepared/outro target/release/
";

/// An image with /bin/sh and a `cargo`.
fn builder(engine: &'static Engine) -> Image {
    let context = context();
    fill_with_busybox(context.path());
    let cargo = context.path().join("bin/cargo");
    fs::write(&cargo, CARGO).expect("a script");
    fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).expect("ours");
    let dockerfile = "FROM scratch\nCOPY bin /bin/\nCOPY outro /prepared/\nENV PATH=/bin\n";
    build(engine, "builder", dockerfile, context.path())
}

/// The files of this repository that a `docker build` would see, without the large and the hidden.
fn sources() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    readable_by_all(copy.path());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["Cargo.toml", "Cargo.lock", "LICENSE-MIT", ".cargo", "src", "Dockerfile.example"] {
        let cp = output(Command::new("cp").arg("-R").arg(root.join(name)).arg(copy.path()));
        cp.unwrap_or_else(|complaint| panic!("{name}: {complaint}"));
    }
    copy
}

/// Builds the example on this base image.
fn example(base: &Image, name: &str) -> Image {
    let engine = base.engine;
    let (builder, sources) = (builder(engine), sources());
    let file = sources.path().join("Dockerfile.example");
    let tag = format!("outro-test-example-{name}");
    let mut docker = engine.docker(&["build", "--tag", &tag, "--file", file.to_str().expect("UTF-8")]);
    docker.args(["--build-arg", &format!("BUILDER={}", builder.tag), "--build-arg", &format!("BASE={}", base.tag)]);
    output(docker.arg(sources.path())).unwrap_or_else(|complaint| panic!("docker build: {complaint}"));
    Image { engine, tag }
}

/// Runs the program of this image, and stops it.
fn starts_waits_and_stops(image: &'static Image, program: &[&str], said: &str) {
    let run = Run::of(image).env("OUTRO_DELAY=1").with_message_file("/dev/termination-log");
    let mut container = run.start(program).ready("ready");
    assert_eq!(container.stop_and_wait(30), 0);
    container.timeline.assert_order(&[(Who::App, said), (Who::Engine, "die exitCode=0")]);
    assert!(container.timeline.time_of(Who::App, said) >= 0.9, "{}", container.timeline);
    let record = container.record();
    assert_eq!((&record["grace_s"], &record["delay_s"]), (&30.into(), &1.into()), "{}", container.timeline);
}

#[test]
fn the_example_dockerfile_adds_a_bounded_stop_to_an_applications_image() {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    let Some(base) = tiny() else { return };
    let script = "trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    starts_waits_and_stops(IMAGE.get_or_init(|| example(base, "busybox")), &["sh", "-c", script], "got TERM");
}

#[test]
fn the_example_dockerfile_needs_nothing_of_the_base_image() {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    let Some(base) = scratch() else { return };
    starts_waits_and_stops(IMAGE.get_or_init(|| example(base, "scratch")), &["/app", "polite"], "got terminated");
}

//! The images, all made on this machine: no registry is asked. Each has the program under test as ENTRYPOINT.
//!
//! `tiny` is busybox; `scratch` holds one static program and nothing else; `apps` is Debian with the servers of the
//! scenarios. Debian itself, the slow part, is kept in the cache and made anew when its recipe changes.

use super::engine::{Engine, available, cache, engine, output, outro};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub struct Image {
    pub engine: &'static Engine,
    pub tag: String,
}

const DEBIAN: &str = "bookworm";
const PACKAGES: &[&str] = &[
    "celery",
    "default-jre-headless",
    "gunicorn",
    "nginx-light",
    "nodejs",
    "postgresql-15",
    "procps",
    "python3",
    "python3-redis",
    "redis-server",
];

/// outro, tini and busybox.
pub fn tiny() -> Option<&'static Image> {
    static IMAGE: OnceLock<Option<Image>> = OnceLock::new();
    let make = || {
        let engine = engine()?;
        let context = context();
        fill_with_busybox(context.path());
        Some(build(engine, "tiny", "FROM scratch\nCOPY . /\nENTRYPOINT [\"/outro\", \"--\"]\n", context.path()))
    };
    IMAGE.get_or_init(make).as_ref()
}

/// The inits and a static program in Go, with no other file: no shell, no /tmp, no libc.
pub fn scratch() -> Option<&'static Image> {
    static IMAGE: OnceLock<Option<Image>> = OnceLock::new();
    let make = || {
        let engine = engine()?;
        let context = context();
        fs::copy(go_program()?, context.path().join("app")).expect("the program");
        let dockerfile = "FROM scratch\nCOPY outro tini app /\nENTRYPOINT [\"/outro\", \"--\", \"/app\"]\n";
        Some(build(engine, "scratch", dockerfile, context.path()))
    };
    IMAGE.get_or_init(make).as_ref()
}

/// Debian with Node, nginx, PostgreSQL, Java, Python, gunicorn and celery, and the applications of `apps/`.
pub fn apps() -> Option<&'static Image> {
    static IMAGE: OnceLock<Option<Image>> = OnceLock::new();
    let make = || {
        let engine = engine()?;
        let debian = debian(engine)?;
        let context = context();
        let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/apps");
        run(Command::new("cp").arg("-R").arg(apps).arg(context.path()));
        let dockerfile = format!("FROM {debian}\nCOPY . /\nWORKDIR /apps\nENTRYPOINT [\"/outro\", \"--\"]\n");
        Some(build(engine, "apps", &dockerfile, context.path()))
    };
    IMAGE.get_or_init(make).as_ref()
}

/// The directory an image is built from, with both inits in it.
pub fn context() -> tempfile::TempDir {
    let context = tempfile::tempdir().expect("a directory");
    readable_by_all(context.path());
    fs::copy(outro(), context.path().join("outro")).expect("the program under test");
    fs::copy("/usr/bin/tini-static", context.path().join("tini")).expect("tini, to compare with");
    context
}

pub fn build(engine: &'static Engine, name: &str, dockerfile: &str, context: &Path) -> Image {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), dockerfile).expect("a Dockerfile");
    let tag = format!("outro-test-{name}");
    let [file, context] = [file.path(), context].map(|path| path.to_str().expect("UTF-8"));
    engine.run(&["build", "--quiet", "--tag", &tag, "--file", file, context]);
    Image { engine, tag }
}

pub fn fill_with_busybox(root: &Path) {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).expect("a directory");
    fs::copy("/usr/bin/busybox", bin.join("busybox")).expect("busybox");
    for applet in
        output(Command::new("busybox").arg("--list")).expect("a list").lines().filter(|name| *name != "busybox")
    {
        symlink("busybox", bin.join(applet)).expect("a link");
    }
}

/// The tag of the Debian image, fetched and imported if the cache has none of this recipe.
fn debian(engine: &Engine) -> Option<String> {
    let tag = format!("outro-test-debian:{:x}", hash(&(DEBIAN, PACKAGES)));
    if output(&mut engine.docker(&["image", "inspect", &tag])).is_ok() {
        return Some(tag);
    }
    if !available(&["debootstrap", "tar"]) {
        return None;
    }
    let outdated = engine.run(&["images", "--format", "{{.Repository}}:{{.Tag}}", "outro-test-debian"]);
    outdated.lines().for_each(|tag| drop(engine.run(&["rmi", tag])));
    let root = tempfile::tempdir_in(cache()).expect("a directory in the cache");
    readable_by_all(root.path());
    run(Command::new("debootstrap")
        .args(["--variant=minbase", &format!("--include={}", PACKAGES.join(",")), DEBIAN])
        .arg(root.path()));
    let import = "tar -C \"$0\" --exclude=./var/cache/apt --exclude=./var/lib/apt/lists -c . | docker import - \"$1\"";
    run(engine.environment(Command::new("sh").args(["-c", import]).arg(root.path()).arg(&tag)));
    Some(tag)
}

/// The compiled `signals.go`, from the cache if the source is the same.
fn go_program() -> Option<PathBuf> {
    if !available(&["go"]) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/apps/signals.go");
    let program = cache().join(format!("signals-{:x}", hash(&fs::read(&source).expect("the source"))));
    if !program.exists() {
        let go = cache().join("go");
        run(Command::new("go")
            .args(["build", "-o"])
            .args([&program, &source])
            .env("CGO_ENABLED", "0")
            .env("GO111MODULE", "off")
            .env("GOCACHE", &go)
            .env("GOPATH", &go));
    }
    Some(program)
}

/// It becomes the root directory of an image, for containers of other users as well.
pub fn readable_by_all(directory: &Path) {
    fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).expect("ours");
}

fn run(command: &mut Command) {
    if let Err(complaint) = output(command) {
        panic!("{command:?}: {complaint}");
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

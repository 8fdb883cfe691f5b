//! The programs that tests start, and directories for what they write.

use std::fs::{self, File};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tempfile::TempDir;

/// Held while a process is created and while an executable file is written: a child forked in between would hold the
/// file open for writing, and whoever executes it gets ETXTBSY.
pub fn no_fork_meanwhile() -> MutexGuard<'static, ()> {
    static FORKING: Mutex<()> = Mutex::new(());
    FORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program under development.
pub fn outro() -> PathBuf {
    env!("CARGO_BIN_EXE_outro").into()
}

/// The program that plays the part of main, see tests/helper/actor.c. Compiled at its first use.
pub fn actor() -> PathBuf {
    static ACTOR: OnceLock<PathBuf> = OnceLock::new();
    ACTOR.get_or_init(|| compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/helper/actor.c"))).clone()
}

fn compile(source: &Path) -> PathBuf {
    let _guard = no_fork_meanwhile();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = directory.join("actor");
    let unfinished = directory.join(format!("actor.{}", std::process::id()));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-static", "-o"])
        .args([&unfinished, source])
        .output()
        .expect("the tests need a C compiler, cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&unfinished, &program).unwrap();
    program
}

/// A directory of one test, readable for every user, removed at the end.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        let directory = tempfile::tempdir().unwrap();
        set_mode(directory.path(), 0o755);
        Scratch(directory)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file with this mode.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let _guard = no_fork_meanwhile();
        let path = self.join(name);
        fs::write(&path, content).unwrap();
        set_mode(&path, mode);
        path
    }

    /// Copies a program to where every user may run it.
    pub fn install(&self, program: &Path) -> PathBuf {
        let name = program.file_name().unwrap().to_str().unwrap();
        self.file(name, fs::read(program).unwrap(), 0o755)
    }
}

/// A pipe that no child inherits by accident: the end for reading, and the end for writing.
pub fn pipe() -> (File, File) {
    let mut ends = [-1; 2];
    // SAFETY: the kernel fills in two new descriptors, which are ours.
    let ends = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0, "{}", io::Error::last_os_error());
        ends.map(|end| OwnedFd::from_raw_fd(end))
    };
    let [reader, writer] = ends.map(File::from);
    (reader, writer)
}

/// The end for writing of a pipe that nobody reads.
pub fn broken_pipe() -> File {
    pipe().1
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

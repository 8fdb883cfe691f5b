//! Two things the compiler has to be told: where the program begins, and which commit it is.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a build script speaks to cargo on stdout")]

use std::process::Command;

fn main() {
    // The ELF entry point, defined in entry/*.s, instead of libc's `_start`.
    println!("cargo:rustc-link-arg-bins=-Wl,-e,outro_entry");
    println!("cargo:rerun-if-changed=src");

    // `docker info` shows what follows "git." in the line that `--version` prints.
    println!("cargo:rustc-env=OUTRO_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    for file in [".git/HEAD", ".git/refs/heads"] {
        if std::path::Path::new(file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
}

/// The abbreviated commit of the work tree, or nothing outside of one (a source archive).
fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=7", "HEAD"]).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !name.trim().is_empty()).then(|| name.trim().to_owned())
}

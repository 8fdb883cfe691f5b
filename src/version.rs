//! What `--version` and `-l` say, and how anything is said on stdout.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use crate::exit;

/// `-l`, as in tini: a licence has to travel with a bare binary.
pub const LICENSE: &str = concat!(
    include_str!("../LICENSE-MIT"),
    "\nAs you choose, the Apache License, Version 2.0, applies instead: https://www.apache.org/licenses/LICENSE-2.0\n"
);

/// The line that docker parses: `docker info` shows what follows "git.", and under one of the names that an engine
/// gives its init binary, the version as well.
pub fn line(called_as: &OsStr) -> String {
    let name = Path::new(called_as).file_name().unwrap_or_default();
    let stands_in = ["tini", "tini-static", "docker-init", "podman-init"].iter().any(|tini| name == *tini);
    let name = if stands_in { "tini version" } else { "outro" };
    format!("{name} {} - git.{}\n", env!("CARGO_PKG_VERSION"), env!("OUTRO_COMMIT"))
}

/// Prints `text` on stdout and says with which code to exit.
pub fn print(text: &str) -> i32 {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        Err(_) => i32::from(exit::OWN_FAILURE),
    }
}

//! Where the report goes: the termination message file of the kubelet, or a file somebody named.
//!
//! The file is shared with the application, which may write to it before, between and after our two records. So it
//! is changed in place (a mount point cannot be renamed over), and only our own bytes are ever taken out of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::plan::ReportTo;
use crate::processes::proc_is_ours;
use crate::sys;

/// The kubelet's default `terminationMessagePath`.
const DEFAULT: &str = "/dev/termination-log";
/// How much of the file's end is looked through for our provisional record; a longer text keeps it.
const WINDOW: u64 = 64 * 1024;
/// How often text that is added while we move text is moved along.
const ROUNDS: u32 = 100;
/// The shortest rest of an overwritten record that is certainly ours and not by chance the same.
const CERTAIN: usize = 16;

/// The file, and what of ours is in it.
pub struct TerminationLog {
    path: Option<PathBuf>,
    provisional: Option<Provisional>,
}

/// Our first record, as it was written.
struct Provisional {
    offset: u64,
    /// With a newline in front if the application's text had none at its end.
    bytes: Vec<u8>,
}

impl TerminationLog {
    /// Finds the file. `auto` means something for PID 1 only: a nested outro must not write the pod's message.
    pub fn new(to: &ReportTo, is_pid_1: bool) -> TerminationLog {
        let path = match to {
            ReportTo::Off => None,
            ReportTo::Path(path) => Some(path.clone()),
            ReportTo::Auto if is_pid_1 => {
                kubelet_mount().or_else(|| Some(PathBuf::from(DEFAULT))).filter(|path| is_regular(path))
            }
            ReportTo::Auto => None,
        };
        TerminationLog { path, provisional: None }
    }

    /// Leaves the record that is read if we never come to write a final one.
    pub fn write_provisional(&mut self, record: &str) {
        let Some(path) = &self.path else { return };
        match append(path, record) {
            Ok(provisional) => self.provisional = provisional,
            Err(error) => warn(path, &error),
        }
    }

    /// Adds the final record, and takes the provisional one out if it is still there.
    pub fn write_final(&mut self, record: &str) {
        let Some(path) = &self.path else { return };
        // In this order a full disk costs us the new record, not the old one.
        let result = append(path, record).and_then(|added| match (&self.provisional, added) {
            (Some(provisional), Some(added)) => take_out(path, provisional, added.offset),
            _ => Ok(()),
        });
        if let Err(error) = result {
            warn(path, &error);
        }
    }
}

fn warn(path: &Path, error: &io::Error) {
    log::warn!(target: "report", "cannot write the report to {}: {error}", path.display());
}

/// Adds `record` as a line of its own at the end of the file, and says where that is. For anything but a regular file
/// there is nothing to take out later.
fn append(path: &Path, record: &str) -> io::Result<Option<Provisional>> {
    let line = format!("{record}\n");
    let exists = fs::metadata(path);
    if exists.is_ok_and(|metadata| !metadata.is_file()) {
        let file = sys::open_nonblocking(OpenOptions::new().write(true), path)?;
        let written = sys::write_nonblocking(file.as_fd(), line.as_bytes());
        return if written == line.len() { Ok(None) } else { Err(io::ErrorKind::WouldBlock.into()) };
    }
    let mut file = open(path, true)?;
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    let newline = if last == *b"\n" { "" } else { "\n" };
    let bytes = format!("{newline}{line}").into_bytes();
    // With O_APPEND the kernel finds the end, whoever else is adding text there (open(2)).
    let written = file.write(&bytes)?;
    let end = file.stream_position()?;
    let offset = end.saturating_sub(written as u64);
    if written < bytes.len() {
        // Half a record is none: take it back, unless something else has grown the file.
        if file.metadata()?.len() == end {
            file.set_len(offset)?;
        }
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(Some(Provisional { offset, bytes }))
}

fn open(path: &Path, append: bool) -> io::Result<File> {
    sys::open_nonblocking(OpenOptions::new().read(true).write(true).append(append).create(append), path)
}

/// Takes the provisional record out of the file. `added` is where the final record begins.
fn take_out(path: &Path, provisional: &Provisional, added: u64) -> io::Result<()> {
    let file = open(path, false)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(WINDOW);
    let mut text = vec![0; usize::try_from(length - start).unwrap_or(0)];
    file.read_exact_at(&mut text, start)?;
    let Some((from, to)) = find(&text, provisional, start) else {
        return Ok(());
    };
    // Our final record begins a line, whatever it is that now stands before it.
    let before = text.get(..from).and_then(<[u8]>::last);
    let newline = start + to as u64 == added && before.map_or(start > 0, |&byte| byte != b'\n');
    let mut rest = [if newline { b"\n" } else { &b""[..] }, text.get(to..).unwrap_or_default()].concat();
    let (mut length, mut end) = (length, start + from as u64);
    for _ in 0..ROUNDS {
        file.write_all_at(&rest, end)?;
        end += rest.len() as u64;
        let Some(grown) = file.metadata()?.len().checked_sub(length) else { return Ok(()) };
        if grown == 0 {
            return file.set_len(end);
        }
        // Somebody has added text meanwhile: it moves along.
        rest = vec![0; usize::try_from(grown).unwrap_or(0)];
        file.read_exact_at(&mut rest, length)?;
        length += grown;
    }
    Ok(())
}

/// Where in `text`, which begins at `start` in the file, the provisional record is: whole, or what is left of it if
/// the application, which does not append but writes at its own offset, has overwritten its beginning.
fn find(text: &[u8], provisional: &Provisional, start: u64) -> Option<(usize, usize)> {
    let bytes = &provisional.bytes;
    if let Some(at) = text.windows(bytes.len()).position(|window| window == bytes) {
        return Some((at, at + bytes.len()));
    }
    let at = usize::try_from(provisional.offset.checked_sub(start)?).ok()?;
    let there = text.get(at..at + bytes.len())?;
    let left = there.iter().rev().zip(bytes.iter().rev()).take_while(|(a, b)| a == b).count();
    (left >= CERTAIN).then(|| (at + bytes.len() - left, at + bytes.len()))
}

fn is_regular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// The mount that the kubelet made for `terminationMessagePath`, wherever that is.
fn kubelet_mount() -> Option<PathBuf> {
    if !proc_is_ours() {
        return None;
    }
    mount_point(&String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").ok()?))
}

/// The mount point whose source ends as the kubelet names it: `/pods/UID/containers/NAME/ID`, with ID in hexadecimal
/// digits (kubelet, `getPodContainerDir` and `makeMounts`). Fields as in proc_pid_mountinfo(5).
fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        let mut parts = root.rsplit('/');
        let id = parts.next()?;
        let (_name, containers, _uid, pods) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_id = !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit());
        (is_id && containers == "containers" && pods == "pods").then(|| PathBuf::from(unescape(mount_point)))
    })
}

/// Undoes the kernel's octal escapes for space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests;

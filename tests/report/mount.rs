//! Mounts for one test, made between fork and exec in a mount namespace of its own: only system calls.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

/// A path as the kernel wants it.
pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Shows `source` at `target` as well.
pub fn bind(source: &CStr, target: &CStr) -> io::Result<()> {
    mount(source, target, c"none", libc::MS_BIND, None)
}

pub fn make_read_only(directory: &CStr) -> io::Result<()> {
    bind(directory, directory)?;
    mount(c"none", directory, c"none", libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY, None)
}

/// An empty file system of this size in place of a directory.
pub fn put_tmpfs(directory: &CStr, options: &CStr) -> io::Result<()> {
    mount(c"none", directory, c"tmpfs", 0, Some(options))
}

pub fn create(file: &CStr) -> io::Result<()> {
    write(file, b"")
}

/// Writes to a file, which is created if it is not there.
pub fn write(file: &CStr, content: &[u8]) -> io::Result<()> {
    // SAFETY: the string is terminated, `content` is as long as it says, and the descriptor is closed.
    unsafe {
        let descriptor = libc::open(file.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o666);
        check(descriptor)?;
        check(libc::write(descriptor, content.as_ptr().cast(), content.len()) as i32)?;
        check(libc::close(descriptor))
    }
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong, options: Option<&CStr>) -> io::Result<()> {
    let options = options.map_or(null(), CStr::as_ptr);
    // SAFETY: all strings are terminated.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.cast()) })
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

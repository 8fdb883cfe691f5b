//! From the kernel to [`run`](crate::run): the ELF entry point and the C `main`.
//!
//! The kernel drops a signal that reaches PID 1 while its action is the default one, so whatever arrives before
//! the signals are blocked is lost for good. Libc's own start-up takes hundreds of microseconds; therefore the
//! program does not begin with libc. `outro_entry` (in `entry/*.s`, made the entry point by `build.rs`) blocks
//! all signals with one system call, keeps the mask it found for the programs we start, and jumps to `_start`.
//!
//! `main` is C's, not Rust's: Rust's start-up would ignore SIGPIPE, open `/dev/null` over closed descriptors, and
//! abort where it cannot. What the child inherits must stay as it was found.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(include_str!("entry/x86_64.s"));
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(include_str!("entry/aarch64.s"));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("outro has no entry point for this processor: add one in src/entry/");

unsafe extern "C" {
    /// The signal mask found at entry: bit n-1 stands for signal n.
    safe static outro_entry_mask: u64;
}

/// The signal mask that this process had when the kernel started it.
pub fn mask() -> u64 {
    outro_entry_mask
}

/// C's `main`: the arguments as bytes, which need not be UTF-8, and the exit code.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(argc: libc::c_int, argv: *const *const libc::c_char) -> libc::c_int {
    // SAFETY: the C start-up code passes the kernel's argument vector.
    let code = crate::run(&unsafe { arguments(argc, argv) });
    // Nothing of libc's is left to be tidied up: what we print is flushed.
    // SAFETY: no memory is involved.
    unsafe { libc::_exit(code) }
}

/// The argument vector as Rust strings. It may be empty: nothing obliges a caller of execve to pass a name.
///
/// # Safety
/// `argv` must point to at least `argc` pointers to C strings that live as long as the program.
#[cfg_attr(test, allow(dead_code))]
unsafe fn arguments(argc: libc::c_int, argv: *const *const libc::c_char) -> Vec<OsString> {
    (0..usize::try_from(argc).unwrap_or(0))
        .map(|i| {
            // SAFETY: see above.
            let argument = unsafe { CStr::from_ptr(*argv.add(i)) };
            OsStr::from_bytes(argument.to_bytes()).to_owned()
        })
        .collect()
}

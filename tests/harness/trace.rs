//! Leads a process through its first instructions with ptrace(2).

use std::ptr::null_mut;

use super::process::Process;
use super::start::check;

pub fn wait_for_stop(process: Process) {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    check(unsafe { libc::waitpid(process.0, &mut status, 0) }).unwrap();
    assert!(libc::WIFSTOPPED(status), "the init ended before its time: {status:x}");
}

pub fn step(process: Process) {
    request(libc::PTRACE_SINGLESTEP, process);
    wait_for_stop(process);
}

pub fn let_go(process: Process) {
    request(libc::PTRACE_DETACH, process);
}

fn request(request: libc::c_uint, process: Process) {
    // SAFETY: neither request uses an address, and the data, a signal to deliver, is none.
    let result = unsafe { libc::ptrace(request, process.0, null_mut::<u8>(), null_mut::<u8>()) };
    check(result as i32).unwrap();
}

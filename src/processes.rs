//! Who else is here: the processes below us, their names, what the kernel says of their ends.
//!
//! All of it comes from `/proc` and is optional. A `/proc` that belongs to another pid namespace lists other people's
//! processes under numbers that mean somebody else here; it is used only if its `self` is us.

use std::fs;
use std::path::Path;

use nix::unistd::Pid;

/// A process, as far as the shutdown wants to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub pid: Pid,
    parent: Pid,
    pub group: Pid,
    /// Start time in clock ticks since boot: with the pid it names a process for good.
    pub started: u64,
    ended: bool,
}

/// Whether `/proc` is there and tells of our own pid namespace.
pub fn proc_is_ours() -> bool {
    fs::read_link("/proc/self").is_ok_and(|target| target == Path::new(&Pid::this().to_string()))
}

/// Every living process below us, in no order: children, their children, orphans that became ours. Sessions that were
/// exec'd into the container have no parent here (PPid 0) and are not among them.
///
/// `None` without a usable `/proc`.
pub fn descendants() -> Option<Vec<Process>> {
    if !proc_is_ours() {
        return None;
    }
    let mut all: Vec<Process> = fs::read_dir("/proc").ok()?.flatten().filter_map(|e| read_stat(&e.path())).collect();
    // A listing without ourselves is none: the directory or its files could not be read.
    all.iter().find(|process| process.pid == Pid::this())?;
    all.sort_unstable_by_key(|process| process.parent);
    let mut ours = Vec::new();
    let mut parents = vec![Pid::this()];
    while let Some(parent) = parents.pop() {
        let first = all.partition_point(|process| process.parent < parent);
        let children = all.iter().skip(first).take_while(|process| process.parent == parent);
        for child in children {
            parents.push(child.pid);
            if !child.ended {
                ours.push(*child);
            }
        }
    }
    Some(ours)
}

/// The kernel's name of a process (at most 15 bytes, never its arguments), if `/proc` tells.
pub fn name(pid: Pid) -> Option<String> {
    if !proc_is_ours() {
        return None;
    }
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// The processes of our cgroup that the kernel has killed for want of memory, now and ever, if the cgroup tells.
///
/// Version 2 counts them in `memory.events`, version 1 in `memory.oom_control` (kernel, admin-guide/cgroup-v{1,2}).
pub fn oom_kills() -> Option<u64> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // The path is `/` in a cgroup namespace and in a container that has its cgroup mounted alone.
    let below = |prefix: &str, file: &str, path: &str| {
        [format!("{prefix}{path}/{file}"), format!("{prefix}/{file}")].into_iter().find_map(|f| oom_kill_line(&f))
    };
    cgroups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        if controllers.is_empty() {
            below("/sys/fs/cgroup", "memory.events", path)
        } else if controllers.split(',').any(|c| c == "memory") {
            below("/sys/fs/cgroup/memory", "memory.oom_control", path)
        } else {
            None
        }
    })
}

/// The number in the line `oom_kill N` of a cgroup's file.
fn oom_kill_line(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// How many processes there may be and how many there are, if a pids cgroup tells: the usual reason for EAGAIN.
pub fn pids_limit() -> Option<String> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"].iter().find_map(|directory| {
        let read = |file: &str| fs::read_to_string(format!("{directory}/{file}")).ok();
        let (current, max) = (read("pids.current")?, read("pids.max")?);
        Some(format!("pids.current {} of pids.max {}", current.trim(), max.trim()))
    })
}

/// Reads `/proc/PID/stat`; `None` for what is no process, or none any more.
fn read_stat(directory: &Path) -> Option<Process> {
    let pid: i32 = directory.file_name()?.to_str()?.parse().ok()?;
    parse_stat(pid, &fs::read(directory.join("stat")).ok()?)
}

/// The fields of proc_pid_stat(5). The name is in parentheses and may contain anything, so count from its end.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let after_name = stat.iter().rposition(|&b| b == b')')? + 1;
    let fields = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    Some(Process {
        pid: Pid::from_raw(pid),
        parent: Pid::from_raw(number(1)?),
        group: Pid::from_raw(number(2)?),
        started: fields.get(19)?.parse().ok()?,
        // A process whose first thread has ended is shown as a zombie while its other threads live on.
        ended: matches!(*fields.first()?, "Z" | "X") && number(17)? <= 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = b"7 (a) S (b \n) S 1 5 5 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1 184";
        let process = parse_stat(7, stat).expect("valid");
        assert_eq!((process.parent, process.group), (Pid::from_raw(1), Pid::from_raw(5)));
        assert_eq!((process.started, process.ended), (123456, false));
        assert_eq!(parse_stat(7, b"7 (cut"), None);
    }

    #[test]
    fn a_child_of_this_process_is_below_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        let ours = descendants().expect("/proc");
        assert!(ours.iter().any(|process| process.pid == pid && process.parent == Pid::this()));
        assert!(name(Pid::this()).is_some_and(|name| !name.is_empty()));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}

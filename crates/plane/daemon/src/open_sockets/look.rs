//! What is found in processes: which sockets they have open, and copies of those.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::walk::Threads;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Of all sockets that are open in processes that may be looked at.
    pub(super) cookies: BTreeSet<u64>,
    /// Processes that may not, and are older than this one.
    pub(super) unseen: BTreeSet<u64>,
}

/// What the threads have found so far, and what went wrong first.
type Found = (Looked, Option<io::Error>);

/// Looks at every process.
///
/// # Errors
/// One may not be looked at that is younger than this one: it may have any socket that was opened
/// here. One that is older has none unless it was passed one, or is attached. Or one cannot be
/// looked at now, or there was not the time: of a process in the middle of execve(2) not even the
/// age can be read, nor whether it has sockets (Linux 6.18).
pub(super) fn look(threads: &Threads, until: Instant) -> io::Result<Looked> {
    // Where processes of others are hidden (proc(5): hidepid), the first one is.
    fs::metadata("/proc/1")?;
    let own = started(std::process::id())?;
    let processes = fs::read_dir("/proc")?.flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    let all = Arc::new(Mutex::new(Found::default()));
    let found = Arc::clone(&all);
    let unfinished = threads.walk(pids, until, move |pid, goes_on| {
        if let Err(error) = look_at(pid, own, &found, goes_on) {
            with(&found, |(_, first)| first.get_or_insert(error).kind());
        }
    });
    if !unfinished.is_empty() || Instant::now() >= until {
        return Err(ErrorKind::TimedOut.into());
    }
    match with(&all, std::mem::take) {
        (_, Some(error)) => Err(error),
        (looked, None) => Ok(looked),
    }
}

/// The same for one process.
fn look_at(pid: u32, own: u64, found: &Mutex<Found>, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
    let each = |_, copy: OwnedFd| {
        let cookie = sys::socket::cookie_of(copy.as_fd());
        with(found, |(looked, _)| looked.cookies.extend(cookie));
        true
    };
    match copy_each(pid, goes_on, each) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            if unless_gone(started(pid))?.is_some_and(|at| at >= own) {
                return Err(error);
            }
            with(found, |(looked, _)| looked.unseen.insert(u64::from(pid)));
            Ok(())
        }
        done => done,
    }
}

/// Copies of the TCP sockets of a process that have no connection in the kernel, each once; `each`
/// says whether it wants more. A process that has ended or may not be looked at has none.
pub(super) fn copies_of(
    pid: u32,
    goes_on: &dyn Fn() -> bool,
    mut each: impl FnMut(OwnedFd) -> bool,
) {
    let mut seen = BTreeSet::new();
    let wanted = |inode: u64, copy: OwnedFd| {
        // One that has several descriptors has one number.
        let is_meant = sys::tcp_repair::can_begin(copy.as_fd()) && seen.insert(inode);
        !is_meant || each(copy)
    };
    // Who may not be looked at has given nothing, and what was given stays.
    let _ = copy_each(pid, goes_on, wanted);
}

/// A copy of each socket of a process, with the number that it had when it was listed. One that has
/// ended has none.
fn copy_each(
    pid: u32,
    goes_on: &dyn Fn() -> bool,
    mut each: impl FnMut(u64, OwnedFd) -> bool,
) -> io::Result<()> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let folder = format!("/proc/{pid}/fd");
    let Some(entries) = unless_gone(fs::read_dir(folder))? else { return Ok(()) };
    let holder = pidfd_open(number, PidfdFlags::empty()).map_err(io::Error::from);
    let Some(holder) = unless_gone(holder)? else { return Ok(()) };
    for entry in entries.flatten() {
        if !goes_on() {
            break;
        }
        let Some(target) = unless_gone(fs::read_link(entry.path()))? else { continue };
        let inode = target
            .to_str()
            .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok());
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some((number, inode)) = number.zip(inode) else { continue };
        let copy = pidfd_getfd(&holder, number, PidfdGetfdFlags::empty());
        let Some(copy) = unless_gone(copy.map_err(io::Error::from))? else { continue };
        if !each(inode, copy) {
            break;
        }
    }
    Ok(())
}

/// When a process began, in clock ticks since the machine did (proc_pid_stat(5), field 22).
fn started(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in brackets and may hold anything, brackets too.
    let (_, fields) = text.rsplit_once(')').ok_or(ErrorKind::InvalidData)?;
    let field = fields.split_whitespace().nth(19).and_then(|field| field.parse().ok());
    field.ok_or(ErrorKind::InvalidData.into())
}

/// Nothing for a process or a descriptor that has ended meanwhile: it has nothing open.
///
/// # Errors
/// Whatever else went wrong.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::BADF) => Ok(None),
            _ => Err(error),
        },
    }
}

/// A thread that has panicked has left nothing half-done.
fn with<T>(found: &Mutex<Found>, act: impl FnOnce(&mut Found) -> T) -> T {
    act(&mut found.lock().unwrap_or_else(PoisonError::into_inner))
}

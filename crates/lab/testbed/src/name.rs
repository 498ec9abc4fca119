//! Names of namespaces: who made them, and the removal of those whose maker is dead.

use std::io;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use sys::pidfd::PidFd;

use crate::TestbedError;
use crate::ip::{ip, ip_in};

/// Where ip-netns(8) keeps the names.
const NAMED: &str = "/run/netns";

/// Two processes may remove the same stale bed at once; ip(8) unmounts a name before it unlinks
/// it, and whoever comes between fails. The other one is done after a moment.
const REMOVAL_ATTEMPTS: u32 = 5;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// The interface at each side.
pub(crate) const INTERFACE: &str = "veth0";

/// The two sides of a bed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Beds that this process has named.
static NAMED_BEDS: AtomicU32 = AtomicU32::new(0);

/// Two names that no other bed has, client first.
pub(crate) fn fresh() -> (String, String) {
    static INHERITED: Once = Once::new();
    let pid = std::process::id();
    // A dead process that had our pid may have left beds; we have none of that name yet.
    INHERITED.call_once(|| {
        for name in existing().unwrap_or_default() {
            if maker(&name) == Some(pid) {
                report(remove(&name));
            }
        }
    });
    let number = NAMED_BEDS.fetch_add(1, Ordering::Relaxed);
    (compose(pid, number, Role::Client), compose(pid, number, Role::Server))
}

fn compose(pid: u32, number: u32, role: Role) -> String {
    format!("calisto-{pid}-{number}-{}", role.word())
}

/// The pid in a name that [`compose`] gave; none for names of others.
fn maker(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix("calisto-")?.split_once('-')?;
    let (number, role) = rest.split_once('-')?;
    number.parse::<u32>().ok()?;
    let known = [Role::Client, Role::Server].iter().any(|known| known.word() == role);
    pid.parse().ok().filter(|_| known)
}

/// Removes the namespaces of beds whose process is dead, with everything that still runs in
/// them; returns their names. [`Testbed::new`](crate::Testbed::new) calls it.
///
/// # Errors
/// A namespace is there and cannot be removed.
pub fn remove_stale() -> Result<Vec<String>, TestbedError> {
    let mut stale = existing()?;
    stale.retain(|name| maker(name).is_some_and(is_dead));
    for name in &stale {
        remove(name)?;
    }
    Ok(stale)
}

fn existing() -> Result<Vec<String>, TestbedError> {
    let failed = |error| TestbedError::Proc { path: NAMED.into(), error };
    let entries = match std::fs::read_dir(NAMED) {
        Ok(entries) => entries,
        // Nobody has made a namespace since boot.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is no text is none of ours.
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    Ok(names)
}

fn is_dead(pid: u32) -> bool {
    match PidFd::open(pid) {
        Ok(process) => process.is_dead(),
        // Out of descriptors, for example: then only an absent process is a dead one.
        Err(_) => !Path::new("/proc").join(pid.to_string()).exists(),
    }
}

/// Ends what runs in a namespace and removes it; all is well when it is gone already.
pub(crate) fn remove(name: &str) -> Result<(), TestbedError> {
    let mut result = Ok(());
    for _ in 0..REMOVAL_ATTEMPTS {
        if !is_there(name) {
            return Ok(());
        }
        result = try_remove(name);
        if result.is_ok() {
            return result;
        }
        thread::sleep(REMOVAL_PAUSE);
    }
    if is_there(name) { result } else { Ok(()) }
}

fn try_remove(name: &str) -> Result<(), TestbedError> {
    end_processes(name);
    // A namespace outlives its name while a socket or a thread holds it; the link does not. That
    // it cannot be deleted is no failure: a half-made bed has none, and the other end may have
    // taken it along.
    let _no_link = ip_in(name, &format!("link delete {INTERFACE}"));
    ip(["netns", "delete", name]).map(drop)
}

fn is_there(name: &str) -> bool {
    Path::new(NAMED).join(name).exists()
}

/// Processes in a bed belong to the bed: a daemon or a load generator that a failed test left.
fn end_processes(name: &str) {
    let listed = ip(["netns", "pids", name]).unwrap_or_default();
    let pids = listed.lines().filter_map(|line| line.trim().parse::<i32>().ok());
    let others = pids.filter(|pid| u32::try_from(*pid) != Ok(std::process::id()));
    for pid in others.filter_map(Pid::from_raw) {
        // It may have ended since it was listed.
        let _ended = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// For destructors, which have nobody to return an error to: nothing is left behind silently.
pub(crate) fn report(result: Result<(), TestbedError>) {
    if let Err(error) = result {
        eprintln!("testbed: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_who_made_it() {
        assert_eq!(maker(&compose(71, 3, Role::Server)), Some(71));
        assert_eq!(maker(&compose(u32::MAX, 0, Role::Client)), Some(u32::MAX));
    }

    #[test]
    fn names_of_others_have_no_maker_and_are_never_stale() {
        for name in [
            "calisto",
            "calisto-1",
            "calisto-1-client",
            "calisto-1-2-router",
            "calisto-x-2-client",
            "calisto-1-y-client",
            "calisto-1-2-client-3",
            "my-calisto-1-2-client",
            "calisto--1-2-client",
        ] {
            assert_eq!(maker(name), None, "{name}");
        }
    }

    #[test]
    fn we_are_alive_and_an_ended_child_is_dead() {
        assert!(!is_dead(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().expect("true is everywhere");
        let pid = child.id();
        child.wait().expect("it is our child");
        assert!(is_dead(pid));
    }

    #[test]
    fn what_is_gone_already_is_removed_without_complaint() {
        remove("calisto-0-0-client").expect("there is nothing to do");
    }
}

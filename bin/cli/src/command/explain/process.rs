//! A process: what the kernel knows of its sockets, and what the daemon knows.

use std::fs;

use admin::{Command, FallbackRow, ReplyBody, SocketRow};
use object::read::ReadCache;

use super::kernel_sockets;
use super::report::Explained;
use super::verdict::Known;
use crate::command::run::elf;
use crate::command::run::obstacle::Obstacle;
use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::sockets;
use crate::table::grouped;

/// The library's name, as it stands in /proc/PID/maps.
const LIBRARY: &str = "libcalisto_preload.so";

/// Explains the process `pid`.
pub(super) fn explain(daemon: &Daemon, pid: u32) -> Result<Explained, Failure> {
    let own = kernel_sockets::of_process(pid).map_err(Failure::new)?;
    let (fallbacks, put_out) = match daemon.ask(Command::Fallbacks)? {
        ReplyBody::Fallbacks { sockets, put_out, .. } => (sockets, put_out),
        other => return Err(daemon.unexpected(&other)),
    };
    let rows = sockets::all(daemon)?;
    let app = app_of(daemon, pid, &rows, &fallbacks)?;
    let daemon_pid = match daemon.ask(Command::Status)? {
        ReplyBody::Status(status) => status.pid,
        other => return Err(daemon.unexpected(&other)),
    };
    let known = Known::new(&rows, &fallbacks, app.is_some(), daemon_pid);
    let sockets = own.iter().map(|socket| (socket, known.verdict(socket)));
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let note = if app.is_some() { None } else { Some(why_not_attached(pid)) };
    let put_out = put_out
        .iter()
        .find(|one| one.pids.contains(&pid))
        .map(|one| format!("put out {} s ago: {}", grouped(one.seconds_ago), one.message));
    Ok(Explained::new(pid, name.trim_end(), app, note, sockets).and_put_out(put_out))
}

/// The application that the process is of, by number and name.
fn app_of(
    daemon: &Daemon,
    pid: u32,
    rows: &[SocketRow],
    fallbacks: &[FallbackRow],
) -> Result<Option<(u32, String)>, Failure> {
    let row = rows.iter().find(|row| row.pids.contains(&pid));
    if let Some(row) = row {
        return Ok(Some((row.app, row.app_name.clone())));
    }
    if let Some(row) = fallbacks.iter().find(|row| row.pid == pid) {
        return Ok(Some((row.app, row.app_name.clone())));
    }
    match daemon.ask(Command::Apps)? {
        ReplyBody::Apps { apps } => {
            let app = apps.into_iter().find(|app| app.pid == pid && app.state != "gone");
            Ok(app.map(|app| (app.id, app.name)))
        }
        other => Err(daemon.unexpected(&other)),
    }
}

/// Why a process has not asked the daemon for anything, in a sentence.
fn why_not_attached(pid: u32) -> String {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let has_library = maps.lines().any(|line| line.contains(LIBRARY));
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if has_library && has_memory_of_a_daemon(&maps, name.trim_end()) {
        return "it was attached to a daemon before this one, and comes to this one when it next \
                waits for its listeners, or opens a socket: within a second, if it runs"
            .to_owned();
    }
    if has_library {
        return "it has the library, and has not needed a socket of the daemon yet".to_owned();
    }
    // Opened by this link it is the file that runs, even if another has its name now.
    let flaw = fs::File::open(format!("/proc/{pid}/exe"))
        .ok()
        .and_then(|file| elf::flaw(&ReadCache::new(file)));
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    match flaw {
        Some(flaw) => Obstacle::File(path, flaw).to_string(),
        None => "it was started without the library: start it with `calisto run -- ...`".to_owned(),
    }
}

/// Whether a process has the memory mapped that a daemon has given it for its sockets: that has
/// the name which the process gave itself then.
fn has_memory_of_a_daemon(maps: &str, name: &str) -> bool {
    let memory = format!(" /memfd:{name} (deleted)");
    !name.is_empty() && maps.lines().any(|line| line.ends_with(&memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_the_memory_of_a_daemon_which_is_gone_is_told_from_one_that_never_asked() {
        let maps = "7f00-7f01 rw-s 00000000 00:01 7 /memfd:redis-server (deleted)\n\
                    7f02-7f03 r-xp 00000000 08:01 9 /usr/lib/libc.so.6\n";
        assert!(has_memory_of_a_daemon(maps, "redis-server"));
        assert!(!has_memory_of_a_daemon(maps, "redis"));
        assert!(!has_memory_of_a_daemon(maps, ""));
    }

    #[test]
    fn a_process_without_the_library_is_told_how_to_get_it() {
        let why = why_not_attached(std::process::id());
        assert!(why.contains("`calisto run -- ...`"), "{why}");
    }
}

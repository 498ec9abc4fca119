//! The daemon: whether one runs, and whether one could make its socket.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::Finding;

/// The daemon's socket and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonFacts {
    /// Where the socket is, or would be.
    pub socket: PathBuf,
    /// Whether somebody listens there.
    pub listener: Listener,
    /// Whether we may make the socket: its directory is ours to write, or to make.
    pub writable: bool,
}

/// What is behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// A process that accepts connections.
    Running,
    /// A socket that nobody listens at any more.
    Stale,
    /// Nothing.
    Absent,
    /// Something that we may not connect to.
    Denied,
}

pub(crate) fn gather(socket: &Path) -> DaemonFacts {
    let socket = socket.to_owned();
    DaemonFacts { listener: listener(&socket), writable: may_make(&socket), socket }
}

/// Connects and hangs up: the daemon sees a client that asks nothing. Never waits.
fn listener(path: &Path) -> Listener {
    let connect = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
    };
    match connect() {
        // A full queue of clients is somebody's, too.
        Ok(()) | Err(Errno::AGAIN) => Listener::Running,
        Err(Errno::NOENT | Errno::NOTDIR) => Listener::Absent,
        Err(Errno::ACCESS | Errno::PERM) => Listener::Denied,
        Err(_) => Listener::Stale,
    }
}

/// Whether a file could be made at `path`, its missing directory included.
fn may_make(path: &Path) -> bool {
    let existing = path.ancestors().skip(1).find(|directory| fs::metadata(directory).is_ok());
    existing.is_some_and(|directory| {
        rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    })
}

/// What that means.
pub(crate) fn judge(facts: &DaemonFacts) -> Vec<Finding> {
    let socket = facts.socket.display();
    let directory = facts.socket.parent().unwrap_or(Path::new("/")).display();
    vec![match (facts.listener, facts.writable) {
        (Listener::Running, _) => {
            Finding::fine("daemon", format!("listens at {socket}: see calisto status"))
        }
        (Listener::Denied, _) => {
            Finding::note("daemon", format!("{socket} is not ours to connect to"))
                .cost("calisto status and its siblings do not work")
                .mend("run them as root, or as the daemon's user")
        }
        (_, false) => {
            Finding::worse("daemon", format!("does not run, and {directory} is not ours to write"))
                .cost("a daemon of ours could not be talked to")
                .mend(format!(
                    "as root: install -d -o NAME {directory}; or calisto up --admin PATH"
                ))
        }
        (Listener::Stale, true) => Finding::fine(
            "daemon",
            format!("does not run; what a dead one left at {socket} is replaced"),
        ),
        (Listener::Absent, true) => {
            Finding::fine("daemon", format!("does not run; it can make {socket}"))
        }
    }]
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::Level;

    fn facts(listener: Listener, writable: bool) -> DaemonFacts {
        DaemonFacts { socket: PathBuf::from("/run/calisto/admin.sock"), listener, writable }
    }

    #[test]
    fn only_a_socket_that_cannot_be_made_is_worse() {
        let cases = [
            (Listener::Running, false, Level::Fine),
            (Listener::Denied, false, Level::Note),
            (Listener::Absent, false, Level::Worse),
            (Listener::Stale, false, Level::Worse),
            (Listener::Absent, true, Level::Fine),
            (Listener::Stale, true, Level::Fine),
        ];
        for (listener, writable, level) in cases {
            assert_eq!(judge(&facts(listener, writable))[0].level, level, "{listener:?}");
        }
    }

    #[test]
    fn a_listener_is_told_from_what_it_left_and_from_nothing() {
        let directory = std::env::temp_dir().join(format!("calisto-doctor-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("the directory for temporary files is ours");
        let path = directory.join("admin.sock");
        assert_eq!(listener(&path), Listener::Absent);
        let socket = UnixListener::bind(&path).expect("the directory is ours");
        assert_eq!(listener(&path), Listener::Running);
        drop(socket);
        assert_eq!(listener(&path), Listener::Stale);
        assert!(may_make(&directory.join("not/yet/there")));
        assert!(!may_make(Path::new("/proc/version/admin.sock")), "a file holds no files");
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}

//! A daemon's place: as long as the one before has a guardian that is at work, the next one waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

/// A guardian needs no longer.
const FREE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The place of a daemon at one admin socket, which it and its guardian have.
#[derive(Debug)]
pub(crate) struct Lock(Option<OwnedFd>);

impl Lock {
    /// Takes the place at an admin socket, and waits for the guardian of a dead daemon to leave it.
    /// One that a living daemon has is left to the look that says so. Where no file can be made
    /// nobody waits.
    pub(crate) fn take(admin_socket: &str) -> Self {
        let path = format!("{admin_socket}.guardian");
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(file) = rustix::fs::open(Path::new(&path), flags, Mode::RUSR | Mode::WUSR) else {
            return Self(None);
        };
        let begun = Instant::now();
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let has_daemon = UnixStream::connect(admin_socket).is_ok();
            if has_daemon || begun.elapsed() > FREE_WITHIN {
                return Self(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Self(Some(file))
    }

    /// To be passed on: the place is taken for as long as anybody has it.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_waited_for_until_everybody_has_left_it() {
        let name = format!("calisto-lock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let socket = path.to_str().expect("plain text");
        let first = Lock::take(socket);
        let copy = first.descriptor().expect("it is taken").try_clone_to_owned();
        let copy = copy.expect("descriptors are left");
        drop(first);
        let socket = socket.to_owned();
        let (told, heard) = std::sync::mpsc::channel();
        let next = std::thread::spawn(move || {
            let lock = Lock::take(&socket);
            told.send(()).expect("the test waits");
            let _ = std::fs::remove_file(format!("{socket}.guardian"));
            lock.0.is_some()
        });
        assert!(heard.recv_timeout(Duration::from_millis(100)).is_err(), "it waits");
        drop(copy);
        assert!(next.join().expect("it does not panic"));
    }
}

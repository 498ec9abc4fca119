//! A daemon's place: as long as the one before has a guardian that is at work, the next one waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::process::say;

/// How a place is waited for.
#[derive(Clone, Copy)]
struct Timeouts {
    /// A guardian needs no longer, as a rule: whoever waits for longer is told what for.
    quiet: Duration,
    /// It may have to wait for the kernel before it can let go of an interface. One that has not by
    /// then is stuck, and service managers wait for ninety seconds.
    free_within: Duration,
}

const TIMEOUTS: Timeouts =
    Timeouts { quiet: Duration::from_secs(10), free_within: Duration::from_secs(60) };

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The place of a daemon at one admin socket, which it and its guardian have.
#[derive(Debug)]
pub(crate) struct Lock(Option<OwnedFd>);

impl Lock {
    /// Takes the place at an admin socket, and waits for the guardian of a dead daemon to leave it.
    /// One that a living daemon has is left to the look that says so. Where no file can be made
    /// nobody waits.
    pub(crate) fn take(admin_socket: &str) -> Self {
        Self::take_within(TIMEOUTS, admin_socket, |text| say(format_args!("{text}")))
    }

    fn take_within(timeouts: Timeouts, admin_socket: &str, mut tell: impl FnMut(String)) -> Self {
        let path = format!("{admin_socket}.guardian");
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let Ok(file) = rustix::fs::open(Path::new(&path), flags, Mode::RUSR | Mode::WUSR) else {
            return Self(None);
        };
        let Timeouts { quiet, free_within } = timeouts;
        let (begun, mut is_told) = (Instant::now(), false);
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if UnixStream::connect(admin_socket).is_ok() {
                return Self(None);
            }
            let waited = begun.elapsed();
            if waited > free_within {
                tell(format!(
                    "the guardian of the daemon before has not let go of {path} within {} s: going \
                     on without it; see which process has it (`fuser {path}`)",
                    free_within.as_secs()
                ));
                return Self(None);
            }
            if waited > quiet && !is_told {
                is_told = true;
                tell(format!(
                    "waiting for the guardian of the daemon before, which has {path}, for {} s more \
                     at most",
                    (free_within - waited).as_secs()
                ));
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

    #[test]
    fn who_waits_says_so_and_who_has_waited_for_long_goes_on_without_the_place() {
        let name = format!("calisto-lock-late-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let socket = path.to_str().expect("plain text");
        let held = Lock::take(socket);
        let timeouts = |free_within| Timeouts { quiet: Duration::ZERO, free_within };
        let mut told = Vec::new();
        let late = Lock::take_within(timeouts(Duration::ZERO), socket, |text| told.push(text));
        assert!(late.0.is_none());
        assert!(told.len() == 1 && told[0].contains("going on without it"), "{told:?}");
        let timeouts = timeouts(Duration::from_secs(600));
        let (mut told, mut held) = (Vec::new(), Some(held));
        let after = Lock::take_within(timeouts, socket, |text| {
            told.push(text);
            held = None;
        });
        assert!(after.0.is_some());
        assert!(told.len() == 1 && told[0].starts_with("waiting for the guardian"), "{told:?}");
        drop(after);
        let free = Lock::take_within(timeouts, socket, |text| panic!("{text}"));
        assert!(free.0.is_some());
        std::fs::remove_file(format!("{socket}.guardian")).expect("it is ours");
        // Only such a wait reaches as far as what a guardian has been seen to take, 21 s.
        assert!(TIMEOUTS.free_within > Duration::from_secs(30), "it waits for the kernel");
    }
}

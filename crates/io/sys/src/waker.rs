//! Wakes a sleeper in another process, which need not be trusted: two UNIX sockets that are
//! connected, of which one is the sleeper's.
//!
//! It is no pipe: whoever reads one has its lock while the bytes are copied, and where they are
//! copied to may be memory whose pages never come (of a file system that does not answer, or of
//! userfaultfd(2)). Whoever writes waits for that lock, non-blocking or not, and cannot be
//! interrupted. It is no eventfd: both sides would have its flags. Of connected sockets each side
//! has its own lock, flags and queue.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::SysError;

/// The end of whoever wakes; it never waits.
#[derive(Debug)]
pub struct Waker {
    socket: OwnedFd,
}

impl Waker {
    /// A new one, and the sleeper's end: readable once it was woken, and non-blocking until the
    /// sleeper says otherwise.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn new() -> Result<(OwnedFd, Self), SysError> {
        let failed = |errno| {
            SysError::new("make a waker", errno, "raise the limit of open files (ulimit -n)")
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (sleeper, socket) = pair.map_err(failed)?;
        // Nobody reads here: what the sleeper sends, descriptors among it, would be ours to close.
        rustix::net::shutdown(&socket, Shutdown::Read).map_err(failed)?;
        // A few bytes that nobody reads are enough. The kernel takes its least for it.
        sockopt::set_socket_send_buffer_size(&socket, 1).map_err(failed)?;
        Ok((sleeper, Self { socket }))
    }

    /// Wakes the sleeper. One that has been woken a few times and has read nothing is as awake as
    /// it can be, and one that is gone needs no waking.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.socket, &[1]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use base::Nanos;
    use rustix::io::Errno;

    use super::*;
    use crate::held_memory::HeldMemory;
    use crate::poll::wait_readable;

    #[test]
    fn a_sleeper_is_woken_until_it_is_gone_and_never_keeps_whoever_wakes_it() {
        let (sleeper, waker) = Waker::new().expect("descriptors are left");
        assert!(!wait_readable(sleeper.as_fd(), Nanos::ZERO));
        for _ in 0..10_000 {
            waker.ring();
        }
        let mut bytes = [0; 4096];
        let taken = rustix::io::read(&sleeper, &mut bytes).expect("it was woken");
        assert!((1..100).contains(&taken), "{taken} bytes of the daemon's memory");
        assert_eq!(rustix::io::read(&sleeper, &mut bytes), Err(Errno::AGAIN));
        waker.ring();
        assert!(wait_readable(sleeper.as_fd(), Nanos::from_secs(30)));
        drop(sleeper);
        waker.ring();
    }

    #[test]
    fn a_sleeper_can_send_nothing_that_whoever_wakes_it_would_have_to_close() {
        let (sleeper, _waker) = Waker::new().expect("descriptors are left");
        assert_eq!(rustix::io::write(&sleeper, &[1]), Err(Errno::PIPE));
    }

    #[test]
    fn a_sleeper_that_reads_into_memory_which_never_comes_keeps_nobody_who_wakes_it() {
        let (sleeper, waker) = Waker::new().expect("descriptors are left");
        waker.ring();
        let memory = HeldMemory::new().expect("root may");
        let held = memory.read(sleeper.try_clone().expect("descriptors are left"));
        // In a thread of its own, which could not be ended.
        let (rung, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            waker.ring();
            rung.send(waker)
        });
        let heard = heard.recv_timeout(std::time::Duration::from_secs(30));
        drop(memory);
        held.join().expect("it does not panic");
        assert!(heard.is_ok(), "whoever rings waits for the sleeper");
    }
}

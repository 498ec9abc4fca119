//! How workers wake an application: a byte in a poller's pipe, or a futex.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::pipe::PipeFlags;
use shm::sockets::{POLLERS_MAX, Side};
use stack::Notifier;
use sys::futex::{self, Scope};

/// The writing ends of an application's pollers. Only the daemon has them: unlike an eventfd's,
/// their flags are out of the application's reach, so writing never blocks.
#[derive(Debug)]
pub(super) struct Pipes {
    pollers: Vec<Mutex<Option<OwnedFd>>>,
}

impl Pipes {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { pollers: (0..POLLERS_MAX).map(|_| Mutex::new(None)).collect() })
    }

    /// Makes the pipe of a poller: its reading end.
    pub(super) fn open(&self, poller: u32) -> rustix::io::Result<OwnedFd> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        self.set(poller, Some(writer));
        Ok(reader)
    }

    /// Nobody listens at that poller any more.
    pub(super) fn close(&self, poller: u32) {
        self.set(poller, None);
    }

    fn set(&self, poller: u32, writer: Option<OwnedFd>) {
        if let Some(place) = self.pollers.get(poller as usize) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = writer;
        }
    }

    /// Wakes who waits at a poller.
    pub(super) fn ring(&self, poller: u32) {
        let Some(place) = self.pollers.get(poller as usize) else { return };
        if let Some(writer) = &*place.lock().unwrap_or_else(PoisonError::into_inner) {
            // Full means woken already, and a pipe that nobody reads needs no waking.
            let _ = rustix::io::write(writer, &[1]);
        }
    }
}

/// The same as workers have it.
pub(super) struct Ringer(pub(super) Arc<Pipes>);

impl Notifier for Ringer {
    fn poller(&self, _side: Side, poller: u32) {
        self.0.ring(poller);
    }

    fn futex(&self, word: &AtomicU32) {
        futex::wake(word, Scope::Shared, u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_poller_is_rung_until_it_is_closed_and_never_blocks_whoever_rings() {
        let pipes = Pipes::new();
        let reader = pipes.open(3).expect("descriptors are left");
        for _ in 0..100_000 {
            pipes.ring(3);
        }
        let mut bytes = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(16));
        pipes.close(3);
        pipes.ring(3);
        pipes.ring(POLLERS_MAX);
        drop(reader);
        let reader = pipes.open(3).expect("descriptors are left");
        drop(reader);
        pipes.ring(3);
    }
}

//! How workers wake an application: a byte in a poller's pipe, or a futex.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use base::AppId;
use rustix::pipe::PipeFlags;
use shm::sockets::{POLLERS_MAX, Side};
use stack::Notifier;
use sys::futex::{self, Scope};

use crate::guardian::{Guarded, Guardian, Guards};

/// The writing end of a poller, which the guardian may have too.
type Writer = (OwnedFd, Option<Guarded>);

/// The writing ends of an application's pollers. Only the daemon has them: unlike an eventfd's,
/// their flags are out of the application's reach, so writing never blocks.
#[derive(Debug)]
pub(super) struct Pipes {
    pollers: Vec<Mutex<Option<Writer>>>,
}

impl Pipes {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { pollers: (0..POLLERS_MAX).map(|_| Mutex::new(None)).collect() })
    }

    /// Makes the pipe of a poller of an application: its reading end.
    pub(super) fn open(
        &self,
        poller: u32,
        guardian: Option<(&Guardian, AppId)>,
    ) -> rustix::io::Result<OwnedFd> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let guarded = guardian.map(|(guardian, app)| guard(guardian, app, poller, &writer));
        self.set(poller, Some((writer, guarded)));
        Ok(reader)
    }

    /// Another guardian is to have them all.
    pub(super) fn guard(&self, guardian: &Guardian, app: AppId) {
        for (place, poller) in self.pollers.iter().zip(0..) {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((writer, guarded)) = &mut *place {
                *guarded = Some(guard(guardian, app, poller, writer));
            }
        }
    }

    /// Nobody listens at that poller any more.
    pub(super) fn close(&self, poller: u32) {
        self.set(poller, None);
    }

    /// The application is gone. Workers may have this for longer, and the last of them must not be
    /// the one that tells the guardian: it neither may nor has the time to.
    pub(super) fn close_all(&self) {
        (0..POLLERS_MAX).for_each(|poller| self.close(poller));
    }

    fn set(&self, poller: u32, writer: Option<Writer>) {
        if let Some(place) = self.pollers.get(poller as usize) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = writer;
        }
    }

    /// Wakes who waits at a poller.
    pub(super) fn ring(&self, poller: u32) {
        let Some(place) = self.pollers.get(poller as usize) else { return };
        if let Some((writer, _)) = &*place.lock().unwrap_or_else(PoisonError::into_inner) {
            // Full means woken already, and a pipe that nobody reads needs no waking.
            let _ = rustix::io::write(writer, &[1]);
        }
    }
}

fn guard(guardian: &Guardian, app: AppId, poller: u32, writer: &OwnedFd) -> Guarded {
    guardian.hold(Guards::Poller, app, poller.into(), &[writer.as_fd()])
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
        let reader = pipes.open(3, None).expect("descriptors are left");
        for _ in 0..100_000 {
            pipes.ring(3);
        }
        let mut bytes = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(16));
        pipes.close(3);
        pipes.ring(3);
        pipes.ring(POLLERS_MAX);
        drop(reader);
        let reader = pipes.open(3, None).expect("descriptors are left");
        drop(reader);
        pipes.ring(3);
    }
}

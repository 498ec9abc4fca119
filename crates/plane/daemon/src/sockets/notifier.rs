//! How workers wake an application: a byte for a poller, or a futex.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use base::AppId;
use shm::sockets::{POLLERS_MAX, Side};
use stack::Notifier;
use sys::SysError;
use sys::futex::{self, Scope};
use sys::waker::Waker;

use crate::guardian::{Guarded, Guardian, Guards};

/// What wakes a poller, which the guardian may have too.
type Writer = (Waker, Option<Guarded>);

/// What wakes an application's pollers. Only the daemon has it, and it never waits for the
/// application.
#[derive(Debug)]
pub(super) struct Wakers {
    pollers: Vec<Mutex<Option<Writer>>>,
}

impl Wakers {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { pollers: (0..POLLERS_MAX).map(|_| Mutex::new(None)).collect() })
    }

    /// Makes a poller of an application: its end.
    pub(super) fn open(
        &self,
        poller: u32,
        guardian: Option<(&Guardian, AppId)>,
    ) -> Result<OwnedFd, SysError> {
        let (reader, writer) = Waker::new()?;
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
            writer.ring();
        }
    }
}

fn guard(guardian: &Guardian, app: AppId, poller: u32, writer: &Waker) -> Guarded {
    guardian.hold(Guards::Poller, app, poller.into(), &[writer.as_fd()])
}

/// The same as workers have it.
pub(super) struct Ringer(pub(super) Arc<Wakers>);

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
    fn a_poller_is_rung_until_it_is_closed_and_never_blocks_whoever_rings() {
        let wakers = Wakers::new();
        let reader = wakers.open(3, None).expect("descriptors are left");
        for _ in 0..100_000 {
            wakers.ring(3);
        }
        let mut bytes = [0; 16];
        let woken = rustix::io::read(&reader, &mut bytes);
        assert!(woken.is_ok_and(|woken| woken > 0), "{woken:?}");
        wakers.close(3);
        wakers.ring(3);
        wakers.ring(POLLERS_MAX);
        drop(reader);
        let reader = wakers.open(3, None).expect("descriptors are left");
        drop(reader);
        wakers.ring(3);
    }
}

//! What wakes the dispatcher's loop.

use std::sync::Arc;

use shm::Doorbell;
use sys::eventfd::EventFd;

/// Wakes the dispatcher's loop from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm {
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) eventfd: Arc<EventFd>,
}

impl Alarm {
    pub(crate) fn new(eventfd: EventFd) -> Self {
        Self { doorbell: Arc::new(Doorbell::new()), eventfd: Arc::new(eventfd) }
    }

    /// Something was published for the loop.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.doorbell.ring() {
            self.eventfd.ring();
        }
    }
}

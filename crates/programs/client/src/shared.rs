//! What all workers of an application look at: whether the daemon is still there.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock, PoisonError};

use attach::{AttachError, DetachReason, Detached, Link, ToApp};
use base::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use shm::packets::PacketMemory;
use sys::eventfd::EventFd;

/// The attachment, apart from the rings.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) memory: PacketMemory,
    /// Wakes the daemon.
    pub(crate) daemon: EventFd,
    /// Some workers wait together in one thread.
    pub(crate) is_grouped: AtomicBool,
    /// Once set, for ever.
    detached: OnceLock<Detached>,
    /// Held by the thread that reads the link, so that the daemon's last words reach all.
    reading: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(link: Link, memory: PacketMemory, daemon: EventFd) -> Self {
        Self {
            link,
            memory,
            daemon,
            is_grouped: AtomicBool::new(false),
            detached: OnceLock::new(),
            reading: Mutex::new(()),
        }
    }

    /// What can be seen without a system call: an earlier finding, and the word in shared memory.
    #[inline]
    pub(crate) fn glance(&self) -> Result<(), Detached> {
        match (self.detached.get(), self.memory.state()) {
            (None, 0) => Ok(()),
            _ => self.look(),
        }
    }

    /// Looks at the connection too, which costs a system call.
    #[cold]
    pub(crate) fn look(&self) -> Result<(), Detached> {
        if let Some(detached) = self.detached.get() {
            return Err(detached.clone());
        }
        if self.memory.state() == 0 && !self.is_readable() {
            return Ok(());
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // Another worker may have read it meanwhile.
        if let Some(detached) = self.detached.get() {
            return Err(detached.clone());
        }
        match self.last_words() {
            Some(detached) => Err(self.end(detached)),
            None => Ok(()),
        }
    }

    /// Remembers why it has ended, unless that is known already; what is known.
    pub(crate) fn end(&self, detached: Detached) -> Detached {
        self.detached.get_or_init(|| detached).clone()
    }

    fn is_readable(&self) -> bool {
        let mut fds = [PollFd::new(&self.link, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Why it has ended, if it has: the daemon's message, or the word in shared memory, or silence.
    fn last_words(&self) -> Option<Detached> {
        loop {
            match self.link.receive(Nanos::ZERO) {
                Ok(Some((ToApp::Detached(detached), _))) => return Some(detached),
                // Nothing else means anything now, nor does what a later release may say.
                Ok(Some(_)) | Err(AttachError::Protocol(_)) => {}
                Ok(None) => return DetachReason::from_number(self.memory.state()).map(of),
                Err(_) => {
                    let reason = DetachReason::from_number(self.memory.state());
                    return Some(of(reason.unwrap_or(DetachReason::DaemonGone)));
                }
            }
        }
    }
}

/// An end of which no more is known than its reason.
pub(crate) fn of(reason: DetachReason) -> Detached {
    Detached { reason, message: reason.sentence().to_owned() }
}

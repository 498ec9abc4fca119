//! What processes are answered, and why a socket is not served.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use attach::{FallbackReason, Reply};
use base::Nanos;
use config::Denied;
use rustix::io::Errno;

use super::app::Member;
use super::names::SlotKey;
use crate::apps::Claims;

/// An answer, and what goes with it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Answer {
    pub(super) fn new(reply: Reply) -> Self {
        Self { reply, descriptors: Vec::new() }
    }

    pub(super) fn done() -> Self {
        Self::new(Reply::Done)
    }

    /// The socket is served at that place.
    pub(super) fn slot((region, slot): SlotKey) -> Self {
        Self::new(Reply::Slot { region: region.0, slot: slot.0 })
    }

    pub(super) fn errno(errno: Errno) -> Self {
        Self::new(Reply::Errno { errno: errno.raw_os_error() })
    }

    /// The descriptors.
    pub(crate) fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.descriptors.iter().map(AsFd::as_fd).collect()
    }

    /// With a copy of a descriptor.
    pub(super) fn with(mut self, descriptor: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        self.descriptors.push(rustix::io::fcntl_dupfd_cloexec(descriptor, 3)?);
        Ok(self)
    }
}

/// Why a socket is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The kernel is to do it.
    Kernel(FallbackReason),
    /// The program's call fails.
    Errno(Errno),
}

impl Refusal {
    /// What becomes of something that a tenant may not do.
    pub(super) fn denied(by: Denied) -> Self {
        match by {
            Denied::Refuse => Self::Errno(Errno::ACCESS),
            Denied::Kernel => Self::Kernel(FallbackReason::NotPermitted),
        }
    }
}

impl From<FallbackReason> for Refusal {
    fn from(reason: FallbackReason) -> Self {
        Self::Kernel(reason)
    }
}

/// A question, by whom and when, and what may be taken from the kernel for it.
pub(super) struct Context<'a> {
    pub(super) member: &'a mut Member,
    pub(super) claims: &'a mut Claims,
    pub(super) now: Nanos,
}

//! A port that nobody else on this host gets while connections lead from it.

use std::sync::{Arc, Weak};

use sys::SysError;
use sys::port_guard::PortGuard;

use super::super::descriptors::{Descriptors, Payer};
use crate::attach_server_counters::AttachServerEvent;

/// A port, and for whom it was guarded first.
#[derive(Debug)]
pub(super) struct Guarded {
    _guard: PortGuard,
    payer: Payer,
}

/// The guard of a port: one for all connections from there.
#[derive(Clone, Debug)]
pub(in crate::sockets) struct Guard(Arc<Guarded>);

impl Guard {
    /// That of a port which is guarded still.
    pub(super) fn upgrade(guarded: &Weak<Guarded>) -> Option<Self> {
        guarded.upgrade().map(Self)
    }

    /// What finds it again for as long as a connection has it.
    pub(super) fn downgrade(&self) -> Weak<Guarded> {
        Arc::downgrade(&self.0)
    }

    /// The guard that `hold` makes, for a program, if its share of descriptors has one left.
    ///
    /// # Errors
    /// It has none left.
    pub(in crate::sockets) fn new(
        payer: Payer,
        descriptors: &mut Descriptors,
        hold: impl FnOnce() -> Result<PortGuard, SysError>,
    ) -> Result<Result<Self, SysError>, AttachServerEvent> {
        if !descriptors.has_room(payer, 1) {
            return Err(AttachServerEvent::DescriptorShareUsedUp);
        }
        let guard = hold();
        descriptors.take(payer, usize::from(guard.is_ok()));
        Ok(guard.map(|guard| Self(Arc::new(Guarded { _guard: guard, payer }))))
    }

    /// A connection needs it no more. True: none does, and the port is free.
    pub(in crate::sockets) fn give_up(self, descriptors: &mut Descriptors) -> bool {
        let Some(Guarded { payer, .. }) = Arc::into_inner(self.0) else { return false };
        descriptors.give_back(payer, 1);
        true
    }
}

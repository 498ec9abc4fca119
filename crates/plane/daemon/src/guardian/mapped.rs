//! Applications whose memory the guardian has mapped.

use std::collections::BTreeMap;

use base::SlotId;
use shm::sockets::{RepairTable, SlotWords, SocketMemory};
use stack::Heritage;

use super::held::App;

/// Ports below are their owners' alone (`net.ipv4.ip_unprivileged_port_start`).
const FIRST_FREE_PORT: u16 = 1024;

/// An application whose memory is mapped again.
pub(super) struct Mapped<'a> {
    pub(super) app: &'a App,
    pub(super) memory: SocketMemory,
    pub(super) records: RepairTable,
}

impl<'a> Mapped<'a> {
    pub(super) fn of(app: &'a App) -> Option<Self> {
        let memory = SocketMemory::open(app.memory.try_clone().ok()?).ok()?;
        let records = RepairTable::open(app.records.try_clone().ok()?).ok()?;
        Some(Self { app, memory, records })
    }

    pub(super) fn words(&self, slot: SlotId) -> Option<&SlotWords> {
        self.memory.slot(slot)
    }

    /// Whether its program may have a socket of the kernel that is bound to the connection's port.
    pub(super) fn has_right_to_port(&self, heritage: &Heritage) -> bool {
        let port = heritage.key().destination().port();
        heritage.was_opened()
            || self.app.uid == 0
            || port >= FIRST_FREE_PORT
            || self.records.has_low_port(port)
    }
}

/// One application of each user, then the next one of each.
pub(super) fn in_turn<'a, 'b>(all: &'b [Mapped<'a>]) -> Vec<&'b Mapped<'a>> {
    let mut of_user: BTreeMap<u32, usize> = BTreeMap::new();
    let turns = all.iter().map(|mapped| {
        let turn = of_user.entry(mapped.app.uid).or_default();
        *turn += 1;
        (*turn, mapped)
    });
    let mut turns: Vec<_> = turns.collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, mapped)| mapped).collect()
}

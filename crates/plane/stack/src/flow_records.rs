//! The records of an application's connections, those without a socket included: a program may have
//! closed a connection whose bytes are still under way.

use std::sync::Arc;

use base::{Generation, Nanos, SlotId};
use shm::RegionError;
use shm::sockets::{FreeIndexes, RECORDS_MAX, RepairRecord, RepairTable, RingDesc};
use tcp::{Engine, FlowId};

use crate::heritage::{Changing, Lasting};

/// Connections of an application without a socket that have a record, at most.
pub(crate) const ORPHANS_MAX: u32 = 1024;

/// The records of an application's connections.
#[derive(Debug)]
pub struct FlowRecords {
    table: RepairTable,
    /// Slots, whose records come first.
    slots: u32,
    /// Which of the records behind those are in use.
    orphans: FreeIndexes,
}

impl FlowRecords {
    /// For an application with `slots` slots.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn create(name: &str, slots: u32) -> Result<Self, RegionError> {
        let table = RepairTable::create(name, slots.saturating_add(ORPHANS_MAX).min(RECORDS_MAX))?;
        Ok(Self { table, slots, orphans: FreeIndexes::new(ORPHANS_MAX) })
    }

    /// All of them.
    pub fn table(&self) -> &RepairTable {
        &self.table
    }

    /// That of a slot.
    #[inline]
    pub(crate) fn of_slot(&self, slot: SlotId) -> Option<&RepairRecord> {
        if slot.0 < self.slots { self.table.get(slot) } else { None }
    }

    fn of_orphan(&self, place: u32) -> Option<&RepairRecord> {
        self.table.get(SlotId(self.slots.saturating_add(place)))
    }
}

/// The record of a connection without a socket: void when this drops.
#[derive(Debug)]
pub(crate) struct OrphanRecord {
    records: Arc<FlowRecords>,
    place: u32,
}

impl OrphanRecord {
    /// Writes it down, once: nobody reads or writes any more, what is queued counts as sent, and a
    /// ring keeps all of it until the flow is over. Nothing: it is over, or there is no place.
    pub(crate) fn write(
        records: &Arc<FlowRecords>,
        (flow, was_opened): (FlowId, bool),
        engine: &Engine,
        send: RingDesc,
        now: Nanos,
    ) -> Option<Self> {
        let (record, key) = (engine.record(flow)?, engine.key(flow)?);
        let kept = Self { records: Arc::clone(records), place: records.orphans.take()? };
        let place = records.of_orphan(kept.place)?;
        let (generation, is_orphan) = (Generation(0), true);
        place.begin(&Lasting { key, generation, was_opened, is_orphan }.words());
        let (rx_head, tx_tail, receive, offered) = (0, 0, 0, 0);
        let send = send.word();
        let words =
            Changing { flow: record, rx_head, tx_tail, receive, send, offered, at: now }.words();
        place.write(1, &words);
        Some(kept)
    }
}

impl Drop for OrphanRecord {
    fn drop(&mut self) {
        if let Some(place) = self.records.of_orphan(self.place) {
            place.clear();
        }
        self.records.orphans.give_back(self.place);
    }
}

//! Memory shared with one application that has sockets: a slot for each, rings of bytes, and bits
//! that say whose turn it is.
//!
//! Everything here is state and nothing is a message: how many bytes came and how many were read,
//! what is asked for, where to look. So nothing can be lost, doubled or left half done by a process
//! that dies at any instruction, and neither side ever waits for a lock of the other. Who writes
//! something marks the slot in the [`ReadyBits`] of whoever should look; ready bits are hints, and
//! looking at a slot without news costs a few loads.
//!
//! A region belongs to one application and the daemon, or (a *local pair*) to two applications that
//! talk to each other on one machine; then the words that the daemon would write are those of the
//! other side's slot.
//!
//! The daemon believes nothing that it reads here: positions, rings and wishes are copied once and
//! held against what it keeps to itself.

#[cfg(not(loom))]
mod backlog;
mod budget;
mod free_indexes;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod host_addresses;
#[cfg(not(loom))]
mod layout;
mod lock;
#[cfg(not(loom))]
mod narrow_paths;
mod quota;
mod ready_bits;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod repair_table;
#[cfg(not(loom))]
mod resident;
#[cfg(not(loom))]
mod ring;
#[cfg(not(loom))]
mod server;
#[cfg(not(loom))]
mod slot;
#[cfg(not(loom))]
mod slot_state;
#[cfg(not(loom))]
mod spare;

pub use budget::Budget;
pub use free_indexes::FreeIndexes;
pub use lock::{Holder, Locked, SEIZED, SlotLock, release, seize};
pub use piece::Piece;
pub use quota::Quota;
pub use ready_bits::ReadyBits;
#[cfg(not(loom))]
pub use {
    backlog::{Backlog, Entry},
    heap::Heap,
    layout::{POLLERS_MAX, SLOTS_MAX, Side, SocketMemory, SocketSizes, WORKERS_MAX},
    record::{HEADER_BYTES, PAYLOAD_MAX, Record},
    repair_table::{
        CHANGING_WORDS, LASTING_WORDS, LOW_PORTS_MAX, RECORDS_MAX, RepairRecord, RepairTable,
    },
    ring::{RingDesc, RingMemory},
    server::SocketServer,
    slot::{Address, Asks, OPTIONS, SlotInfo, SlotOption, SlotWords, TX_GROW_SHIFT},
    slot_state::{Kind, SlotState},
    spare::SPARE_LOOK_EVERY,
};

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_models;

//! Memory that several threads or processes share: regions, frames, rings, hand-over, doorbells,
//! ready sets.
//!
//! One of the crates that may use `unsafe`. What it exports is safe: a [`Frame`] or a ring end is a
//! token that only its holder can use, and so the crates above need no `unsafe`.

/// Who may use a core: grant, revoke, park.
pub mod core_grant;
/// A wake-up that costs a system call only when somebody sleeps.
pub mod doorbell;
/// Per-flow bytes that outlive a move from worker to worker.
pub mod flow_state;
/// The right to the bytes of one packet.
pub mod frame;
/// Who won the race between "detached" and "aborted".
pub mod handover;
/// Memory shared with one application.
#[cfg(not(loom))]
pub mod packets;
/// The frames of one region, lent out and taken back.
pub mod pool;
/// Which of many queues have something.
pub mod ready_set;
/// A sealed memfd, mapped, with the header that makes its layout negotiable.
pub mod region;
#[cfg_attr(loom, expect(dead_code, reason = "its users map real memory, which loom cannot model"))]
mod slot_ring;
/// Memory shared with one application that has sockets.
pub mod sockets;
/// Single-producer single-consumer ring.
pub mod spsc;
mod sync;
/// Waiting: look, pause, sleep.
pub mod wait;

pub use core_grant::{CoreCommand, CoreGrant, CoreGrantControl, CoreReply};
pub use doorbell::Doorbell;
pub use flow_state::{FlowState, StateMiss};
pub use frame::{Batch, Frame};
pub use handover::{Handovers, Moving, Ticket};
pub use pool::{FramePool, PoolConfig};
pub use ready_set::{Ready, ReadySet};
pub use region::{MapError, Region, RegionError};
pub use slot_ring::ProtocolViolation;
pub use spsc::{Consumer, Producer, ring};
pub use wait::{Wait, Waited};

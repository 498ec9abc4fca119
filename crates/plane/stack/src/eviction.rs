//! Connections that nobody reads, when memory is short: what is asked of workers, and what they
//! take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{AppId, Generation, Nanos, SlotId};
use shm::sockets::RingMemory;

use crate::app_sockets::AppSockets;

/// What is to be taken from an application. All workers share it, so that they stop together.
#[derive(Debug)]
pub struct Eviction {
    /// Whose connections.
    pub app: AppId,
    /// Connections that were not read from for this long.
    pub idle: Nanos,
    /// Bytes of rings that are still to be taken.
    bytes: AtomicU64,
}

impl Eviction {
    /// Rings of at least `bytes` bytes together, as far as there are any.
    pub fn new(app: AppId, idle: Nanos, bytes: u64) -> Self {
        Self { app, idle, bytes: AtomicU64::new(bytes) }
    }

    /// Whether enough was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }

    /// Counts bytes that were taken.
    pub(crate) fn count(&self, bytes: u64) {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// A ring that was taken from a connection. Its program may be at reading it still: it finds out
/// afterwards, so the ring is no other's until the socket is closed, but its memory is free.
#[derive(Debug)]
pub struct Evicted {
    /// Whose.
    pub app: Arc<AppSockets>,
    /// The socket's slot.
    pub slot: SlotId,
    /// The slot's generation, as of this socket.
    pub generation: Generation,
    /// The ring.
    pub ring: RingMemory,
}

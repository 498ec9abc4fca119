//! The frames of one pool, as the kernel knows them.
//!
//! UMEM offset 0 is region offset 0, so addresses in rings are region offsets. Chunk 0 holds the
//! region's header and is never lent. All sockets of one pool share one UMEM: that is what lets a
//! frame received on one port leave by another without a copy.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::io::Errno;
use shm::{FramePool, PoolConfig, Region};

use super::if_xdp::{
    SOL_XDP, TX_METADATA_BYTES, UmemReg, XDP_PACKET_HEADROOM, XDP_UMEM_REG,
    XDP_UMEM_TX_METADATA_LEN,
};
use crate::{OpenError, sockopt};

// SAFETY: six numbers; `addr` is not followed by setsockopt beyond pinning pages that the region
// keeps mapped, and pinned pages outlive any mapping.
unsafe impl sockopt::Plain for UmemReg {}

/// The UMEM of one pool: clone it for each port of the pool.
#[derive(Clone, Debug)]
pub struct Umem {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Kept mapped: the kernel is to be given it again when an interface comes back.
    region: Arc<Region>,
    config: PoolConfig,
    /// Sockets bound to it. A new socket joins by any that still lives; none is kept alive for
    /// that, because a socket that lives keeps its queue busy.
    sockets: Mutex<Vec<Weak<OwnedFd>>>,
    /// The kernel reads requests that stand before packets.
    has_tx_metadata: AtomicBool,
}

impl Umem {
    /// The UMEM of `pool`. Costs nothing until a port opens.
    pub fn new(pool: &FramePool) -> Self {
        let (region, config) = (Arc::clone(pool.region()), *pool.config());
        let (sockets, has_tx_metadata) = (Mutex::default(), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { region, config, sockets, has_tx_metadata }) }
    }

    /// Whether it is made of `pool`.
    pub(super) fn is_of(&self, pool: &FramePool) -> bool {
        Arc::ptr_eq(&self.shared.region, pool.region())
    }

    /// Bytes of the longest packet that the kernel can put into a chunk.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        self.shared.config.chunk_bytes - XDP_PACKET_HEADROOM
    }

    pub(super) fn chunk_bytes(&self) -> u32 {
        self.shared.config.chunk_bytes
    }

    pub(super) fn frames(&self) -> u32 {
        self.shared.config.frames
    }

    /// Whether a packet may carry a request to the kernel; known once it is registered.
    pub(super) fn has_tx_metadata(&self) -> bool {
        self.shared.has_tx_metadata.load(Ordering::Relaxed)
    }

    /// The sockets that were bound to it and still live. One whose interface is gone is bound to
    /// nothing any more, and says so only when a new one wants to join by it.
    pub(super) fn sockets(&self) -> Vec<Arc<OwnedFd>> {
        let mut sockets = self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.iter().filter_map(Weak::upgrade).collect()
    }

    /// Copies of the sockets that are bound to it now: whoever has one keeps its queue's packets
    /// from the kernel, though this process has ended.
    pub fn copies(&self) -> Vec<OwnedFd> {
        self.sockets().iter().filter_map(|socket| socket.try_clone().ok()).collect()
    }

    /// Remembers a socket that is bound to it.
    pub(super) fn joined(&self, socket: &Arc<OwnedFd>) {
        let mut sockets = self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.push(Arc::downgrade(socket));
    }

    /// Makes `socket` the one that brings the memory to the kernel.
    pub(super) fn register(&self, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        let region = &self.shared.region;
        let bytes = (self.frames() as usize + 1) * self.chunk_bytes() as usize;
        assert!(bytes <= region.len_bytes(), "a pool's region holds all its chunks");
        let plain = UmemReg {
            addr: region.base().as_ptr().expose_provenance() as u64,
            len: bytes as u64,
            chunk_size: self.chunk_bytes(),
            ..UmemReg::default()
        };
        let with_metadata = UmemReg {
            flags: XDP_UMEM_TX_METADATA_LEN,
            tx_metadata_len: TX_METADATA_BYTES as u32,
            ..plain
        };
        // Before Linux 6.11 there are no such flag and no such requests.
        let set = |registration| sockopt::set(socket.as_fd(), SOL_XDP, XDP_UMEM_REG, registration);
        let set = || match set(&with_metadata) {
            Err(Errno::INVAL) => set(&plain).map(|()| false),
            result => result.map(|()| true),
        };
        // Pinned pages count as locked memory: try with what we have, then raise the limit.
        let result = match set() {
            Err(Errno::NOBUFS | Errno::NOMEM) => {
                sys::memlock::raise();
                set()
            }
            result => result,
        };
        let result = result.map(|has_tx_metadata| {
            self.shared.has_tx_metadata.store(has_tx_metadata, Ordering::Relaxed);
        });
        result.map_err(|errno| match errno {
            Errno::NOBUFS | Errno::NOMEM => {
                OpenError::LockedMemory { bytes, limit: sys::memlock::limit() }
            }
            errno => {
                OpenError::of("register the frames with the kernel", errno, &[], "report this")
            }
        })
    }
}

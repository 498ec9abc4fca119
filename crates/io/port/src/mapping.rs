//! A mapping of a ring that the kernel shares.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::xdp::RingMemory;

/// Memory that the kernel shares with us, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address range; what is done with it is decided by the rings made over it.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of `fd` from `offset`, all pages present.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                fd,
                offset,
            )
        }?;
        let base = NonNull::new(base.cast()).expect("mmap never returns page zero");
        Ok(Self { base, bytes })
    }
}

impl RingMemory for Mapping {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len_bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of our own mapping, and whoever points into it holds
        // a reference to this value.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping a whole own mapping cannot fail");
    }
}

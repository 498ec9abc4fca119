//! The blocks of a TPACKET_V3 receive ring (linux/if_packet.h).
//!
//! The kernel fills a block with packets and hands it over whole, when it is full or its time is
//! up; we read it in pieces of a batch and hand it back. A block's status word says whose it is.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;
use crate::xdp::RingMemory;

/// `TP_STATUS_KERNEL` and `TP_STATUS_USER`: whose a block is.
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1 << 0;
const TP_STATUS_CSUMNOTREADY: u32 = 1 << 3;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const TP_STATUS_CSUM_VALID: u32 = 1 << 7;

/// Offsets in struct tpacket_block_desc.
mod header {
    pub(super) const STATUS: usize = 8;
    pub(super) const PACKETS: usize = 12;
    pub(super) const FIRST: usize = 16;
}

/// Offsets in struct tpacket3_hdr.
mod packet {
    pub(super) const NEXT: usize = 0;
    pub(super) const SNAPLEN: usize = 12;
    pub(super) const LEN: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const MAC: usize = 24;
    pub(super) const VLAN_TCI: usize = 32;
    pub(super) const VLAN_TPID: usize = 36;
    pub(super) const BYTES: usize = 48;
}

/// A packet in a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub(super) bytes: &'a [u8],
    /// Bytes that it had on the wire; more than there are when it was cut.
    pub(super) wire_bytes: u32,
    /// Tag protocol and control of a VLAN tag that the kernel took off.
    pub(super) vlan: Option<(u16, u16)>,
    /// Its sender left the checksum open.
    pub(super) checksum_open: bool,
    /// The kernel or the NIC found its checksum right.
    pub(super) checksum_verified: bool,
}

/// The ring, and where we are in it.
pub(super) struct BlockRing {
    memory: Mapping,
    block_bytes: usize,
    blocks: usize,
    /// The block that we read or wait for.
    current: usize,
    /// The rest of it; `None`: it is the kernel's, as far as we have looked.
    rest: Option<Rest>,
    /// Blocks whose content made no sense.
    broken: u64,
}

#[derive(Clone, Copy)]
struct Rest {
    /// Where in the block the next packet's header is.
    at: usize,
    packets: u32,
}

impl BlockRing {
    pub(super) fn new(memory: Mapping, block_bytes: usize, blocks: usize) -> Self {
        assert!(block_bytes * blocks <= memory.len_bytes() && block_bytes >= packet::BYTES);
        Self { memory, block_bytes, blocks, current: 0, rest: None, broken: 0 }
    }

    /// Looks at the next packet; `take` says whether it is used up. True when it was.
    #[inline]
    pub(super) fn next(&mut self, take: impl FnOnce(&Packet<'_>) -> bool) -> bool {
        let Some(rest) = self.rest.or_else(|| self.open_block()) else {
            return false;
        };
        let block = self.block();
        let Some((packet, next)) = read_packet(block, rest.at) else {
            // The kernel does not write such blocks. Go on with the next one.
            self.broken += 1;
            self.close_block();
            return false;
        };
        if !take(&packet) {
            self.rest = Some(rest);
            return false;
        }
        if rest.packets > 1 {
            self.rest = Some(Rest { at: rest.at + next, packets: rest.packets - 1 });
        } else {
            self.close_block();
        }
        true
    }

    /// Whether a packet can be read now.
    pub(super) fn is_ready(&self) -> bool {
        self.rest.is_some()
            || self.status(self.current).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    pub(super) fn broken(&self) -> u64 {
        self.broken
    }

    fn open_block(&mut self) -> Option<Rest> {
        // Acquire pairs with the kernel's release of the block: we see its packets.
        if self.status(self.current).load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return None;
        }
        let block = self.block();
        let (packets, first) = (u32_at(block, header::PACKETS)?, u32_at(block, header::FIRST)?);
        if packets == 0 {
            // A block whose time was up may be empty.
            self.close_block();
            return None;
        }
        Some(Rest { at: first as usize, packets })
    }

    fn close_block(&mut self) {
        self.rest = None;
        // Release pairs with the kernel's look at the status: our reads are over.
        self.status(self.current).store(TP_STATUS_KERNEL, Ordering::Release);
        self.current = (self.current + 1) % self.blocks;
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        let offset = block * self.block_bytes + header::STATUS;
        // SAFETY: `block < blocks`, so the word is inside of the mapping.
        let word: NonNull<AtomicU32> = unsafe { self.memory.base().add(offset) }.cast();
        // SAFETY: aligned (blocks are pages), mapped as long as `self`, and only used as atomic.
        unsafe { word.as_ref() }
    }

    /// The current block. Only while it is ours.
    fn block(&self) -> &[u8] {
        // SAFETY: `current < blocks`, so the block is inside of the mapping.
        let start = unsafe { self.memory.base().add(self.current * self.block_bytes) };
        // SAFETY: the whole block is mapped, and the kernel does not write to it until its status
        // says that it may; the status word itself is not read through this slice.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.block_bytes) }
    }
}

/// The packet whose header is at `at`, and the distance to the next one.
fn read_packet(block: &[u8], at: usize) -> Option<(Packet<'_>, usize)> {
    let header = block.get(at..at.checked_add(packet::BYTES)?)?;
    let snaplen = u32_at(header, packet::SNAPLEN)? as usize;
    let status = u32_at(header, packet::STATUS)?;
    let start = at + usize::from(u16_at(header, packet::MAC)?);
    let bytes = block.get(start..start.checked_add(snaplen)?)?;
    let vlan = (status & TP_STATUS_VLAN_VALID != 0).then(|| {
        let named = status & TP_STATUS_VLAN_TPID_VALID != 0;
        let protocol = if named { u16_at(header, packet::VLAN_TPID) } else { None };
        let control = u32_at(header, packet::VLAN_TCI).unwrap_or(0) as u16;
        (protocol.unwrap_or(0x8100), control)
    });
    let packet = Packet {
        bytes,
        wire_bytes: u32_at(header, packet::LEN)?,
        vlan,
        checksum_open: status & TP_STATUS_CSUMNOTREADY != 0,
        checksum_verified: status & TP_STATUS_CSUM_VALID != 0,
    };
    Some((packet, u32_at(header, packet::NEXT)? as usize))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(status: u32, mac: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(mac)];
        bytes.resize(bytes.len().max(packet::BYTES), 0);
        bytes[packet::SNAPLEN..][..4].copy_from_slice(&(content.len() as u32).to_ne_bytes());
        bytes[packet::LEN..][..4].copy_from_slice(&(content.len() as u32 + 9).to_ne_bytes());
        bytes[packet::STATUS..][..4].copy_from_slice(&status.to_ne_bytes());
        bytes[packet::MAC..][..2].copy_from_slice(&mac.to_ne_bytes());
        bytes[packet::VLAN_TCI..][..4].copy_from_slice(&0x6007u32.to_ne_bytes());
        bytes[packet::VLAN_TPID..][..2].copy_from_slice(&0x88a8u16.to_ne_bytes());
        bytes.extend_from_slice(content);
        bytes
    }

    #[test]
    fn a_packet_is_read_with_what_the_kernel_knows_of_it() {
        let plain = packet(TP_STATUS_USER, 66, b"hello");
        let (read, _) = read_packet(&plain, 0).expect("it is whole");
        assert_eq!((read.bytes, read.wire_bytes, read.vlan), (&b"hello"[..], 14, None));
        assert!(!read.checksum_open && !read.checksum_verified);

        let status = TP_STATUS_VLAN_VALID | TP_STATUS_CSUMNOTREADY;
        let tagged = packet(status, 66, b"hello");
        let (read, _) = read_packet(&tagged, 0).expect("it is whole");
        assert_eq!(read.vlan, Some((0x8100, 0x6007)), "an unnamed tag is 802.1Q");
        assert!(read.checksum_open);

        let status = status | TP_STATUS_VLAN_TPID_VALID | TP_STATUS_CSUM_VALID;
        let named = packet(status, 66, b"hello");
        let (read, _) = read_packet(&named, 0).expect("it is whole");
        assert_eq!(read.vlan, Some((0x88a8, 0x6007)));
        assert!(read.checksum_verified);
    }

    #[test]
    fn a_packet_that_reaches_out_of_its_block_is_none() {
        let whole = packet(0, 66, b"hello");
        assert!(read_packet(&whole[..whole.len() - 1], 0).is_none());
        assert!(read_packet(&whole, 40).is_none());
        assert!(read_packet(&whole, usize::MAX).is_none());
        assert!(read_packet(&[], 0).is_none());
        let mut long = whole;
        long[packet::SNAPLEN..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(read_packet(&long, 0).is_none());
    }
}

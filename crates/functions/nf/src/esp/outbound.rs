//! A packet on its way into a tunnel: everything but its encryption.

use std::ops::Range;

use base::ChecksumState;
use shm::Frame;

use super::gateway::Link;
use super::packet::{self, Packet};
use super::{Algorithm, outer, trailer};
use crate::checksum;

/// Why a packet does not go into its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    TtlExceeded,
    TooLong,
    NoRoom,
    SequenceOverflow,
}

/// Bytes of SPI and sequence number.
pub(crate) const ESP_BYTES: usize = 8;

/// What is to be encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Wrapped {
    /// From the SPI to the ICV, in bytes of the frame.
    pub(crate) esp: Range<usize>,
    pub(crate) sequence: u64,
}

/// Puts the packet of `frame` into a tunnel: headers before it, trailer behind it.
#[inline]
pub(crate) fn wrap(frame: &mut Frame, packet: &Packet, link: &Link) -> Result<Wrapped, Refused> {
    let Link { tunnel, inner_mtu, sent, iv_start, .. } = link;
    let &Packet { l3, is_ipv4, header_bytes: _, total_bytes, ttl, tos, .. } = packet;
    // RFC 4301 section 5.1.2.1, note 2: who puts a packet into a tunnel forwards it.
    if ttl <= 1 {
        return Err(Refused::TtlExceeded);
    }
    if total_bytes > usize::from(*inner_mtu) {
        return Err(Refused::TooLong);
    }
    checksum::complete_here(frame);
    let algorithm = tunnel.outbound.secret.algorithm();
    let before = tunnel.outer_bytes() + ESP_BYTES + algorithm.iv_bytes();
    let behind = trailer::bytes_behind(total_bytes, algorithm.block_bytes());
    let len = l3 + total_bytes + behind + algorithm.icv_bytes();
    if !frame.set_len(len) || !frame.push_front(before) {
        return Err(Refused::NoRoom);
    }
    // Last of all checks, so that no number is lost to a packet that is not sent.
    let sequence = sent.take().ok_or(Refused::SequenceOverflow)?;
    let is_outer_ipv4 = tunnel.local.is_ipv4();
    let bytes = frame.bytes_mut();
    let inner = l3 + before;
    packet::lower_ttl(&mut bytes[inner..], is_ipv4);
    trailer::write(
        &mut bytes[inner + total_bytes..][..behind],
        if is_ipv4 { NEXT_IPV4 } else { NEXT_IPV6 },
    );
    bytes.copy_within(before..inner, 0);
    bytes[l3 - 2..l3].copy_from_slice(&outer::ether_type(is_outer_ipv4));
    let total = bytes.len() - l3;
    outer::write(&mut bytes[l3..], tunnel, tos, total);
    let esp = l3 + tunnel.outer_bytes()..bytes.len();
    let head = &mut bytes[esp.clone()];
    let spi = tunnel.outbound.spi.to_be_bytes();
    head[..4].copy_from_slice(&spi);
    head[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
    let count = iv_start.wrapping_add(sequence).to_be_bytes();
    match algorithm {
        Algorithm::Gcm => head[8..16].copy_from_slice(&count),
        // The cipher turns it into the IV.
        Algorithm::CbcSha1 | Algorithm::CbcSha256 => {
            head[8..12].copy_from_slice(&spi);
            head[12..16].fill(0);
            head[16..24].copy_from_slice(&count);
        }
    }
    let meta = frame.meta_mut();
    // The frame is shorter than 64 KiB, and so is what lies before the outer payload.
    (meta.l3_offset, meta.l4_offset) = (l3 as u16, esp.start as u16);
    meta.checksum = ChecksumState::Verified;
    Ok(Wrapped { esp, sequence })
}

/// Protocol numbers of a packet within a packet.
pub(crate) const NEXT_IPV4: u8 = 4;
/// As [`NEXT_IPV4`].
pub(crate) const NEXT_IPV6: u8 = 41;

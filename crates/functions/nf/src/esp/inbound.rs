//! A packet on its way out of a tunnel: everything but its decryption.

use std::ops::Range;

use base::{ChecksumState, Nanos, TxChecksum};
use shm::Frame;

use super::gateway::Gateway;
use super::outbound::{ESP_BYTES, NEXT_IPV4, NEXT_IPV6};
use super::packet::{self, Packet};
use super::replay::Stale;
use super::{outer, trailer};

/// Why a packet does not come out of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    BadLength,
    UnknownSpi,
    Stale(Stale),
    BadPadding,
    BadPayload,
    Selector,
    Congestion,
    Dummy,
}

/// A packet of ESP before it is decrypted.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// Which tunnel it is of.
    pub(crate) tunnel: u16,
    /// Its whole number, which nobody has vouched for yet.
    pub(crate) sequence: u64,
    /// From the SPI to the ICV, in bytes of the frame.
    pub(crate) esp: Range<usize>,
    l3: usize,
    outer_tos: u8,
}

/// Finds out whose packet it is, and whether it is worth decrypting.
#[inline]
pub(crate) fn arrive(
    gateway: &Gateway,
    frame: &[u8],
    outside: &Packet,
    esp: Range<usize>,
    now: Nanos,
) -> Result<Arrival, Refused> {
    let Some(&[s0, s1, s2, s3, n0, n1, n2, n3]) =
        frame.get(esp.clone()).and_then(|bytes| bytes.first_chunk())
    else {
        return Err(Refused::BadLength);
    };
    let spi = u32::from_be_bytes([s0, s1, s2, s3]);
    let tunnel = gateway.by_spi(spi, outside.to, now).ok_or(Refused::UnknownSpi)?;
    let link = gateway.link(tunnel);
    let algorithm = link.tunnel.inbound.secret.algorithm();
    let fixed = ESP_BYTES + algorithm.iv_bytes() + algorithm.icv_bytes();
    let text = esp.len().checked_sub(fixed).ok_or(Refused::BadLength)?;
    if text == 0 || text % algorithm.block_bytes() != 0 {
        return Err(Refused::BadLength);
    }
    let sequence = link.seen.whole(u32::from_be_bytes([n0, n1, n2, n3]));
    link.seen.check(sequence).map_err(Refused::Stale)?;
    Ok(Arrival { tunnel, sequence, esp, l3: outside.l3, outer_tos: outside.tos })
}

/// Takes the packet out of the tunnel, now that it is verified and decrypted.
#[inline]
pub(crate) fn unwrap(
    gateway: &Gateway,
    frame: &mut Frame,
    arrival: &Arrival,
) -> Result<(), Refused> {
    let Arrival { tunnel, sequence, esp, l3, outer_tos } = arrival;
    let link = gateway.link(*tunnel);
    link.seen.accept(*sequence).map_err(Refused::Stale)?;
    let algorithm = link.tunnel.inbound.secret.algorithm();
    let start = esp.start + ESP_BYTES + algorithm.iv_bytes();
    let bytes = frame.bytes_mut();
    let plain = &bytes[start..esp.end - algorithm.icv_bytes()];
    let (payload, next_header) = trailer::split(plain).ok_or(Refused::BadPadding)?;
    let inside = match next_header {
        NEXT_IPV4 => Packet::ipv4(payload, *l3),
        NEXT_IPV6 => Packet::ipv6(payload, *l3),
        NEXT_NONE => return Err(Refused::Dummy),
        _ => None,
    };
    let inside = inside.ok_or(Refused::BadPayload)?;
    // RFC 4301 section 5.2, step 4: who has the keys may still not speak for everybody, and never
    // for us: behind this nobody can tell it from what a tunnel has made.
    if !gateway.may_bring(*tunnel, inside.from, inside.to) || gateway.is_own(inside.from) {
        return Err(Refused::Selector);
    }
    let ecn = outer::ecn(*outer_tos, inside.tos).ok_or(Refused::Congestion)?;
    if ecn != inside.tos & 3 {
        packet::set_ecn(&mut bytes[start..], inside.is_ipv4, ecn);
    }
    bytes.copy_within(0..*l3, start - l3);
    bytes[start - 2..start].copy_from_slice(&outer::ether_type(inside.is_ipv4));
    let is_cut = frame.pull_front(start - l3) && frame.set_len(l3 + inside.total_bytes);
    debug_assert!(is_cut, "the packet inside lies in the frame");
    let meta = frame.meta_mut();
    // As of a packet that has just come: nobody has looked at what it carries.
    (meta.l3_offset, meta.l4_offset) = (*l3 as u16, 0);
    meta.checksum = ChecksumState::Unknown;
    meta.tx_checksum = TxChecksum::Complete;
    Ok(())
}

/// RFC 4303 section 2.6: there is nothing inside, and the receiver says nothing.
const NEXT_NONE: u8 = 59;

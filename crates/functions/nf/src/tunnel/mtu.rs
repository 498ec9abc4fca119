//! What routers on a tunnel's path say of its length.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use base::Nanos;
use wire::{ipv4, ipv6};

use super::settings::{Kind, MTU_MIN_IPV4, MTU_MIN_IPV6};
use crate::esp::packet::Packet;
use crate::esp::selector::{self, Address};

/// How long it is believed (RFC 1191 section 6.3, RFC 8201 section 5.3).
const FOR: Nanos = Nanos::from_secs(600);

/// The largest outer packet of a tunnel. Any slice reads and writes it: both halves are words of
/// their own, and one that is read with the other's old value is a length that was true a moment
/// ago.
#[derive(Debug)]
pub(super) struct PathMtu {
    most: u16,
    least: u16,
    learned: AtomicU16,
    until: AtomicU64,
}

impl PathMtu {
    pub(super) const fn new(most: u16, is_ipv4: bool) -> Self {
        let least = if is_ipv4 { MTU_MIN_IPV4 } else { MTU_MIN_IPV6 };
        Self { most, least, learned: AtomicU16::new(most), until: AtomicU64::new(0) }
    }

    /// Its bytes as the operator says.
    #[inline]
    pub(super) const fn most(&self) -> u16 {
        self.most
    }

    /// Its bytes now.
    #[inline]
    pub(super) fn get(&self, now: Nanos) -> u16 {
        if now.0 < self.until.load(Ordering::Relaxed) {
            self.learned.load(Ordering::Relaxed)
        } else {
            self.most
        }
    }

    /// A router said so. Nobody makes it shorter than any link is, or longer than the operator
    /// says.
    pub(super) fn learn(&self, mtu: u16, now: Nanos) {
        let mtu = mtu.max(self.least);
        if mtu < self.get(now) {
            self.learned.store(mtu, Ordering::Relaxed);
            self.until.store((now + FOR).0, Ordering::Relaxed);
        }
    }
}

/// What a router said: about which packet of ours, and what its next link takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) protocol: u8,
    /// Bytes of the packet that was too long, as it says.
    pub(super) quoted: u16,
    pub(super) mtu: u16,
}

const ICMP_BYTES: usize = 8;

/// Whether it is an ICMP error that says "too big" and quotes a packet of a tunnel's protocol.
#[inline]
pub(super) fn is_news(frame: &[u8], packet: &Packet) -> bool {
    matches!(packet.protocol, ipv4::ICMP | ipv6::ICMPV6) && read(frame, packet).is_some()
}

/// Reads it (RFC 1191 section 4, RFC 4443 section 3.2).
pub(super) fn read(frame: &[u8], packet: &Packet) -> Option<News> {
    let start = packet.l3 + packet.header_bytes;
    let message = frame.get(start..packet.l3 + packet.total_bytes)?;
    let &[kind, code, _, _, m0, m1, m2, m3] = message.first_chunk()?;
    let quoted = message.get(ICMP_BYTES..)?;
    if packet.is_fragment {
        return None;
    }
    let news = match (packet.is_ipv4, packet.protocol, kind, code) {
        (true, ipv4::ICMP, 3, 4) => {
            let header: &[u8; 20] = quoted.first_chunk()?;
            let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
            News {
                from: selector::of_ipv4([s0, s1, s2, s3]),
                to: selector::of_ipv4([d0, d1, d2, d3]),
                protocol: header[9],
                quoted: u16::from_be_bytes([header[2], header[3]]),
                // Zero: the router is older than RFC 1191, and says nothing of use.
                mtu: u16::from_be_bytes([m2, m3]),
            }
        }
        (false, ipv6::ICMPV6, 2, 0) => {
            let header: &[u8; 40] = quoted.first_chunk()?;
            let address = |at: usize| header.get(at..)?.first_chunk().copied();
            News {
                from: selector::of_ipv6(address(8)?)?,
                to: selector::of_ipv6(address(24)?)?,
                protocol: header[6],
                quoted: u16::from_be_bytes([header[4], header[5]]).saturating_add(40),
                mtu: u16::try_from(u32::from_be_bytes([m0, m1, m2, m3])).unwrap_or(u16::MAX),
            }
        }
        _ => return None,
    };
    (Kind::is_of_any(news.protocol) && news.mtu > 0).then_some(news)
}

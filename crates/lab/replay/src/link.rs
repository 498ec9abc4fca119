//! Kinds of link that captures are made on, and the Ethernet header that stands in for theirs.
//!
//! `tcpdump -i any` writes Linux cooked captures, tunnels write bare IP, BSD's loopback writes an
//! address family: the data path gets an Ethernet header in front of the same IP packet.
//! Numbers and layouts: draft-ietf-opsawg-pcaplinktype and the pages that it refers to.

use std::ops::Range;

use wire::ethernet;

/// Bytes to leave free before a record, for the header that may be put there.
pub(crate) const FRONT_BYTES: usize = 14;

/// A kind of link whose packets can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// IP without anything before it; its version says which.
    RawIp,
    RawIpv4,
    RawIpv6,
    /// Four bytes of address family, in the byte order of the capturing machine or big endian.
    Null,
    /// Linux cooked capture: 16 bytes, the type last.
    Cooked,
    /// Its second version: 20 bytes, the type first.
    Cooked2,
}

/// What to say of the kinds that can be played.
pub(crate) const PLAYABLE: &str = "Ethernet (1), raw IP (101, 12, 14, 228, 229), BSD loopback (0, 108) and Linux cooked (113, 276)";

/// No type of a payload: the data path passes such a frame on as somebody else's.
const NO_TYPE: u16 = 0xffff;
/// ARPHRD types whose protocol field is no Ethernet type: frame relay, radiotap, netlink. That of
/// GRE (778) is one (RFC 2784 section 2.4).
const OTHER_PROTOCOLS: [u16; 3] = [770, 803, 824];

impl Link {
    /// The kind with that number in the registry of link types.
    pub(crate) fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            0 | 108 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 => Self::RawIp,
            113 => Self::Cooked,
            228 => Self::RawIpv4,
            229 => Self::RawIpv6,
            276 => Self::Cooked2,
            _ => return None,
        })
    }

    /// Bytes that come before the network header.
    pub(crate) fn header_bytes(self) -> usize {
        match self {
            Self::Ethernet => FRONT_BYTES,
            Self::RawIp | Self::RawIpv4 | Self::RawIpv6 => 0,
            Self::Null => 4,
            Self::Cooked => 16,
            Self::Cooked2 => 20,
        }
    }

    /// Where the Ethernet frame is in `bytes`, which holds a record of `len` bytes after
    /// [`FRONT_BYTES`]; the header is written if the record had another. `None`: the record ends
    /// within its link header.
    pub(crate) fn to_ethernet(self, bytes: &mut [u8], len: usize) -> Option<Range<usize>> {
        let end = FRONT_BYTES + len;
        let record = &bytes[FRONT_BYTES..end];
        let half = |at: usize| u16::from_be_bytes([record[at], record[at + 1]]);
        if self != Self::Ethernet && len < self.header_bytes() {
            return None;
        }
        // Who a cooked packet was for: 1 is everybody, 2 a group.
        let (ether_type, cast) = match self {
            Self::Ethernet => return Some(FRONT_BYTES..end),
            Self::RawIpv4 => (ethernet::IPV4, 0),
            Self::RawIpv6 => (ethernet::IPV6, 0),
            Self::RawIp => (version(record), 0),
            Self::Null => (family(record), 0),
            Self::Cooked => (cooked(half(2), half(14)), half(0)),
            Self::Cooked2 => (cooked(half(8), half(0)), u16::from(record[10])),
        };
        let destination = match cast {
            1 => ethernet::BROADCAST,
            2 => [1, 0, 0x5e, 0, 0, 1],
            _ => [2, 0, 0, 0, 0, 2],
        };
        // So that the header ends where the link's own one did.
        let start = self.header_bytes();
        let header = &mut bytes[start..start + FRONT_BYTES];
        header[..6].copy_from_slice(&destination);
        header[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        header[12..].copy_from_slice(&ether_type.to_be_bytes());
        Some(start..end)
    }
}

fn version(record: &[u8]) -> u16 {
    match record.first().map(|byte| byte >> 4) {
        Some(4) => ethernet::IPV4,
        Some(6) => ethernet::IPV6,
        _ => NO_TYPE,
    }
}

/// The type for an address family: 2 is IPv4 everywhere, IPv6 has another number on each system.
fn family(record: &[u8]) -> u16 {
    let bytes = [record[0], record[1], record[2], record[3]];
    let little = u32::from_le_bytes(bytes);
    // No family is above 255, so only one of the two orders makes sense.
    let family = if little > 0xff { u32::from_be_bytes(bytes) } else { little };
    match family {
        2 => ethernet::IPV4,
        10 | 24 | 28 | 30 => ethernet::IPV6,
        _ => NO_TYPE,
    }
}

fn cooked(hardware: u16, protocol: u16) -> u16 {
    if OTHER_PROTOCOLS.contains(&hardware) { NO_TYPE } else { protocol }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u16, record: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = vec![0xee; FRONT_BYTES];
        bytes.extend_from_slice(record);
        let link = Link::from_number(number).expect("the test names a playable link");
        link.to_ethernet(&mut bytes, record.len()).map(|range| bytes[range].to_vec())
    }

    fn with_type(destination: [u8; 6], ether_type: u16, rest: &[u8]) -> Option<Vec<u8>> {
        let ether_type = ether_type.to_be_bytes();
        Some([&destination[..], &[2, 0, 0, 0, 0, 1], &ether_type, rest].concat())
    }

    #[test]
    fn every_link_header_becomes_the_ethernet_header_that_says_the_same() {
        const US: [u8; 6] = [2, 0, 0, 0, 0, 2];
        assert_eq!(frame(1, &[7; 20]), Some(vec![7; 20]));
        assert_eq!(frame(101, &[0x45, 9]), with_type(US, 0x0800, &[0x45, 9]));
        assert_eq!(frame(12, &[0x60, 9]), with_type(US, 0x86dd, &[0x60, 9]));
        assert_eq!(frame(101, &[0x10]), with_type(US, NO_TYPE, &[0x10]));
        assert_eq!(frame(228, &[0x45]), with_type(US, 0x0800, &[0x45]));
        assert_eq!(frame(229, &[0x45]), with_type(US, 0x86dd, &[0x45]));
        assert_eq!(frame(0, &[2, 0, 0, 0, 5]), with_type(US, 0x0800, &[5]));
        assert_eq!(frame(108, &[0, 0, 0, 30, 5]), with_type(US, 0x86dd, &[5]));
        assert_eq!(frame(0, &[7, 0, 0, 0, 5]), with_type(US, NO_TYPE, &[5]));
        let cooked = |cast: u8, hardware: u8| {
            let mut record = [0; 17];
            (record[1], record[3], record[15], record[14], record[16]) = (cast, hardware, 0, 8, 5);
            frame(113, &record)
        };
        assert_eq!(cooked(0, 1), with_type(US, 0x0800, &[5]));
        assert_eq!(cooked(1, 1), with_type([0xff; 6], 0x0800, &[5]));
        assert_eq!(cooked(2, 1), with_type([1, 0, 0x5e, 0, 0, 1], 0x0800, &[5]));
        let mut cooked2 = [0; 21];
        (cooked2[0], cooked2[1], cooked2[9], cooked2[20]) = (0x86, 0xdd, 1, 5);
        assert_eq!(frame(276, &cooked2), with_type(US, 0x86dd, &[5]));
        // What came out of a GRE tunnel.
        (cooked2[8], cooked2[9]) = (3, 10);
        assert_eq!(frame(276, &cooked2), with_type(US, 0x86dd, &[5]));
        // Netlink messages, as `nlmon` gives them, have no Ethernet type.
        (cooked2[8], cooked2[9]) = (3, 56);
        assert_eq!(frame(276, &cooked2), with_type(US, NO_TYPE, &[5]));
    }

    #[test]
    fn a_record_that_ends_within_its_link_header_is_no_frame() {
        for (number, bytes) in [(0, 4), (108, 4), (113, 16), (276, 20)] {
            assert_eq!(frame(number, &vec![0; bytes - 1]), None, "{number}");
            assert!(frame(number, &vec![0; bytes]).is_some(), "{number}");
        }
    }

    #[test]
    fn other_links_are_refused() {
        for number in [2, 105, 127, 147, 195, 0xffff] {
            assert_eq!(Link::from_number(number), None);
        }
    }
}

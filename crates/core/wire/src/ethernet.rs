//! Ethernet II: two addresses and a type (IEEE 802.3 clause 3).

use crate::Malformed;
use crate::bytes::{array, swap_adjacent};

/// Bytes before the payload of an untagged frame.
pub const HEADER_BYTES: u16 = 14;
/// Everybody on the link.
pub const BROADCAST: [u8; 6] = [0xff; 6];
/// IPv4 follows.
pub const IPV4: u16 = 0x0800;
/// ARP follows.
pub const ARP: u16 = 0x0806;
/// IPv6 follows.
pub const IPV6: u16 = 0x86dd;
/// IEEE 802.3 3.2.6: smaller values of the type field are the length of an LLC frame.
pub const FIRST_TYPE: u16 = 0x0600;

/// The start of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// To whom.
    pub destination: [u8; 6],
    /// From whom.
    pub source: [u8; 6],
    /// What follows: a type, the tag of a VLAN, or below [`FIRST_TYPE`] a length.
    pub ether_type: u16,
}

impl Header {
    /// Reads the header at the start of `frame`.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let Some(header) = frame.first_chunk::<14>() else {
            return Err(Malformed::EthernetTruncated);
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
        let source = [s0, s1, s2, s3, s4, s5];
        if is_group(source) {
            return Err(Malformed::EthernetSource);
        }
        Ok(Self {
            destination: [d0, d1, d2, d3, d4, d5],
            source,
            ether_type: u16::from_be_bytes([t0, t1]),
        })
    }
}

/// Whether `mac` names many stations: multicast, or broadcast as its special case.
#[inline]
pub const fn is_group(mac: [u8; 6]) -> bool {
    mac[0] & 1 != 0
}

/// Sends the frame back where it came from; false when it is shorter than two addresses.
#[inline]
#[must_use]
pub fn swap_addresses(frame: &mut [u8]) -> bool {
    swap_adjacent::<6>(frame, 0)
}

/// The source of a frame, whatever else it holds.
#[inline]
pub fn source(frame: &[u8]) -> Option<[u8; 6]> {
    array(frame, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];

    #[test]
    fn header_shorter_than_fourteen_bytes_is_truncated() {
        for len in 0..14 {
            assert_eq!(Header::parse(&FRAME[..len]), Err(Malformed::EthernetTruncated));
        }
        assert_eq!(Header::parse(&FRAME).map(|h| h.ether_type), Ok(IPV4));
    }

    #[test]
    fn group_address_cannot_be_the_source() {
        let mut frame = FRAME;
        frame[6] |= 1;
        assert_eq!(Header::parse(&frame), Err(Malformed::EthernetSource));
    }

    #[test]
    fn swapped_twice_is_the_frame_as_it_was() {
        let mut frame = FRAME;
        assert!(swap_addresses(&mut frame));
        assert_eq!(source(&frame), Some([2, 0, 0, 0, 0, 1]));
        assert!(swap_addresses(&mut frame));
        assert_eq!(frame, FRAME);
        assert!(!swap_addresses(&mut frame[..11]));
    }
}

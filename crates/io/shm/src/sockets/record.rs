//! A datagram in a ring: a header, the payload, and as much as is missing to a multiple of eight
//! bytes.
//!
//! The header is, in the machine's order of bytes: the payload's length (4 bytes), the address
//! family as Linux numbers it (2; 0: no address), the port in network order (2), the peer's address
//! (16; IPv4 in the first four), our own address for it (16; zeros: none is known); then what of
//! its IP header is said (1; bit 0: the class, bit 1: the hop limit), the class (1), the hop limit
//! (1), a zero, the number of the interface that it came by (4; 0: none is known), and when that
//! was (8; nanoseconds on the daemon's clock, which is CLOCK_MONOTONIC; 0: it is to leave).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 56;

/// Payload of a datagram, at most.
pub const PAYLOAD_MAX: usize = 65_507;

const IPV4: u16 = 2;
const IPV6: u16 = 10;

/// Which fields of the IP header are said.
const SAYS_CLASS: u8 = 1;
const SAYS_HOP_LIMIT: u8 = 2;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Bytes of payload.
    pub payload: u32,
    /// From whom it came, or to whom it goes; none: to whom the socket is connected.
    pub remote: Option<SocketAddr>,
    /// Our address that it came to, or that it is to come from.
    pub local: Option<IpAddr>,
    /// Its class with ECN's bits (IP_TOS, IPV6_TCLASS); none: as the socket has it.
    pub class: Option<u8>,
    /// Hops that it may go (IP_TTL, IPV6_HOPLIMIT); none: as the socket has it.
    pub hop_limit: Option<u8>,
    /// The number of the interface that it came by; 0: none is known.
    pub interface: u32,
    /// When it came, in nanoseconds of CLOCK_MONOTONIC; 0: it is to leave.
    pub came_at: u64,
}

impl Record {
    /// Bytes of a whole record.
    pub const fn bytes(payload: usize) -> usize {
        HEADER_BYTES + payload.next_multiple_of(8)
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&self.payload.to_ne_bytes());
        let says = |field: Option<u8>, bit| if field.is_some() { bit } else { 0 };
        header[40] = says(self.class, SAYS_CLASS) | says(self.hop_limit, SAYS_HOP_LIMIT);
        header[41] = self.class.unwrap_or(0);
        header[42] = self.hop_limit.unwrap_or(0);
        header[44..48].copy_from_slice(&self.interface.to_ne_bytes());
        header[48..].copy_from_slice(&self.came_at.to_ne_bytes());
        let Some(remote) = self.remote else { return header };
        let family = if remote.is_ipv4() { IPV4 } else { IPV6 };
        header[4..6].copy_from_slice(&family.to_ne_bytes());
        header[6..8].copy_from_slice(&remote.port().to_be_bytes());
        put(remote.ip(), &mut header[8..24]);
        if let Some(local) = self.local {
            put(local, &mut header[24..40]);
        }
        header
    }

    /// What a header says; none: what cannot be.
    pub fn decode(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let two = |at: usize| [header[at], header[at + 1]];
        let four = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let payload = u32::from_ne_bytes(four(0));
        if payload as usize > PAYLOAD_MAX {
            return None;
        }
        let family = u16::from_ne_bytes(two(4));
        let port = u16::from_be_bytes(two(6));
        let ip = |bytes: &[u8]| {
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            match family {
                IPV4 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
                IPV6 => Some(IpAddr::from(Ipv6Addr::from(bytes))),
                _ => None,
            }
        };
        let remote = ip(&header[8..24]).map(|ip| SocketAddr::new(ip, port));
        let local = ip(&header[24..40]).filter(|ip| !ip.is_unspecified());
        let said = |at: usize, bit: u8| Some(header[at]).filter(|_| header[40] & bit != 0);
        let (class, hop_limit) = (said(41, SAYS_CLASS), said(42, SAYS_HOP_LIMIT));
        let interface = u32::from_ne_bytes(four(44));
        let [a, b, c, d] = four(48);
        let [e, f, g, h] = four(52);
        let came_at = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        Some(Self { payload, remote, local, class, hop_limit, interface, came_at })
    }
}

fn put(ip: IpAddr, to: &mut [u8]) {
    match ip {
        IpAddr::V4(ip) => to[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => to[..16].copy_from_slice(&ip.octets()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same_family() -> impl Strategy<Value = (Option<SocketAddr>, Option<IpAddr>)> {
        prop_oneof![
            Just((None, None)),
            (any::<[u8; 4]>(), any::<u16>(), any::<[u8; 4]>()).prop_map(|(remote, port, local)| {
                let local = IpAddr::from(local);
                (Some((remote, port).into()), Some(local).filter(|ip| !ip.is_unspecified()))
            }),
            (any::<[u8; 16]>(), any::<u16>())
                .prop_map(|(ip, port)| (Some((ip, port).into()), None)),
        ]
    }

    proptest! {
        #[test]
        fn a_header_says_what_was_written(
            payload in 0..=PAYLOAD_MAX as u32,
            (remote, local) in same_family(),
            (class, hop_limit) in any::<(Option<u8>, Option<u8>)>(),
            (interface, came_at) in any::<(u32, u64)>(),
        ) {
            let record =
                Record { payload, remote, local, class, hop_limit, interface, came_at };
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn no_header_makes_a_reader_panic(bytes in any::<[u8; HEADER_BYTES]>()) {
            let _ = Record::decode(&bytes);
        }
    }

    #[test]
    fn a_payload_longer_than_any_datagram_is_nonsense() {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&(PAYLOAD_MAX as u32 + 1).to_ne_bytes());
        assert_eq!(Record::decode(&header), None);
        assert_eq!((Record::bytes(0), Record::bytes(1), Record::bytes(8)), (56, 64, 64));
    }
}

//! The IP header around a packet in a tunnel (RFC 4301 section 5.1.2), and what of it outlives the
//! tunnel.

use std::net::IpAddr;

use wire::{checksum, ethernet, ipv4};

use super::tunnel::Tunnel;

/// Writes the header of an outer packet to the start of `out`: DSCP and ECN are those of the packet
/// inside, and the packet must not be fragmented on its way, because pieces of ESP are dropped.
///
/// `total_bytes` are those of the whole outer packet.
#[inline]
pub(crate) fn write(out: &mut [u8], tunnel: &Tunnel, tos: u8, total_bytes: usize) {
    match (tunnel.local, tunnel.remote) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = &mut out[..20];
            let [l0, l1] = (total_bytes as u16).to_be_bytes();
            // Identification zero: it means something only to fragments (RFC 6864 section 4).
            header[..12].copy_from_slice(&[
                0x45,
                tos,
                l0,
                l1,
                0,
                0,
                DONT_FRAGMENT,
                0,
                TTL,
                ipv4::ESP,
                0,
                0,
            ]);
            header[12..16].copy_from_slice(&from.octets());
            header[16..].copy_from_slice(&to.octets());
            let sum = checksum::of(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = &mut out[..40];
            let [l0, l1] = ((total_bytes - 40) as u16).to_be_bytes();
            header[..8].copy_from_slice(&[0x60 | tos >> 4, tos << 4, 0, 0, l0, l1, ipv4::ESP, TTL]);
            header[8..24].copy_from_slice(&from.octets());
            header[24..].copy_from_slice(&to.octets());
        }
        _ => debug_assert!(false, "a tunnel's ends are of one version"),
    }
}

/// The type of Ethernet's payload.
#[inline]
pub(crate) const fn ether_type(is_ipv4: bool) -> [u8; 2] {
    (if is_ipv4 { ethernet::IPV4 } else { ethernet::IPV6 }).to_be_bytes()
}

const DONT_FRAGMENT: u8 = 0x40;
const TTL: u8 = 64;

const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// ECN of a packet that leaves a tunnel, from that of its two headers (RFC 6040 section 4.2);
/// nothing when the packet must be dropped: it met congestion and cannot say so.
#[inline]
pub(crate) const fn ecn(outer: u8, inner: u8) -> Option<u8> {
    match (outer & 3, inner & 3) {
        (CE, NOT_ECT) => None,
        (CE, _) => Some(CE),
        (ECT1, ECT0) => Some(ECT1),
        (_, inner) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_outside_is_told_inside_or_ends_the_packet() {
        // Rows: inside Not-ECT, ECT(1), ECT(0), CE; columns: outside likewise (RFC 6040, figure 4).
        let table = [
            [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None],
            [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)],
            [Some(ECT0), Some(ECT1), Some(ECT0), Some(CE)],
            [Some(CE); 4],
        ];
        for (inner, row) in (0..).zip(table) {
            for (outer, expected) in (0..).zip(row) {
                assert_eq!(ecn(outer, inner), expected, "outside {outer}, inside {inner}");
            }
        }
    }
}

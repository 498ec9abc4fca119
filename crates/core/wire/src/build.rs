//! Whole UDP and TCP packets written into a caller's buffer: for load generators, benches, tests.

use std::net::{IpAddr, SocketAddr};

use crate::bytes::put;
use crate::checksum::{self, Sum};
use crate::{ethernet, ipv4, ipv6, tcp, udp, vlan};

const HOP_LIMIT: u8 = 64;
/// Flags of an IPv4 header: never to be fragmented, so that the identification may be zero
/// (RFC 6864 section 4).
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];

/// A UDP packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct UdpPacket<'a> {
    /// Link address it comes from.
    pub source_mac: [u8; 6],
    /// Link address it goes to.
    pub destination_mac: [u8; 6],
    /// Who sends; of the same IP version as `destination`.
    pub source: SocketAddr,
    /// Who receives.
    pub destination: SocketAddr,
    /// What is sent.
    pub payload: &'a [u8],
    /// Control information of an 802.1Q tag: the VLAN number, with a priority above it if wanted.
    pub vlan: Option<u16>,
}

/// A TCP segment without options to be written.
#[derive(Clone, Copy, Debug)]
pub struct TcpSegment<'a> {
    /// Link address it comes from.
    pub source_mac: [u8; 6],
    /// Link address it goes to.
    pub destination_mac: [u8; 6],
    /// Who sends; of the same IP version as `destination`.
    pub source: SocketAddr,
    /// Who receives.
    pub destination: SocketAddr,
    /// Number of the first byte of payload, or of the SYN.
    pub sequence: u32,
    /// The next number expected.
    pub acknowledgement: u32,
    /// [`tcp::FIN`] to [`tcp::CWR`].
    pub flags: u8,
    /// Receive window.
    pub window: u16,
    /// What is sent.
    pub payload: &'a [u8],
    /// As in [`UdpPacket::vlan`].
    pub vlan: Option<u16>,
}

#[expect(clippy::len_without_is_empty, reason = "a packet has headers and is never empty")]
impl UdpPacket<'_> {
    /// Bytes of the frame, without the padding that a link may add to a short one.
    #[inline]
    pub fn len(&self) -> usize {
        self.envelope().header_bytes() + usize::from(udp::HEADER_BYTES) + self.payload.len()
    }

    /// Writes the frame to the start of `out` and returns its length; nothing, and `out` as it was,
    /// when it does not fit there or into IP, or when the ends are of different IP versions.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let [s0, s1] = self.source.port().to_be_bytes();
        let [d0, d1] = self.destination.port().to_be_bytes();
        let udp_bytes = u16::try_from(usize::from(udp::HEADER_BYTES) + self.payload.len()).ok()?;
        let [l0, l1] = udp_bytes.to_be_bytes();
        let header = [s0, s1, d0, d1, l0, l1, 0, 0];
        self.envelope().write(out, ipv4::UDP, header, 6, self.payload)
    }

    #[inline]
    fn envelope(&self) -> Envelope {
        let Self { source_mac, destination_mac, source, destination, payload: _, vlan } = *self;
        Envelope { source_mac, destination_mac, source, destination, vlan }
    }
}

#[expect(clippy::len_without_is_empty, reason = "a segment has headers and is never empty")]
impl TcpSegment<'_> {
    /// Bytes of the frame, without the padding that a link may add to a short one.
    #[inline]
    pub fn len(&self) -> usize {
        self.envelope().header_bytes() + usize::from(tcp::MIN_HEADER_BYTES) + self.payload.len()
    }

    /// Writes the frame to the start of `out`, as [`UdpPacket::write`] does.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let [s0, s1] = self.source.port().to_be_bytes();
        let [d0, d1] = self.destination.port().to_be_bytes();
        let [n0, n1, n2, n3] = self.sequence.to_be_bytes();
        let [a0, a1, a2, a3] = self.acknowledgement.to_be_bytes();
        let [w0, w1] = self.window.to_be_bytes();
        let words = 5 << 4;
        let header =
            [s0, s1, d0, d1, n0, n1, n2, n3, a0, a1, a2, a3, words, self.flags, w0, w1, 0, 0, 0, 0];
        self.envelope().write(out, ipv4::TCP, header, 16, self.payload)
    }

    #[inline]
    fn envelope(&self) -> Envelope {
        let Self { source_mac, destination_mac, source, destination, vlan, .. } = *self;
        Envelope { source_mac, destination_mac, source, destination, vlan }
    }
}

/// What is around a transport header and its payload.
struct Envelope {
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    source: SocketAddr,
    destination: SocketAddr,
    vlan: Option<u16>,
}

impl Envelope {
    #[inline]
    fn l3_offset(&self) -> usize {
        let tag_bytes = if self.vlan.is_some() { vlan::TAG_BYTES } else { 0 };
        usize::from(ethernet::HEADER_BYTES + tag_bytes)
    }

    #[inline]
    fn header_bytes(&self) -> usize {
        let ip_bytes = match self.destination {
            SocketAddr::V4(_) => ipv4::MIN_HEADER_BYTES,
            SocketAddr::V6(_) => ipv6::HEADER_BYTES,
        };
        self.l3_offset() + usize::from(ip_bytes)
    }

    /// Writes everything; `header` is that of `protocol`, with zero for its checksum, which stands
    /// at `checksum_at` of it.
    #[inline]
    fn write<const N: usize>(
        &self,
        out: &mut [u8],
        protocol: u8,
        header: [u8; N],
        checksum_at: usize,
        payload: &[u8],
    ) -> Option<usize> {
        let (l3, l4) = (self.l3_offset(), self.header_bytes());
        let end = l4 + N + payload.len();
        let out = out.get_mut(..end)?;
        let segment_bytes = u16::try_from(N + payload.len()).ok()?;
        // Whatever can refuse the packet does so in this match, before its first byte is written.
        let (ether_type, pseudo) = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total_bytes = segment_bytes.checked_add(ipv4::MIN_HEADER_BYTES)?;
                let ip = ipv4_header(from.octets(), to.octets(), protocol, total_bytes);
                if !put(out, l3, ip) {
                    return None;
                }
                let pseudo =
                    Sum::ZERO.pseudo_ipv4(from.octets(), to.octets(), protocol, segment_bytes);
                (ethernet::IPV4, pseudo)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let [p0, p1] = segment_bytes.to_be_bytes();
                let is_written = put(out, l3, [0x60, 0, 0, 0, p0, p1, protocol, HOP_LIMIT])
                    && put(out, l3 + 8, from.octets())
                    && put(out, l3 + 24, to.octets());
                if !is_written {
                    return None;
                }
                let pseudo =
                    Sum::ZERO.pseudo_ipv6(from.octets(), to.octets(), protocol, segment_bytes);
                (ethernet::IPV6, pseudo)
            }
            _ => return None,
        };
        let mut is_written = put(out, 0, self.destination_mac)
            && put(out, 6, self.source_mac)
            && put(out, l3 - 2, ether_type.to_be_bytes())
            && put(out, l4, header);
        if let Some(tci) = self.vlan {
            let ([i0, i1], [c0, c1]) = (vlan::CUSTOMER.to_be_bytes(), tci.to_be_bytes());
            is_written = is_written && put(out, 12, [i0, i1, c0, c1]);
        }
        out.get_mut(l4 + N..)?.copy_from_slice(payload);
        let sum = pseudo.bytes(out.get(l4..)?);
        let checksum = if protocol == ipv4::UDP { sum.udp_checksum() } else { sum.checksum() };
        is_written = is_written && put(out, l4 + checksum_at, checksum.to_be_bytes());
        is_written.then_some(end)
    }
}

#[inline]
fn ipv4_header(source: [u8; 4], destination: [u8; 4], protocol: u8, total_bytes: u16) -> [u8; 20] {
    let [t0, t1] = total_bytes.to_be_bytes();
    let [f0, f1] = DONT_FRAGMENT;
    let [s0, s1, s2, s3] = source;
    let [d0, d1, d2, d3] = destination;
    let mut header =
        [0x45, 0, t0, t1, 0, 0, f0, f1, HOP_LIMIT, protocol, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3];
    [header[10], header[11]] = checksum::of(&header).to_be_bytes();
    header
}

#[cfg(test)]
mod tests;

//! Packets as a balancer reads them, and one inside another.

use shm::Frame;
use wire::ipv4;

use crate::track::Tuple;

/// Bytes of the link header, and of an IPv4 header without options.
const LINK: usize = 14;
const HEADER: usize = 20;

/// The ends of a packet.
pub(super) struct Ends {
    pub(super) source: (u32, u16),
    pub(super) destination: (u32, u16),
}

impl Ends {
    pub(super) fn of(tuple: &Tuple) -> Option<Self> {
        let address = |number: u128| {
            let four = std::net::Ipv6Addr::from_bits(number).to_ipv4_mapped();
            four.map(std::net::Ipv4Addr::to_bits)
        };
        matches!(tuple.protocol, ipv4::TCP | ipv4::UDP).then_some(Self {
            source: (address(tuple.source)?, tuple.source_port),
            destination: (address(tuple.destination)?, tuple.destination_port),
        })
    }
}

pub(super) fn mapped(address: u32) -> u128 {
    std::net::Ipv4Addr::from_bits(address).to_ipv6_mapped().to_bits()
}

/// The destination of an untagged IPv4 packet.
#[inline]
pub(super) fn destination_of(frame: &Frame) -> Option<u32> {
    let head: &[u8; LINK + HEADER] = frame.bytes().first_chunk()?;
    let address: &[u8; 4] = head.get(LINK + 16..)?.first_chunk()?;
    (head[12..14] == [0x08, 0x00]).then_some(u32::from_be_bytes(*address))
}

/// Whether an untagged IPv4 packet may not be forwarded any more.
pub(super) fn is_spent(frame: &Frame) -> bool {
    frame.bytes().get(LINK + 8).is_none_or(|ttl| *ttl <= 1)
}

/// One hop less in an IPv4 header without options, or in the beginning of one: who forwards into a
/// tunnel lowers what is inside (RFC 2003 section 3.1).
fn lower_ttl(header: &mut [u8; HEADER]) {
    let old = u16::from_be_bytes([header[8], header[9]]);
    header[8] = header[8].saturating_sub(1);
    let new = u16::from_be_bytes([header[8], header[9]]);
    // RFC 1624, equation 3.
    let sum = !u16::from_be_bytes([header[10], header[11]]);
    let sum = u32::from(sum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Puts the packet inside another one (RFC 2003).
pub(super) fn wrap(
    frame: &mut Frame,
    from: [u8; 4],
    to: [u8; 4],
    identification: u16,
) -> Option<()> {
    const IPIP: u8 = 4;
    const TTL: u8 = 64;
    // Nobody can complete what is inside later on.
    crate::checksum::complete_here(frame);
    let header = ipv4::Header::parse(frame.bytes().get(LINK..)?).ok()?;
    let service = *frame.bytes().get(LINK + 1)?;
    let total = u16::try_from(usize::from(header.total_bytes) + HEADER).ok()?;
    frame.push_front(HEADER).then_some(())?;
    let bytes = frame.bytes_mut();
    lower_ttl(bytes.get_mut(HEADER + LINK..)?.first_chunk_mut()?);
    bytes.copy_within(HEADER..HEADER + LINK, 0);
    let head: &mut [u8; HEADER] = bytes.get_mut(LINK..)?.first_chunk_mut()?;
    let [t0, t1] = total.to_be_bytes();
    let [i0, i1] = identification.to_be_bytes();
    head[..12].copy_from_slice(&[0x45, service, t0, t1, i0, i1, 0, 0, TTL, IPIP, 0, 0]);
    head[12..16].copy_from_slice(&from);
    head[16..].copy_from_slice(&to);
    let sum = wire::checksum::of(head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

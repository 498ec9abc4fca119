//! Frames: a client's segments with Ethernet and IPv4 around them, and marks on their way.

use std::net::SocketAddr;

use tcp::{Incoming, Segment};
use wire::{Outcome, Toeplitz};

/// Link address of the data path.
pub(crate) const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

const IP: usize = 14;
const TCP: usize = 34;

/// Link address of a client.
pub(super) fn client_mac(client: u32) -> [u8; 6] {
    let [a, b, c, d] = client.to_be_bytes();
    [2, 1, a, b, c, d]
}

/// A client's segment as a frame; nothing unless it is IPv4.
pub(super) fn frame(segment: &Segment<'_>, client: u32) -> Option<Vec<u8>> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) =
        (segment.key.source(), segment.key.destination())
    else {
        return None;
    };
    let mut frame = vec![0; TCP + segment.len()];
    frame[..6].copy_from_slice(&SERVER_MAC);
    frame[6..12].copy_from_slice(&client_mac(client));
    frame[12..14].copy_from_slice(&[8, 0]);
    let total = u16::try_from(20 + segment.len()).ok()?;
    let ip = &mut frame[IP..TCP];
    (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, segment.ecn, 0x40, 64, wire::ipv4::TCP);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    sign(ip);
    segment.write(&mut frame[TCP..])?;
    Some(frame)
}

/// The IPv4 header's checksum, anew.
fn sign(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let sum = wire::checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Both ECN bits of an IPv4 frame.
pub(super) fn ecn(frame: &[u8]) -> u8 {
    frame.get(IP + 1).map_or(0, |byte| byte & 3)
}

/// A router's mark.
pub(super) fn mark(frame: &mut [u8]) {
    if let Some(ip) = frame.get_mut(IP..TCP) {
        ip[1] |= tcp::CE;
        sign(ip);
    }
}

/// The segment in a frame; nothing if there is none, or its checksum is wrong.
pub(super) fn segment<'a>(frame: &'a [u8], toeplitz: &Toeplitz) -> Option<Incoming<'a>> {
    let Outcome::Flow(flow) = wire::classify(frame) else { return None };
    if !wire::checksum::verify(frame, &flow) {
        return None;
    }
    let end = usize::from(flow.payload_offset + flow.payload_len);
    Some(Incoming {
        key: flow.key,
        hash: toeplitz.hash(&flow.key),
        segment: frame.get(usize::from(flow.l4_offset)..end)?,
        ecn: ecn(frame),
        is_verified: true,
        route: 0,
    })
}

//! The functions that are measured over wires in memory, each with packets that it forwards.

use std::net::SocketAddr;

use wire::build::UdpPacket;

use super::in_process::bridge;
use super::memory::{Subject, Work};
use crate::error::{Error, OrNeeds};
use crate::flows::{SEED, SplitMix};

/// All of them.
pub(super) const WORKS: [Work; 2] =
    [Work { name: "l2, 64 B", make: || l2(64) }, Work { name: "l2, 1514 B", make: || l2(1514) }];

/// Different packets: more than a batch, fewer than a cache.
const PACKETS: usize = 256;

/// Bytes of the headers of a UDP packet over IPv4.
const HEADERS: usize = 14 + 20 + 8;

fn l2(frame_bytes: usize) -> Result<Subject, Error> {
    let mut random = SplitMix(SEED);
    let packets: Result<Vec<_>, Error> =
        (0..PACKETS).map(|_| packet(frame_bytes, random.next() as u32)).collect();
    Ok(Subject { function: Box::new(bridge()?), packets: packets? })
}

/// A UDP packet in 10.0.0.0/8 to that address, `frame_bytes` long.
pub(super) fn packet(frame_bytes: usize, destination: u32) -> Result<Vec<u8>, Error> {
    let payload = vec![0x5a; frame_bytes.saturating_sub(HEADERS)];
    let mut bytes = vec![0; frame_bytes.max(HEADERS)];
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source: SocketAddr::from(([10, 1, 2, 3], 1024 + (destination % 1024) as u16)),
        destination: SocketAddr::from((destination.to_be_bytes(), 9)),
        payload: &payload,
        vlan: None,
    };
    let len = packet.write(&mut bytes).ok_or("it does not fit").or_needs("packet to forward")?;
    bytes.truncate(len);
    Ok(bytes)
}

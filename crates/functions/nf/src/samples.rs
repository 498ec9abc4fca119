//! Frames and packets for the tests of this crate.

use std::net::SocketAddr;

use shm::{Batch, Frame, FramePool, PoolConfig};
use wire::build::{TcpSegment, UdpPacket};

/// A pool that tests take frames from.
pub(crate) struct Frames {
    pool: FramePool,
}

impl Frames {
    pub(crate) fn new() -> Self {
        let config = PoolConfig { frames: 128, chunk_bytes: 2048, ..PoolConfig::default() };
        Self { pool: FramePool::new(config).expect("a small pool") }
    }

    /// A frame that holds `packet`.
    pub(crate) fn frame(&mut self, packet: &[u8]) -> Frame {
        let mut frame = self.pool.take().expect("a test gives its frames back");
        assert!(frame.fill(packet), "{} bytes do not fit", packet.len());
        frame
    }

    /// A batch of frames that hold `packets`.
    pub(crate) fn batch(&mut self, packets: &[&[u8]]) -> Batch {
        packets.iter().map(|packet| self.frame(packet)).collect()
    }

    /// Takes the frames back.
    pub(crate) fn give(&mut self, batch: Batch) {
        for frame in batch {
            self.pool.give(frame);
        }
    }
}

pub(crate) const ALICE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
pub(crate) const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

/// A UDP packet from Alice to us.
pub(crate) fn udp([source, destination]: [&str; 2], payload: &[u8]) -> Vec<u8> {
    let packet = UdpPacket {
        source_mac: ALICE_MAC,
        destination_mac: OUR_MAC,
        source: end(source),
        destination: end(destination),
        payload,
        vlan: None,
    };
    let mut frame = vec![0; packet.len()];
    assert_eq!(packet.write(&mut frame), Some(frame.len()));
    frame
}

/// A TCP segment from Alice to us.
pub(crate) fn tcp([source, destination]: [&str; 2], payload: &[u8]) -> Vec<u8> {
    let segment = TcpSegment {
        source_mac: ALICE_MAC,
        destination_mac: OUR_MAC,
        source: end(source),
        destination: end(destination),
        sequence: 0x0102_0304,
        acknowledgement: 0x0506_0708,
        flags: wire::tcp::ACK | wire::tcp::PSH,
        window: 512,
        payload,
        vlan: None,
    };
    let mut frame = vec![0; segment.len()];
    assert_eq!(segment.write(&mut frame), Some(frame.len()));
    frame
}

fn end(text: &str) -> SocketAddr {
    text.parse().expect("a test writes addresses that parse")
}

/// An IPv4 packet from 10.0.0.1 to 10.0.1.2 whose options are a multiple of four bytes.
pub(crate) fn ipv4(protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let total = (words * 4 + payload.len()) as u16;
    let mut frame = [&OUR_MAC[..], &ALICE_MAC, &[0x08, 0x00, 0x40 | words as u8, 0]].concat();
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2]);
    frame.extend(options);
    frame.extend(payload);
    correct_checksum(&mut frame);
    frame
}

/// An IPv6 packet from fd00::1 to fd01::2.
pub(crate) fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&OUR_MAC[..], &ALICE_MAC, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next_header, 64]);
    for (second, last) in [(0, 1), (1, 2)] {
        frame.extend([0xfd, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    frame.extend(payload);
    frame
}

/// Makes the checksum of the IPv4 header right again.
pub(crate) fn correct_checksum(frame: &mut [u8]) {
    let header_bytes = usize::from(frame[14] & 0x0f) * 4;
    if let Some(head) = frame.get_mut(14..14 + header_bytes)
        && head.len() >= 20
    {
        head[10..12].fill(0);
        let sum = wire::checksum::of(head);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

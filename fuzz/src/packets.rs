//! Packets that were valid once, from the bytes of a fuzzer: for functions that forward or judge.

use base::PortId;
use shm::{Batch, Frame, FramePool, PoolConfig};
use wire::build::{TcpSegment, UdpPacket};

/// Link address that the packets go to.
pub const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// Bytes that room is made for: a packet and all that may be put before and behind it.
const CHUNK_BYTES: u32 = 2048;

/// A pool for one batch, and one packet besides.
pub fn pool() -> FramePool {
    let config = PoolConfig { frames: 65, chunk_bytes: CHUNK_BYTES, ..PoolConfig::default() };
    FramePool::new(config).expect("a small pool")
}

/// Cuts `input` into packets, at most as many as a batch takes, each with the port that it came
/// from.
///
/// Each piece begins with five bytes: which packet it is made from, its port, how long it is, how
/// many changes follow (a place and a byte each), and whether the checksum of its IPv4 header is
/// made right.
pub fn batch(pool: &mut FramePool, templates: &[Vec<u8>], mut input: &[u8]) -> Batch {
    let mut batch = Batch::new();
    while let Some((&[which, port, len, changes, is_right], rest)) = input.split_first_chunk()
        && !batch.is_full()
    {
        let changes = (usize::from(changes) % 12 * 2).min(rest.len());
        let (changes, rest) = rest.split_at(changes);
        input = rest;
        let mut packet = templates[usize::from(which) % templates.len()].clone();
        for change in changes.chunks_exact(2) {
            let place = usize::from(change[0]) % packet.len();
            packet[place] ^= change[1];
        }
        if len != 0 {
            packet.truncate(usize::from(len));
        }
        if is_right & 1 != 0 {
            correct_checksum(&mut packet);
        }
        batch.push(frame(pool, &packet, PortId(u16::from(port % 4))));
    }
    batch
}

/// A frame that holds `packet`.
pub fn frame(pool: &mut FramePool, packet: &[u8], port: PortId) -> Frame {
    let mut frame = pool.take().expect("there is one for each packet of a batch, and one besides");
    assert!(frame.fill(packet), "templates fit into a frame");
    frame.meta_mut().port = port;
    frame
}

/// Valid packets of both versions, with options, extension headers, fragments and error messages.
pub fn templates() -> Vec<Vec<u8>> {
    let udp = |source: &str, destination: &str, payload: &[u8], vlan| {
        let packet = UdpPacket {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: OUR_MAC,
            source: source.parse().expect("an address with a port"),
            destination: destination.parse().expect("an address with a port"),
            payload,
            vlan,
        };
        let mut frame = vec![0; packet.len()];
        packet.write(&mut frame).expect("a buffer of the packet's length");
        frame
    };
    let tcp = |source: &str, destination: &str, payload: &[u8]| {
        let segment = TcpSegment {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: OUR_MAC,
            source: source.parse().expect("an address with a port"),
            destination: destination.parse().expect("an address with a port"),
            sequence: 1,
            acknowledgement: 2,
            flags: wire::tcp::ACK,
            window: 500,
            payload,
            vlan: None,
        };
        let mut frame = vec![0; segment.len()];
        segment.write(&mut frame).expect("a buffer of the segment's length");
        frame
    };
    let four = udp("10.0.0.1:5000", "10.0.1.2:80", b"0123456789abcdef", None);
    let six = udp("[fd00::1]:5000", "[fd01::2]:80", b"0123456789abcdef", None);
    let ipv4 = |protocol: u8, options: &[u8], payload: &[u8]| {
        let words = u8::try_from(5 + options.len() / 4).expect("at most ten words of options");
        let total = u8::try_from(usize::from(words) * 4 + payload.len()).expect("a short packet");
        let fixed = [0x40 | words, 0, 0, total, 0, 0, 0, 0, 64, protocol, 0, 0];
        let mut frame = [&four[..14], &fixed, &four[26..34], options, payload].concat();
        correct_checksum(&mut frame);
        frame
    };
    let ipv6 = |next_header, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("a short packet");
        let fixed = [0x60, 0, 0, 0, 0, length, next_header, 64];
        [&six[..14], &fixed, &six[22..54], payload].concat()
    };
    let chain = [
        60, 0, 5, 2, 0, 0, 1, 0, 43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0,
        0, 0, 9,
    ];
    vec![
        tcp("10.0.0.1:5000", "10.9.1.2:80", &[7; 1460]),
        tcp("[fd00::1]:5000", "[fd09::2]:80", &[7; 1440]),
        udp("10.0.0.1:5000", "192.0.2.1:80", &[7; 600], None),
        udp("[fd00::1]:5000", "[2001:db8::1]:80", &[7; 1300], None),
        udp("10.0.0.1:5000", "10.0.1.2:80", b"tagged", Some(5)),
        ipv4(17, &[148, 4, 0, 0], &four[34..]),
        ipv4(1, &[], &[&[3, 4, 0, 0, 0, 0, 5, 0], &four[14..]].concat()),
        ipv4(6, &[], &[0x13, 0x88, 0, 80, 0, 0, 0, 1]),
        ipv6(0, &[&chain, &six[54..]].concat()),
        ipv6(58, &[&[2, 0, 0, 0, 0, 0, 5, 0], &six[14..]].concat()),
        ipv6(44, &[6, 0, 0, 1, 0, 0, 0, 9, 0x13, 0x88, 0, 80]),
        four,
        six,
    ]
}

/// Makes the checksum of an IPv4 header behind an untagged link header right.
pub fn correct_checksum(frame: &mut [u8]) {
    let Some(first) = frame.get(14) else { return };
    let header_bytes = usize::from(first & 0x0f) * 4;
    if let Some(head) = frame.get_mut(14..14 + header_bytes)
        && head.len() >= 20
    {
        head[10..12].fill(0);
        let sum = wire::checksum::of(head);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

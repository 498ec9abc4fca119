//! Packets for a router, well and ill.

use whole::Random;
use wire::checksum::Sum;

/// What the last packet of a round ends with.
const MARK: &[u8] = b"mark";

const PACKETS: usize = 31;

/// Whether a frame came of what this sends.
pub(super) fn is_of_test(frame: &[u8]) -> bool {
    match frame.get(12..) {
        Some([8, 0, ip @ ..]) if ip.len() >= 20 => {
            [&ip[12..14], &ip[16..18]].iter().any(|net| **net == [10, 98] || **net == [10, 99])
        }
        Some([0x86, 0xdd, ip @ ..]) if ip.len() >= 40 => [&ip[8..10], &ip[24..26]]
            .iter()
            .any(|net| **net == [0xfd, 0x98] || **net == [0xfd, 0x99]),
        _ => false,
    }
}

/// Packets of one round, and the one that is to be the last.
pub(super) fn packets(
    random: &mut Random,
    to: [u8; 6],
    from: [u8; 6],
    round: u32,
) -> (Vec<Vec<u8>>, Vec<u8>) {
    let link = |kind: [u8; 2]| [&to[..], &from, &kind].concat();
    let one = |random: &mut Random| {
        let is_ipv6 = random.below(2) == 1;
        let mut frame = link(if is_ipv6 { [0x86, 0xdd] } else { [8, 0] });
        let packet = if is_ipv6 { six(random) } else { four(random) };
        frame.extend(packet);
        spoil(random, &mut frame);
        frame
    };
    let sent = (0..PACKETS).map(|_| one(random)).collect();
    // Four options of no meaning, and behind them its number.
    let mut mark = header4([10, 98, 0, 9], [10, 99, 0, 9], 64, 253, 8, &[1; 4]);
    mark.extend(round.to_be_bytes());
    mark.extend(MARK);
    let mut frame = link([8, 0]);
    // Of the shortest length, so that it has no padding that others look at.
    frame.extend(pad_in(mark, 46));
    (sent, frame)
}

/// The packet itself made longer, its end kept.
fn pad_in(mut packet: Vec<u8>, bytes: usize) -> Vec<u8> {
    let tail = packet.split_off(packet.len() - 8);
    let more = bytes.saturating_sub(packet.len() + tail.len());
    packet.resize(packet.len() + more, 0);
    packet.extend(tail);
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    seal4(&mut packet, 24);
    packet
}

fn seal4(packet: &mut [u8], header_bytes: usize) {
    packet[10..12].copy_from_slice(&[0; 2]);
    let sum = Sum::ZERO.bytes(&packet[..header_bytes]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn header4(
    source: [u8; 4],
    destination: [u8; 4],
    ttl: u8,
    protocol: u8,
    payload: usize,
    options: &[u8],
) -> Vec<u8> {
    let header_bytes = 20 + options.len();
    let total = (header_bytes + payload) as u16;
    let mut header = vec![0x40 | (header_bytes / 4) as u8, 0];
    header.extend(total.to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, ttl, protocol, 0, 0]);
    header.extend(source);
    header.extend(destination);
    header.extend(options);
    seal4(&mut header, header_bytes);
    header
}

fn ttl(random: &mut Random) -> u8 {
    [0, 1, 2, 3, 64, 64, 64, 255][random.below(8)]
}

fn protocol(random: &mut Random) -> u8 {
    [6, 6, 17, 17, 17, 1, 58, 132, 253, 50][random.below(10)]
}

fn payload(random: &mut Random) -> Vec<u8> {
    let bytes = match random.below(8) {
        0 => random.below(12),
        1 => 1380 + random.below(100),
        _ => 8 + random.below(200),
    };
    (0..bytes).map(|_| random.any() as u8).collect()
}

fn four(random: &mut Random) -> Vec<u8> {
    let n = random.any() as u8;
    let source = match random.below(12) {
        0 => [10, 90, 0, 2],
        1 => [10, 90, 0, 255],
        2 => [[127, 0, 0, 1], [0, 0, 0, 1], [224, 0, 0, 1], [255; 4]][random.below(4)],
        _ => [10, 98, n, 1],
    };
    let destination = match random.below(16) {
        0 => [10, 99, 1 + n % 3, 1],
        1 => [203, 0, 113, 5],
        2 => [[127, 0, 0, 1], [0, 0, 0, 1], [224, 0, 0, 1], [255; 4]][random.below(4)],
        3 => [10, 90, 1, 255],
        4 => [10, 98, 7, 7],
        _ => [10, 99, n | 4, 1],
    };
    let (ttl, protocol, mut payload) = (ttl(random), protocol(random), payload(random));
    let options = if random.below(10) == 0 { vec![1, 1, 1, 0] } else { Vec::new() };
    let mut packet = header4(source, destination, ttl, protocol, payload.len(), &options);
    // A fragment now and then, whole packets otherwise.
    if random.below(12) == 0 {
        packet[6..8].copy_from_slice(&(random.any() as u16).to_be_bytes());
        seal4(&mut packet, 20 + options.len());
    }
    let pseudo = Sum::ZERO.bytes(&source).bytes(&destination);
    open(random, pseudo, protocol, &mut payload);
    packet.extend(payload);
    packet
}

fn six(random: &mut Random) -> Vec<u8> {
    let n = random.any() as u8;
    let address = |bytes: [u8; 8], last: u8| {
        let mut whole = [0; 16];
        whole[..8].copy_from_slice(&bytes);
        whole[15] = last;
        whole
    };
    let source = match random.below(12) {
        0 => address([0xfd, 0x90, 0, 0, 0, 0, 0, 0], 2),
        1 => address([0xfe, 0x80, 0, 0, 0, 0, 0, 0], 1),
        2 => address([[0; 8], [0xff; 8]][random.below(2)], 1),
        _ => address([0xfd, 0x98, 0, 0, 0, 0, 0, n % 3], 1),
    };
    let destination = match random.below(14) {
        0 => address([0xfd, 0x99, 0, 1 + n % 3, 0, 0, 0, 0], 1),
        1 => address([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0], 5),
        2 => address([0xff, 5, 0, 0, 0, 0, 0, 0], 1),
        3 => address([0; 8], 1),
        4 => address([0xfd, 0x98, 0, 0, 0, 0, 0, 0], 7),
        _ => address([0xfd, 0x99, 0, n | 4, 0, 0, 0, 0], 1),
    };
    let (limit, protocol, mut payload) = (ttl(random), protocol(random), payload(random));
    let pseudo = Sum::ZERO.bytes(&source).bytes(&destination);
    open(random, pseudo, protocol, &mut payload);
    let first = match random.below(10) {
        0 => {
            let mut header = [protocol, 0, 1, 4, 0, 0, 0, 0].to_vec();
            header.append(&mut payload);
            payload = header;
            [0, 43, 44, 60][random.below(4)]
        }
        _ => protocol,
    };
    let mut packet = vec![0x60, 0, 0, n];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([first, limit]);
    packet.extend(source);
    packet.extend(destination);
    packet.extend(payload);
    packet
}

/// Now and then a checksum that is only the sum of the pseudo-header, as kernels leave it.
fn open(random: &mut Random, pseudo: Sum, protocol: u8, payload: &mut [u8]) {
    let at = if protocol == 6 { 16 } else { 6 };
    let is_long = payload.len() >= if protocol == 6 { 20 } else { 8 };
    if !is_long || ![6, 17].contains(&protocol) {
        return;
    }
    let length = (payload.len() as u16).to_be_bytes();
    if protocol == 6 {
        payload[12] = 0x50;
    } else {
        payload[4..6].copy_from_slice(&length);
    }
    if random.below(6) == 0 {
        let sum = pseudo.bytes(&[0, protocol]).bytes(&length).fold();
        payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Makes something wrong in every fourth frame.
fn spoil(random: &mut Random, frame: &mut Vec<u8>) {
    match random.below(28) {
        0 | 1 => {
            let at = random.below(frame.len().min(60));
            frame[at] ^= 1 << random.below(8);
        }
        2 => frame.truncate(14 + random.below(frame.len() - 14)),
        // What stands behind a packet.
        3 => frame.extend([0xee; 7]),
        4 => frame.extend([0xee; 90]),
        5 => frame[5] ^= 1,
        6 => frame[0] |= 1,
        _ => {}
    }
    frame.truncate(1514);
}

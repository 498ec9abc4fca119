//! Segments of hostile peers: well made, with numbers that an honest one might send, and others.

use tcp::Seq;
use wire::tcp::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};

use super::harness::Harness;
use super::program::Program;
use super::wire_side::{NAMES, ORIGIN, checksum, content, streams};

/// A segment of a hostile peer, before it has bytes.
pub(super) struct Draft<'a> {
    pub(super) flags: u8,
    pub(super) sequence: Seq,
    pub(super) ack: Seq,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: &'a [u8],
    pub(super) payload_bytes: u32,
}

/// Flags that are worth trying, most of them often.
const FLAGS: [u8; 16] = [
    ACK,
    ACK | PSH,
    ACK,
    ACK | PSH,
    ACK | FIN,
    RST,
    RST | ACK,
    SYN,
    SYN | ACK,
    SYN | ECE | CWR,
    ACK | ECE,
    ACK | CWR | PSH,
    ACK | URG,
    ACK | FIN | PSH,
    SYN | FIN,
    0,
];

impl Draft<'_> {
    /// The segment to `side`, with its checksum.
    pub(super) fn bytes(&self, side: usize) -> Vec<u8> {
        let Draft { flags, sequence, ack, window, urgent, options, payload_bytes } = *self;
        let options_bytes = options.len().min(40).next_multiple_of(4);
        let header_bytes = 20 + options_bytes;
        let mut bytes = vec![0; header_bytes + payload_bytes as usize];
        let name = &NAMES[side];
        bytes[0..2].copy_from_slice(&name.remote.port().to_be_bytes());
        bytes[2..4].copy_from_slice(&name.local.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&sequence.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&ack.0.to_be_bytes());
        bytes[12] = ((header_bytes / 4) << 4) as u8;
        bytes[13] = flags;
        bytes[14..16].copy_from_slice(&window.to_be_bytes());
        bytes[18..20].copy_from_slice(&urgent.to_be_bytes());
        let options = &options[..options.len().min(40)];
        bytes[20..20 + options.len()].copy_from_slice(options);
        let first = (sequence + u32::from(flags & SYN != 0)).since(ORIGIN + 1);
        let (stream, _) = streams(side);
        for (at, byte) in bytes[header_bytes..].iter_mut().enumerate() {
            *byte = content(stream, first.wrapping_add(at as u32));
        }
        let sum = checksum(side, &bytes).checksum();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// The options that an honest peer would send beside `flags`.
pub(super) fn options(harness: &Harness, side: usize, flags: u8, room: &mut [u8; 40]) -> usize {
    let at = &harness.sink.sides[side];
    let clock = (harness.now.0 / 1_000_000) as u32;
    let mut bytes = 0;
    let mut put = |option: &[u8]| {
        room[bytes..bytes + option.len()].copy_from_slice(option);
        bytes += option.len();
    };
    let settings = &harness.settings;
    if flags & SYN != 0 {
        let [high, low] = settings.peer_mss.to_be_bytes();
        put(&[2, 4, high, low, 4, 2, 1, 3, 3, settings.peer_shift, 1, 1]);
    }
    if flags & SYN != 0 || at.stamp.is_some() {
        put(&[1, 1, 8, 10]);
        put(&clock.to_be_bytes());
        put(&at.stamp.unwrap_or(0).to_be_bytes());
    }
    bytes
}

/// A well-made segment with numbers near those of the connection.
pub(super) fn near(harness: &Harness, side: usize, program: &mut Program<'_>) -> Vec<u8> {
    let (kind, numbers) = (program.byte(), program.byte());
    let flags = if kind & 0x80 == 0 { FLAGS[usize::from(kind & 0xf)] } else { program.byte() };
    let at = harness.sink.sides[side];
    let expected = at.acked.unwrap_or(ORIGIN + 1);
    let heard_to = at.heard_to.unwrap_or(expected);
    let near = |base: Seq, by: u8| Seq(base.0.wrapping_add_signed(i32::from(by.cast_signed())));
    let sequence = match numbers & 7 {
        0 | 1 => heard_to,
        2 => expected,
        3 => near(expected, program.byte()),
        4 => heard_to + u32::from(program.byte()) * 4,
        5 => Seq(expected.0.wrapping_add_signed(i32::from(program.half().cast_signed()))),
        6 => near(expected + u32::from(at.window), program.byte()),
        _ => Seq(program.word()),
    };
    // A SYN's number names the stream: all begin alike.
    let sequence = match flags & SYN {
        0 => sequence,
        _ => ORIGIN + (u32::from(numbers & 7) << 16),
    };
    let iss = at.iss.unwrap_or(Seq(0));
    let ack = match numbers >> 3 & 7 {
        0 | 1 => at.nxt,
        2 => iss + 1 + u32::from(program.byte()) * 4,
        3 => near(at.nxt, program.byte()),
        4 => at.nxt - u32::from(program.byte()),
        5 => Seq(at.nxt.0.wrapping_add_signed(i32::from(program.half().cast_signed()))),
        6 => iss,
        _ => Seq(program.word()),
    };
    let window = program.byte();
    let window = u16::from(window) << (window & 7);
    let payload_bytes = match kind >> 4 & 7 {
        0 | 1 => 0,
        2 => u32::from(program.byte()),
        3 => 1,
        4 => 64,
        5 => 100,
        6 => 512,
        _ => u32::from(program.half() % 1400),
    };
    let mut room = [0; 40];
    let mut count = match numbers >> 6 {
        0 | 1 => options(harness, side, flags, &mut room),
        2 => options(harness, side, flags & !SYN, &mut room),
        _ => 0,
    };
    match numbers >> 6 {
        2 => {
            // What was not reported before.
            let blocks = usize::from(program.byte()) % 4;
            let header = [1, 1, 5, 2 + 8 * blocks as u8];
            if blocks > 0 {
                room[count..count + 4].copy_from_slice(&header);
                count += 4;
            }
            for _ in 0..blocks.min((40 - count) / 8) {
                let start = iss + 1 + u32::from(program.byte()) * 4;
                let end = start + u32::from(program.byte()) * 2;
                room[count..count + 4].copy_from_slice(&start.0.to_be_bytes());
                room[count + 4..count + 8].copy_from_slice(&end.0.to_be_bytes());
                count += 8;
            }
        }
        3 => {
            let bytes = usize::from(program.byte()) % 41;
            let bytes = program.bytes(bytes);
            room[..bytes.len()].copy_from_slice(bytes);
            count = bytes.len();
        }
        _ => {}
    }
    let urgent = if flags & URG != 0 { u16::from(program.byte()) } else { 0 };
    let options = &room[..count];
    Draft { flags, sequence, ack, window, urgent, options, payload_bytes }.bytes(side)
}

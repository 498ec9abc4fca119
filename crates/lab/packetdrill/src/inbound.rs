//! Packets of the script on their way to the engine: its numbers become those on the wire.

use std::num::NonZeroU32;

use tcp::Seq;
use wire::checksum::Sum;
use wire::{FlowKey, tcp as header};

use crate::script::{Ecn, Packet, TcpOption};
use crate::testbed::Numbers;

/// The segments that a packet of the script stands for, each with a payload of at most `max` bytes.
pub(crate) fn cut(packet: &Packet, max: Option<NonZeroU32>) -> Vec<Packet> {
    let Some(max) = max.filter(|max| packet.bytes > max.get()) else {
        return vec![packet.clone()];
    };
    let last = (packet.bytes - 1) / max;
    let piece = |number: u32| {
        let at = number * max.get();
        let ends = if number < last { !(header::FIN | header::PSH) } else { u8::MAX };
        Packet {
            start: packet.start.wrapping_add(at),
            bytes: (packet.bytes - at).min(max.get()),
            flags: packet.flags & ends,
            ..packet.clone()
        }
    };
    (0..=last).map(piece).collect()
}

/// Bytes of a segment, with its checksum.
pub(crate) fn build(packet: &Packet, key: &FlowKey, numbers: &Numbers) -> Vec<u8> {
    let mut options = Vec::new();
    for option in packet.options.iter().flatten() {
        write_option(option, numbers, &mut options);
    }
    while !options.len().is_multiple_of(4) {
        options.push(0);
    }
    // A number that the script leaves out is zero, and as relative as others.
    let has_ack = packet.flags & header::ACK != 0;
    let ack = if has_ack { numbers.ours(packet.ack.unwrap_or(0)).0 } else { 0 };
    let header_words = (20 + options.len()) / 4;
    let mut bytes = Vec::new();
    bytes.extend(key.source().port().to_be_bytes());
    bytes.extend(key.destination().port().to_be_bytes());
    bytes.extend(numbers.theirs(packet.start).0.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([(header_words << 4) as u8, packet.flags]);
    bytes.extend(packet.window.unwrap_or(0).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(packet.urgent.to_be_bytes());
    bytes.extend(options);
    // A byte of payload tells its own number, so that a reader can check where it came from.
    bytes.extend((0..packet.bytes).map(|at| content(packet.start.wrapping_add(at))));
    let sum = pseudo_header(key, bytes.len()).bytes(&bytes).checksum();
    if let Some(place) = bytes.get_mut(16..18) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// The byte that has a number.
pub(crate) const fn content(number: u32) -> u8 {
    (number ^ (number >> 8) ^ (number >> 16)) as u8
}

/// Both ECN bits of the IP header.
pub(crate) const fn ecn_bits(packet: &Packet) -> u8 {
    match packet.ecn {
        None | Some(Ecn::NotEct) => 0,
        Some(Ecn::Ect0 | Ecn::EitherEct) => 2,
        Some(Ecn::Ect1) => 1,
        Some(Ecn::Ce) => 3,
    }
}

fn write_option(option: &TcpOption, numbers: &Numbers, out: &mut Vec<u8>) {
    match option {
        TcpOption::Mss(mss) => {
            out.extend([2, 4]);
            out.extend(mss.to_be_bytes());
        }
        TcpOption::Nop => out.push(1),
        TcpOption::End => out.push(0),
        TcpOption::WindowScale(shift) => out.extend([3, 3, *shift]),
        TcpOption::SackPermitted => out.extend([4, 2]),
        TcpOption::Sack(blocks) => {
            out.extend([5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                out.extend(numbers.ours(*start).0.to_be_bytes());
                out.extend(numbers.ours(*end).0.to_be_bytes());
            }
        }
        TcpOption::Timestamps(value, echo) => {
            out.extend([8, 10]);
            out.extend(value.to_be_bytes());
            out.extend(numbers.our_stamp(*echo).to_be_bytes());
        }
        TcpOption::Other(bytes) => out.extend(bytes),
    }
}

fn pseudo_header(key: &FlowKey, bytes: usize) -> Sum {
    use std::net::IpAddr::{V4, V6};
    let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
    match (key.source().ip(), key.destination().ip()) {
        (V4(from), V4(to)) => Sum::ZERO.pseudo_ipv4(from.octets(), to.octets(), 6, bytes),
        (V6(from), V6(to)) => Sum::ZERO.pseudo_ipv6(from.octets(), to.octets(), 6, bytes),
        _ => Sum::ZERO,
    }
}

/// What one of the script's packets looks like, for messages.
pub(crate) fn flags_text(flags: u8) -> String {
    [
        (header::SYN, 'S'),
        (header::FIN, 'F'),
        (header::RST, 'R'),
        (header::PSH, 'P'),
        (header::ACK, '.'),
        (header::ECE, 'E'),
        (header::CWR, 'W'),
        (header::URG, 'U'),
    ]
    .iter()
    .filter(|(flag, _)| flags & flag != 0)
    .map(|(_, letter)| letter)
    .collect()
}

/// Numbers that nothing has been said about yet start here: near the end of the circle, so that
/// every script wraps.
pub(crate) const THEIR_FIRST: Seq = Seq(0xffff_f000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_cut_into_segments_of_which_only_the_last_has_what_ends_it() {
        let packet = Packet {
            ecn: None,
            flags: header::ACK | header::PSH | header::FIN,
            start: 1,
            bytes: 2500,
            ack: Some(1),
            window: Some(100),
            urgent: 0,
            options: None,
        };
        let pieces = |max| -> Vec<(u32, u32, u8)> {
            let pieces = cut(&packet, NonZeroU32::new(max));
            pieces.iter().map(|piece| (piece.start, piece.bytes, piece.flags)).collect()
        };
        let first = header::ACK;
        let expected = [(1, 1000, first), (1001, 1000, first), (2001, 500, packet.flags)];
        assert_eq!(pieces(1000), expected);
        assert_eq!(pieces(2500), [(1, 2500, packet.flags)]);
        assert_eq!(pieces(0), [(1, 2500, packet.flags)], "nothing is to be cut");
    }
}

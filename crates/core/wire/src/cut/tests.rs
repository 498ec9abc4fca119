//! Every piece is a segment of its own, and all of them say what the whole one said.

use proptest::prelude::*;

use super::*;
use crate::samples::{self, IPV4_ENDS, IPV6_ENDS};
use crate::{Outcome, checksum, classify};

const OPTIONS: [u8; 12] = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];

/// A segment of `payload` with time stamps, an urgent pointer and `flags`.
fn segment(is_ipv6: bool, vlan: Option<u16>, flags: u8, urgent: u16, payload: &[u8]) -> Vec<u8> {
    let ends = if is_ipv6 { IPV6_ENDS } else { IPV4_ENDS };
    let body = [&OPTIONS[..], payload].concat();
    let mut frame = samples::tcp(ends, vlan, &body);
    let Outcome::Flow(flow) = classify(&frame) else { panic!("a sample is a flow") };
    let l4 = usize::from(flow.l4_offset);
    frame[l4 + 12] = 8 << 4;
    frame[l4 + 13] = flags;
    frame[l4 + 18..l4 + 20].copy_from_slice(&urgent.to_be_bytes());
    close(&mut frame);
    frame
}

/// Where the TCP header is, and the sum of what stands before it.
fn transport(frame: &[u8]) -> (usize, Sum) {
    let Outcome::Flow(flow) = classify(frame) else { panic!("it is a flow") };
    let l4 = usize::from(flow.l4_offset);
    (l4, Sum::ZERO.pseudo_of(&flow.key, (frame.len() - l4) as u16))
}

/// Writes the right checksum.
fn close(frame: &mut [u8]) {
    let (l4, pseudo) = transport(frame);
    frame[l4 + 16..l4 + 18].fill(0);
    let sum = pseudo.bytes(&frame[l4..]).checksum();
    frame[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
}

/// Leaves the checksum to a device, as a kernel does.
fn open(frame: &mut [u8]) {
    let (l4, pseudo) = transport(frame);
    frame[l4 + 16..l4 + 18].copy_from_slice(&pseudo.fold().to_be_bytes());
}

fn header(frame: &[u8]) -> (tcp::Header, Vec<u8>) {
    let (l4, _) = transport(frame);
    let header = tcp::Header::parse(&frame[l4..]).expect("it has a header");
    (header, frame[l4 + usize::from(header.header_bytes)..].to_vec())
}

/// All pieces of `frame`.
fn pieces(frame: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let mut cut =
        Cut::new(&frame[..frame.len().min(HEADERS_MAX)], frame.len(), mtu).expect("it can be cut");
    let (mut at, mut pieces) = (cut.payload_offset(), Vec::new());
    while let Some(bytes) = cut.next_bytes() {
        let mut piece = vec![0xee; cut.payload_offset()];
        piece.extend(&frame[at..at + bytes]);
        assert!(cut.write(&mut piece), "it is as long as it is to be");
        pieces.push(piece);
        at += bytes;
    }
    assert_eq!(at, frame.len(), "nothing is left over");
    pieces
}

proptest! {
    #[test]
    fn pieces_together_say_what_the_whole_segment_said(
        is_ipv6: bool,
        vlan in proptest::option::of(0u16..4096),
        flags in any::<u8>().prop_map(|flags| (flags | tcp::ACK) & !(tcp::SYN | tcp::RST)),
        urgent: u16,
        payload in proptest::collection::vec(any::<u8>(), 1..9000),
        mtu in 120usize..3000,
    ) {
        let whole = segment(is_ipv6, vlan, flags, urgent, &payload);
        let (said, _) = header(&whole);
        let pieces = pieces(&whole, mtu);
        let (mut sequence, mut stream) = (said.sequence, Vec::new());
        for (number, piece) in pieces.iter().enumerate() {
            let Outcome::Flow(flow) = classify(piece) else { panic!("piece {number} is none") };
            prop_assert!(checksum::verify(piece, &flow), "piece {number}");
            prop_assert!(piece.len() - usize::from(flow.l3_offset) <= mtu);
            let (first, last) = (number == 0, number + 1 == pieces.len());
            let (header, payload) = header(piece);
            let kept = if first { 0xff } else { !ON_THE_FIRST };
            let kept = kept & if last { 0xff } else { !ON_THE_LAST } & !tcp::URG;
            prop_assert_eq!(header.flags & !tcp::URG, flags & kept);
            prop_assert_eq!(header.sequence, sequence);
            let is_urgent = flags & tcp::URG != 0 && usize::from(urgent) > stream.len();
            prop_assert_eq!(header.flags & tcp::URG != 0, is_urgent);
            if is_urgent {
                // The same byte of the stream.
                let behind = stream.len() + usize::from(header.urgent);
                prop_assert_eq!(behind, usize::from(urgent));
            }
            prop_assert_eq!(
                (header.acknowledgement, header.window, header.header_bytes),
                (said.acknowledgement, said.window, said.header_bytes)
            );
            sequence = sequence.wrapping_add(payload.len() as u32);
            stream.extend(payload);
        }
        prop_assert_eq!(stream, payload);
        let full = pieces.iter().rev().skip(1).all(|piece| piece.len() == pieces[0].len());
        prop_assert!(full, "only the last one is shorter");
    }

    #[test]
    fn nothing_in_a_head_makes_it_panic_or_write_beyond_a_packet(
        mut frame in proptest::collection::vec(any::<u8>(), 0..200),
        sample: bool,
        frame_bytes in 0usize..70_000,
        mtu in 0usize..2000,
    ) {
        if sample {
            let garbage = std::mem::take(&mut frame);
            frame = segment(garbage.len() % 2 == 0, None, tcp::ACK, 0, &[1; 50]);
            for (at, byte) in garbage.into_iter().enumerate().filter(|(at, _)| at % 7 == 0) {
                frame[at % 60] ^= byte & 1;
            }
        }
        let Some(mut cut) = Cut::new(&frame, frame_bytes, mtu) else { return Ok(()) };
        while let Some(bytes) = cut.next_bytes() {
            let mut piece = vec![0; cut.payload_offset() + bytes];
            prop_assert!(cut.write(&mut piece));
            prop_assert!(piece.len() <= mtu + 22);
        }
    }
}

#[test]
fn a_checksum_is_right_when_it_covers_everything_or_was_left_open_and_else_not() {
    for is_ipv6 in [false, true] {
        let mut frame = segment(is_ipv6, None, tcp::ACK, 0, &[7; 5001]);
        let right = |frame: &[u8]| {
            let cut = Cut::new(&frame[..HEADERS_MAX], frame.len(), 1500).expect("it can be cut");
            cut.is_right(|| Sum::ZERO.bytes(&frame[cut.payload_offset()..]))
        };
        assert!(right(&frame));
        *frame.last_mut().expect("it has bytes") ^= 1;
        assert!(!right(&frame), "a byte is wrong");
        open(&mut frame);
        assert!(right(&frame), "nobody has summed it");
        let (l4, _) = transport(&frame);
        frame[l4 + 17] ^= 1;
        assert!(!right(&frame));
    }
}

#[test]
fn packets_of_one_segment_are_told_apart_by_their_identification() {
    let whole = segment(false, None, tcp::ACK, 0, &[0; 4000]);
    let numbers: Vec<u16> = pieces(&whole, 1500)
        .iter()
        .map(|piece| u16::from_be_bytes([piece[18], piece[19]]))
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let good = segment(false, None, tcp::ACK, 0, &[0; 3000]);
    let refused = |frame: &[u8], len: usize, mtu| Cut::new(frame, len, mtu).is_none();
    assert!(!refused(&good, good.len(), 1500));
    assert!(refused(&good, good.len() + 1, 1500), "another length than it says");
    assert!(refused(&good, good.len(), 52), "no room beside the headers");
    assert!(refused(&good[..60], good.len(), 1500), "its headers are not all there");
    assert!(refused(&segment(false, None, tcp::SYN, 0, &[0; 3000]), good.len(), 1500));
    assert!(refused(&segment(false, None, tcp::RST, 0, &[0; 3000]), good.len(), 1500));
    assert!(refused(&segment(false, None, tcp::ACK, 0, &[]), 66, 1500), "no payload");
    let udp = samples::udp(IPV4_ENDS, None, &[0; 3000]);
    assert!(refused(&udp, udp.len(), 1500), "datagrams have borders that nobody tells");
    let mut fragment = good.clone();
    fragment[20] |= 0x20;
    assert!(refused(&fragment, fragment.len(), 1500), "nor is its header's checksum right");
    let mut damaged = good;
    damaged[22] ^= 1;
    assert!(refused(&damaged, damaged.len(), 1500), "its header's checksum is wrong");
}

//! Tests of open checksums.

use super::*;
use crate::samples::{Frames, tcp, udp};

const FOUR: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];
const SIX: [&str; 2] = ["[fd00::1]:5000", "[fd01::2]:80"];

/// `packet` as a kernel peer on a veth sends it.
fn opened(packet: &[u8]) -> Vec<u8> {
    let Outcome::Flow(flow) = classify(packet) else { panic!("no flow") };
    let is_udp = flow.key.protocol() == Protocol::Udp;
    let place = usize::from(flow.l4_offset) + if is_udp { 6 } else { 16 };
    let bytes = flow.payload_offset - flow.l4_offset + flow.payload_len;
    let mut packet = packet.to_vec();
    packet[place..place + 2].copy_from_slice(&pseudo_sum(&flow.key, bytes).to_be_bytes());
    packet
}

#[test]
fn an_open_checksum_is_asked_to_be_completed_and_a_whole_one_is_not() {
    let mut frames = Frames::new();
    for packet in [tcp(FOUR, b"hello"), tcp(SIX, b"hello"), udp(FOUR, b"hello"), udp(SIX, b"hello")]
    {
        for (bytes, expected) in
            [(&packet, TxChecksum::Complete), (&opened(&packet), TxChecksum::Partial)]
        {
            let mut frame = frames.frame(bytes);
            complete_if_open(&mut frame);
            assert_eq!(frame.meta().tx_checksum, TxChecksum::Complete, "nobody said it was open");
            frame.meta_mut().checksum = ChecksumState::Partial;
            complete_if_open(&mut frame);
            assert_eq!(frame.meta().tx_checksum, expected);
            assert_eq!(frame.bytes(), *bytes);
            if expected == TxChecksum::Partial {
                let meta = *frame.meta();
                let (start, offset) = (meta.tx_checksum_start, meta.tx_checksum_offset);
                let place = usize::from(start + offset);
                let sum = Sum::ZERO.bytes(&frame.bytes()[usize::from(start)..]).udp_checksum();
                frame.bytes_mut()[place..place + 2].copy_from_slice(&sum.to_be_bytes());
                assert_eq!(frame.bytes(), packet, "what the port does makes it whole");
            }
            frames.give([frame].into_iter().collect());
        }
    }
}

#[test]
fn padding_of_the_link_is_cut_off_so_that_it_is_not_summed() {
    let mut frames = Frames::new();
    let packet = opened(&udp(FOUR, b""));
    let mut frame = frames.frame(&[&packet[..], &[0xee; 18]].concat());
    frame.meta_mut().checksum = ChecksumState::Partial;
    complete_if_open(&mut frame);
    assert_eq!(frame.bytes(), packet);
    frames.give([frame].into_iter().collect());
}

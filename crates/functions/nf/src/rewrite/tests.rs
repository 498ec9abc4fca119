//! Tests of packets that get other ends.

use base::{ChecksumState, TxChecksum};
use proptest::prelude::*;
use wire::{Outcome, classify};

use super::*;
use crate::samples::{Frames, tcp, udp};

const ENDS: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];

fn text(address: u32, port: u16) -> String {
    format!("{}:{port}", std::net::Ipv4Addr::from_bits(address))
}

proptest! {
    #[test]
    fn a_packet_with_other_ends_is_what_those_would_have_sent(
        address: u32, port: u16, payload in prop::collection::vec(any::<u8>(), 0..40), is_tcp: bool,
        side in prop::sample::select(&[Side::Source, Side::Destination][..]),
    ) {
        let make = |ends: [&str; 2]| if is_tcp { tcp(ends, &payload) } else { udp(ends, &payload) };
        let other = text(address, port);
        let expected = match side {
            Side::Source => make([&other, ENDS[1]]),
            Side::Destination => make([ENDS[0], &other]),
        };
        let mut frames = Frames::new();
        let mut frame = frames.frame(&make(ENDS));
        write_end(&mut frame, side, End { address, port: Some(port) });
        prop_assert_eq!(frame.bytes(), expected);
        frames.give([frame].into_iter().collect());
    }

    #[test]
    fn a_checksum_that_was_left_open_is_right_once_it_is_completed(
        address in 0x0100_0000_u32..0x7000_0000, port: u16, is_tcp: bool, twice: bool,
    ) {
        let packet = if is_tcp { tcp(ENDS, b"hello") } else { udp(ENDS, b"hello") };
        let mut open = packet.clone();
        let at = 34 + if is_tcp { 16 } else { 6 };
        let bytes = (packet.len() - 34) as u16;
        let protocol = if is_tcp { 6 } else { 17 };
        let sum = Sum::ZERO.pseudo_ipv4([10, 0, 0, 1], [10, 0, 1, 2], protocol, bytes).fold();
        open[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut frames = Frames::new();
        let mut frame = frames.frame(&open);
        frame.meta_mut().checksum = ChecksumState::Partial;
        write_end(&mut frame, Side::Source, End { address, port: Some(port) });
        if twice {
            write_end(&mut frame, Side::Destination, End { address: address + 1, port: Some(9) });
        }
        // As the router does behind it.
        complete_if_open(&mut frame);
        prop_assert_eq!(frame.meta().tx_checksum, TxChecksum::Partial);
        crate::checksum::complete_here(&mut frame);
        let Outcome::Flow(flow) = classify(frame.bytes()) else { panic!("no flow") };
        prop_assert!(checksum::verify(frame.bytes(), &flow));
        frames.give([frame].into_iter().collect());
    }
}

#[test]
fn udp_without_a_checksum_stays_without_one() {
    let mut packet = udp(ENDS, b"hello");
    packet[40..42].fill(0);
    let mut frames = Frames::new();
    let mut frame = frames.frame(&packet);
    write_end(&mut frame, Side::Source, End { address: 1 << 24, port: Some(7) });
    assert_eq!(frame.bytes()[40..42], [0, 0]);
    frames.give([frame].into_iter().collect());
}

//! Tests of error messages.

use proptest::prelude::*;
use wire::Protocol;
use wire::icmp::{ErrorKind, ErrorMessage};

use super::*;
use crate::samples::{ALICE_MAC, Frames, OUR_MAC, ipv4, ipv6, tcp, udp};

const FOUR: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];
const SIX: [&str; 2] = ["[fd00::1]:5000", "[fd01::2]:80"];
const SENDER: Sender = Sender {
    mac: OUR_MAC,
    four: Some(Ipv4Addr::new(10, 0, 0, 254)),
    six: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xff)),
};

fn answered(packet: &[u8], complaint: Complaint) -> Option<Vec<u8>> {
    let mut frames = Frames::new();
    let mut frame = frames.frame(packet);
    let is_answered = answer(&mut frame, complaint, &SENDER);
    let bytes = frame.bytes().to_vec();
    frames.give([frame].into_iter().collect());
    if !is_answered {
        assert_eq!(bytes, packet, "a refused packet stays as it is");
    }
    is_answered.then_some(bytes)
}

#[test]
fn a_message_says_what_happened_and_quotes_the_packet_to_its_sender() {
    let kinds = [
        (Complaint::Expired, ErrorKind::TimeExceeded, ErrorKind::TimeExceeded),
        (
            Complaint::TooBig { mtu: 1400 },
            ErrorKind::TooBig { mtu: 1400 },
            ErrorKind::TooBig { mtu: 1400 },
        ),
        (
            Complaint::NoRoute,
            ErrorKind::Unreachable { code: 0 },
            ErrorKind::Unreachable { code: 0 },
        ),
        (
            Complaint::HostUnreachable,
            ErrorKind::Unreachable { code: 1 },
            ErrorKind::Unreachable { code: 3 },
        ),
        (
            Complaint::Prohibited,
            ErrorKind::Unreachable { code: 13 },
            ErrorKind::Unreachable { code: 1 },
        ),
        (
            Complaint::BeyondScope,
            ErrorKind::Unreachable { code: 1 },
            ErrorKind::Unreachable { code: 2 },
        ),
    ];
    for (complaint, kind4, kind6) in kinds {
        for (ends, kind, headers) in [(FOUR, kind4, 28), (SIX, kind6, 48)] {
            for packet in [udp(ends, b"hello"), tcp(ends, &[7; 1200])] {
                let message = answered(&packet, complaint).expect("an answer");
                // It checks both checksums, and that whoever gets it has sent what is quoted.
                let error = ErrorMessage::parse(&message).expect("an error message");
                assert_eq!(error.kind, kind, "{complaint:?}");
                assert_eq!(error.key.protocol() == Protocol::Udp, packet.len() < 100);
                assert_eq!(message[..12], [ALICE_MAC, OUR_MAC].concat());
                let quoted = &message[14 + headers..];
                assert!(packet[14..].starts_with(quoted));
                let most = if headers == 28 { 576 } else { 1280 };
                assert_eq!(quoted.len(), (packet.len() - 14).min(most - headers));
            }
        }
    }
}

#[test]
fn there_is_no_message_about_error_messages_and_later_fragments() {
    let icmp4 = |kind: u8| ipv4(1, &[], &[kind, 0, 0, 0, 0, 0, 0, 0]);
    let icmp6 = |kind: u8| ipv6(58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
    let behind = |chain: &[u8]| ipv6(chain[0], &[&chain[1..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
    let mut fragment = udp(FOUR, b"hello");
    fragment[21] = 1;
    let mut first_fragment = udp(FOUR, b"hello");
    first_fragment[20] = 0x20;
    let cases = [
        (udp(FOUR, b""), true),
        (udp(SIX, b""), true),
        (icmp4(8), true),
        (icmp4(3), false),
        (icmp4(11), false),
        (icmp4(5), false),
        (ipv4(1, &[], &[]), false),
        (fragment, false),
        (first_fragment, true),
        (icmp6(128), true),
        (icmp6(1), false),
        (icmp6(127), false),
        (icmp6(137), false),
        (ipv6(58, &[]), false),
        // Hop-by-hop, destination options, routing, fragment and authentication headers before an
        // error.
        (behind(&[0, 60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4, 0, 0, 0, 0]), false),
        (behind(&[43, 44, 0, 0, 0, 0, 0, 0, 0, 58, 0, 0, 1, 0, 0, 0, 9]), false),
        (behind(&[51, 58, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), false),
        // A later fragment: what it is part of, nobody can see.
        (behind(&[44, 58, 0, 0, 8, 0, 0, 0, 9]), true),
        (behind(&[44, 17, 0, 0, 1, 0, 0, 0, 9]), true),
        // Chains that end nowhere.
        (ipv6(0, &[0; 8 * 9]), false),
        (ipv6(60, &[17, 9, 0, 0, 0, 0, 0, 0]), false),
        (ipv6(60, &[17]), false),
    ];
    for (packet, expected) in cases {
        assert_eq!(may_answer(&packet), expected, "{packet:02x?}");
    }
}

#[test]
fn a_sender_without_address_of_that_version_sends_nothing() {
    let mut frames = Frames::new();
    for (packet, sender) in [
        (udp(FOUR, b""), Sender { four: None, ..SENDER }),
        (udp(SIX, b""), Sender { six: None, ..SENDER }),
    ] {
        let mut frame = frames.frame(&packet);
        assert!(!answer(&mut frame, Complaint::Expired, &sender));
        assert_eq!(frame.bytes(), packet);
        frames.give([frame].into_iter().collect());
    }
}

#[test]
fn a_frame_without_room_for_the_message_stays_as_it_is() {
    let mut frames = Frames::new();
    let mut frame = frames.frame(&udp(FOUR, b"hello"));
    let room = frame.room();
    // Moved to the end of its chunk, the packet has no room behind it.
    let packet = udp(FOUR, b"hello");
    assert!(frame.set_len(room));
    let last = room - packet.len();
    frame.bytes_mut()[last..].copy_from_slice(&packet);
    assert!(frame.pull_front(last));
    assert!(!answer(&mut frame, Complaint::Expired, &SENDER));
    assert_eq!(frame.bytes(), packet);
    frames.give([frame].into_iter().collect());
}

proptest! {
    #[test]
    fn whatever_may_be_answered_becomes_a_message_with_right_checksums(
        is_six in any::<bool>(),
        changes in prop::collection::vec((0..70usize, any::<u8>()), 0..6),
        bytes in 0..300usize,
    ) {
        let mut packet = if is_six { tcp(SIX, &vec![5; bytes]) } else { tcp(FOUR, &vec![5; bytes]) };
        for (place, value) in changes {
            if let Some(byte) = packet.get_mut(14 + place) {
                *byte = value;
            }
        }
        if may_answer(&packet)
            && let Some(message) = answered(&packet, Complaint::Expired)
        {
            prop_assert!(message.len() <= 14 + 1280);
            let ip = &message[14..];
            let sum = if message[14] >> 4 == 4 {
                prop_assert_eq!(Sum::ZERO.bytes(&ip[..20]).fold(), 0xffff);
                Sum::ZERO.bytes(&ip[20..])
            } else {
                let header = ipv6::Header::parse(ip).expect("a header of ours");
                Sum::ZERO
                    .pseudo_ipv6(header.source, header.destination, 58, header.payload_bytes)
                    .bytes(&ip[40..])
            };
            prop_assert_eq!(sum.fold(), 0xffff);
        }
    }
}

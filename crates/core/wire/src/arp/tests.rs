//! What `wire::arp` promises, case by case.

use super::*;
use crate::samples::{ALICE_MAC, BOB_MAC};

const ALICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const BOB: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn request(sender: Ipv4Addr, tags: &[u8]) -> Vec<u8> {
    let packet = Packet {
        operation: REQUEST,
        sender_mac: ALICE_MAC,
        sender,
        target_mac: [0; 6],
        target: BOB,
    };
    [&ethernet::BROADCAST[..], &ALICE_MAC, tags, &[8, 6], &packet.to_bytes(), &[0; 18]].concat()
}

fn ask(frame: &mut [u8]) -> Option<usize> {
    answer(frame, |address| address == BOB, BOB_MAC)
}

#[test]
fn request_for_our_address_becomes_the_reply_and_keeps_its_tags() {
    for tags in [&[][..], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]] {
        let mut frame = request(ALICE, tags);
        assert_eq!(ask(&mut frame), Some(42 + tags.len()));
        let expected = Packet {
            operation: REPLY,
            sender_mac: BOB_MAC,
            sender: BOB,
            target_mac: ALICE_MAC,
            target: ALICE,
        };
        let header = [&ALICE_MAC[..], &BOB_MAC, tags, &[8, 6]].concat();
        assert_eq!(frame[..header.len()], header);
        assert_eq!(Packet::parse(&frame[header.len()..]), Ok(expected));
    }
}

#[test]
fn probe_of_somebody_who_has_no_address_yet_is_answered() {
    assert_eq!(ask(&mut request(Ipv4Addr::UNSPECIFIED, &[])), Some(42));
}

#[test]
fn what_needs_no_answer_gets_none_and_stays_as_it_is() {
    type Change = fn(&mut Vec<u8>);
    let whole = request(ALICE, &[]);
    let changes: [(&str, Change); 8] = [
        ("a reply", |f| f[21] = 2),
        ("another target", |f| f[41] = 3),
        ("an announcement of our address", |f| f[31] = 2),
        ("a sender that is a group", |f| f[28] = 224),
        ("a link address that is a group", |f| f[22] = 1),
        ("no link address", |f| f[22..28].fill(0)),
        ("another format", |f| f[18] = 8),
        ("a truncated packet", |f| f.truncate(41)),
    ];
    for (what, change) in changes {
        let mut frame = whole.clone();
        change(&mut frame);
        let before = frame.clone();
        assert_eq!(ask(&mut frame), None, "{what}");
        assert_eq!(frame, before, "{what}");
    }
}

#[test]
fn packet_shorter_than_28_bytes_is_truncated_and_another_format_is_named() {
    let packet = &request(ALICE, &[])[14..42];
    assert!(Packet::parse(packet).is_ok());
    for len in 0..28 {
        assert_eq!(Packet::parse(&packet[..len]), Err(Malformed::ArpTruncated), "{len}");
    }
    let mut other = packet.to_vec();
    other[1] = 6;
    assert_eq!(Packet::parse(&other), Err(Malformed::ArpFormat));
}

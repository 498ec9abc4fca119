//! What `wire::icmp` promises, case by case.

use super::*;
use crate::checksum::Sum;
use crate::samples::{self, ALICE_MAC, BOB_MAC};
use crate::{Outcome, classify};
use std::net::Ipv6Addr;

const ALICE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const BOB: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456);
const BOB_GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff12, 0x3456);

/// A solicitation for Bob with the right checksum and 64 bytes of room behind it.
fn question(source: Ipv6Addr, destination: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    let mut message = vec![NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(BOB.octets());
    message.extend(options);
    let length = message.len() as u16;
    let sum = Sum::ZERO
        .pseudo_ipv6(source.octets(), destination.octets(), ipv6::ICMPV6, length)
        .bytes(&message);
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    let mut frame = samples::ipv6(ipv6::ICMPV6, &message);
    frame[21] = 255;
    frame[22..38].copy_from_slice(&source.octets());
    frame[38..54].copy_from_slice(&destination.octets());
    frame.extend([0; 64]);
    frame
}

fn source_option() -> Vec<u8> {
    [&[1, 1][..], &ALICE_MAC].concat()
}

fn ask(frame: &mut [u8]) -> Option<usize> {
    answer_solicitation(frame, |address| address == BOB, BOB_MAC)
}

fn reason(frame: &[u8]) -> Outcome {
    classify(frame)
}

fn check_advertisement(frame: &[u8], to: Ipv6Addr, to_mac: [u8; 6], flags: u8) {
    assert_eq!(frame[..12], [&to_mac[..], &BOB_MAC].concat());
    let header = ipv6::Header::parse(&frame[14..]).expect("an IPv6 header");
    assert_eq!((header.hop_limit, header.payload_bytes), (255, 32));
    assert_eq!((header.source, header.destination), (BOB.octets(), to.octets()));
    let message = &frame[54..86];
    assert_eq!(message[..2], [NEIGHBOUR_ADVERTISEMENT, 0]);
    assert_eq!(message[4..8], [flags, 0, 0, 0]);
    assert_eq!(message[8..24], BOB.octets());
    assert_eq!(message[24..], [&[2, 1][..], &BOB_MAC].concat());
    let sum = Sum::ZERO.pseudo_ipv6(header.source, header.destination, ipv6::ICMPV6, 32);
    assert_eq!(sum.bytes(message).fold(), 0xffff);
}

#[test]
fn solicitation_becomes_an_advertisement_to_whoever_asked() {
    for (to, options) in [(BOB_GROUP, source_option()), (BOB, source_option()), (BOB, vec![])] {
        let mut frame = question(ALICE, to, &options);
        assert_eq!(reason(&frame), Outcome::NotOurs(NotOurs::NeighbourSolicitation));
        assert_eq!(ask(&mut frame), Some(86));
        check_advertisement(&frame, ALICE, ALICE_MAC, 0x60);
    }
}

#[test]
fn answer_goes_to_the_link_address_that_the_option_names() {
    let mut frame = question(ALICE, BOB_GROUP, &[14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 9, 9, 9, 9, 9]);
    assert_eq!(ask(&mut frame), Some(86));
    check_advertisement(&frame, ALICE, [2, 9, 9, 9, 9, 9], 0x60);
}

#[test]
fn duplicate_address_detection_is_answered_to_all_nodes() {
    let mut frame = question(Ipv6Addr::UNSPECIFIED, BOB_GROUP, &[]);
    assert_eq!(ask(&mut frame), Some(86));
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    check_advertisement(&frame, all_nodes, [0x33, 0x33, 0, 0, 0, 1], 0x20);
}

#[test]
fn tagged_solicitation_keeps_its_tag() {
    let mut frame = question(ALICE, BOB_GROUP, &source_option());
    frame.splice(12..12, [0x81, 0, 0, 5]);
    assert_eq!(ask(&mut frame), Some(90));
    assert_eq!(frame[12..18], [0x81, 0, 0, 5, 0x86, 0xdd]);
}

#[test]
fn answer_needs_86_bytes_of_room() {
    let frame = question(ALICE, BOB, &[]);
    let mut short = frame.clone();
    assert_eq!(ask(&mut short[..85]), None);
    assert_eq!(short, frame, "a refused packet stays as it is");
    assert_eq!(ask(&mut short[..86]), Some(86));
}

#[test]
fn solicitation_that_breaks_a_rule_is_malformed_and_unanswered() {
    let good = question(ALICE, BOB_GROUP, &source_option());
    let with = |change: fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame
    };
    for (what, mut frame) in [
        ("hop limit", with(|f| f[21] = 254)),
        ("code", with(|f| f[55] = 1)),
        ("checksum", with(|f| f[56] ^= 1)),
        ("zero-length option", question(ALICE, BOB, &[1, 0, 0, 0, 0, 0, 0, 0])),
        ("option beyond the packet", question(ALICE, BOB, &[1, 2, 0, 0, 0, 0, 0, 0])),
        ("half an option", question(ALICE, BOB, &[1])),
        (
            "detection that names a link address",
            question(Ipv6Addr::UNSPECIFIED, BOB_GROUP, &source_option()),
        ),
        ("detection sent to one", question(Ipv6Addr::UNSPECIFIED, BOB, &[])),
        ("destination", question(ALICE, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), &[])),
        ("source", question(BOB_GROUP, BOB, &[])),
    ] {
        let expected = Outcome::Malformed(Malformed::NeighbourSolicitation);
        assert_eq!(reason(&frame), expected, "{what}");
        let before = frame.clone();
        assert_eq!(ask(&mut frame), None, "{what}");
        assert_eq!(frame, before, "{what}");
    }
}

#[test]
fn solicitation_for_somebody_else_is_left_alone() {
    let mut frame = question(ALICE, BOB_GROUP, &source_option());
    assert_eq!(answer_solicitation(&mut frame, |_| false, BOB_MAC), None);
}

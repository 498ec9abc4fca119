//! Packets that the tests of several protocols start from.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use crate::build::{TcpSegment, UdpPacket};
use crate::{Flow, FlowKey, Outcome, Protocol, classify, tcp};

pub(crate) const ALICE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
pub(crate) const BOB_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];
pub(crate) const IPV4_ENDS: [&str; 2] = ["10.0.0.1:5000", "10.0.0.2:7"];
pub(crate) const IPV6_ENDS: [&str; 2] = ["[fd00::1]:5000", "[fd00::2]:7"];

pub(crate) fn end(text: &str) -> SocketAddr {
    text.parse().expect("a test writes addresses that parse")
}

pub(crate) fn udp([source, destination]: [&str; 2], vlan: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let packet = UdpPacket {
        source_mac: ALICE_MAC,
        destination_mac: BOB_MAC,
        source: end(source),
        destination: end(destination),
        payload,
        vlan,
    };
    let mut frame = vec![0xee; packet.len()];
    assert_eq!(packet.write(&mut frame), Some(frame.len()));
    frame
}

pub(crate) fn tcp([source, destination]: [&str; 2], vlan: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let segment = TcpSegment {
        source_mac: ALICE_MAC,
        destination_mac: BOB_MAC,
        source: end(source),
        destination: end(destination),
        sequence: 0x0102_0304,
        acknowledgement: 0x0506_0708,
        flags: tcp::ACK | tcp::PSH,
        window: 512,
        payload,
        vlan,
    };
    let mut frame = vec![0xee; segment.len()];
    assert_eq!(segment.write(&mut frame), Some(frame.len()));
    frame
}

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2 whose options are a multiple of four bytes.
pub(crate) fn ipv4(protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let total = (words * 4 + payload.len()) as u16;
    let mut frame = [&BOB_MAC[..], &ALICE_MAC, &[0x08, 0x00, 0x40 | words as u8, 0]].concat();
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(options);
    let checksum = crate::checksum::of(&frame[14..]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An IPv6 packet from fd00::1 to fd00::2.
pub(crate) fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&BOB_MAC[..], &ALICE_MAC, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next_header, 64]);
    for last in [1, 2] {
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    frame.extend(payload);
    frame
}

/// A UDP header without checksum, from port 5000 to port 7, and its payload.
pub(crate) fn datagram(payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&[0x13, 0x88, 0, 7], &length.to_be_bytes()[..], &[0, 0], payload].concat()
}

pub(crate) fn flow(frame: &[u8]) -> Flow {
    match classify(frame) {
        Outcome::Flow(flow) => flow,
        other => panic!("{other:?}: {frame:02x?}"),
    }
}

pub(crate) fn any_flow() -> impl Strategy<Value = FlowKey> {
    let ends = prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        (any::<[u8; 16]>(), any::<[u8; 16]>())
            .prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    (protocol, ends, any::<(u16, u16)>()).prop_map(|(protocol, (a, b), (c, d))| {
        FlowKey::new(protocol, (a, c).into(), (b, d).into()).expect("one IP version")
    })
}

//! What `wire::build` promises, case by case.

use super::*;
use crate::samples::{self, ALICE_MAC, BOB_MAC, IPV4_ENDS, IPV6_ENDS, any_flow};
use crate::{FlowKey, Outcome, Protocol, classify};
use proptest::prelude::*;

fn packet<'a>(source: &str, destination: &str, payload: &'a [u8]) -> UdpPacket<'a> {
    UdpPacket {
        source_mac: ALICE_MAC,
        destination_mac: BOB_MAC,
        source: samples::end(source),
        destination: samples::end(destination),
        payload,
        vlan: None,
    }
}

#[test]
fn ends_of_different_versions_are_refused() {
    let mut out = [0; 200];
    let mixed = [(IPV4_ENDS[0], IPV6_ENDS[1]), (IPV6_ENDS[0], IPV4_ENDS[1])];
    for (source, destination) in mixed {
        assert_eq!(packet(source, destination, b"x").write(&mut out), None);
    }
    assert_eq!(out, [0; 200]);
}

#[test]
fn buffer_one_byte_too_short_is_refused_untouched() {
    for [source, destination] in [IPV4_ENDS, IPV6_ENDS] {
        let packet = packet(source, destination, b"payload");
        let mut out = vec![0; packet.len() - 1];
        assert_eq!(packet.write(&mut out), None);
        assert!(out.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn payload_fills_an_ip_packet_and_no_more() {
    let payload = vec![7; 65_528];
    let mut out = vec![0; 66_000];
    for ([source, destination], most) in [(IPV4_ENDS, 65_507), (IPV6_ENDS, 65_527)] {
        assert!(packet(source, destination, &payload[..most]).write(&mut out).is_some());
        assert_eq!(packet(source, destination, &payload[..=most]).write(&mut out), None);
    }
}

#[test]
fn checksum_that_comes_out_as_zero_is_not_written_as_none() {
    for ([source, destination], at) in [(IPV4_ENDS, 40), (IPV6_ENDS, 60)] {
        let mut out = [0; 100];
        assert!(packet(source, destination, &[0, 0]).write(&mut out).is_some());
        // With its own checksum as payload the sum is all ones.
        let payload = [out[at], out[at + 1]];
        assert!(packet(source, destination, &payload).write(&mut out).is_some());
        assert_eq!(out[at..at + 2], [0xff, 0xff]);
    }
}

/// Whether an address may stand in a packet between two hosts.
fn are_hosts(key: &FlowKey) -> bool {
    [key.source().ip(), key.destination().ip()].into_iter().all(|ip| match ip {
        IpAddr::V4(ip) => ipv4::is_host(ip.octets()),
        IpAddr::V6(ip) => ipv6::is_host(ip.octets()),
    })
}

proptest! {
    #[test]
    fn what_is_written_classifies_as_the_flow_it_was_written_for(
        key in any_flow().prop_filter("only hosts send", are_hosts),
        vlan in proptest::option::of(any::<u16>()),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let (source, destination) = (key.source(), key.destination());
        let (source_mac, destination_mac) = (ALICE_MAC, BOB_MAC);
        let mut frame = vec![0xee; 500];
        let (len, written) = match key.protocol() {
            Protocol::Udp => {
                let packet =
                    UdpPacket { source_mac, destination_mac, source, destination, payload: &payload, vlan };
                (packet.len(), packet.write(&mut frame))
            }
            Protocol::Tcp => {
                let segment = TcpSegment {
                    source_mac, destination_mac, source, destination, sequence: 1, acknowledgement: 2,
                    flags: tcp::ACK, window: 3, payload: &payload, vlan,
                };
                (segment.len(), segment.write(&mut frame))
            }
        };
        prop_assert_eq!(written, Some(len));
        frame.truncate(len);
        let Outcome::Flow(flow) = classify(&frame) else {
            return Err(TestCaseError::fail(format!("{:?}", classify(&frame))));
        };
        prop_assert_eq!(flow.key, key);
        let at = usize::from(flow.payload_offset);
        prop_assert_eq!(&frame[at..at + usize::from(flow.payload_len)], &payload[..]);
        prop_assert!(checksum::verify(&frame, &flow));
        prop_assert_eq!(vlan::outer_tci(&frame), vlan);
    }
}

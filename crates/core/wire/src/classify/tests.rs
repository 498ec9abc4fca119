//! What `wire::classify` promises, case by case.

use super::*;
use crate::samples::{self, IPV4_ENDS, IPV6_ENDS};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// `frame` with the bytes from `at` replaced.
fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn cut(mut frame: Vec<u8>, bytes: usize) -> Vec<u8> {
    frame.truncate(bytes);
    frame
}

fn udp4() -> Vec<u8> {
    samples::udp(IPV4_ENDS, None, b"payload")
}

fn udp6() -> Vec<u8> {
    samples::udp(IPV6_ENDS, None, b"payload")
}

fn tcp4() -> Vec<u8> {
    samples::tcp(IPV4_ENDS, None, b"payload")
}

/// A frame for every reason that a packet can be somebody else's.
fn not_ours() -> Vec<(NotOurs, Vec<u8>)> {
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat();
    let arp = [&udp4()[..12], &[8, 6], &arp].concat();
    let mut three_tags = udp4();
    three_tags.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3]);
    // From fd00::1 to fd00::2 about fd00::2.
    let mut solicitation = vec![135, 0, 0, 0, 0, 0, 0, 0, 0xfd];
    solicitation.extend([0; 14]);
    solicitation.push(2);
    let sum = crate::checksum::Sum::ZERO
        .bytes(&samples::ipv6(58, &[])[22..54])
        .word(58)
        .word(24)
        .bytes(&solicitation);
    solicitation[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    let echo6 = samples::ipv6(58, &[128, 0, 0, 0, 0, 0, 0, 0]);
    vec![
        (NotOurs::Arp, arp),
        (NotOurs::NeighbourSolicitation, with(samples::ipv6(58, &solicitation), 21, &[255])),
        (NotOurs::Icmp, samples::ipv4(1, &[], &[8, 0, 0, 0, 0, 0, 0, 0])),
        (NotOurs::Icmp, echo6.clone()),
        (NotOurs::IcmpError, samples::ipv4(1, &[], &[3, 0, 0, 0, 0, 0, 0, 0])),
        (NotOurs::IcmpError, with(echo6, 54, &[1])),
        (NotOurs::Fragment, with(udp4(), 20, &[0x20, 0])),
        (NotOurs::Fragment, samples::ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 0])),
        (NotOurs::Ethertype, with(udp4(), 12, &[0x88, 0xcc])),
        (NotOurs::LlcFrame, with(udp4(), 12, &[0, 38])),
        (NotOurs::TooManyTags, three_tags),
        (NotOurs::IpProtocol, with(udp4(), 23, &[132])),
        (NotOurs::IpProtocol, with(udp6(), 20, &[47])),
        (NotOurs::Esp, with(udp4(), 23, &[50])),
        (NotOurs::Esp, with(udp6(), 20, &[50])),
        (NotOurs::NoNextHeader, with(udp6(), 20, &[59])),
        (NotOurs::Multicast, with(udp4(), 30, &[224])),
        (NotOurs::Multicast, with(udp6(), 38, &[0xff])),
        (NotOurs::Multicast, with(udp4(), 0, &[0x33])),
        (NotOurs::Broadcast, with(udp4(), 30, &[255; 4])),
        (NotOurs::Broadcast, with(udp4(), 0, &[255; 6])),
        (NotOurs::SourceRoute, samples::ipv4(17, &[131, 3, 4, 0], &samples::datagram(b""))),
        (NotOurs::SourceRoute, samples::ipv6(43, &[17, 0, 4, 1, 0, 0, 0, 0])),
        (NotOurs::Ipv6Option, samples::ipv6(0, &[17, 0, 0xc2, 4, 0, 1, 0, 0])),
    ]
}

/// A frame for every reason that no one can take a packet.
fn malformed() -> Vec<(Malformed, Vec<u8>)> {
    let arp = [&udp4()[..12], &[8, 6], &[0; 28]].concat();
    let tagged = samples::udp(IPV4_ENDS, Some(5), b"payload");
    let pad: &[u8] = &[60, 0, 1, 4, 0, 0, 0, 0];
    vec![
        (Malformed::EthernetTruncated, cut(udp4(), 13)),
        (Malformed::EthernetSource, with(udp4(), 6, &[1])),
        (Malformed::VlanTruncated, cut(tagged, 17)),
        (Malformed::ArpTruncated, cut(with(arp.clone(), 14, &[0, 1, 8, 0, 6, 4]), 41)),
        (Malformed::ArpFormat, arp),
        (Malformed::Ipv4Truncated, cut(udp4(), 33)),
        (Malformed::Ipv4Version, with(udp4(), 14, &[0x65])),
        (Malformed::Ipv4HeaderLength, with(udp4(), 14, &[0x44])),
        (Malformed::Ipv4TotalLength, with(udp4(), 16, &[0, 19])),
        (Malformed::Ipv4BeyondFrame, cut(udp4(), 48)),
        (Malformed::Ipv4Option, samples::ipv4(17, &[7, 0, 0, 0], &samples::datagram(b""))),
        (Malformed::Ipv4FragmentEnd, with(udp4(), 20, &[0x1f, 0xff])),
        (Malformed::Ipv4Source, with(udp4(), 26, &[127])),
        (Malformed::Ipv4Destination, with(udp4(), 30, &[0])),
        (Malformed::Ipv6Truncated, cut(udp6(), 53)),
        (Malformed::Ipv6Version, with(udp6(), 14, &[0x45])),
        (Malformed::Ipv6BeyondFrame, cut(udp6(), 68)),
        (Malformed::Ipv6ExtensionTruncated, samples::ipv6(60, &[17, 1, 0, 0, 0, 0, 0, 0])),
        (Malformed::Ipv6ExtensionLength, samples::ipv6(51, &[17, 0, 0, 0, 0, 0, 0, 0])),
        (
            Malformed::Ipv6HopByHopOrder,
            samples::ipv6(60, &[&with(pad.to_vec(), 0, &[0]), pad].concat()),
        ),
        (Malformed::Ipv6ChainTooLong, samples::ipv6(60, &pad.repeat(9))),
        (Malformed::Ipv6Option, samples::ipv6(60, &[17, 0, 1, 5, 0, 0, 0, 0])),
        (Malformed::Ipv6Source, with(udp6(), 22, &[0xff])),
        (Malformed::Ipv6Destination, with(udp6(), 38, &[0; 16])),
        (Malformed::IcmpTruncated, samples::ipv4(1, &[], &[8; 7])),
        (Malformed::IcmpTruncated, samples::ipv6(58, &[128; 7])),
        (Malformed::NeighbourSolicitation, samples::ipv6(58, &[135, 0, 0, 0, 0, 0, 0, 0])),
        (Malformed::UdpTruncated, samples::ipv4(17, &[], &[0; 7])),
        (Malformed::UdpLength, with(udp4(), 38, &[0, 7])),
        (Malformed::UdpLength, with(udp4(), 38, &[0, 16])),
        (Malformed::TcpTruncated, samples::ipv4(6, &[], &[0; 19])),
        (Malformed::TcpDataOffset, with(tcp4(), 46, &[0x40])),
        (Malformed::TcpDataOffset, with(tcp4(), 46, &[0xf0])),
    ]
}

#[test]
fn every_reason_has_a_frame_that_gets_it() {
    let mut seen = BTreeSet::new();
    for (reason, frame) in not_ours() {
        assert_eq!(classify(&frame), Outcome::NotOurs(reason));
        seen.insert(reason.index());
    }
    assert_eq!(seen.len(), NotOurs::ALL.len(), "a reason is missing from the table");
    seen.clear();
    for (reason, frame) in malformed() {
        assert_eq!(classify(&frame), Outcome::Malformed(reason));
        seen.insert(reason.index());
    }
    assert_eq!(seen.len(), Malformed::ALL.len(), "a reason is missing from the table");
}

#[test]
fn packet_cut_anywhere_is_malformed_and_never_a_flow() {
    for frame in [
        udp4(),
        udp6(),
        tcp4(),
        samples::tcp(IPV6_ENDS, Some(5), b"payload"),
        samples::ipv4(17, &[1; 40], &samples::datagram(b"payload")),
        samples::ipv6(
            60,
            &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &samples::datagram(b"payload")].concat(),
        ),
    ] {
        assert!(matches!(classify(&frame), Outcome::Flow(_)));
        for bytes in 0..frame.len() {
            let outcome = classify(&frame[..bytes]);
            assert!(matches!(outcome, Outcome::Malformed(_)), "{bytes} bytes: {outcome:?}");
        }
    }
}

#[test]
fn offsets_lead_to_the_parts_whatever_stands_before_them() {
    let double_tag = {
        let mut frame = samples::udp(IPV4_ENDS, Some(5), b"payload");
        frame.splice(12..12, [0x88, 0xa8, 0, 9]);
        frame
    };
    let options = samples::ipv4(17, &[1; 8], &samples::datagram(b"payload"));
    let extension: &[u8] = &[17, 0, 1, 4, 0, 0, 0, 0];
    let extension = samples::ipv6(60, &[extension, &samples::datagram(b"payload")].concat());
    for (frame, l3, l4, payload) in [
        (udp4(), 14, 34, 42),
        (tcp4(), 14, 34, 54),
        (udp6(), 14, 54, 62),
        (samples::tcp(IPV6_ENDS, Some(5), b"payload"), 18, 58, 78),
        (double_tag, 22, 42, 50),
        (options, 14, 42, 50),
        (extension, 14, 62, 70),
    ] {
        let flow = samples::flow(&frame);
        assert_eq!((flow.l3_offset, flow.l4_offset, flow.payload_offset), (l3, l4, payload));
        assert_eq!(flow.payload_len, 7);
        let ends = if flow.key.is_ipv6() { IPV6_ENDS } else { IPV4_ENDS };
        let (source, destination) = (samples::end(ends[0]), samples::end(ends[1]));
        assert_eq!((flow.key.source(), flow.key.destination()), (source, destination));
    }
}

#[test]
fn padding_of_a_short_frame_is_not_payload() {
    for (frame, bytes) in
        [(udp4(), 7), (tcp4(), 7), (udp6(), 7), (samples::udp(IPV4_ENDS, None, b""), 0)]
    {
        let mut padded = frame.clone();
        padded.resize(frame.len() + 18, 0xaa);
        assert_eq!(samples::flow(&padded), samples::flow(&frame));
        assert_eq!(samples::flow(&padded).payload_len, bytes);
    }
}

#[test]
fn udp_that_ends_before_its_ip_packet_ends_there() {
    let frame = with(udp4(), 38, &[0, 10]);
    assert_eq!(samples::flow(&frame).payload_len, 2);
}

#[test]
fn largest_ipv6_payload_is_a_flow() {
    let frame = samples::udp(IPV6_ENDS, None, &vec![7; 65_527]);
    assert_eq!(samples::flow(&frame).payload_len, 65_527);
}

/// The flow as etherparse reads it: ends, protocol number, payload.
fn oracle(frame: &[u8]) -> (String, u8, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).expect("a valid packet");
    let (source, destination) = match packet.net.expect("a network header") {
        NetSlice::Ipv4(ip) => (
            std::net::IpAddr::V4(ip.header().source_addr()),
            std::net::IpAddr::V4(ip.header().destination_addr()),
        ),
        NetSlice::Ipv6(ip) => (
            std::net::IpAddr::V6(ip.header().source_addr()),
            std::net::IpAddr::V6(ip.header().destination_addr()),
        ),
        NetSlice::Arp(_) => panic!("an IP packet"),
    };
    let (ports, protocol, payload) = match packet.transport.expect("a transport header") {
        TransportSlice::Udp(udp) => {
            ((udp.source_port(), udp.destination_port()), 17, udp.payload().to_vec())
        }
        TransportSlice::Tcp(tcp) => {
            ((tcp.source_port(), tcp.destination_port()), 6, tcp.payload().to_vec())
        }
        other => panic!("{other:?}"),
    };
    let ends = format!(
        "{} -> {}",
        std::net::SocketAddr::new(source, ports.0),
        std::net::SocketAddr::new(destination, ports.1)
    );
    (ends, protocol, payload)
}

/// Valid packets as etherparse writes them, with its own checksums.
fn packets_of_the_oracle() -> impl Strategy<Value = Vec<u8>> {
    let ports = any::<(u16, u16)>();
    let payload = proptest::collection::vec(any::<u8>(), 0..200);
    let tags = 0_u8..3;
    (any::<(bool, bool)>(), 0_usize..9, any::<[u8; 2]>(), ports, tags, payload).prop_map(
        |((is_ipv6, is_tcp), option_words, [from, to], ports, tags, payload)| {
            let link = etherparse::PacketBuilder::ethernet2(samples::ALICE_MAC, samples::BOB_MAC);
            let vlan = |id: u16| etherparse::VlanId::try_new(id).expect("below 4096");
            let ip = if is_ipv6 {
                let mut header = etherparse::Ipv6Header {
                    hop_limit: 9,
                    source: [0xfd; 16],
                    destination: [0xfc; 16],
                    ..Default::default()
                };
                header.source[15] = from;
                header.destination[15] = to;
                // A destination options header of one PadN option, when there are options at all.
                let mut options = vec![0; 6 + option_words * 8];
                options[0] = 1;
                options[1] = u8::try_from(options.len() - 2).expect("short");
                let options = etherparse::Ipv6RawExtHeader::new_raw(0.into(), &options);
                let extensions = etherparse::Ipv6Extensions {
                    destination_options: (option_words > 0)
                        .then(|| options.expect("a multiple of eight")),
                    ..Default::default()
                };
                etherparse::IpHeaders::Ipv6(header, extensions)
            } else {
                let mut header =
                    etherparse::Ipv4Header::new(0, 9, 0.into(), [10, 0, 0, from], [10, 0, 1, to])
                        .expect("a short packet");
                header.options = [1; 40][..option_words * 4].try_into().expect("whole words");
                etherparse::IpHeaders::Ipv4(header, Default::default())
            };
            let mut frame = Vec::new();
            let step = match tags {
                0 => link.ip(ip),
                1 => link.single_vlan(vlan(5)).ip(ip),
                _ => link.double_vlan(vlan(9), vlan(5)).ip(ip),
            };
            let written = if is_tcp {
                step.tcp(ports.0, ports.1, 1, 2)
                    .options(&[etherparse::TcpOptionElement::MaximumSegmentSize(1460)])
                    .expect("four bytes of options")
                    .write(&mut frame, &payload)
            } else {
                step.udp(ports.0, ports.1).write(&mut frame, &payload)
            };
            written.expect("a vector takes everything");
            frame
        },
    )
}

proptest! {
    #[test]
    fn valid_packets_are_read_as_etherparse_reads_them(frame in packets_of_the_oracle()) {
        let Outcome::Flow(flow) = classify(&frame) else {
            return Err(TestCaseError::fail(format!("{:?}: {frame:02x?}", classify(&frame))));
        };
        let (ends, protocol, payload) = oracle(&frame);
        prop_assert_eq!(format!("{} -> {}", flow.key.source(), flow.key.destination()), ends);
        prop_assert_eq!(flow.key.protocol().number(), protocol);
        let at = usize::from(flow.payload_offset);
        prop_assert_eq!(&frame[at..at + usize::from(flow.payload_len)], &payload[..]);
        prop_assert!(crate::checksum::verify(&frame, &flow), "etherparse wrote these checksums");
    }

    #[test]
    fn changed_bytes_never_lead_outside_the_frame(
        frame in packets_of_the_oracle(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in any::<prop::sample::Index>(),
    ) {
        let mut frame = frame;
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let frame = &frame[..len.index(frame.len() + 1)];
        if let Outcome::Flow(flow) = classify(frame) {
            prop_assert!(14 <= flow.l3_offset && flow.l3_offset < flow.l4_offset);
            prop_assert!(flow.l4_offset < flow.payload_offset);
            let end = usize::from(flow.payload_offset) + usize::from(flow.payload_len);
            prop_assert!(end <= frame.len());
        }
    }
}

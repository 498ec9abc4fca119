//! Every parser and every function that answers in place, on arbitrary bytes and on packets that
//! were valid once.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wire::build::UdpPacket;
use wire::{arp, checksum, ethernet, icmp, ipv4, ipv6, reply, tcp, udp, vlan};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fuzz_target!(|input: &[u8]| {
    // What travels beside a packet comes first: which template, where the headers are said to be
    // (zero: where they are), how much payload is wanted, how much room is behind the packet.
    let Some((&[template, l3, l4, cut, room], bytes)) = input.split_first_chunk() else {
        return;
    };
    let template = TEMPLATES.get(usize::from(template) % (TEMPLATES.len() + 1));
    let (frame, true_l3, true_l4) = match template {
        Some((packet, l3, l4)) => (overlay(packet, bytes), *l3, *l4),
        None => (bytes.to_vec(), 0, 0),
    };
    let payload_len = (cut < 128).then_some(u16::from(cut));
    parse(&frame);
    turn_around(&frame, true_l3 ^ u16::from(l3), true_l4 ^ u16::from(l4), payload_len);
    answer(&frame, usize::from(room));
    let right = with_right_checksum(&frame);
    error_message(&right);
    answer(&right, usize::from(room));
});

/// Valid packets and where their network and transport headers are.
static TEMPLATES: LazyLock<Vec<(Vec<u8>, u16, u16)>> = LazyLock::new(|| {
    let udp = |source: &str, destination: &str, vlan| {
        let packet = UdpPacket {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: source.parse().expect("an address with a port"),
            destination: destination.parse().expect("an address with a port"),
            payload: b"0123456789abcdef",
            vlan,
        };
        let mut frame = vec![0; packet.len()];
        packet.write(&mut frame).expect("a buffer of the packet's length");
        frame
    };
    let four = udp("10.0.0.1:5000", "10.0.0.2:7", None);
    let six = udp("[fd00::1]:5000", "[fd00::2]:7", None);
    let (four_head, six_head) = (&four[..14], &six[..14]);
    let request = arp::Packet {
        operation: arp::REQUEST,
        sender_mac: [2, 0, 0, 0, 0, 1],
        sender: [10, 0, 0, 1].into(),
        target_mac: [0; 6],
        target: [10, 0, 0, 2].into(),
    };
    let arp = [&four[..12], &[8, 6], &request.to_bytes()].concat();
    let ipv4 = |protocol, payload: &[u8]| {
        let total = u8::try_from(20 + payload.len()).expect("a short packet");
        let fixed = [0x45, 0, 0, total, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        [four_head, &fixed, payload].concat()
    };
    let ipv6 = |next_header, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("a short packet");
        let fixed = [0x60, 0, 0, 0, 0, length, next_header, 255];
        [six_head, &fixed, &six[22..54], payload].concat()
    };
    let target = &six[38..54];
    let source_option = [1, 1, 2, 0, 0, 0, 0, 1];
    let question = [&[135, 0, 0, 0, 0, 0, 0, 0][..], target, &source_option].concat();
    let chain = [60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 5, 2, 0, 0, 1, 0, 17, 0, 4, 0, 0, 0, 0, 0];
    vec![
        (ipv4(1, &[&[3, 3, 0, 0, 0, 0, 0, 0], &four[14..]].concat()), 14, 34),
        (ipv6(58, &[&[1, 4, 0, 0, 0, 0, 0, 0], &six[14..]].concat()), 14, 54),
        (ipv6(58, &question), 14, 54),
        (ipv6(0, &[&chain, &six[54..]].concat()), 14, 78),
        (udp("10.0.0.1:5000", "10.0.0.2:7", Some(5)), 18, 38),
        (arp, 14, 14),
        (four, 14, 34),
        (six, 14, 54),
    ]
});

/// `packet` with the differences of `changes`: no change leaves it valid, and the right ones make
/// any other packet of it. A first byte other than zero sets the length.
fn overlay(packet: &[u8], changes: &[u8]) -> Vec<u8> {
    let Some((len, changes)) = changes.split_first() else { return packet.to_vec() };
    let mut frame = packet.to_vec();
    if *len != 0 {
        frame.resize(usize::from(*len), 0);
    }
    for (byte, change) in frame.iter_mut().zip(changes) {
        *byte ^= *change;
    }
    frame
}

/// The parsers of each protocol, given the bytes as if their layer started here.
fn parse(bytes: &[u8]) {
    if let Ok(link) = ethernet::Header::parse(bytes)
        && let Ok(payload) = vlan::skip_tags(bytes, link.ether_type)
    {
        assert!(usize::from(payload.offset) <= bytes.len());
    }
    let _ = vlan::outer_tci(bytes);
    let _ = arp::Packet::parse(bytes).map(|packet| {
        assert_eq!(arp::Packet::parse(&packet.to_bytes()), Ok(packet));
    });
    if let Ok(header) = ipv4::Header::parse(bytes) {
        assert!(20 <= header.header_bytes && header.header_bytes <= header.total_bytes);
        assert!(usize::from(header.total_bytes) <= bytes.len());
        let _ = header.check_addresses();
    }
    if let Ok(header) = ipv6::Header::parse(bytes) {
        assert!(header.total_bytes() <= bytes.len());
        let _ = header.check_addresses();
        let _ = icmp::Solicitation::parse(&bytes[40..header.total_bytes()], &header);
    }
    if let Some((kind, chain)) = bytes.split_first()
        && let Ok(transport) = ipv6::walk(chain, *kind)
    {
        assert!(usize::from(transport.extension_bytes) <= chain.len());
        assert!(transport.extension_bytes <= ipv6::MAX_EXTENSION_BYTES);
    }
    if let Ok(header) = udp::Header::parse(bytes) {
        assert!(8 <= header.length && usize::from(header.length) <= bytes.len());
    }
    if let Ok(header) = tcp::Header::parse(bytes) {
        assert!(20 <= header.header_bytes && usize::from(header.header_bytes) <= bytes.len());
        assert!(header.options(bytes).count() <= 40);
    }
    assert!(tcp::Options::new(bytes).count() <= bytes.len());
    let _ = icmp::Header::parse(bytes);
    error_message(bytes);
    let _ = fuzz::flow(bytes);
}

/// What an ICMP error is said to be about, and where its headers are.
fn error_message(bytes: &[u8]) {
    if let Some(error) = icmp::ErrorMessage::parse(bytes) {
        assert_eq!(error.key.to_string().parse(), Ok(error.key));
        assert!(14 <= error.l3_offset && error.l3_offset < error.l4_offset);
        // Its own header, and eight bytes behind the smallest header that it can quote.
        assert!(usize::from(error.l4_offset) + 8 + 20 + 8 <= bytes.len());
        assert!(error.errno() > 0);
        let _ = error.is_hard();
        assert!(fuzz::flow(bytes).is_none());
    }
}

/// Offsets that need not belong to the packet: turned around rightly or left alone.
fn turn_around(received: &[u8], l3: u16, l4: u16, payload_len: Option<u16>) {
    if let Some(range) = reply::payload_range(received, l3, l4) {
        assert!(range.start <= range.end && range.end <= received.len());
        assert_eq!(range.start, usize::from(l4) + 8);
    }
    let mut frame = received.to_vec();
    match reply::turn_around(&mut frame, (l3, l4), payload_len) {
        Some(bytes) => {
            assert!(usize::from(bytes) <= frame.len());
            let range = reply::payload_range(&frame, l3, l4).expect("a reply is a UDP packet");
            assert_eq!(range.end, usize::from(bytes));
            assert_eq!(received.get(range.clone()), frame.get(range));
        }
        None => assert_eq!(frame, received, "a refused packet stays as it is"),
    }
}

/// The bytes with the checksums right of an ICMP or ICMPv6 message directly behind an untagged IP
/// header, and of that: chance finds one in 65,536 of those.
fn with_right_checksum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let Some((_, packet)) = frame.split_at_mut_checked(14) else {
        return frame;
    };
    if let Ok(header) = ipv4::Header::parse(packet) {
        let (head, message) = packet.split_at_mut(usize::from(header.header_bytes));
        head[10..12].fill(0);
        let sum = checksum::of(head);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        let message = &mut message[..usize::from(header.total_bytes - header.header_bytes)];
        correct(message, checksum::Sum::ZERO);
    } else if let Ok(header) = ipv6::Header::parse(packet) {
        let message = &mut packet[40..header.total_bytes()];
        let (from, to) = (header.source, header.destination);
        let pseudo = checksum::Sum::ZERO.pseudo_ipv6(from, to, ipv6::ICMPV6, header.payload_bytes);
        correct(message, pseudo);
    }
    frame
}

fn correct(message: &mut [u8], pseudo: checksum::Sum) {
    if let Some(place) = message.get_mut(2..4) {
        place.fill(0);
        let sum = pseudo.bytes(message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Answers to questions about any address, in a buffer with `room` behind the packet.
fn answer(received: &[u8], room: usize) {
    let mut whole = received.to_vec();
    whole.resize(received.len() + room, 0);
    let mut frame = whole.clone();
    match arp::answer(&mut frame, |_| true, OUR_MAC) {
        Some(bytes) => {
            assert!(bytes <= frame.len());
            assert_eq!(frame[6..12], OUR_MAC);
            let reply = arp::Packet::parse(&frame[bytes - 28..bytes]).expect("a reply is ARP");
            assert_eq!((reply.operation, reply.sender_mac), (arp::REPLY, OUR_MAC));
        }
        None => assert_eq!(frame, whole, "a refused packet stays as it is"),
    }
    let mut frame = whole.clone();
    match icmp::answer_solicitation(&mut frame, |_| true, OUR_MAC) {
        Some(bytes) => {
            assert!(bytes <= frame.len());
            let packet = &frame[bytes - 72..bytes];
            let header = ipv6::Header::parse(packet).expect("an answer is IPv6");
            let sum = checksum::Sum::ZERO
                .pseudo_ipv6(header.source, header.destination, ipv6::ICMPV6, 32)
                .bytes(&packet[40..]);
            assert_eq!((sum.fold(), packet[40]), (0xffff, icmp::NEIGHBOUR_ADVERTISEMENT));
        }
        None => assert_eq!(frame, whole, "a refused packet stays as it is"),
    }
}

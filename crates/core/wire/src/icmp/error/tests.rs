//! What `wire::icmp::ErrorMessage` promises, case by case.

use proptest::prelude::*;

use super::*;
use crate::samples::{self, IPV4_ENDS, IPV6_ENDS};
use crate::{NotOurs, Outcome, classify};

/// The ends of a packet that Bob, whom all samples go to, sent to a third host.
const SENT_IPV4: [&str; 2] = ["10.0.0.2:7", "192.0.2.9:5000"];
const SENT_IPV6: [&str; 2] = ["[fd00::2]:7", "[2001:db8::9]:5000"];

/// An error to Bob with right checksums; `word` is what the type leaves open.
fn error_ipv4(options: &[u8], [kind, code]: [u8; 2], word: [u8; 4], quote: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0], &word[..], quote].concat();
    let sum = Sum::ZERO.bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    samples::ipv4(ipv4::ICMP, options, &message)
}

fn error_ipv6([kind, code]: [u8; 2], word: [u8; 4], quote: &[u8]) -> Vec<u8> {
    let frame = samples::ipv6(ipv6::ICMPV6, &[&[kind, code, 0, 0], &word[..], quote].concat());
    with_sum_ipv6(frame)
}

/// The same with the ICMPv6 checksum, directly behind the IPv6 header, made right.
fn with_sum_ipv6(mut frame: Vec<u8>) -> Vec<u8> {
    frame[56..58].fill(0);
    let length = (frame.len() - 54) as u16;
    let (source, destination) = (array(&frame, 22), array(&frame, 38));
    let sum = Sum::ZERO
        .pseudo_ipv6(
            source.expect("a whole header"),
            destination.expect("a whole header"),
            ipv6::ICMPV6,
            length,
        )
        .bytes(&frame[54..]);
    frame[56..58].copy_from_slice(&sum.checksum().to_be_bytes());
    frame
}

fn sent(is_tcp: bool, ends: [&str; 2]) -> Vec<u8> {
    let packet =
        if is_tcp { samples::tcp(ends, None, b"x") } else { samples::udp(ends, None, b"x") };
    packet[14..].to_vec()
}

fn parsed(frame: &[u8]) -> ErrorMessage {
    ErrorMessage::parse(frame).unwrap_or_else(|| panic!("{frame:02x?}"))
}

#[test]
fn an_error_is_about_the_flow_as_the_peers_packets_have_it() {
    for (is_tcp, sequence) in [(true, 0x0102_0304), (false, 0)] {
        for (ends, l4) in [(SENT_IPV4, 34), (SENT_IPV6, 54)] {
            let quote = sent(is_tcp, ends);
            let (frame, whole) = if l4 == 34 {
                // RFC 792 promises the header and eight bytes; its total length says more.
                (error_ipv4(&[], [3, 3], [0; 4], &quote[..28]), 28)
            } else {
                (error_ipv6([1, 4], [0; 4], &quote[..48]), 48)
            };
            assert!(whole < quote.len());
            assert_eq!(classify(&frame), Outcome::NotOurs(NotOurs::IcmpError));
            let error = parsed(&frame);
            let protocol = if is_tcp { Protocol::Tcp } else { Protocol::Udp };
            let of_the_peer = FlowKey::new(protocol, samples::end(ends[1]), samples::end(ends[0]));
            assert_eq!(Some(error.key), of_the_peer);
            assert_eq!((error.sequence, error.l3_offset, error.l4_offset), (sequence, 14, l4));
            assert_eq!(error.datagram_bytes, if is_tcp { 0 } else { 9 }, "of one byte");
        }
    }
}

#[test]
fn tags_options_and_extension_headers_are_stepped_over() {
    let quote = sent(true, SENT_IPV4);
    let mut tagged = error_ipv4(&[1; 8], [11, 0], [0; 4], &quote);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let error = parsed(&tagged);
    assert_eq!((error.l3_offset, error.l4_offset), (18, 46));
    assert_eq!(error.kind, ErrorKind::TimeExceeded);
    // Options in the quoted header: it is two words longer.
    let mut longer = quote.clone();
    longer[0] = 0x47;
    longer.splice(20..20, [1; 8]);
    assert_eq!(parsed(&error_ipv4(&[], [3, 1], [0; 4], &longer)).key, error.key);
    // Behind a destination options header, outside; behind another one, inside.
    let mut chained = sent(false, SENT_IPV6);
    chained[6] = 60;
    chained.splice(40..40, [17, 0, 1, 4, 0, 0, 0, 0]);
    let plain = parsed(&error_ipv6([3, 0], [0; 4], &sent(false, SENT_IPV6)));
    assert_eq!(parsed(&error_ipv6([3, 0], [0; 4], &chained)).key, plain.key);
    let mut frame = error_ipv6([3, 0], [0; 4], &sent(false, SENT_IPV6));
    frame[20] = 60;
    frame[19] += 8;
    frame.splice(54..54, [ipv6::ICMPV6, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(parsed(&frame), ErrorMessage { l4_offset: 62, ..plain });
}

#[test]
fn a_packet_that_was_too_big_comes_with_what_fits() {
    let quote = sent(true, SENT_IPV4);
    let error = parsed(&error_ipv4(&[], [3, 4], [0, 0, 5, 0x78], &quote));
    assert_eq!(error.kind, ErrorKind::TooBig { mtu: 1400 });
    let error = parsed(&error_ipv6([2, 0], [0, 1, 5, 0], &sent(true, SENT_IPV6)));
    assert_eq!(error.kind, ErrorKind::TooBig { mtu: 0x1_0500 });
}

#[test]
fn each_error_means_to_a_socket_what_linux_says_it_does() {
    use errno::*;
    let ipv4: &[([u8; 2], i32, bool)] = &[
        ([3, 0], ENETUNREACH, false),
        ([3, 1], EHOSTUNREACH, false),
        ([3, 2], ENOPROTOOPT, true),
        ([3, 3], ECONNREFUSED, true),
        ([3, 4], EMSGSIZE, false),
        ([3, 5], EOPNOTSUPP, false),
        ([3, 6], ENETUNREACH, true),
        ([3, 7], EHOSTDOWN, true),
        ([3, 8], ENONET, true),
        ([3, 9], ENETUNREACH, true),
        ([3, 10], EHOSTUNREACH, true),
        ([3, 11], ENETUNREACH, false),
        ([3, 12], EHOSTUNREACH, false),
        ([3, 13], EHOSTUNREACH, true),
        ([3, 14], EHOSTUNREACH, true),
        ([3, 15], EHOSTUNREACH, true),
        ([11, 0], EHOSTUNREACH, false),
        ([12, 0], EPROTO, true),
    ];
    for &(kind, errno, is_hard) in ipv4 {
        let error = parsed(&error_ipv4(&[], kind, [0; 4], &sent(true, SENT_IPV4)));
        assert_eq!((error.errno(), error.is_hard()), (errno, is_hard), "{kind:?}");
    }
    let ipv6: &[([u8; 2], i32, bool)] = &[
        ([1, 0], ENETUNREACH, false),
        ([1, 1], EACCES, true),
        ([1, 2], EHOSTUNREACH, false),
        ([1, 3], EHOSTUNREACH, false),
        ([1, 4], ECONNREFUSED, true),
        ([1, 5], EACCES, true),
        ([1, 6], EACCES, true),
        ([1, 7], EPROTO, true),
        ([2, 0], EMSGSIZE, false),
        ([3, 0], EHOSTUNREACH, false),
        ([4, 1], EPROTO, true),
    ];
    for &(kind, errno, is_hard) in ipv6 {
        let error = parsed(&error_ipv6(kind, [0; 4], &sent(true, SENT_IPV6)));
        assert_eq!((error.errno(), error.is_hard()), (errno, is_hard), "ICMPv6 {kind:?}");
    }
}

#[test]
fn messages_that_are_no_error_about_a_flow_are_none() {
    let quote = sent(true, SENT_IPV4);
    let with = |change: fn(&mut Vec<u8>)| {
        let mut quote = quote.clone();
        change(&mut quote);
        error_ipv4(&[], [3, 3], [0; 4], &quote)
    };
    let good = error_ipv4(&[], [3, 3], [0; 4], &quote);
    assert!(ErrorMessage::parse(&good).is_some());
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        // Of the IPv4 header, the checksum is made right again.
        frame[24..26].fill(0);
        let sum = crate::checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    for (what, frame) in [
        ("source quench", error_ipv4(&[], [4, 0], [0; 4], &quote)),
        ("redirect", error_ipv4(&[], [5, 0], [0; 4], &quote)),
        ("an echo request", error_ipv4(&[], [8, 0], [0; 4], &quote)),
        ("a code that nobody knows", error_ipv4(&[], [3, 16], [0; 4], &quote)),
        ("a quote without a sequence number", error_ipv4(&[], [3, 3], [0; 4], &quote[..27])),
        ("a quote cut within its header", error_ipv4(&[], [3, 3], [0; 4], &quote[..19])),
        ("no quote", error_ipv4(&[], [3, 3], [0; 4], &[])),
        ("a quote of a later fragment", with(|quote| quote[7] = 1)),
        ("a quote of another protocol", with(|quote| quote[9] = 47)),
        ("a quote of another version", with(|quote| quote[0] = 0x65)),
        ("a quote with a short header", with(|quote| quote[0] = 0x44)),
        ("a quote of what another host sent", with(|quote| quote[15] = 3)),
        ("a quote of what went to many", with(|quote| quote[16] = 224)),
        ("a fragment", changed(20, &[0x20, 0])),
        ("another protocol", changed(23, &[17])),
        ("from many", changed(26, &[224])),
        ("to many on the link", changed(0, &[1])),
        ("UDP", samples::udp(IPV4_ENDS, None, &quote)),
    ] {
        assert_eq!(ErrorMessage::parse(&frame), None, "{what}");
    }
    let quote = sent(false, SENT_IPV6);
    let with = |change: fn(&mut Vec<u8>)| {
        let mut quote = quote.clone();
        change(&mut quote);
        error_ipv6([1, 4], [0; 4], &quote)
    };
    for (what, frame) in [
        ("an echo request", error_ipv6([128, 0], [0; 4], &quote)),
        ("type zero", error_ipv6([0, 0], [0; 4], &quote)),
        ("a type to come", error_ipv6([5, 0], [0; 4], &quote)),
        ("a quote without ports", error_ipv6([1, 4], [0; 4], &quote[..47])),
        ("a quote of another protocol", with(|quote| quote[6] = 47)),
        ("a quote of another version", with(|quote| quote[0] = 0x45)),
        ("a quote of what another host sent", with(|quote| quote[23] = 3)),
        ("a quote of what went to many", with(|quote| quote[24] = 0xff)),
        ("UDP", samples::udp(IPV6_ENDS, None, &quote)),
    ] {
        assert_eq!(ErrorMessage::parse(&frame), None, "ICMPv6: {what}");
    }
}

#[test]
fn a_bit_that_was_turned_over_anywhere_in_the_message_is_noticed() {
    // Of the IPv6 header, the checksum covers the addresses; of both, nothing covers the link's.
    let ipv4 = error_ipv4(&[], [3, 3], [0; 4], &sent(true, SENT_IPV4));
    let ipv6 = error_ipv6([1, 4], [0; 4], &sent(true, SENT_IPV6));
    for (frame, covered) in [(ipv4, 14), (ipv6, 22)] {
        for bit in covered * 8..frame.len() * 8 {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ErrorMessage::parse(&frame), None, "bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_read_agrees_with_the_packet_that_was_sent(
        key in samples::any_flow(),
        is_cut in any::<bool>(),
        code in 0..=6_u8,
        payload in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        // `key` is what was sent: its ends have to be hosts.
        let (source, destination) = (key.source(), key.destination());
        let is_host = |end: std::net::SocketAddr| match end.ip() {
            std::net::IpAddr::V4(at) => ipv4::is_host(at.octets()),
            std::net::IpAddr::V6(at) => ipv6::is_host(at.octets()),
        };
        prop_assume!(is_host(source) && is_host(destination));
        let ends = [source.to_string(), destination.to_string()];
        let ends = [ends[0].as_str(), ends[1].as_str()];
        let packet = match key.protocol() {
            Protocol::Tcp => samples::tcp(ends, None, &payload),
            Protocol::Udp => samples::udp(ends, None, &payload),
        };
        let quote = &packet[14..];
        let frame = if key.is_ipv6() {
            let quote = if is_cut { &quote[..48] } else { quote };
            let mut frame = error_ipv6([1, code], [0; 4], quote);
            frame[38..54].copy_from_slice(&quote[8..24]);
            with_sum_ipv6(frame)
        } else {
            let quote = if is_cut { &quote[..28] } else { quote };
            let code = if code == 4 { 5 } else { code };
            let mut frame = error_ipv4(&[], [3, code], [0; 4], quote);
            frame[30..34].copy_from_slice(&quote[12..16]);
            frame[24..26].fill(0);
            let sum = crate::checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            frame
        };
        let error = parsed(&frame);
        prop_assert_eq!(error.key, key.reversed());
        let is_unreachable = matches!(error.kind, ErrorKind::Unreachable { .. });
        prop_assert!(is_unreachable);
    }

    #[test]
    fn changed_bytes_and_lengths_never_lead_outside_the_frame(
        is_ipv6 in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in any::<prop::sample::Index>(),
    ) {
        let mut frame = if is_ipv6 {
            error_ipv6([1, 4], [0; 4], &sent(true, SENT_IPV6))
        } else {
            error_ipv4(&[], [3, 3], [0; 4], &sent(true, SENT_IPV4))
        };
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let frame = &frame[..len.index(frame.len() + 1)];
        if let Some(error) = ErrorMessage::parse(frame) {
            prop_assert!(14 <= error.l3_offset && error.l3_offset < error.l4_offset);
            prop_assert!(usize::from(error.l4_offset) + 36 <= frame.len());
            prop_assert_eq!(classify(frame), Outcome::NotOurs(NotOurs::IcmpError));
        }
    }
}

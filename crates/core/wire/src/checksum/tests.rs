//! What `wire::checksum` promises, case by case.

use super::*;
use crate::samples::{self, IPV4_ENDS, IPV6_ENDS};
use proptest::prelude::*;
use std::net::IpAddr;

/// RFC 1071 section 1, word by word.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn example_of_rfc_1071_sums_to_ddf2() {
    assert_eq!(Sum::ZERO.bytes(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]).fold(), 0xddf2);
}

#[test]
fn example_of_rfc_1624_keeps_the_checksum_that_equation_2_gets_wrong() {
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn largest_packet_of_ones_does_not_overflow() {
    assert_eq!(Sum::ZERO.bytes(&[0xff; 65_535]).fold(), naive(&[0xff; 65_535]));
}

#[test]
fn udp_checksum_is_never_the_one_that_means_none() {
    let sum = Sum::ZERO.word(0xffff);
    assert_eq!((sum.checksum(), sum.udp_checksum()), (0, 0xffff));
    assert_eq!(Sum::ZERO.word(1).udp_checksum(), 0xfffe);
}

#[test]
fn missing_udp_checksum_is_right_over_ipv4_and_wrong_over_ipv6() {
    for (ends, at, is_right) in [(IPV4_ENDS, 40, true), (IPV6_ENDS, 60, false)] {
        let mut frame = samples::udp(ends, None, b"payload");
        let flow = samples::flow(&frame);
        assert!(verify(&frame, &flow));
        frame[at..at + 2].fill(0);
        assert_eq!(verify(&frame, &flow), is_right, "{}", flow.key);
    }
}

#[test]
fn every_changed_byte_of_header_or_segment_is_noticed() {
    for frame in [
        samples::udp(IPV4_ENDS, None, b"payload"),
        samples::udp(IPV6_ENDS, None, b"payload"),
        samples::tcp(IPV4_ENDS, Some(5), b"payload"),
        samples::tcp(IPV6_ENDS, Some(5), b"payload"),
    ] {
        let flow = samples::flow(&frame);
        assert!(verify(&frame, &flow));
        // The first eight bytes of an IPv6 header are under no checksum.
        let first = usize::from(flow.l3_offset) + if flow.key.is_ipv6() { 8 } else { 0 };
        for at in first..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 0x10;
            assert!(!verify(&changed, &flow), "byte {at} of {}", flow.key);
        }
    }
}

#[test]
fn an_open_checksum_is_the_sum_of_the_pseudo_header_under_a_right_ip_header() {
    for (frame, at) in [
        (samples::udp(IPV4_ENDS, None, b"payload"), 40),
        (samples::udp(IPV6_ENDS, None, b"payload"), 60),
        (samples::tcp(IPV4_ENDS, None, b"payload"), 50),
        (samples::tcp(IPV6_ENDS, None, b"payload"), 70),
    ] {
        let flow = samples::flow(&frame);
        assert!(!is_open(&frame, &flow), "complete: {}", flow.key);
        let bytes = flow.payload_offset - flow.l4_offset + flow.payload_len;
        let sum = Sum::ZERO.pseudo_of(&flow.key, bytes).fold();
        let mut open = frame.clone();
        open[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        assert!(is_open(&open, &flow) && !verify(&open, &flow), "{}", flow.key);
        let mut other = open.clone();
        other[at] ^= 1;
        assert!(!is_open(&other, &flow), "{}", flow.key);
        if !flow.key.is_ipv6() {
            open[14 + 8] ^= 1;
            assert!(!is_open(&open, &flow), "the time to live is under the header's checksum");
        }
    }
}

#[test]
fn padding_is_under_no_checksum() {
    let mut frame = samples::udp(IPV4_ENDS, None, b"odd");
    let flow = samples::flow(&frame);
    frame.extend([0x5a; 15]);
    assert!(verify(&frame, &flow));
}

#[test]
fn offsets_outside_the_frame_verify_nothing() {
    let frame = samples::udp(IPV4_ENDS, None, b"payload");
    let flow = samples::flow(&frame);
    for wrong in [
        Flow { l4_offset: u16::MAX, ..flow },
        Flow { l3_offset: u16::MAX, ..flow },
        Flow { l3_offset: 40, ..flow },
        Flow { payload_len: u16::MAX, ..flow },
        Flow { payload_len: 8, ..flow },
    ] {
        assert!(!verify(&frame, &wrong) && !is_open(&frame, &wrong), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn fast_sum_agrees_with_the_definition_at_every_alignment(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000), skip in 0_usize..16,
    ) {
        let bytes = bytes.get(skip..).unwrap_or_default();
        prop_assert_eq!(Sum::ZERO.bytes(bytes).fold(), naive(bytes));
    }

    #[test]
    fn pieces_of_even_length_sum_like_the_whole(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0_usize..100,
    ) {
        let (one, other) = bytes.split_at((cut * 2).min(bytes.len() / 2 * 2));
        prop_assert_eq!(Sum::ZERO.bytes(one).bytes(other).fold(), naive(&bytes));
    }

    #[test]
    fn update_agrees_with_a_new_sum(
        mut bytes in proptest::collection::vec(any::<u8>(), 20..60), word in 0_usize..8,
        new in any::<[u8; 4]>(),
    ) {
        // A header is never all zero, which is the one case where two zeros would differ.
        bytes[0] = 0x45;
        bytes[18..20].fill(0);
        let before = of(&bytes);
        let at = 2 + word * 2;
        let old = array::<4>(&bytes, at).expect("within 20 bytes");
        let new = if at == 16 { [new[0], new[1], 0, 0] } else { new };
        bytes[at..at + 4].copy_from_slice(&new);
        prop_assert_eq!(update_pair(before, old, new), of(&bytes));
    }

    #[test]
    fn pseudo_headers_agree_with_their_layout(
        four in any::<([u8; 4], [u8; 4])>(), six in any::<([u8; 16], [u8; 16])>(), length: u16,
    ) {
        let [high, low] = length.to_be_bytes();
        let layout = [&four.0[..], &four.1, &[0, 17, high, low]].concat();
        prop_assert_eq!(Sum::ZERO.pseudo_ipv4(four.0, four.1, 17, length).fold(), naive(&layout));
        let layout = [&six.0[..], &six.1, &[0, 0, high, low, 0, 0, 0, 58]].concat();
        prop_assert_eq!(Sum::ZERO.pseudo_ipv6(six.0, six.1, 58, length).fold(), naive(&layout));
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let number = protocol.number();
            let of = |source: IpAddr, destination: IpAddr| {
                let ends = ((source, 7).into(), (destination, 9).into());
                let key = FlowKey::new(protocol, ends.0, ends.1).expect("one version");
                Sum::ZERO.pseudo_of(&key, length).fold()
            };
            let sum = Sum::ZERO.pseudo_ipv4(four.0, four.1, number, length);
            prop_assert_eq!(of(four.0.into(), four.1.into()), sum.fold());
            let sum = Sum::ZERO.pseudo_ipv6(six.0, six.1, number, length);
            prop_assert_eq!(of(six.0.into(), six.1.into()), sum.fold());
        }
    }
}

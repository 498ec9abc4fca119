//! What `wire::reply` promises, case by case.

use super::*;
use crate::Flow;
use crate::samples::{self, ALICE_MAC, BOB_MAC, IPV4_ENDS, IPV6_ENDS};
use proptest::prelude::*;

fn turn(frame: &mut [u8], payload_len: Option<u16>) -> Option<u16> {
    let flow = samples::flow(frame);
    turn_around(frame, (flow.l3_offset, flow.l4_offset), payload_len)
}

/// Packets with everything that a reply keeps.
fn packets() -> Vec<Vec<u8>> {
    let mut with_extension = samples::udp(IPV6_ENDS, None, b"payload");
    with_extension[18..20].copy_from_slice(&(15_u16 + 8).to_be_bytes());
    with_extension[20] = 60;
    with_extension.splice(54..54, [17, 0, 1, 4, 0, 0, 0, 0]);
    let mut twice_tagged = samples::udp(IPV4_ENDS, Some(0x6005), b"payload");
    twice_tagged.splice(12..12, [0x88, 0xa8, 0, 9]);
    vec![
        samples::udp(IPV4_ENDS, None, b"payload"),
        samples::udp(IPV6_ENDS, Some(5), b"payload"),
        samples::ipv4(ipv4::UDP, &[1, 1, 1, 0], &samples::datagram(b"payload")),
        with_extension,
        twice_tagged,
    ]
}

#[test]
fn reply_goes_back_with_right_checksums_and_everything_else_kept() {
    for mut frame in packets() {
        let before = samples::flow(&frame);
        let original = frame.clone();
        assert_eq!(turn(&mut frame, None).map(usize::from), Some(frame.len()));
        let after = samples::flow(&frame);
        assert_eq!(after, Flow { key: before.key.reversed(), ..before });
        assert!(checksum::verify(&frame, &after));
        assert_eq!(frame[..12], [&ALICE_MAC[..], &BOB_MAC].concat());
        assert_eq!(
            frame[12..usize::from(before.l3_offset)],
            original[12..usize::from(before.l3_offset)]
        );
        assert!(frame.ends_with(b"payload"));

        assert_eq!(turn(&mut frame, None).map(usize::from), Some(frame.len()));
        assert_eq!(samples::flow(&frame), before);
        assert!(checksum::verify(&frame, &before));
        assert_eq!(frame[..12], original[..12]);
    }
}

#[test]
fn payload_is_cut_as_asked_and_never_grows() {
    for frame in packets() {
        let l4_end = frame.len() - 7;
        for len in 0..=7_u16 {
            let mut frame = frame.clone();
            let bytes = turn(&mut frame, Some(len)).expect("shorter than received");
            assert_eq!(usize::from(bytes), l4_end + usize::from(len));
            let reply = &frame[..usize::from(bytes)];
            let flow = samples::flow(reply);
            assert_eq!(flow.payload_len, len);
            assert!(checksum::verify(reply, &flow));
        }
        let mut longer = frame.clone();
        assert_eq!(turn(&mut longer, Some(8)), None);
        assert_eq!(longer, frame);
    }
}

#[test]
fn partial_checksum_congestion_mark_and_spent_hop_limit_are_replaced() {
    let mut frame = samples::udp(IPV4_ENDS, None, b"x");
    frame[15] = 0xff;
    frame[22] = 1;
    frame[40..42].fill(0xab);
    assert!(turn(&mut frame, None).is_some());
    assert_eq!((frame[15], frame[22]), (0xfc, 64));
    assert!(checksum::verify(&frame, &samples::flow(&frame)));

    let mut frame = samples::udp(IPV6_ENDS, None, b"x");
    frame[14..16].copy_from_slice(&[0x6f, 0xff]);
    frame[21] = 1;
    assert!(turn(&mut frame, None).is_some());
    assert_eq!((&frame[14..16], frame[21]), (&[0x6f, 0xcf][..], 64));
    assert!(checksum::verify(&frame, &samples::flow(&frame)));
}

#[test]
fn padding_is_not_part_of_the_reply() {
    let mut frame = samples::udp(IPV4_ENDS, None, b"x");
    let bytes = frame.len();
    frame.resize(60, 0xaa);
    assert_eq!(turn(&mut frame, None).map(usize::from), Some(bytes));
}

#[test]
fn what_is_no_whole_udp_packet_at_these_offsets_stays_as_it_is() {
    let whole = samples::udp(IPV4_ENDS, None, b"payload");
    let with = |change: fn(&mut Vec<u8>)| {
        let mut frame = whole.clone();
        change(&mut frame);
        frame
    };
    for (what, mut frame, offsets) in [
        ("TCP", samples::tcp(IPV4_ENDS, None, b""), (14, 34)),
        ("transport offset too small", whole.clone(), (14, 33)),
        ("transport offset too large", whole.clone(), (14, u16::MAX)),
        ("offsets exchanged", whole.clone(), (34, 14)),
        ("network offset within the Ethernet header", whole.clone(), (13, 33)),
        ("network header within the Ethernet header", whole[4..].to_vec(), (10, 30)),
        ("network offset beyond the frame", whole.clone(), (u16::MAX, u16::MAX)),
        ("nothing", vec![], (14, 34)),
        ("a fragment", with(|f| f[20] = 0x20), (14, 34)),
        ("a group as destination", with(|f| f[30] = 224), (14, 34)),
        ("nobody as source", with(|f| f[26..30].fill(0)), (14, 34)),
        ("UDP length beyond the packet", with(|f| f[39] = 16), (14, 34)),
        ("cut off", with(|f| f.truncate(44)), (14, 34)),
    ] {
        let before = frame.clone();
        assert_eq!(turn_around(&mut frame, offsets, None), None, "{what}");
        assert_eq!(frame, before, "{what}");
    }
}

#[test]
fn signed_packet_is_read_and_not_turned_around() {
    let signature = [17, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let mut frame = samples::ipv6(51, &[&signature[..], &samples::datagram(b"x")].concat());
    assert_eq!(payload_range(&frame, 14, 78), Some(86..87));
    assert_eq!(turn_around(&mut frame, (14, 78), None), None);
}

#[test]
fn payload_is_found_without_padding_and_only_at_true_offsets() {
    for mut frame in packets() {
        let flow = samples::flow(&frame);
        frame.extend([0; 20]);
        let range = payload_range(&frame, flow.l3_offset, flow.l4_offset).expect("a UDP packet");
        assert_eq!(&frame[range], b"payload");
        assert_eq!(payload_range(&frame, flow.l3_offset, flow.l4_offset + 1), None);
    }
}

proptest! {
    #[test]
    fn any_bytes_at_any_offsets_are_turned_around_or_left_alone(
        mut frame in proptest::collection::vec(any::<u8>(), 0..120),
        ends in (0_u16..130, 0_u16..130), len in proptest::option::of(0_u16..100),
    ) {
        let before = frame.clone();
        match turn_around(&mut frame, ends, len) {
            Some(bytes) => prop_assert!(usize::from(bytes) <= frame.len()),
            None => prop_assert_eq!(frame, before),
        }
    }
}

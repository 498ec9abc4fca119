//! Answers compared with packets that were built from nothing.

use std::net::SocketAddr;

use base::ChecksumState;
use proptest::prelude::*;
use shm::{FramePool, PoolConfig};
use wire::build::UdpPacket;
use wire::{Outcome, classify};

use super::*;

const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn packet<'a>(payload: &'a [u8], is_ipv6: bool, vlan: Option<u16>, answers: bool) -> UdpPacket<'a> {
    let (client, server) = if is_ipv6 {
        ("[2001:db8::1]:40000", "[2001:db8::2]:53")
    } else {
        ("10.0.0.1:40000", "10.0.0.2:53")
    };
    let parse = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let (source, destination) = (parse(client), parse(server));
    if answers {
        UdpPacket {
            source_mac: HERE,
            destination_mac: THERE,
            source: destination,
            destination: source,
            payload,
            vlan,
        }
    } else {
        UdpPacket { source_mac: THERE, destination_mac: HERE, source, destination, payload, vlan }
    }
}

fn written(packet: &UdpPacket<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    bytes
}

/// A frame as the daemon delivers it: classified, and on a trusted link with a partial checksum.
fn received(pool: &mut FramePool, packet: &UdpPacket<'_>, padding: usize) -> Frame {
    let mut bytes = written(packet);
    let Outcome::Flow(flow) = classify(&bytes) else { panic!("it is a flow") };
    let checksum_at = usize::from(flow.l4_offset) + 6;
    bytes[checksum_at..checksum_at + 2].copy_from_slice(&[0x12, 0x34]);
    bytes.resize(bytes.len() + padding, 0);
    let mut frame = pool.take().expect("one is enough");
    assert!(frame.fill(&bytes));
    let meta = frame.meta_mut();
    (meta.l3_offset, meta.l4_offset) = (flow.l3_offset, flow.l4_offset);
    meta.checksum = ChecksumState::Partial;
    frame
}

fn pool() -> FramePool {
    FramePool::new(PoolConfig { frames: 1, chunk_bytes: 4096, numa_node: None })
        .expect("it fits anywhere")
}

proptest! {
    #[test]
    fn an_answer_is_the_packet_that_the_other_side_would_have_built(
        question in proptest::collection::vec(any::<u8>(), 0..1400),
        answer in proptest::collection::vec(any::<u8>(), 0..1400),
        is_ipv6 in any::<bool>(), vlan in proptest::option::of(0..0x1000_u16),
        padding in 0..60_usize,
    ) {
        let mut pool = pool();
        let question = packet(&question, is_ipv6, vlan, false);
        let mut frame = received(&mut pool, &question, padding);
        prop_assert_eq!(payload(&frame), Some(question.payload));
        prop_assert!(turn_around_with(&mut frame, &answer));
        prop_assert_eq!(frame.bytes(), written(&packet(&answer, is_ipv6, vlan, true)));
        pool.give(frame);

        let mut frame = received(&mut pool, &question, padding);
        prop_assert_eq!(echo(&mut frame), Verdict::Send);
        prop_assert_eq!(frame.bytes(), written(&packet(question.payload, is_ipv6, vlan, true)));
        pool.give(frame);
    }

    #[test]
    fn what_is_no_udp_packet_is_not_answered_and_harms_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        offsets in any::<(u8, u8)>(), answer in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut pool = pool();
        let mut frame = pool.take().expect("one is enough");
        prop_assert!(frame.fill(&bytes));
        let meta = frame.meta_mut();
        (meta.l3_offset, meta.l4_offset) = (offsets.0.into(), offsets.1.into());
        if turn_around_with(&mut frame, &answer) {
            prop_assert_eq!(payload(&frame), Some(&answer[..]));
        }
        pool.give(frame);
    }
}

#[test]
fn an_answer_that_has_no_room_is_refused() {
    let mut pool = pool();
    let mut frame = received(&mut pool, &packet(b"?", false, None, false), 0);
    let room = frame.room() - 42;
    assert!(!turn_around_with(&mut frame, &vec![0; room + 1]));
    assert!(!turn_around_with(&mut frame, &vec![0; 70_000]));
    assert!(turn_around_with(&mut frame, &vec![0; room]));
    pool.give(frame);
}

#[test]
fn a_packet_that_is_not_udp_is_done_with() {
    let mut pool = pool();
    let mut frame = pool.take().expect("one is enough");
    assert!(frame.fill(&[0; 60]));
    assert_eq!(payload(&frame), None);
    assert_eq!(echo(&mut frame), Verdict::Done);
    assert_eq!(frame.bytes(), [0; 60]);
    pool.give(frame);
}

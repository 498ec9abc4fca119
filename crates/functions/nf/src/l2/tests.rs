//! Tests of forwarding along links.

use base::{ChecksumState, TxChecksum};
use proptest::prelude::*;

use super::*;
use crate::samples::{Frames, udp};

const A: PortId = PortId(0);
const B: PortId = PortId(3);
const NEW: [u8; 6] = [2, 9, 9, 9, 9, 9];

fn plain(from: PortId, to: PortId) -> Link {
    Link { from, to, source: None, destination: None }
}

fn run(l2: &mut L2, port: PortId, packet: &[u8]) -> (Verdict, Vec<u8>) {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    batch[0].meta_mut().port = port;
    let mut verdicts = Verdicts::new();
    l2.process(&mut batch, &mut verdicts, Nanos::ZERO);
    let bytes = batch[0].bytes().to_vec();
    frames.give(batch);
    (verdicts[0], bytes)
}

#[test]
fn frames_cross_in_both_directions_unchanged() {
    let mut l2 = L2::new(&[plain(A, B), plain(B, A)]).expect("two directions");
    let packet = udp(["10.0.0.1:5", "10.0.0.2:7"], b"hello");
    assert_eq!(run(&mut l2, A, &packet), (Verdict::Out(B), packet.clone()));
    assert_eq!(run(&mut l2, B, &packet), (Verdict::Out(A), packet));
    assert_eq!(l2.counts().forwarded, 2);
}

#[test]
fn given_addresses_replace_those_of_the_frame_in_their_direction_only() {
    let there = Link { source: Some(NEW), destination: Some([3; 6]), ..plain(A, B) };
    let mut l2 = L2::new(&[there, plain(B, A)]).expect("two directions");
    let packet = udp(["10.0.0.1:5", "10.0.0.2:7"], b"hello");
    let (_, there) = run(&mut l2, A, &packet);
    assert_eq!(there[..12], [[3; 6], NEW].concat());
    assert_eq!(there[12..], packet[12..]);
    assert_eq!(run(&mut l2, B, &packet).1, packet);
}

#[test]
fn a_port_without_link_and_a_frame_without_header_are_counted() {
    let mut l2 = L2::new(&[plain(A, B)]).expect("one direction");
    assert_eq!(run(&mut l2, B, &[0; 60]).0, Verdict::Drop);
    assert_eq!(run(&mut l2, PortId(u16::MAX), &[0; 60]).0, Verdict::Drop);
    assert_eq!(run(&mut l2, A, &[0; 13]).0, Verdict::Drop);
    assert_eq!(run(&mut l2, A, &[0; 14]).0, Verdict::Out(B));
    assert_eq!(*l2.counts(), L2Counters { forwarded: 1, no_link: 2, truncated: 1 });
}

#[test]
fn links_that_make_no_sense_are_refused_with_a_sentence() {
    let twice = L2::new(&[plain(A, B), plain(A, PortId(1))]).map(|_| ());
    assert_eq!(twice, Err(L2Error::LinkedTwice(A)));
    let group = Link { source: Some([1, 0, 0x5e, 0, 0, 1]), ..plain(A, B) };
    let error = L2::new(&[group]).expect_err("a group address");
    assert!(error.to_string().starts_with("01:00:5e:00:00:01 is a group address"), "{error}");
}

#[test]
fn an_open_checksum_is_completed_on_the_way_out() {
    let mut frames = Frames::new();
    let mut packet = udp(["10.0.0.1:5", "10.0.0.2:7"], b"hello");
    let pseudo = wire::checksum::Sum::ZERO.pseudo_ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, 13);
    packet[40..42].copy_from_slice(&pseudo.fold().to_be_bytes());
    let mut batch = frames.batch(&[&packet]);
    batch[0].meta_mut().checksum = ChecksumState::Partial;
    let mut l2 = L2::new(&[plain(A, B)]).expect("one direction");
    l2.process(&mut batch, &mut Verdicts::new(), Nanos::ZERO);
    assert_eq!(batch[0].meta().tx_checksum, TxChecksum::Partial);
    frames.give(batch);
}

proptest! {
    #[test]
    fn whatever_a_frame_holds_is_forwarded_as_it_is(
        packet in prop::collection::vec(any::<u8>(), 0..200),
        is_partial in any::<bool>(),
    ) {
        let mut frames = Frames::new();
        let mut batch = frames.batch(&[&packet, &packet]);
        for frame in &mut batch {
            frame.meta_mut().checksum =
                if is_partial { ChecksumState::Partial } else { ChecksumState::Unknown };
        }
        let mut verdicts = Verdicts::new();
        verdicts[1] = Verdict::Drop;
        let mut l2 = L2::new(&[plain(A, B)]).expect("one direction");
        l2.process(&mut batch, &mut verdicts, Nanos::ZERO);
        prop_assert_eq!(verdicts[0], if packet.len() < 14 { Verdict::Drop } else { Verdict::Out(B) });
        prop_assert_eq!(verdicts[1], Verdict::Drop);
        prop_assert!(packet.starts_with(batch[0].bytes()));
        prop_assert_eq!(batch[1].bytes(), &packet[..]);
        frames.give(batch);
    }
}

//! What whoever captures sees of packets on their way in and out, and what they cost the way:
//! nothing.

use base::AppId;

use super::*;
use crate::capture::CaptureDirection::{In, Out};
use crate::{AttachmentId, CAPTURES_MAX, CaptureDirection, CaptureFilter, CaptureReader, capture};

/// A captured packet: way, time, bytes that it had, bytes that were kept.
type Seen = (CaptureDirection, Nanos, u32, Vec<u8>);

const ALL: CaptureFilter = CaptureFilter { host: None, port: None, app: None };

fn begin(bench: &mut Bench<Echo>, filter: CaptureFilter, snaplen: usize) -> CaptureReader {
    let (tap, reader) = capture(filter, snaplen);
    assert!(bench.dispatcher.begin_capture(1, tap).is_ok(), "there is none yet");
    reader
}

/// Everything that was captured, and how many packets found no room.
fn end(bench: &mut Bench<Echo>, mut reader: CaptureReader) -> (Vec<Seen>, u64) {
    let tap = bench.dispatcher.end_capture(1).expect("it was begun");
    let (rest, dropped) = tap.into_rest();
    let mut chunks: Vec<_> = std::iter::from_fn(|| reader.next_chunk()).collect();
    chunks.extend(rest);
    let packets = chunks.iter().flat_map(|chunk| chunk.packets());
    let seen = packets.map(|packet| {
        assert_eq!(packet.port, 0);
        (packet.direction, packet.time, packet.len, packet.bytes.to_vec())
    });
    (seen.collect(), dropped[0])
}

fn directions(seen: &[Seen]) -> Vec<CaptureDirection> {
    seen.iter().map(|(direction, ..)| *direction).collect()
}

#[test]
fn both_directions_are_seen_whole_and_in_the_order_in_which_they_went() {
    let mut bench = Bench::echo();
    let reader = begin(&mut bench, ALL, 65_535);
    let first = bench.now;
    let mut expected = Vec::new();
    for payload in ["one", "two, longer", ""] {
        let request = request(payload.as_bytes());
        let replies = bench.exchange(std::slice::from_ref(&request));
        expected.push((In, request));
        expected.extend(replies.into_iter().map(|reply| (Out, reply)));
    }
    let (seen, dropped) = end(&mut bench, reader);
    assert_eq!((seen.len(), dropped), (6, 0));
    assert!(seen.is_sorted_by_key(|(_, time, ..)| *time) && seen[0].1 > first);
    for ((direction, _, len, bytes), (expected_direction, packet)) in seen.iter().zip(&expected) {
        assert_eq!((direction, *len as usize, bytes), (expected_direction, packet.len(), packet));
    }
    bench.exchange(&[request(b"nobody looks any more")]);
    bench.assert_all_home();
}

#[test]
fn only_what_meets_all_conditions_is_taken() {
    let (mine, other) = ("10.0.0.1:5000", "10.0.0.3:5001");
    let host = |text: &str| Some(text.parse().expect("the test writes an address"));
    let foreign = AttachmentId { app: AppId(1), turn: 1 };
    for (filter, expected) in [
        (ALL, 4),
        (CaptureFilter { port: Some(7), ..ALL }, 4),
        (CaptureFilter { port: Some(5001), ..ALL }, 2),
        (CaptureFilter { port: Some(9), ..ALL }, 0),
        (CaptureFilter { host: host("10.0.0.2"), ..ALL }, 4),
        (CaptureFilter { host: host("10.0.0.3"), ..ALL }, 2),
        (CaptureFilter { host: host("10.0.0.3"), port: Some(5000), ..ALL }, 0),
        (CaptureFilter { host: host("fd00::1"), ..ALL }, 0),
        (CaptureFilter { app: Some(AttachmentId::OWN), ..ALL }, 4),
        (CaptureFilter { app: Some(foreign), ..ALL }, 0),
    ] {
        let mut bench = Bench::echo();
        let reader = begin(&mut bench, filter, 65_535);
        let packets = [mine, other].map(|source| udp(source, "10.0.0.2:7", b"x", None));
        assert_eq!(bench.exchange(&packets).len(), 2);
        let elsewhere = udp(mine, "10.0.0.2:8", b"nobody listens there", None);
        assert_eq!(bench.exchange(&[elsewhere]).len(), 0);
        let (seen, _) = end(&mut bench, reader);
        assert_eq!(seen.len(), expected, "{filter:?}");
    }
}

#[test]
fn a_packet_is_cut_at_the_asked_length_and_keeps_its_own() {
    let mut bench = Bench::echo();
    let reader = begin(&mut bench, ALL, 60);
    let packet = request(&[7; 500]);
    bench.exchange(std::slice::from_ref(&packet));
    let (seen, _) = end(&mut bench, reader);
    assert_eq!(directions(&seen), [In, Out]);
    for (.., len, bytes) in &seen {
        assert_eq!((*len as usize, bytes.len()), (packet.len(), 60));
    }
    assert_eq!(seen[0].3, packet[..60]);
}

#[test]
fn a_reader_that_is_too_slow_costs_it_packets_that_are_counted_and_nobody_else_any() {
    let mut bench = Bench::echo();
    let mut reader = begin(&mut bench, ALL, 65_535);
    let packets = vec![request(&[1; 1400]); 60];
    let rounds = 150;
    for _ in 0..rounds {
        assert_eq!(bench.exchange(&packets).len(), 60, "every packet is answered");
    }
    // Where there is room again, it goes on.
    let chunk = reader.next_chunk().expect("all are full");
    let taken = chunk.packets().count();
    reader.give_back(chunk);
    bench.exchange(&packets[..1]);
    let (seen, dropped) = end(&mut bench, reader);
    assert!(dropped > 0, "16 MiB are less than this");
    assert_eq!(taken as u64 + seen.len() as u64 + dropped, 2 * (rounds * 60 + 1));
    assert_eq!(directions(&seen[seen.len() - 2..]), [In, Out]);
    bench.assert_all_home();
}

#[test]
fn what_waits_for_its_port_is_seen_once() {
    let mut bench = Bench::echo();
    let reader = begin(&mut bench, ALL, 64);
    // The wire holds 128 packets, and nobody takes any from it at first.
    let packets = vec![request(b"x"); 50];
    let mut replies = 0;
    for _ in 0..3 {
        bench.send(&packets);
        bench.turn();
    }
    for _ in 0..8 {
        replies += bench.replies().len();
        bench.turn();
    }
    assert_eq!(replies, 150);
    let (seen, _) = end(&mut bench, reader);
    let out = seen.iter().filter(|(direction, ..)| *direction == Out).count();
    assert_eq!((out, seen.len()), (150, 300));
}

#[test]
fn a_packet_in_several_frames_is_one() {
    let mut bench = Bench::echo();
    let reader = begin(&mut bench, ALL, 100);
    let Dispatcher { captures, listeners, pool, .. } = &mut bench.dispatcher;
    let head = udp("10.0.0.2:7", "10.0.0.1:5000", &[1; 30], None);
    let mut frames: Vec<Frame> = [&head[..], &[2; 20], &[3; 40], &head]
        .iter()
        .map(|bytes| {
            let mut frame = pool.take().expect("256 frames are enough here");
            assert!(frame.fill(bytes));
            frame
        })
        .collect();
    for index in 0..2 {
        let next = frames[index + 1].desc().offset;
        frames[index].meta_mut().next_fragment = next;
    }
    captures.sent(0, &frames, listeners, bench.now);
    frames.into_iter().for_each(|frame| pool.give(frame));
    let (seen, _) = end(&mut bench, reader);
    let whole = [&head[..], &[2; 20], &[3; 40]].concat();
    assert_eq!(whole.len(), 132);
    assert_eq!(seen[0].2, 132);
    assert_eq!(seen[0].3, whole[..100]);
    assert_eq!((seen.len(), &seen[1].3), (2, &head));
}

#[test]
fn there_are_no_more_captures_at_once_than_every_packet_can_be_looked_at_for() {
    let mut bench = Bench::echo();
    let mut readers = Vec::new();
    for id in 0..CAPTURES_MAX as u64 {
        let (tap, reader) = capture(ALL, 64);
        assert!(bench.dispatcher.begin_capture(id, tap).is_ok());
        readers.push(reader);
    }
    let tap = capture(ALL, 64).0;
    let Err(tap) = bench.dispatcher.begin_capture(9, tap) else { panic!("it is one too many") };
    bench.exchange(&[request(b"x")]);
    assert!(bench.dispatcher.end_capture(9).is_none());
    let freed = bench.dispatcher.end_capture(2).expect("it goes on");
    assert_eq!(freed.into_rest().0.map(|chunk| chunk.packets().count()), Some(2));
    assert!(bench.dispatcher.begin_capture(9, tap).is_ok());
}

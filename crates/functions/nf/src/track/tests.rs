//! Tests of connection tracking: real conversations, and what is none.

mod flood;
mod tcp;

use super::*;
use crate::samples::{correct_checksum, ipv4, ipv6, udp};

pub(super) const INSIDE: &str = "10.0.0.1:5000";
pub(super) const OUTSIDE: &str = "10.0.1.2:80";

pub(super) fn at(seconds: u64) -> Nanos {
    Nanos::from_secs(1000 + seconds)
}

pub(super) fn track() -> Track {
    Track::new(&TrackSettings { connections: 64, seed: 7, ..TrackSettings::default() })
}

pub(super) fn read(frame: &[u8]) -> Packet {
    Packet::read(frame).expect("a test writes packets that can be read")
}

/// What a packet is; one that begins a connection does so.
pub(super) fn pass(track: &mut Track, frame: &[u8], now: Nanos) -> Seen {
    let packet = read(frame);
    let seen = track.look(&packet, now);
    if seen == Seen::New {
        track.open(&packet, 0, now).expect("room");
    }
    seen
}

pub(super) fn is_reply(seen: Seen) -> Option<bool> {
    match seen {
        Seen::Known { is_reply, .. } => Some(is_reply),
        _ => None,
    }
}

#[test]
fn both_directions_of_udp_find_one_connection_and_nothing_else_does() {
    for [from, to] in [[INSIDE, OUTSIDE], [OUTSIDE, INSIDE], ["[fd00::1]:7", "[fd01::2]:53"]] {
        let mut track = track();
        assert_eq!(pass(&mut track, &udp([from, to], b"ask"), at(0)), Seen::New);
        assert_eq!(is_reply(pass(&mut track, &udp([to, from], b"answer"), at(1))), Some(true));
        assert_eq!(is_reply(pass(&mut track, &udp([from, to], b"more"), at(2))), Some(false));
        assert_eq!(track.len(), 1);
    }
    let mut track = track();
    pass(&mut track, &udp([INSIDE, OUTSIDE], b"ask"), at(0));
    for ends in [["10.0.0.1:5001", OUTSIDE], [INSIDE, "10.0.1.2:81"], ["10.0.0.2:5000", OUTSIDE]] {
        assert_eq!(track.look(&read(&udp(ends, b"")), at(0)), Seen::New, "{ends:?}");
    }
}

#[test]
fn udp_is_kept_for_thirty_seconds_and_for_two_minutes_once_it_goes_both_ways() {
    let mut track = track();
    let [ask, answer] = [udp([INSIDE, OUTSIDE], b"ask"), udp([OUTSIDE, INSIDE], b"answer")];
    pass(&mut track, &ask, at(0));
    assert!(is_reply(pass(&mut track, &answer, at(29))).is_some());
    assert_eq!(track.look(&read(&answer), at(59)), Seen::New, "it has run out");
    pass(&mut track, &ask, at(100));
    pass(&mut track, &answer, at(101));
    pass(&mut track, &ask, at(102));
    assert!(is_reply(pass(&mut track, &answer, at(221))).is_some());
    assert_eq!(track.look(&read(&answer), at(221 + 120)), Seen::New);
}

#[test]
fn connections_that_have_run_out_are_swept_and_their_places_used_again() {
    let mut track = track();
    for round in 0..10 {
        for n in 0..64 {
            let ends = [format!("10.0.0.{n}:{}", 1000 + round), OUTSIDE.to_owned()];
            let packet = udp([&ends[0], &ends[1]], b"");
            assert_eq!(pass(&mut track, &packet, at(100 * round)), Seen::New);
        }
        assert_eq!(track.len(), 64);
        for _ in 0..64 / 16 + 1 {
            track.sweep(at(100 * round + 30));
        }
        assert!(track.is_empty());
    }
}

fn echo(kind: u8, id: u16) -> Vec<u8> {
    let [i0, i1] = id.to_be_bytes();
    ipv4(1, &[], &[kind, 0, 0, 0, i0, i1, 0, 1, 9, 9])
}

/// The packet on its way back.
fn back(mut frame: Vec<u8>) -> Vec<u8> {
    let (from, to) = (frame[26..30].to_vec(), frame[30..34].to_vec());
    frame[26..30].copy_from_slice(&to);
    frame[30..34].copy_from_slice(&from);
    frame
}

#[test]
fn an_echo_is_answered_by_its_reply_and_a_reply_that_nobody_asked_for_is_invalid() {
    let mut track = track();
    let invalid = Seen::Invalid(Invalid::Icmp);
    assert_eq!(pass(&mut track, &back(echo(0, 7)), at(0)), invalid);
    assert_eq!(pass(&mut track, &echo(8, 7), at(0)), Seen::New);
    assert_eq!(is_reply(pass(&mut track, &back(echo(0, 7)), at(0))), Some(true));
    assert_eq!(pass(&mut track, &back(echo(0, 8)), at(0)), invalid, "another identifier");
    assert_eq!(pass(&mut track, &back(echo(8, 7)), at(0)), invalid, "a request is no reply");
    for kind in [4, 5, 9, 10, 200] {
        assert_eq!(pass(&mut track, &echo(kind, 7), at(0)), invalid, "type {kind}");
    }
    let ask = ipv6(58, &[128, 0, 0, 0, 0, 7, 0, 1]);
    assert_eq!(pass(&mut track, &ask, at(0)), Seen::New);
    for kind in [133, 134, 135, 136, 137, 143, 1] {
        let packet = ipv6(58, &[kind, 0, 0, 0, 0, 7, 0, 1]);
        assert_eq!(pass(&mut track, &packet, at(0)), invalid, "type {kind}");
    }
}

/// An ICMP error to 10.0.0.1 from a router, about this packet.
pub(super) fn error(kind: u8, about: &[u8]) -> Vec<u8> {
    let quoted = &about[14..about.len().min(14 + 28)];
    let mut frame = ipv4(1, &[], &[&[kind, 0, 0, 0, 0, 0, 0, 0], quoted].concat());
    frame[26..30].copy_from_slice(&[192, 0, 2, 1]);
    frame[30..34].copy_from_slice(&[10, 0, 0, 1]);
    correct_checksum(&mut frame);
    frame
}

#[test]
fn an_error_is_related_to_the_connection_that_it_quotes_and_to_no_other() {
    let mut track = track();
    let ask = udp([INSIDE, OUTSIDE], b"ask");
    let invalid = Seen::Invalid(Invalid::Icmp);
    assert_eq!(pass(&mut track, &error(3, &ask), at(0)), invalid, "nothing was sent");
    pass(&mut track, &ask, at(0));
    for kind in [3, 11, 12] {
        assert!(matches!(pass(&mut track, &error(kind, &ask), at(0)), Seen::Related { .. }));
    }
    assert_eq!(pass(&mut track, &error(5, &ask), at(0)), invalid, "a redirect");
    let other = udp(["10.0.0.1:5001", OUTSIDE], b"ask");
    assert_eq!(pass(&mut track, &error(3, &other), at(0)), invalid);
    // Quoted is what the other end sent: that error is not for us.
    let answer = udp([OUTSIDE, INSIDE], b"answer");
    assert_eq!(pass(&mut track, &error(3, &answer), at(0)), invalid);
    for cut in 14..error(3, &ask).len() {
        let mut short = error(3, &ask);
        short.truncate(cut);
        if let Ok(packet) = Packet::read(&short) {
            let _ = track.look(&packet, at(0));
        }
    }
}

/// A piece of a UDP packet from 10.0.0.1 to 10.0.1.2.
fn piece(id: u16, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = ipv4(17, &[], payload);
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    let word = offset | if more { 0x2000 } else { 0 };
    frame[20..22].copy_from_slice(&word.to_be_bytes());
    correct_checksum(&mut frame);
    frame
}

#[test]
fn later_fragments_are_of_the_connection_of_their_first_one() {
    let mut track = track();
    let ports = [0x13, 0x88, 0, 80, 0, 40, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let lost = Seen::Invalid(Invalid::Fragment);
    assert_eq!(pass(&mut track, &piece(9, 2, false, &[1; 8]), at(0)), lost, "no first one yet");
    assert_eq!(pass(&mut track, &piece(9, 0, true, &ports), at(0)), Seen::New);
    assert_eq!(is_reply(pass(&mut track, &piece(9, 2, false, &[1; 8]), at(0))), Some(false));
    assert_eq!(pass(&mut track, &piece(10, 2, false, &[1; 8]), at(0)), lost, "another packet");
    assert_eq!(is_reply(pass(&mut track, &piece(10, 0, true, &ports), at(0))), Some(false));
    assert_eq!(is_reply(pass(&mut track, &piece(10, 2, false, &[1; 8]), at(0))), Some(false));
    assert_eq!(pass(&mut track, &piece(10, 2, false, &[1; 8]), at(30)), lost, "too late");
    // A first one that nobody let pass.
    let packet = read(&piece(11, 0, true, &[0, 1, 0, 2, 0, 40, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(track.look(&packet, at(0)), Seen::New);
    assert_eq!(pass(&mut track, &piece(11, 2, false, &[1; 8]), at(0)), lost);
}

proptest::proptest! {
    #[test]
    fn whatever_comes_nothing_panics_and_the_count_is_that_of_the_entries(
        packets in proptest::collection::vec(
            (0..8usize, proptest::collection::vec((0..80usize, proptest::prelude::any::<u8>()), 0..4), 0..90usize, 0..200u64),
            1..200,
        ),
    ) {
        let settings = TrackSettings { connections: 8, picks_up: true, ..TrackSettings::default() };
        let mut track = Track::new(&settings);
        let kinds = [
            udp([INSIDE, OUTSIDE], b"ask"),
            udp([OUTSIDE, INSIDE], b"answer"),
            crate::samples::tcp([INSIDE, OUTSIDE], b"data"),
            crate::samples::tcp([OUTSIDE, INSIDE], b"data"),
            echo(8, 7),
            error(3, &udp([INSIDE, OUTSIDE], b"ask")),
            piece(9, 2, false, &[1; 8]),
            ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4, 0, 8, 0, 0]),
        ];
        let mut now = 0;
        for (kind, changes, cut, later) in packets {
            now += later;
            let mut frame = kinds[kind].clone();
            for (place, byte) in changes {
                if let Some(at) = frame.get_mut(place) {
                    *at = byte;
                }
            }
            frame.truncate(cut);
            if let Ok(packet) = Packet::read(&frame)
                && track.look(&packet, at(now)) == Seen::New
            {
                let _ = track.open(&packet, 0, at(now));
            }
            track.sweep(at(now));
            proptest::prop_assert!(track.len() <= 8);
        }
        // Long after all of them have run out nothing is left, in the counts of sources either.
        for _ in 0..4 {
            track.sweep(at(now + 500_000));
        }
        proptest::prop_assert!(track.is_empty());
        proptest::prop_assert!(track.sources.are_none());
    }
}

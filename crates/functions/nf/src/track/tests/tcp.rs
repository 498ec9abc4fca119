//! Conversations of TCP.

use proptest::prelude::*;
use wire::build::TcpSegment;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

use super::*;

/// A segment between the two ends; `is_reply`: from the outside.
fn segment(
    is_reply: bool,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    bytes: usize,
) -> Vec<u8> {
    let ends = [INSIDE, OUTSIDE].map(|end| end.parse().expect("an address"));
    let [source, destination] = if is_reply { [ends[1], ends[0]] } else { ends };
    let payload = vec![1; bytes];
    let segment = TcpSegment {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source,
        destination,
        sequence,
        acknowledgement,
        flags,
        window: 1000,
        payload: &payload,
        vlan: None,
    };
    let mut frame = vec![0; segment.len()];
    assert_eq!(segment.write(&mut frame), Some(frame.len()));
    frame
}

/// A connection in use: the inside has sent up to 101, the outside up to 501.
fn established() -> Track {
    let mut track = track();
    assert_eq!(pass(&mut track, &segment(false, 100, 0, SYN, 0), at(0)), Seen::New);
    assert_eq!(
        is_reply(pass(&mut track, &segment(true, 500, 101, SYN | ACK, 0), at(0))),
        Some(true)
    );
    assert_eq!(is_reply(pass(&mut track, &segment(false, 101, 501, ACK, 0), at(0))), Some(false));
    track
}

/// How long it is kept from now on, in seconds, to within one.
fn kept_for(track: &Track) -> u64 {
    let packet = read(&segment(false, 0, 0, ACK, 0));
    let is_there = |seconds: u64| track.table.find(&packet.tuple, at(seconds)).is_some();
    let (mut low, mut high) = (0, 500_000);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if is_there(middle) { low = middle } else { high = middle }
    }
    high
}

#[test]
fn a_connection_is_kept_as_long_as_linux_keeps_it_in_each_state() {
    let mut track = track();
    pass(&mut track, &segment(false, 100, 0, SYN, 0), at(0));
    assert_eq!(kept_for(&track), 120);
    pass(&mut track, &segment(true, 500, 101, SYN | ACK, 0), at(0));
    assert_eq!(kept_for(&track), 60);
    pass(&mut track, &segment(false, 101, 501, ACK, 0), at(0));
    assert_eq!(kept_for(&track), 432_000);
    pass(&mut track, &segment(false, 101, 501, FIN | ACK, 0), at(0));
    assert_eq!(kept_for(&track), 120);
    pass(&mut track, &segment(true, 501, 102, ACK, 0), at(0));
    assert_eq!(kept_for(&track), 60);
    pass(&mut track, &segment(true, 501, 102, FIN | ACK, 0), at(0));
    assert_eq!(kept_for(&track), 30);
    pass(&mut track, &segment(false, 102, 502, ACK, 0), at(0));
    assert_eq!(kept_for(&track), 120);
    let again = segment(false, 9000, 0, SYN, 0);
    assert_eq!(pass(&mut track, &again, at(1)), Seen::New, "the ports are used again");
    let mut track = established();
    pass(&mut track, &segment(true, 501, 101, RST, 0), at(0));
    assert_eq!(kept_for(&track), 10);
}

#[test]
fn what_does_not_begin_a_connection_is_invalid_unless_those_in_use_are_taken_up() {
    for flags in [ACK, ACK | PSH, FIN | ACK, RST, RST | ACK, SYN | ACK, 0, SYN | FIN, SYN | RST] {
        let packet = segment(true, 1, 1, flags, 0);
        let seen = track().look(&read(&packet), at(0));
        assert_eq!(seen, Seen::Invalid(Invalid::Tcp), "{flags:#x}");
    }
    let settings = TrackSettings { picks_up: true, connections: 4, ..TrackSettings::default() };
    let mut track = Track::new(&settings);
    assert_eq!(pass(&mut track, &segment(false, 101, 501, ACK, 10), at(0)), Seen::New);
    assert_eq!(is_reply(pass(&mut track, &segment(true, 501, 111, ACK, 900), at(0))), Some(true));
    let wild = segment(true, 501 + (1 << 30), 111, ACK, 1);
    assert_eq!(pass(&mut track, &wild, at(0)), Seen::Invalid(Invalid::Window));
}

#[test]
fn segments_outside_of_the_windows_are_invalid_and_end_nothing() {
    let outside = Seen::Invalid(Invalid::Window);
    for (what, packet) in [
        ("a reset blindly", segment(true, 501 + 1001, 101, RST, 0)),
        ("a reset far behind", segment(true, 501_u32.wrapping_sub(70_000), 101, RST, 0)),
        ("data beyond the window", segment(true, 1502, 101, ACK, 1)),
        ("an acknowledgement of what was not sent", segment(true, 501, 102, ACK, 1)),
        ("an acknowledgement far behind", segment(true, 501, 101_u32.wrapping_sub(70_000), ACK, 1)),
    ] {
        let mut track = established();
        assert_eq!(pass(&mut track, &packet, at(0)), outside, "{what}");
        assert_eq!(kept_for(&track), 432_000, "{what}");
        assert!(is_reply(pass(&mut track, &segment(true, 501, 101, ACK, 1000), at(0))).is_some());
    }
    // A keep-alive repeats the last byte; a challenge is a SYN; and a reset that is in the window
    // but is not the next in order makes the other end ask.
    let mut track = established();
    for packet in [
        segment(true, 500, 101, ACK, 0),
        segment(true, 500, 101, SYN | ACK, 0),
        segment(true, 502, 101, RST, 0),
    ] {
        assert_eq!(is_reply(pass(&mut track, &packet, at(0))), Some(true));
    }
    assert_eq!(kept_for(&track), 432_000);
}

#[test]
fn a_port_that_is_closed_says_so_and_only_who_knows_the_number_can() {
    let mut track = track();
    pass(&mut track, &segment(false, 100, 0, SYN, 0), at(0));
    let forged = segment(true, 0, 102, RST | ACK, 0);
    assert_eq!(pass(&mut track, &forged, at(0)), Seen::Invalid(Invalid::Window));
    assert_eq!(kept_for(&track), 120);
    assert_eq!(is_reply(pass(&mut track, &segment(true, 0, 101, RST | ACK, 0), at(0))), Some(true));
    assert_eq!(kept_for(&track), 10);
    assert_eq!(pass(&mut track, &segment(false, 300, 0, SYN, 0), at(1)), Seen::New);
}

#[test]
fn an_error_about_a_segment_that_was_never_sent_is_invalid() {
    let mut track = established();
    pass(&mut track, &segment(false, 101, 501, ACK, 100), at(0));
    let about = |sequence| error(3, &segment(false, sequence, 501, ACK, 10));
    assert!(matches!(pass(&mut track, &about(150), at(0)), Seen::Related { .. }));
    for sequence in [202, 1 << 30, 101_u32.wrapping_sub(80_000)] {
        assert_eq!(pass(&mut track, &about(sequence), at(0)), Seen::Invalid(Invalid::Icmp));
    }
}

proptest! {
    /// Two ends that send in turn as their windows let them, over a way that repeats, delays and
    /// loses what passes behind us.
    #[test]
    fn whatever_two_honest_ends_say_is_of_their_connection(
        starts in any::<[u32; 2]>(),
        steps in prop::collection::vec((any::<bool>(), 0..1000usize, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let mut track = track();
        let [a, b] = starts;
        prop_assert_eq!(pass(&mut track, &segment(false, a, 0, SYN, 0), at(0)), Seen::New);
        let answer = segment(true, b, a.wrapping_add(1), SYN | ACK, 0);
        prop_assert!(is_reply(pass(&mut track, &answer, at(0))).is_some());
        // What each has sent, and what each has got.
        let mut sent = [a.wrapping_add(1), b.wrapping_add(1)];
        let mut got = [b.wrapping_add(1), a.wrapping_add(1)];
        let first = segment(false, sent[0], got[0], ACK, 0);
        prop_assert!(is_reply(pass(&mut track, &first, at(0))).is_some());
        let mut before: Vec<(u32, Vec<u8>)> = Vec::new();
        for (is_second, bytes, is_lost, repeats) in steps {
            let (own, other) = (usize::from(is_second), usize::from(!is_second));
            let room = 1000 - sent[own].wrapping_sub(got[other]) as usize;
            let bytes = bytes.min(room);
            let packet = segment(is_second, sent[own], got[own], ACK | PSH, bytes);
            let seen = is_reply(pass(&mut track, &packet, at(0)));
            prop_assert_eq!(seen, Some(is_second));
            sent[own] = sent[own].wrapping_add(bytes as u32);
            if !is_lost {
                got[other] = sent[own];
            }
            if !is_second {
                before.push((sent[0], packet));
            }
            // One from before comes again. What is a whole window old nobody can use any more.
            let oldest = before.iter().find(|(end, _)| sent[0].wrapping_sub(*end) <= 1000);
            if let Some((_, old)) = oldest.filter(|_| repeats) {
                prop_assert!(is_reply(pass(&mut track, old, at(0))).is_some());
            }
        }
    }
}

#[test]
fn a_forged_syn_does_not_keep_the_answer_of_the_other_end_out() {
    let mut track = track();
    assert_eq!(pass(&mut track, &segment(false, 100, 0, SYN, 0), at(0)), Seen::New);
    pass(&mut track, &segment(true, 900_000, 0, SYN, 0), at(0));
    let answer = segment(true, 500, 101, SYN | ACK, 0);
    assert_eq!(is_reply(pass(&mut track, &answer, at(0))), Some(true));
    let ack = segment(false, 101, 501, ACK, 0);
    assert_eq!(is_reply(pass(&mut track, &ack, at(0))), Some(false));
    assert_eq!(kept_for(&track), 432_000);
    // It is no way to begin anew once the handshake is over.
    pass(&mut track, &segment(true, 900_000, 101, SYN | ACK, 0), at(0));
    let data = segment(true, 501, 101, ACK, 5);
    assert_eq!(is_reply(pass(&mut track, &data, at(0))), Some(true));
}

#[test]
fn one_that_is_over_does_not_permit_another_that_the_other_end_begins() {
    let mut track = established();
    let syn = segment(true, 9000, 0, SYN, 0);
    assert_eq!(is_reply(pass(&mut track, &syn, at(0))), Some(true), "to be challenged");
    pass(&mut track, &segment(false, 101, 501, RST | ACK, 0), at(0));
    assert_eq!(track.look(&read(&syn), at(1)), Seen::New, "rules decide");
}

//! A table that others fill.

use super::*;

/// Number `n` of a flood of first packets.
fn flood(n: u32) -> Vec<u8> {
    let [_, b, c, d] = n.to_be_bytes();
    udp([&format!("172.{}.{c}.{d}:{}", 16 + b % 16, 1000 + n % 60_000), OUTSIDE], b"")
}

#[test]
fn a_flood_of_first_packets_takes_the_place_of_its_own_and_not_of_connections_in_use() {
    let settings = TrackSettings { connections: 1024, seed: 9, ..TrackSettings::default() };
    let mut track = Track::new(&settings);
    let used: Vec<[String; 2]> =
        (0..256).map(|n| [format!("10.0.0.{n}:5000"), OUTSIDE.to_owned()]).collect();
    for [from, to] in &used {
        pass(&mut track, &udp([from, to], b"ask"), at(0));
        pass(&mut track, &udp([to, from], b"answer"), at(0));
        pass(&mut track, &udp([from, to], b"more"), at(0));
    }
    let mut refused = 0;
    for n in 0..100_000 {
        let packet = read(&flood(n));
        assert_eq!(track.look(&packet, at(1)), Seen::New, "{n}");
        refused += u32::from(track.open(&packet, 0, at(1)).is_err());
        assert!(track.len() <= 1024);
    }
    assert_eq!(track.len(), 1024);
    assert!(refused < 100, "of those that are drawn hardly ever all are in use: {refused}");
    for [from, to] in &used {
        assert_eq!(is_reply(pass(&mut track, &udp([to, from], b"still"), at(2))), Some(true));
    }
}

#[test]
fn a_full_table_of_connections_in_use_refuses_and_lets_them_be() {
    let mut track = track();
    let ends = |n: u32| [format!("10.0.0.{n}:5000"), OUTSIDE.to_owned()];
    for n in 0..64 {
        let [from, to] = ends(n);
        pass(&mut track, &udp([&from, &to], b"ask"), at(0));
        pass(&mut track, &udp([&to, &from], b"answer"), at(0));
        pass(&mut track, &udp([&from, &to], b"more"), at(0));
    }
    let packet = read(&flood(1));
    assert_eq!(track.look(&packet, at(1)), Seen::New);
    assert_eq!(track.open(&packet, 0, at(1)), Err(Refused::Full));
    let [from, to] = ends(63);
    assert_eq!(is_reply(pass(&mut track, &udp([&to, &from], b""), at(1))), Some(true));
    // Once they have run out there is room, without a sweep.
    assert!(track.open(&packet, 0, at(121)).is_ok());
}

#[test]
fn a_udp_port_that_answers_a_flood_does_not_fill_the_table_with_it() {
    let mut track = track();
    for n in 0..1000 {
        let [from, to] = [format!("172.16.0.{}:{}", n % 256, 1000 + n), OUTSIDE.to_owned()];
        assert_eq!(pass(&mut track, &udp([&from, &to], b"ask"), at(0)), Seen::New, "{n}");
        pass(&mut track, &udp([&to, &from], b"answer"), at(0));
    }
}

#[test]
fn a_source_has_so_many_unanswered_connections_and_others_are_not_touched_by_that() {
    let settings = TrackSettings { unanswered_each: 8, seed: 3, ..TrackSettings::default() };
    let mut track = Track::new(&settings);
    let ask = |port: u16| udp([&format!("10.0.0.1:{port}"), OUTSIDE], b"");
    for port in 0..8 {
        assert_eq!(pass(&mut track, &ask(1000 + port), at(0)), Seen::New);
    }
    let ninth = read(&ask(2000));
    assert_eq!(track.open(&ninth, 0, at(0)), Err(Refused::Source));
    assert_eq!(pass(&mut track, &udp(["10.0.0.2:1", OUTSIDE], b""), at(0)), Seen::New);
    // One that is answered does not count, nor one that has run out.
    pass(&mut track, &udp([OUTSIDE, "10.0.0.1:1000"], b"answer"), at(1));
    assert!(track.open(&ninth, 0, at(1)).is_ok());
    assert_eq!(track.open(&read(&ask(2001)), 0, at(1)), Err(Refused::Source));
    for _ in 0..2 {
        track.sweep(at(30));
    }
    assert!(track.open(&read(&ask(2001)), 0, at(30)).is_ok());
    // Of IPv6 a source is a network of 64 bits.
    for n in 0..8 {
        let from = format!("[fd00::{n:x}]:1");
        assert_eq!(pass(&mut track, &udp([&from, "[fd01::1]:1"], b""), at(40)), Seen::New);
    }
    let more = read(&udp(["[fd00::ffff]:1", "[fd01::1]:1"], b""));
    assert_eq!(track.open(&more, 0, at(40)), Err(Refused::Source));
    let other = read(&udp(["[fd00:0:0:1::1]:1", "[fd01::1]:1"], b""));
    assert!(track.open(&other, 0, at(40)).is_ok());
}

#[test]
fn a_connection_that_is_gone_is_not_mistaken_for_the_next_in_its_place() {
    let mut track = Track::new(&TrackSettings { connections: 1, ..TrackSettings::default() });
    let (one, two) = (read(&flood(1)), read(&flood(2)));
    let first = track.open(&one, 11, at(0)).expect("room");
    assert_eq!(track.mark(first), 11);
    track.close(first);
    let second = track.open(&two, 12, at(0)).expect("room");
    assert_ne!(first, second);
    assert_eq!((track.mark(first), track.mark(second)), (0, 12));
    track.close(first);
    assert_eq!(track.len(), 1);
}

#[test]
fn a_million_connections_fit_and_each_is_found_again_from_both_sides() {
    let settings = TrackSettings { connections: 1_000_000, seed: 5, ..TrackSettings::default() };
    let mut track = Track::new(&settings);
    let mut packet = read(&udp([INSIDE, OUTSIDE], b""));
    let mut set = |n: u32, is_reply: bool| {
        let inside = (0xffff << 32) | u128::from(0x0a00_0000 + n / 50_000);
        let port = (1000 + n % 50_000) as u16;
        let (outside, other) = ((0xffff << 32) | 0x0b00_0001, 80);
        let tuple = &mut packet.tuple;
        (tuple.source, tuple.source_port) = (inside, port);
        (tuple.destination, tuple.destination_port) = (outside, other);
        if is_reply {
            (tuple.source, tuple.source_port) = (outside, other);
            (tuple.destination, tuple.destination_port) = (inside, port);
        }
        packet.clone()
    };
    for n in 0..1_000_000 {
        let first = set(n, false);
        assert_eq!(track.look(&first, at(0)), Seen::New, "{n}");
        track.open(&first, n.into(), at(0)).expect("room");
        // Answered, so that one source may have as many.
        assert_eq!(is_reply(track.look(&set(n, true), at(0))), Some(true), "{n}");
    }
    assert_eq!(track.len(), 1_000_000);
    for n in (0..1_000_000).step_by(7) {
        match track.look(&set(n, n % 2 == 0), at(1)) {
            Seen::Known { id, is_reply } => {
                assert_eq!((track.mark(id), is_reply), (n.into(), n % 2 == 0));
            }
            other => panic!("{n}: {other:?}"),
        }
    }
}

#[test]
fn an_open_port_that_answers_a_flood_keeps_none_of_it_and_connections_in_use_stay() {
    let settings = TrackSettings { connections: 256, seed: 4, ..TrackSettings::default() };
    let mut track = Track::new(&settings);
    let outside: std::net::SocketAddr = OUTSIDE.parse().expect("an address");
    let mut say = |from: std::net::SocketAddr, is_reply: bool, numbers: [u32; 2], flags: u8| {
        let (source, destination) = if is_reply { (outside, from) } else { (from, outside) };
        let [sequence, acknowledgement] = numbers;
        let segment = wire::build::TcpSegment {
            source_mac: crate::samples::ALICE_MAC,
            destination_mac: crate::samples::OUR_MAC,
            source,
            destination,
            sequence,
            acknowledgement,
            flags,
            window: 1000,
            payload: &[],
            vlan: None,
        };
        let mut frame = vec![0; segment.len()];
        assert_eq!(segment.write(&mut frame), Some(frame.len()));
        pass(&mut track, &frame, at(0))
    };
    use wire::tcp::{ACK, SYN};
    let used: Vec<_> = (0..32).map(|n| ([10, 0, 0, n], 5000).into()).collect();
    for from in &used {
        assert_eq!(say(*from, false, [100, 0], SYN), Seen::New);
        assert_eq!(is_reply(say(*from, true, [500, 101], SYN | ACK)), Some(true));
        assert_eq!(is_reply(say(*from, false, [101, 501], ACK)), Some(false));
    }
    for n in 0..20_000_u32 {
        let [_, _, c, d] = n.to_be_bytes();
        let from = ([172, 16, c, d], 1000).into();
        assert_eq!(say(from, false, [100, 0], SYN), Seen::New, "there is room for {n}");
        assert_eq!(is_reply(say(from, true, [500, 101], SYN | ACK)), Some(true), "{n}");
    }
    for from in &used {
        assert_eq!(is_reply(say(*from, true, [501, 101], ACK)), Some(true), "{from}");
    }
}

//! What a subscriber, or strangers, can take from others: no more than a share.

use super::*;
use wire::tcp::{ACK, SYN};

/// A connection of TCP from inside that works both ways; its end outside.
fn works_together(nat: &mut Nat, from: &str, to: &str) -> Option<String> {
    let syn = out(nat, &segment([from, to], SYN, 100, 0))?;
    let one = ends(&syn)[0].clone();
    back(nat, &segment([to, &one], SYN | ACK, 500, 101))?;
    out(nat, &segment([from, to], ACK, 101, 501))?;
    back(nat, &segment([to, &one], ACK, 501, 101))?;
    Some(one)
}

#[test]
fn a_host_that_works_together_with_a_server_outside_has_its_connections_and_no_more() {
    let mut nat = Nat::new(&settings(|all| all.track.connections_each = 100));
    for n in 0..150 {
        let to = format!("198.51.100.1:{}", 1000 + n);
        assert_eq!(works_together(&mut nat, HOST, &to).is_some(), n < 100, "{n}");
    }
    assert_eq!((nat.connections(), nat.counts().share_full), (100, 50));
    assert!(works_together(&mut nat, "10.0.0.2:1", THERE).is_some(), "another has its own");
}

#[test]
fn hosts_that_fill_the_table_together_leave_each_other_one_its_share() {
    let mut nat = Nat::new(&settings(|all| all.track.connections_each = 600));
    // Three who want more than there is, and one who has a little.
    let quiet: Vec<_> = (0..50)
        .map(|n| format!("198.51.100.9:{}", 1000 + n))
        .map(|to| (to.clone(), works_together(&mut nat, "10.0.0.9:1", &to).expect("room")))
        .collect();
    for n in 0..600 {
        for host in ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"] {
            works_together(&mut nat, host, &format!("198.51.100.1:{}", 1000 + n));
        }
    }
    assert_eq!(nat.connections(), 1024);
    for n in 0..50 {
        let to = format!("198.51.100.1:{}", 5000 + n);
        assert!(works_together(&mut nat, "10.0.0.10:1", &to).is_some(), "a newcomer, {n}");
    }
    assert!(nat.track.given() >= 50);
    for (to, one) in quiet {
        let more = segment([&to, &one], ACK, 501, 101);
        assert!(back(&mut nat, &more).is_some(), "who has less than others loses nothing");
    }
}

#[test]
fn subscribers_that_have_all_blocks_in_use_leave_one_to_each_who_comes() {
    let mut nat = Nat::new(&settings(|all| {
        (all.track.connections, all.ports_each) = (1 << 17, 32_768);
        (all.track.connections_each, all.track.unanswered_each) = (1 << 16, 1 << 16);
    }));
    let mut frames = Frames::new();
    let mut pass = |nat: &mut Nat, is_out: bool, packet: &[u8]| {
        let mut batch = frames.batch(&[packet]);
        let mut verdicts = Verdicts::new();
        if is_out {
            verdicts[0] = Verdict::Out(OUTSIDE);
            nat.leave(&mut batch, &mut verdicts, Nanos::from_secs(1000));
        } else {
            batch[0].meta_mut().port = OUTSIDE;
            nat.process(&mut batch, &mut verdicts, Nanos::from_secs(1000));
        }
        let packet = batch[0].bytes().to_vec();
        frames.give(batch);
        (verdicts[0] != Verdict::Drop).then_some(packet)
    };
    for n in 0..32_700_u32 {
        for host in ["10.0.0.1", "10.0.0.2"] {
            let from = format!("{host}:{}", 1024 + n);
            let Some(sent) = pass(&mut nat, true, &udp([&from, THERE], b"")) else { continue };
            let one = ends(&sent)[0].clone();
            pass(&mut nat, false, &udp([THERE, &one], b""));
            pass(&mut nat, true, &udp([&from, THERE], b""));
        }
    }
    nat.mappings.check();
    assert!(nat.counts().pool_full > 0, "all blocks are in use: {:?}", nat.counts());
    for n in 10..40 {
        let from = format!("10.0.1.{n}:1024");
        assert!(outer(&mut nat, &from, THERE).starts_with("192.0.2.7:"), "{n}");
    }
    assert!(nat.mappings.given > 0);
}

#[test]
fn strangers_at_an_open_port_take_their_share_and_nothing_of_what_its_host_begins() {
    let mut nat = Nat::new(&settings(|all| {
        (all.filtering, all.track.connections_each) = (Filtering::Endpoint, 100);
    }));
    let server = outer(&mut nat, HOST, THERE);
    let known = outer(&mut nat, "10.0.0.2:7", THERE);
    assert!(back(&mut nat, &udp([THERE, &known], b"answer")).is_some());
    for n in 0..2000 {
        let liar = format!("203.0.{}.{}:9", n / 250, 1 + n % 250);
        // Two forged datagrams a source, to a port that answers.
        if back(&mut nat, &udp([&liar, &server], b"one")).is_some() {
            assert!(out(&mut nat, &udp([HOST, &liar], b"yes")).is_some());
            assert!(back(&mut nat, &udp([&liar, &server], b"two")).is_some());
        }
    }
    assert_eq!(nat.connections(), 102, "{:?}", nat.counts());
    assert_eq!(nat.counts().share_full, 1900);
    assert!(back(&mut nat, &udp([THERE, &known], b"still")).is_some());
    assert!(out(&mut nat, &udp([HOST, ELSE], b"its own")).is_some());
}

#[test]
fn a_packet_that_is_refused_takes_no_mapping_from_another() {
    let mut nat = Nat::new(&settings(|all| {
        (all.ports_each, all.track.unanswered_each) = (64, 64);
    }));
    let ends: Vec<_> =
        (0..64).map(|n| outer(&mut nat, &format!("10.0.0.1:{}", 2000 + n), THERE)).collect();
    assert_eq!(out(&mut nat, &udp(["10.0.0.1:9000", THERE], b"")), None);
    assert_eq!(nat.counts().source_full, 1);
    for (n, one) in ends.iter().enumerate() {
        assert!(back(&mut nat, &udp([THERE, one], b"answer")).is_some(), "{n}");
    }
}

#[test]
fn a_connection_that_begins_again_with_the_same_ends_keeps_its_end_outside() {
    let mut nat = nat();
    let one = works_together(&mut nat, HOST, THERE).expect("room");
    assert!(out(&mut nat, &segment([HOST, THERE], wire::tcp::RST | ACK, 101, 501)).is_some());
    assert_eq!(works_together(&mut nat, HOST, THERE), Some(one));
}

#[test]
fn a_host_whose_ports_are_all_taken_has_a_few_blocks_looked_at_for_each_packet() {
    let mut mappings = Mappings::new(&[OURS.to_bits()], 64_512, 1 << 17, 5);
    let all = 64_512_u32;
    for n in 0..all {
        let place = mappings.make(0x0a00_0001, n as u16, Class::Tcp).expect("a port");
        mappings.hold(place);
        mappings.note_answer(place);
    }
    mappings.looked = 0;
    assert!(mappings.make(0x0a00_0001, 64_900, Class::Tcp).is_err());
    assert!(mappings.looked <= 32, "{} of 1008 blocks", mappings.looked);
    // One that is free again is found, after as many packets as there are sixteenths.
    let place = mappings.find(0x0a00_0001, 777, Class::Tcp).expect("it is there");
    mappings.release(mappings.mark(place));
    let found = (0..63).find(|_| mappings.make(0x0a00_0001, 64_900, Class::Tcp).is_ok());
    assert!(found.is_some());
}

#[test]
fn fragments_of_two_hosts_with_the_same_number_leave_with_different_ones() {
    let mut nat = nat();
    let mut left = Vec::new();
    for host in ["10.0.0.1:5000", "10.0.0.2:5000"] {
        let mut first = udp([host, THERE], &[1; 40]);
        first[18..22].copy_from_slice(&[0x12, 0x34, 0x20, 0]);
        correct_checksum(&mut first);
        let mut later = first.clone();
        later[20..22].copy_from_slice(&[0, 6]);
        correct_checksum(&mut later);
        let first = out(&mut nat, &first).expect("it passes");
        let later = out(&mut nat, &later).expect("its first one has passed");
        assert_eq!(first[18..20], later[18..20]);
        for packet in [&first, &later] {
            assert_eq!(wire::checksum::of(&packet[14..34]), 0);
        }
        left.push([first[18], first[19]]);
    }
    assert_ne!(left[0], left[1]);
    // One that nobody may cut keeps what it has.
    let whole = out(&mut nat, &udp([HOST, THERE], b"")).expect("it passes");
    assert_eq!(whole[18..22], udp([HOST, THERE], b"")[18..22]);
}

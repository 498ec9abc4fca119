//! Tests of the NAT.

mod shares;

use std::net::{Ipv4Addr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::samples::{Frames, correct_checksum, tcp, udp};

const INSIDE: PortId = PortId(0);
const OUTSIDE: PortId = PortId(1);
const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const HOST: &str = "10.0.0.1:5000";
const THERE: &str = "198.51.100.1:80";
const ELSE: &str = "198.51.100.2:80";

fn settings(change: impl FnOnce(&mut NatSettings)) -> NatSettings {
    let mut settings = NatSettings {
        outside: vec![OUTSIDE],
        addresses: vec![OURS],
        inside: NatSettings::private(),
        filtering: Filtering::AddressAndPort,
        ports_each: 2048,
        track: TrackSettings { connections: 1024, seed: 7, ..NatSettings::track() },
    };
    change(&mut settings);
    settings
}

fn nat() -> Nat {
    Nat::new(&settings(|_| {}))
}

/// The packet as it leaves by a port, having come by another; none: it was dropped.
fn through(nat: &mut Nat, from: PortId, to: PortId, packet: &[u8], now: u64) -> Option<Vec<u8>> {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    batch[0].meta_mut().port = from;
    let mut verdicts = Verdicts::new();
    let now = Nanos::from_secs(1000 + now);
    nat.process(&mut batch, &mut verdicts, now);
    if verdicts[0] == Verdict::Next {
        verdicts[0] = Verdict::Out(to);
    }
    nat.leave(&mut batch, &mut verdicts, now);
    let out = (verdicts[0] == Verdict::Out(to)).then(|| batch[0].bytes().to_vec());
    frames.give(batch);
    nat.mappings.check();
    out
}

fn out(nat: &mut Nat, packet: &[u8]) -> Option<Vec<u8>> {
    through(nat, INSIDE, OUTSIDE, packet, 0)
}

fn back(nat: &mut Nat, packet: &[u8]) -> Option<Vec<u8>> {
    through(nat, OUTSIDE, INSIDE, packet, 0)
}

#[test]
fn what_has_a_tag_that_names_a_priority_is_translated_both_ways() {
    let tag = |packet: &[u8]| [&packet[..12], &[0x81, 0x00, 0xe0, 0x00], &packet[12..]].concat();
    let mut nat = nat();
    let ask = udp(["10.0.0.1:1000", "192.0.2.1:53"], b"ask");
    let first = out(&mut nat, &ask).expect("it passes");
    assert_eq!(out(&mut nat, &tag(&ask)), Some(first.clone()));
    let [own, _] = ends(&first);
    let answer = udp(["192.0.2.1:53", &own], b"answer");
    let plain = back(&mut nat, &answer).expect("it passes");
    assert_eq!(back(&mut nat, &tag(&answer)), Some(plain));
}

/// Source and destination of a UDP or TCP packet.
fn ends(packet: &[u8]) -> [String; 2] {
    let end = |address: usize, port: usize| {
        let four: [u8; 4] = packet[address..address + 4].try_into().expect("four bytes");
        let port = u16::from_be_bytes([packet[port], packet[port + 1]]);
        SocketAddr::new(Ipv4Addr::from(four).into(), port).to_string()
    };
    [end(26, 34), end(30, 36)]
}

fn pair(ends: &[String; 2]) -> [&str; 2] {
    [&ends[0], &ends[1]]
}

/// The end outside that `from` has towards `to`.
fn outer(nat: &mut Nat, from: &str, to: &str) -> String {
    let [source, destination] = ends(&out(nat, &udp([from, to], b"ask")).expect("it passes"));
    assert_eq!(destination, to);
    assert!(source.starts_with("192.0.2.7:"), "{source}");
    source
}

fn segment(between: [&str; 2], flags: u8, sequence: u32, acknowledgement: u32) -> Vec<u8> {
    let mut packet = tcp(between, b"");
    packet[38..42].copy_from_slice(&sequence.to_be_bytes());
    packet[42..46].copy_from_slice(&acknowledgement.to_be_bytes());
    packet[47] = flags;
    packet
}

/// An ICMP error from `from` to `to` about a packet.
fn error(from: [u8; 4], to: [u8; 4], about: &[u8]) -> Vec<u8> {
    let mut message = [&[3, 1, 0, 0, 0, 0, 0, 0], &about[14..]].concat();
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = crate::samples::ipv4(1, &[], &message);
    packet[26..30].copy_from_slice(&from);
    packet[30..34].copy_from_slice(&to);
    correct_checksum(&mut packet);
    packet
}

fn echo(kind: u8, [from, to]: [[u8; 4]; 2], id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut message = [kind, 0, 0, 0, high, low, 0, 1];
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = crate::samples::ipv4(1, &[], &message);
    packet[26..30].copy_from_slice(&from);
    packet[30..34].copy_from_slice(&to);
    correct_checksum(&mut packet);
    packet
}

#[test]
fn an_end_inside_has_one_end_outside_and_only_those_it_spoke_to_get_in() {
    let mut nat = nat();
    let one = outer(&mut nat, HOST, THERE);
    assert_eq!(outer(&mut nat, HOST, ELSE), one, "whoever the other end is");
    assert_ne!(outer(&mut nat, "10.0.0.1:5001", THERE), one);
    let answer = back(&mut nat, &udp([THERE, &one], b"answer")).expect("it was asked");
    assert_eq!(answer, udp([THERE, HOST], b"answer"), "with right checksums");
    assert_eq!(back(&mut nat, &udp(["198.51.100.3:80", &one], b"")), None);
    assert_eq!(back(&mut nat, &udp(["198.51.100.1:81", &one], b"")), None);
    assert_eq!(back(&mut nat, &udp([THERE, "192.0.2.7:2"], b"")), None);
    let counts = *nat.counts();
    assert_eq!((counts.outbound, counts.inbound, counts.opened), (3, 1, 3));
    assert_eq!((counts.filtered, counts.no_mapping), (2, 1));
}

#[test]
fn with_endpoint_filtering_anybody_gets_in_by_a_port_in_use() {
    let mut nat = Nat::new(&settings(|all| all.filtering = Filtering::Endpoint));
    let one = outer(&mut nat, HOST, THERE);
    let stranger = "203.0.113.9:7";
    let came = back(&mut nat, &udp([stranger, &one], b"hello")).expect("anybody");
    assert_eq!(came, udp([stranger, HOST], b"hello"));
    let answer = out(&mut nat, &udp([HOST, stranger], b"yes")).expect("it is known");
    assert_eq!(answer, udp([&one, stranger], b"yes"));
}

#[test]
fn what_is_not_from_inside_or_leaves_elsewhere_is_left_as_it_is() {
    let mut nat = nat();
    let public = udp(["203.0.113.1:9", THERE], b"hello");
    assert_eq!(out(&mut nat, &public), Some(public.clone()));
    let inside = udp([HOST, "10.1.1.1:9"], b"hello");
    assert_eq!(through(&mut nat, INSIDE, PortId(2), &inside, 0), Some(inside.clone()));
    let six = udp(["[fd00::1]:1", "[fd01::1]:2"], b"hello");
    assert_eq!(out(&mut nat, &six), Some(six.clone()));
    assert_eq!(*nat.counts(), NatCounters::default());
}

#[test]
fn tcp_begins_with_a_syn_ends_with_its_fins_and_then_gives_its_port_back() {
    let mut nat = nat();
    let ends = [HOST, THERE];
    assert_eq!(out(&mut nat, &segment(ends, wire::tcp::ACK, 1, 1)), None);
    let syn = out(&mut nat, &segment(ends, wire::tcp::SYN, 100, 0)).expect("it begins");
    let one = self::ends(&syn)[0].clone();
    let reply = [THERE, &one];
    const SYN_ACK: u8 = wire::tcp::SYN | wire::tcp::ACK;
    const FIN_ACK: u8 = wire::tcp::FIN | wire::tcp::ACK;
    assert!(back(&mut nat, &segment(reply, SYN_ACK, 500, 101)).is_some());
    assert!(out(&mut nat, &segment(ends, wire::tcp::ACK, 101, 501)).is_some());
    // RFC 5382 section 5: two hours and four minutes.
    assert!(
        through(&mut nat, INSIDE, OUTSIDE, &segment(ends, wire::tcp::ACK, 101, 501), 7400)
            .is_some()
    );
    let at = 7500;
    assert!(through(&mut nat, INSIDE, OUTSIDE, &segment(ends, FIN_ACK, 101, 501), at).is_some());
    assert!(through(&mut nat, OUTSIDE, INSIDE, &segment(reply, FIN_ACK, 501, 102), at).is_some());
    assert!(
        through(&mut nat, INSIDE, OUTSIDE, &segment(ends, wire::tcp::ACK, 102, 502), at).is_some()
    );
    // Another host moves the clock, and with it the sweep.
    for _ in 0..3 {
        through(&mut nat, INSIDE, OUTSIDE, &udp(["10.0.0.2:1", THERE], b""), at + 241);
    }
    assert_eq!((nat.connections(), nat.mappings.len()), (1, (1, 1)));
    assert_eq!(
        through(&mut nat, OUTSIDE, INSIDE, &segment(reply, wire::tcp::ACK, 502, 102), at + 241),
        None
    );
}

#[test]
fn echoes_get_another_identifier_and_come_back_with_their_own() {
    let mut nat = nat();
    let (host, there) = ([10, 0, 0, 1], [198, 51, 100, 1]);
    let asked = out(&mut nat, &echo(8, [host, there], 77)).expect("it passes");
    let id = u16::from_be_bytes([asked[38], asked[39]]);
    assert_eq!(asked[26..], echo(8, [OURS.octets(), there], id)[26..]);
    assert_ne!(asked[18..20], [0, 0], "it may be cut, and has a number that nobody else has");
    let answer = back(&mut nat, &echo(0, [there, OURS.octets()], id)).expect("it was asked");
    assert_eq!(answer, echo(0, [there, host], 77));
    assert_eq!(back(&mut nat, &echo(8, [there, OURS.octets()], id)), None, "nobody asks inside");
}

#[test]
fn errors_are_translated_with_what_they_quote_both_ways_and_harmed_ones_are_dropped() {
    let mut nat = nat();
    let sent = out(&mut nat, &udp([HOST, THERE], b"ask")).expect("it passes");
    let one = ends(&sent)[0].clone();
    let router = [203, 0, 113, 1];
    let complaint = error(router, OURS.octets(), &sent);
    let mut harmed = complaint.clone();
    harmed[60] ^= 1;
    assert_eq!(back(&mut nat, &harmed), None);
    let came = back(&mut nat, &complaint).expect("it is about a packet of ours");
    assert_eq!(came, error(router, [10, 0, 0, 1], &udp([HOST, THERE], b"ask")));
    // And of an answer that nobody waits for any more.
    let answer = back(&mut nat, &udp([THERE, &one], b"answer")).expect("it was asked");
    let complaint = error([10, 0, 0, 1], [198, 51, 100, 1], &answer);
    let left = out(&mut nat, &complaint).expect("it is about a packet to us");
    assert_eq!(left, error(OURS.octets(), [198, 51, 100, 1], &udp([THERE, &one], b"answer")));
    // What the router itself says keeps its address.
    let own = error([192, 0, 2, 1], [198, 51, 100, 1], &answer);
    let left = out(&mut nat, &own).expect("it is about a packet to us");
    assert_eq!(left, error([192, 0, 2, 1], [198, 51, 100, 1], &udp([THERE, &one], b"answer")));
    let counts = *nat.counts();
    assert_eq!((counts.errors, counts.invalid_icmp), (3, 1));
}

#[test]
fn later_fragments_follow_their_first_one_and_others_are_dropped() {
    let mut nat = nat();
    let mut first = udp([HOST, THERE], &[1; 40]);
    first[18..22].copy_from_slice(&[0x12, 0x34, 0x20, 0]);
    correct_checksum(&mut first);
    let mut later = crate::samples::ipv4(17, &[], &[2; 16]);
    later[18..22].copy_from_slice(&[0x12, 0x34, 0, 6]);
    later[30..34].copy_from_slice(&[198, 51, 100, 1]);
    correct_checksum(&mut later);
    assert_eq!(out(&mut nat, &later), None, "nobody knows whose it is");
    let one = ends(&out(&mut nat, &first).expect("it passes"))[0].clone();
    let sent = out(&mut nat, &later).expect("its first one has passed");
    assert_eq!(sent[26..30], OURS.octets());
    assert_eq!(sent[34..], later[34..]);
    let mut answer = udp([THERE, &one], &[1; 40]);
    answer[18..22].copy_from_slice(&[0, 9, 0x20, 0]);
    correct_checksum(&mut answer);
    assert!(back(&mut nat, &answer).is_some());
    later[18..22].copy_from_slice(&[0, 9, 0, 6]);
    later[26..30].copy_from_slice(&[198, 51, 100, 1]);
    later[30..34].copy_from_slice(&OURS.octets());
    correct_checksum(&mut later);
    let came = back(&mut nat, &later).expect("its first one has passed");
    assert_eq!(came[30..34], [10, 0, 0, 1]);
}

#[test]
fn two_hosts_inside_meet_by_their_outer_ends() {
    let mut nat = Nat::new(&settings(|all| all.filtering = Filtering::Endpoint));
    let one = outer(&mut nat, HOST, THERE);
    let other = "10.0.0.2:600";
    let came = through(&mut nat, INSIDE, INSIDE, &udp([other, &one], b"hi"), 0).expect("anybody");
    let [from, to] = ends(&came);
    assert_eq!(to, HOST);
    assert!(from.starts_with("192.0.2.7:"), "RFC 4787 section 6: by its outer end, {from}");
    let back = through(&mut nat, INSIDE, INSIDE, &udp([HOST, &from], b"yes"), 0).expect("known");
    assert_eq!(pair(&ends(&back)), [&*one, other]);
}

#[test]
fn ports_of_udp_keep_their_parity_and_none_is_of_a_server() {
    let mut nat = nat();
    for port in 1000..1100 {
        let one = outer(&mut nat, &format!("10.0.0.1:{port}"), THERE);
        let got: u16 = one.rsplit(':').next().and_then(|text| text.parse().ok()).expect("a port");
        assert_eq!((got % 2, got >= 1024), (port % 2, true));
    }
}

#[test]
fn a_subscriber_has_its_ports_and_no_more_and_those_nobody_answered_give_way() {
    let mut nat = Nat::new(&settings(|all| all.ports_each = 64));
    let mut first = None;
    for port in 0..64 {
        let host = format!("10.0.0.1:{}", 2000 + port);
        let one = outer(&mut nat, &host, THERE);
        if port < 63 {
            assert!(back(&mut nat, &udp([THERE, &one], b"answer")).is_some());
            assert!(out(&mut nat, &udp([&host, THERE], b"more")).is_some());
        }
        first.get_or_insert(one);
    }
    // One nobody has answered: it gives way; then there is none.
    assert!(out(&mut nat, &udp(["10.0.0.1:9000", THERE], b"")).is_some());
    let one = outer(&mut nat, "10.0.0.1:9000", THERE);
    assert!(back(&mut nat, &udp([THERE, &one], b"answer")).is_some());
    assert!(out(&mut nat, &udp(["10.0.0.1:9000", THERE], b"more")).is_some());
    assert_eq!(out(&mut nat, &udp(["10.0.0.1:9001", THERE], b"")), None);
    assert_eq!(nat.counts().subscriber_full, 1);
    assert_eq!(nat.mappings.len(), (64, 1));
    assert!(out(&mut nat, &udp(["10.0.0.2:9001", THERE], b"")).is_some(), "others have theirs");
    let first = first.expect("there were 64");
    assert!(back(&mut nat, &udp([THERE, &first], b"still")).is_some());
}

#[test]
fn forged_sources_take_no_block_for_good_and_leave_those_in_use() {
    let mut nat = Nat::new(&settings(|all| all.track.connections = 1 << 16));
    let one = outer(&mut nat, HOST, THERE);
    assert!(back(&mut nat, &udp([THERE, &one], b"answer")).is_some());
    assert_eq!(outer(&mut nat, HOST, THERE), one);
    let mut frames = Frames::new();
    for number in 0..5000_u32 {
        let source = Ipv4Addr::from_bits(0x0a80_0000 + number);
        let packet = udp([&format!("{source}:7"), THERE], b"");
        let mut batch = frames.batch(&[&packet]);
        let mut verdicts = Verdicts::new();
        verdicts[0] = Verdict::Out(OUTSIDE);
        nat.leave(&mut batch, &mut verdicts, Nanos::from_secs(1000));
        assert_eq!(verdicts[0], Verdict::Out(OUTSIDE), "{number}: {:?}", nat.counts());
        frames.give(batch);
    }
    // An open port answers liars, once.
    for number in 5000..6200_u32 {
        let liar = format!("{}:7", Ipv4Addr::from_bits(0x0a80_0000 + number));
        let end = outer(&mut nat, &liar, THERE);
        assert!(back(&mut nat, &udp([THERE, &end], b"answer")).is_some());
    }
    nat.mappings.check();
    assert_eq!(nat.mappings.len().1, 1008, "all blocks of the address, and no more");
    assert!(back(&mut nat, &udp([THERE, &one], b"still")).is_some());
    assert_eq!(outer(&mut nat, HOST, THERE), one);
}

#[test]
fn connections_outlive_other_filtering_and_not_other_addresses() {
    let mut before = nat();
    let one = outer(&mut before, HOST, THERE);
    let mut other = settings(|all| all.filtering = Filtering::Endpoint);
    other.track.seed = 99;
    let mut after = Nat::new(&other);
    after.take_over(&mut before);
    assert!(back(&mut after, &udp([THERE, &one], b"answer")).is_some());
    assert_eq!(outer(&mut after, HOST, ELSE), one);
    other.addresses = vec![Ipv4Addr::new(192, 0, 2, 8)];
    let mut moved = Nat::new(&other);
    moved.take_over(&mut after);
    assert_eq!((moved.connections(), moved.counts().inbound), (0, 1));
}

/// Packets of all kinds that a NAT may see, before somebody harms them.
fn samples(outer: &str) -> Vec<Vec<u8>> {
    let sent = udp([outer, THERE], b"ask");
    vec![
        udp([HOST, THERE], b"ask"),
        udp([THERE, outer], b"answer"),
        segment([HOST, THERE], wire::tcp::SYN, 1, 0),
        tcp([THERE, outer], b"data"),
        echo(8, [[10, 0, 0, 1], [198, 51, 100, 1]], 7),
        echo(0, [[198, 51, 100, 1], OURS.octets()], 7),
        error([203, 0, 113, 1], OURS.octets(), &sent),
        error([10, 0, 0, 1], [198, 51, 100, 1], &udp([THERE, HOST], b"answer")),
        udp(["10.0.0.2:9", outer], b"hairpin"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_comes_each_packet_is_counted_once_and_the_tables_agree(
        packets in prop::collection::vec(
            (0..9_usize, prop::collection::vec((14..120_usize, any::<u8>()), 0..3), any::<bool>(),
             0..120_usize, 0..400_u64),
            1..60,
        ),
    ) {
        let mut nat = Nat::new(&settings(|all| {
            (all.ports_each, all.track.connections) = (64, 16);
            all.filtering = Filtering::Endpoint;
        }));
        let outer = outer(&mut nat, HOST, THERE);
        let samples = samples(&outer);
        let mut now = 0;
        for (kind, harms, is_repaired, cut, pause) in packets {
            let mut packet = samples[kind].clone();
            for (at, byte) in harms {
                if let Some(place) = packet.get_mut(at) {
                    *place = byte;
                }
            }
            if cut > 20 {
                packet.truncate(cut);
            }
            if is_repaired && packet.len() > 34 {
                correct_checksum(&mut packet);
            }
            now += pause;
            let before = *nat.counts();
            let (from, to) = if kind % 2 == 0 { (INSIDE, OUTSIDE) } else { (OUTSIDE, INSIDE) };
            let passed = through(&mut nat, from, to, &packet, now);
            let after = *nat.counts();
            let mut sums = [0_u64; 2];
            for (sum, counts) in sums.iter_mut().zip([before, after]) {
                counts.each(&mut |name, _, value| {
                    if !["opened", "outbound", "inbound", "errors"].contains(&name) {
                        *sum += value;
                    }
                });
            }
            prop_assert_eq!(sums[1] - sums[0], u64::from(passed.is_none()));
            let done = after.outbound + after.inbound + after.errors
                - before.outbound - before.inbound - before.errors;
            prop_assert!(done <= 2, "a hairpin is both");
            if done == 0 {
                prop_assert!(passed.is_none_or(|passed| passed == packet));
            }
        }
    }
}

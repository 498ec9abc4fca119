//! Tests of the balancer.

mod changes;

use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;

use super::*;
use crate::samples::{Frames, correct_checksum, ipv4, tcp, udp};

const SERVICE: &str = "192.0.2.80:80";
const CLIENT: &str = "198.51.100.1:5000";
const OUT: PortId = PortId(1);

fn end(text: &str) -> SocketAddrV4 {
    text.parse().expect("a test writes ends that parse")
}

fn settings(protocol: u8, forwarding: Forwarding, servers: u8) -> BalancerSettings {
    let port = if forwarding == Forwarding::Nat { 8080 } else { 80 };
    let server =
        |n| Server { address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, n), port), weight: 1 };
    let servers = (1..=servers).map(server).collect();
    let service = Service { address: end(SERVICE), protocol, forwarding, servers };
    BalancerSettings { services: vec![service], flows: 1024, seed: 9 }
}

fn balancer(protocol: u8, forwarding: Forwarding, servers: u8) -> Balancer {
    Balancer::new(&settings(protocol, forwarding, servers), |_, _| true)
}

/// A packet as it stands before the router, and as it leaves; none: it was dropped.
fn through(balancer: &mut Balancer, packet: &[u8], now: u64) -> Option<[Vec<u8>; 2]> {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    let mut verdicts = Verdicts::new();
    let now = Nanos::from_secs(1000 + now);
    balancer.process(&mut batch, &mut verdicts, now);
    let mut seen = None;
    if verdicts[0] == Verdict::Next {
        let before = batch[0].bytes().to_vec();
        verdicts[0] = Verdict::Out(OUT);
        balancer.leave(&mut batch, &mut verdicts, now);
        seen = Some([before, batch[0].bytes().to_vec()]);
    }
    frames.give(batch);
    seen
}

fn sent(balancer: &mut Balancer, packet: &[u8]) -> Vec<u8> {
    let [_, out] = through(balancer, packet, 0).expect("it passes");
    out
}

/// The destination of a packet as `10.0.0.1:80`.
fn to(packet: &[u8]) -> String {
    let four: [u8; 4] = packet[30..34].try_into().expect("four bytes");
    let port = u16::from_be_bytes([packet[36], packet[37]]);
    SocketAddrV4::new(Ipv4Addr::from(four), port).to_string()
}

fn with_flags(between: [&str; 2], flags: u8) -> Vec<u8> {
    let mut packet = tcp(between, b"");
    packet[47] = flags;
    let Some(segment) = packet.get_mut(34..) else { panic!("it is longer") };
    segment[16..18].fill(0);
    let octets = |text: &str| end(text).ip().octets();
    let sum = wire::checksum::Sum::ZERO
        .pseudo_ipv4(octets(between[0]), octets(between[1]), 6, segment.len() as u16)
        .bytes(segment)
        .checksum();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn error(from: [u8; 4], to: [u8; 4], about: &[u8]) -> Vec<u8> {
    let mut message = [&[3, 1, 0, 0, 0, 0, 0, 0], &about[14..]].concat();
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = ipv4(1, &[], &message);
    packet[26..30].copy_from_slice(&from);
    packet[30..34].copy_from_slice(&to);
    correct_checksum(&mut packet);
    packet
}

#[test]
fn a_flow_goes_to_one_server_and_its_answers_come_from_the_service() {
    let mut balancer = balancer(17, Forwarding::Nat, 5);
    let first = sent(&mut balancer, &udp([CLIENT, SERVICE], b"ask"));
    let server = to(&first);
    assert_eq!(first, udp([CLIENT, &server], b"ask"), "with right checksums");
    assert_eq!(to(&sent(&mut balancer, &udp([CLIENT, SERVICE], b"more"))), server);
    let answer = udp([&server, CLIENT], b"answer");
    assert_eq!(sent(&mut balancer, &answer), udp([SERVICE, CLIENT], b"answer"));
    // Whoever speaks to the server itself is answered by the server itself.
    let direct = udp([&server, "198.51.100.9:1"], b"direct");
    assert_eq!(sent(&mut balancer, &direct), direct);
    assert_eq!(through(&mut balancer, &udp([CLIENT, "192.0.2.80:81"], b""), 0), None);
    assert_eq!(through(&mut balancer, &tcp([CLIENT, SERVICE], b""), 0), None, "of UDP");
    let counts = *balancer.counts();
    assert_eq!((counts.sent, counts.returned, counts.opened, counts.no_service), (2, 1, 1, 2));
}

#[test]
fn when_a_server_goes_only_its_own_flows_move_and_when_it_comes_back_none_does() {
    let all = settings(6, Forwarding::Nat, 4);
    let mut before = Balancer::new(&all, |_, _| true);
    let clients: Vec<String> = (0..300).map(|n| format!("198.51.100.1:{}", 2000 + n)).collect();
    let mut servers = Vec::new();
    for client in &clients {
        let syn = sent(&mut before, &with_flags([client, SERVICE], tcp::SYN));
        let server = to(&syn);
        let answer = with_flags([&server, client], tcp::SYN | tcp::ACK);
        assert_eq!(sent(&mut before, &answer), with_flags([SERVICE, client], tcp::SYN | tcp::ACK));
        sent(&mut before, &with_flags([client, SERVICE], tcp::ACK));
        servers.push(server);
    }
    let mut after = Balancer::new(&all, |_, server| server != 2);
    after.take_over(&mut before);
    let opened = after.counts().opened;
    for (client, server) in clients.iter().zip(&servers) {
        // Known flows stay, those of the server that went too: it drains, or resets them.
        assert_eq!(to(&sent(&mut after, &with_flags([client, SERVICE], tcp::ACK))), *server);
    }
    assert_eq!(after.counts().opened, opened);
    for n in 0..200 {
        let syn = with_flags([&format!("198.51.100.2:{}", 2000 + n), SERVICE], tcp::SYN);
        assert_ne!(to(&sent(&mut after, &syn)), "10.0.0.3:8080");
    }
    // Flows of before that are not known go by the ring of before, to servers that are there still.
    let mut unknown = Balancer::new(&all, |_, _| true);
    unknown.take_over(&mut after);
    unknown.flows = Flows::new(1024, 77);
    for client in &clients {
        let server = to(&sent(&mut unknown, &with_flags([client, SERVICE], tcp::ACK)));
        assert_ne!(server, "10.0.0.3:8080");
    }
    assert!(unknown.counts().by_previous_ring > 30, "{:?}", unknown.counts());
    let late = through(&mut unknown, &with_flags(["198.51.100.3:1", SERVICE], tcp::ACK), 121);
    assert!(late.is_some());
}

#[test]
fn a_service_without_servers_drops_and_one_of_no_weight_drains() {
    let mut all = settings(17, Forwarding::Nat, 2);
    let mut none = Balancer::new(&all, |_, _| false);
    assert_eq!(through(&mut none, &udp([CLIENT, SERVICE], b""), 0), None);
    assert_eq!(none.counts().no_server, 1);
    let mut before = Balancer::new(&all, |_, _| true);
    let server = to(&sent(&mut before, &udp([CLIENT, SERVICE], b"")));
    sent(&mut before, &udp([&server, CLIENT], b"answer"));
    for one in &mut all.services[0].servers {
        one.weight = u32::from(one.address.to_string() != server);
    }
    let mut after = Balancer::new(&all, |_, _| true);
    after.take_over(&mut before);
    assert_eq!(to(&sent(&mut after, &udp([CLIENT, SERVICE], b""))), server);
    for n in 1..100 {
        assert_ne!(
            to(&sent(&mut after, &udp([&format!("198.51.100.7:{n}"), SERVICE], b""))),
            server
        );
    }
}

#[test]
fn a_flood_of_first_packets_takes_no_place_of_a_flow_that_goes_both_ways() {
    let mut balancer = balancer(6, Forwarding::Nat, 3);
    let server = to(&sent(&mut balancer, &with_flags([CLIENT, SERVICE], tcp::SYN)));
    sent(&mut balancer, &with_flags([&server, CLIENT], tcp::SYN | tcp::ACK));
    sent(&mut balancer, &with_flags([CLIENT, SERVICE], tcp::ACK));
    let mut frames = Frames::new();
    for n in 0..20_000_u32 {
        let source = format!("{}:{}", Ipv4Addr::from_bits(0xc612_0000 + n / 16), 1024 + n % 16);
        let mut batch = frames.batch(&[&with_flags([&source, SERVICE], tcp::SYN)]);
        let mut verdicts = Verdicts::new();
        balancer.process(&mut batch, &mut verdicts, Nanos::from_secs(1000));
        assert_eq!(verdicts[0], Verdict::Next);
        frames.give(batch);
    }
    assert!(balancer.flows.len(Nanos::from_secs(1000)) <= 1024);
    let mut other = Balancer::new(&settings(6, Forwarding::Nat, 3), |_, at| at > 3);
    other.take_over(&mut balancer);
    assert_eq!(to(&sent(&mut other, &with_flags([CLIENT, SERVICE], tcp::ACK))), server);
}

/// A flow of TCP that goes both ways; its server.
fn lasting(balancer: &mut Balancer, client: &str) -> String {
    let server = to(&sent(balancer, &with_flags([client, SERVICE], tcp::SYN)));
    sent(balancer, &with_flags([&server, client], tcp::SYN | tcp::ACK));
    sent(balancer, &with_flags([client, SERVICE], tcp::ACK));
    server
}

#[test]
fn a_forged_first_packet_or_reset_takes_no_flow_from_the_server_that_it_has() {
    let mut all = settings(6, Forwarding::Nat, 2);
    let mut before = Balancer::new(&all, |_, _| true);
    let server = lasting(&mut before, CLIENT);
    for one in &mut all.services[0].servers {
        one.weight = u32::from(one.address.to_string() != server);
    }
    let mut drained = Balancer::new(&all, |_, _| true);
    drained.take_over(&mut before);
    for flags in [tcp::SYN, tcp::ACK, tcp::RST, tcp::ACK] {
        let packet = with_flags([CLIENT, SERVICE], flags);
        assert_eq!(to(&sent(&mut drained, &packet)), server, "{flags}");
    }
    // Both go on, so that it has not ended: nothing takes its place.
    sent(&mut drained, &with_flags([&server, CLIENT], tcp::ACK));
    sent(&mut drained, &with_flags([CLIENT, SERVICE], tcp::ACK));
    assert_eq!(to(&sent(&mut drained, &with_flags([CLIENT, SERVICE], tcp::SYN))), server);
}

#[test]
fn where_answers_do_not_come_by_forged_flows_always_give_way() {
    let mut balancer = balancer(6, Forwarding::Link, 3);
    for n in 0..3000_u32 {
        let source = format!("{}:{}", Ipv4Addr::from_bits(0xc612_0000 + n / 16), 1024 + n % 16);
        for flags in [tcp::SYN, tcp::ACK, tcp::ACK] {
            assert!(through(&mut balancer, &with_flags([&source, SERVICE], flags), 0).is_some());
        }
    }
    assert_eq!(balancer.counts().untracked, 0, "three packets of a liar take no place for good");
}

#[test]
fn a_flow_whose_answers_would_not_find_back_is_dropped_and_counted() {
    let few = BalancerSettings { flows: 8, ..settings(6, Forwarding::Nat, 3) };
    let mut balancer = Balancer::new(&few, |_, _| true);
    for n in 0..8 {
        lasting(&mut balancer, &format!("198.51.100.4:{}", 1000 + n));
    }
    assert_eq!(through(&mut balancer, &with_flags([CLIENT, SERVICE], tcp::SYN), 0), None);
    assert_eq!((balancer.counts().no_flow, balancer.counts().untracked), (1, 1));
}

#[test]
fn datagrams_leave_a_server_that_is_not_well_and_has_not_answered() {
    let all = settings(17, Forwarding::Nat, 2);
    let mut before = Balancer::new(&all, |_, _| true);
    let server = to(&sent(&mut before, &udp([CLIENT, SERVICE], b"ask")));
    let down = all.services[0].servers.iter().position(|one| one.address.to_string() == server);
    let mut after = Balancer::new(&all, |_, at| Some(at) != down);
    after.take_over(&mut before);
    assert_ne!(to(&sent(&mut after, &udp([CLIENT, SERVICE], b"again"))), server);
}

#[test]
fn by_link_the_router_sees_the_server_and_the_server_the_packet_of_the_client() {
    let mut balancer = balancer(17, Forwarding::Link, 3);
    let mut first = udp([CLIENT, SERVICE], &[1; 40]);
    first[18..22].copy_from_slice(&[0x12, 0x34, 0x20, 0]);
    correct_checksum(&mut first);
    let mut later = first.clone();
    later[20..22].copy_from_slice(&[0, 6]);
    correct_checksum(&mut later);
    for packet in [udp([CLIENT, SERVICE], b"ask"), first, later] {
        let [routed, left] = through(&mut balancer, &packet, 0).expect("it passes");
        assert_eq!(routed[30..33], [10, 0, 0]);
        assert_eq!(left, packet);
    }
    let direct = udp(["198.51.100.9:1", "10.0.0.1:80"], b"direct");
    assert_eq!(sent(&mut balancer, &direct), direct);
}

#[test]
fn by_ipip_the_packet_of_the_client_is_inside_whole_and_one_hop_older() {
    let source = Ipv4Addr::new(10, 0, 0, 254);
    let mut balancer = balancer(17, Forwarding::Ipip { source }, 3);
    let packet = udp([CLIENT, SERVICE], b"ask");
    let out = sent(&mut balancer, &packet);
    let header = wire::ipv4::Header::parse(&out[14..]).expect("a header");
    assert_eq!((header.protocol, header.source), (4, source.octets()));
    assert_eq!(header.destination[..3], [10, 0, 0]);
    assert_eq!(wire::checksum::of(&out[14..34]), 0);
    let inside = wire::ipv4::Header::parse(&out[34..]).expect("a header");
    assert_eq!((inside.source, out[42]), ([198, 51, 100, 1], packet[22] - 1));
    assert_eq!(wire::checksum::of(&out[34..54]), 0);
    assert_eq!((&out[34..42], &out[46..]), (&packet[14..22], &packet[26..]));
    assert_eq!(out[..14], packet[..14]);
    // One that may go no further is left to the router, which tells its sender.
    let mut last = packet.clone();
    last[22] = 1;
    last[24..26].fill(0);
    let sum = wire::checksum::of(&last[14..34]);
    last[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(sent(&mut balancer, &last), last);
}

#[test]
fn what_has_a_tag_that_names_a_priority_is_balanced_too() {
    let mut balancer = balancer(17, Forwarding::Nat, 3);
    let packet = udp([CLIENT, SERVICE], b"ask");
    let tagged = [&packet[..12], &[0x81, 0x00, 0xe0, 0x00], &packet[12..]].concat();
    assert_eq!(sent(&mut balancer, &tagged), sent(&mut balancer, &packet));
}

#[test]
fn errors_reach_the_server_and_the_client_that_they_are_for() {
    let mut balancer = balancer(17, Forwarding::Nat, 3);
    let ask = sent(&mut balancer, &udp([CLIENT, SERVICE], b"ask"));
    let server = to(&ask);
    let address = end(&server).ip().octets();
    let answer = udp([SERVICE, CLIENT], b"answer");
    let router = [203, 0, 113, 1];
    let came = sent(&mut balancer, &error(router, [192, 0, 2, 80], &answer));
    assert_eq!(came, error(router, address, &udp([&server, CLIENT], b"answer")));
    // Of the server itself, and of a router before it.
    for (from, expected) in [(address, [192, 0, 2, 80]), (router, router)] {
        let came = sent(&mut balancer, &error(from, [198, 51, 100, 1], &ask));
        assert_eq!(came, error(expected, [198, 51, 100, 1], &udp([CLIENT, SERVICE], b"ask")));
    }
    let other = udp([SERVICE, "198.51.100.1:5001"], b"");
    assert_eq!(through(&mut balancer, &error(router, [192, 0, 2, 80], &other), 0), None);
    assert_eq!((balancer.counts().errors, balancer.counts().icmp), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_comes_to_a_service_is_counted_once(
        packets in prop::collection::vec(
            (0..6_usize, prop::collection::vec((14..110_usize, any::<u8>()), 0..3), any::<bool>(),
             0..110_usize, 0..100_u64),
            1..60,
        ),
        forwarding in prop::sample::select(vec![
            Forwarding::Nat, Forwarding::Link, Forwarding::Ipip { source: Ipv4Addr::new(10, 0, 0, 254) },
        ]),
    ) {
        let mut balancer = balancer(17, forwarding, 3);
        let ask = udp([CLIENT, SERVICE], b"ask");
        let answer = udp([SERVICE, CLIENT], b"answer");
        let samples = [
            ask.clone(),
            udp(["10.0.0.1:8080", CLIENT], b"answer"),
            udp(["10.0.0.1:80", CLIENT], b"answer"),
            error([203, 0, 113, 1], [192, 0, 2, 80], &answer),
            error([10, 0, 0, 1], [198, 51, 100, 1], &udp([CLIENT, "10.0.0.1:8080"], b"ask")),
            tcp([CLIENT, SERVICE], b"data"),
        ];
        through(&mut balancer, &ask, 0);
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
            let before = *balancer.counts();
            let passed = through(&mut balancer, &packet, now);
            let after = *balancer.counts();
            let mut sums = [0_u64; 2];
            for (sum, counts) in sums.iter_mut().zip([before, after]) {
                counts.each(&mut |name, _, value| {
                    let is_drop = !["sent", "returned", "errors", "opened", "by_previous_ring", "untracked"]
                        .contains(&name);
                    *sum += if is_drop { value } else { 0 };
                });
            }
            prop_assert_eq!(sums[1] - sums[0], u64::from(passed.is_none()));
            let done = after.sent + after.returned + after.errors
                - before.sent - before.returned - before.errors;
            prop_assert!(done <= 1);
            let is_to_service = packet.get(30..34) == Some(&[192, 0, 2, 80])
                && packet.len() >= 34 && packet[12..14] == [8, 0];
            if is_to_service {
                prop_assert_eq!(done, u64::from(passed.is_some()));
            }
        }
    }
}

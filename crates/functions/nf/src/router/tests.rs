//! Tests of forwarding by destination.

mod held;
mod hostile;
mod options;
mod pieces;

use std::collections::BTreeMap;

use wire::icmp::{ErrorKind, ErrorMessage};

use super::*;
use crate::Rib;
use crate::samples::{ALICE_MAC, Frames, OUR_MAC, correct_checksum, ipv4, ipv6, tcp, udp};

const IN: PortId = PortId(0);
const OUT: PortId = PortId(4);
const OUT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0x0b];
const BOB_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0x0a];
const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0x0c];

/// From Alice to Bob, who is on the next link.
const FOUR: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];
const SIX: [&str; 2] = ["[fd00::1]:5000", "[fd01::2]:80"];

fn address(text: &str) -> IpAddr {
    text.parse().expect("a test writes addresses that parse")
}

/// A router between two links, with a gateway on the second one.
fn router() -> Router {
    let mut rib = Rib::new();
    let mut steps = Vec::new();
    let gateway = |text| NextHop::Gateway { port: OUT, address: address(text) };
    for (prefix, to) in [
        ("10.0.0.0/24", NextHop::OnLink { port: IN }),
        ("10.0.1.0/24", NextHop::OnLink { port: OUT }),
        ("10.9.0.0/16", gateway("10.0.1.1")),
        ("10.10.0.0/16", gateway("fd01::1")),
        ("10.11.0.0/16", gateway("10.0.1.77")),
        ("10.12.0.0/16", NextHop::Blackhole),
        ("10.13.0.0/16", NextHop::Unreachable),
        ("10.14.0.0/16", NextHop::Prohibit),
        ("10.15.0.0/16", NextHop::OnLink { port: PortId(99) }),
        ("10.0.1.254/32", NextHop::Local),
        ("fd00::/64", NextHop::OnLink { port: IN }),
        ("fd01::/64", NextHop::OnLink { port: OUT }),
        ("fd09::/32", gateway("fd01::1")),
        ("fd12::/32", NextHop::Blackhole),
        ("fd13::/32", NextHop::Unreachable),
        ("fd14::/32", NextHop::Prohibit),
        ("fd01::ff/128", NextHop::Local),
    ] {
        rib.load(prefix.parse().expect("a prefix"), to).expect("room");
    }
    for (text, neighbour) in [
        ("10.0.1.2", Neighbour::At(BOB_MAC)),
        ("10.0.1.1", Neighbour::At(GATEWAY_MAC)),
        ("10.0.1.66", Neighbour::Failed),
        ("fd01::2", Neighbour::At(BOB_MAC)),
        ("fd01::1", Neighbour::At(GATEWAY_MAC)),
        ("fd01::66", Neighbour::Failed),
    ] {
        assert!(rib.set_neighbour(OUT, address(text), Some(neighbour), &mut steps));
    }
    for (port, mac, four, six) in
        [(IN, OUR_MAC, [10, 0, 0, 254], "fd00::ff"), (OUT, OUT_MAC, [10, 0, 1, 254], "fd01::ff")]
    {
        let six: Ipv6Addr = six.parse().expect("an address");
        let interface = Interface { mac, mtu: 1500, four: Some(four.into()), six: Some(six) };
        rib.set_interface(port, Some(interface), &mut steps);
        rib.set_own(four.into(), true, &mut steps);
        rib.set_own(six.into(), true, &mut steps);
    }
    Router::new(rib.fib(1), &RouterSettings::default())
}

/// What becomes of one packet that comes in at [`IN`].
fn run(router: &mut Router, packet: &[u8]) -> (Verdict, Vec<u8>) {
    run_at(router, IN, packet, Nanos::ZERO)
}

fn run_at(router: &mut Router, port: PortId, packet: &[u8], now: Nanos) -> (Verdict, Vec<u8>) {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    batch[0].meta_mut().port = port;
    let mut verdicts = Verdicts::new();
    router.process(&mut batch, &mut verdicts, now);
    let bytes = batch[0].bytes().to_vec();
    frames.give(batch);
    (verdicts[0], bytes)
}

/// Every counter that is not zero.
fn counted(router: &Router) -> BTreeMap<&'static str, u64> {
    let mut counted = BTreeMap::new();
    router.counters(&mut |name, _, value| {
        if value > 0 {
            counted.insert(name, value);
        }
    });
    counted
}

/// `packet` as it leaves: other link addresses, one router fewer to pass.
fn forwarded(packet: &[u8], to: [u8; 6]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[..6].copy_from_slice(&to);
    packet[6..12].copy_from_slice(&OUT_MAC);
    if packet[14] >> 4 == 6 {
        packet[14 + 7] -= 1;
    } else {
        packet[14 + 8] -= 1;
        correct_checksum(&mut packet);
    }
    packet
}

#[test]
fn a_packet_leaves_towards_its_next_hop_and_is_else_as_it_was() {
    let to = |ends: [&'static str; 2], to| [ends[0], to];
    let cases = [
        (udp(FOUR, b"hello to bob and padding"), BOB_MAC),
        (tcp(FOUR, &[1; 1400]), BOB_MAC),
        (udp(SIX, b"hello to bob"), BOB_MAC),
        (udp(to(FOUR, "10.9.1.1:80"), b"far away and long enough"), GATEWAY_MAC),
        (udp(to(FOUR, "10.10.1.1:80"), b"an IPv6 gateway of IPv4"), GATEWAY_MAC),
        (udp(to(SIX, "[fd09::7]:80"), b"far away"), GATEWAY_MAC),
    ];
    for (packet, mac) in cases {
        let mut router = router();
        let (verdict, bytes) = run(&mut router, &packet);
        assert_eq!(verdict, Verdict::Out(OUT));
        assert_eq!(bytes, forwarded(&packet, mac));
        assert_eq!(counted(&router), BTreeMap::from([("forwarded", 1)]));
    }
}

#[test]
fn a_batch_of_both_versions_gets_each_packet_its_own_next_hop() {
    let packets = [
        udp(FOUR, b"to bob by IPv4, which is long"),
        udp(SIX, b"to bob by IPv6"),
        udp([FOUR[0], "10.9.1.1:80"], b"to the gateway by IPv4"),
        udp([FOUR[0], "10.12.1.1:80"], b"to nobody"),
        udp([SIX[0], "[fd09::7]:80"], b"to the gateway by IPv6"),
    ];
    let mut frames = Frames::new();
    let slices: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    let mut batch = frames.batch(&slices);
    let mut verdicts = Verdicts::new();
    router().process(&mut batch, &mut verdicts, Nanos::ZERO);
    let out = Verdict::Out(OUT);
    assert_eq!(verdicts.of(5), [out, out, out, Verdict::Drop, out]);
    for (index, mac) in [(0, BOB_MAC), (1, BOB_MAC), (2, GATEWAY_MAC), (4, GATEWAY_MAC)] {
        assert_eq!(batch[index].bytes(), forwarded(&packets[index], mac), "{index}");
    }
    assert_eq!(batch[3].bytes(), packets[3]);
    frames.give(batch);
}

#[test]
fn options_extension_headers_and_fragments_are_forwarded_as_they_are() {
    let mut fragment = udp(FOUR, b"the second part of something");
    fragment[20..22].copy_from_slice(&[0x20, 9]);
    correct_checksum(&mut fragment);
    let router_alert = [148, 4, 0, 0];
    let record_route = [7, 7, 4, 0, 0, 0, 0, 0];
    let chain = [60, 0, 5, 2, 0, 0, 1, 0, 44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 9, 0, 0, 0, 1];
    for packet in [
        fragment,
        ipv4(17, &router_alert, &[0; 40]),
        ipv4(17, &record_route, &[0; 40]),
        ipv4(200, &[], b"a protocol that nobody knows"),
        ipv6(0, &[&chain[..], &[0; 40]].concat()),
        // Next header 59: nothing follows.
        ipv6(59, &[]),
    ] {
        let mut router = router();
        let (verdict, bytes) = run(&mut router, &packet);
        assert_eq!((verdict, bytes), (Verdict::Out(OUT), forwarded(&packet, BOB_MAC)));
    }
}

#[test]
fn what_must_not_be_forwarded_is_dropped_unchanged_under_a_counter_of_its_own() {
    let four = udp(FOUR, b"hello");
    let six = udp(SIX, b"hello");
    let with = |packet: &[u8], place: usize, bytes: &[u8]| {
        let mut packet = packet.to_vec();
        packet[place..place + bytes.len()].copy_from_slice(bytes);
        if packet[12..14] == [8, 0] {
            correct_checksum(&mut packet);
        }
        packet
    };
    let source4 = |bytes: [u8; 4]| with(&four, 26, &bytes);
    let to4 = |bytes: [u8; 4]| with(&four, 30, &bytes);
    let six_of = |text: &str| match address(text) {
        IpAddr::V6(six) => six.octets(),
        IpAddr::V4(_) => panic!("{text}"),
    };
    let source6 = |text: &str| with(&six, 22, &six_of(text));
    let to6 = |text: &str| with(&six, 38, &six_of(text));
    let mut bad_checksum = four.clone();
    bad_checksum[24] ^= 1;
    let cases = [
        (with(&four, 12, &[8, 6]), "not_ip"),
        (with(&four, 12, &[0, 40]), "not_ip"),
        (with(&four, 12, &[0x81, 0]), "tagged"),
        (with(&four, 0, &[0xff; 6]), "link_group"),
        (with(&four, 0, &[1, 0, 0x5e, 0, 0, 1]), "link_group"),
        (with(&four, 0, &BOB_MAC), "not_to_us"),
        (with(&four, 6, &[1]), "ethernet_source"),
        (four[..13].to_vec(), "ethernet_truncated"),
        (four[..30].to_vec(), "ipv4_truncated"),
        (four[..four.len() - 1].to_vec(), "ipv4_beyond_frame"),
        (with(&six, 14, &[0x45]), "ipv6_version"),
        (six[..50].to_vec(), "ipv6_truncated"),
        (six[..six.len() - 1].to_vec(), "ipv6_beyond_frame"),
        (with(&four, 14, &[0x44]), "ipv4_header_length"),
        (with(&four, 16, &[0, 19]), "ipv4_total_length"),
        (bad_checksum, "bad_checksum"),
        (source4([127, 0, 0, 1]), "ipv4_source"),
        (source4([224, 0, 0, 1]), "ipv4_source"),
        (source4([0, 0, 0, 0]), "ipv4_source"),
        (source4([255, 255, 255, 255]), "ipv4_source"),
        (source4([10, 0, 0, 254]), "own_source"),
        (source4([10, 0, 1, 254]), "own_source"),
        (to4([127, 0, 0, 1]), "ipv4_destination"),
        (to4([0, 0, 0, 0]), "ipv4_destination"),
        (to4([224, 0, 0, 5]), "multicast"),
        (to4([255, 255, 255, 255]), "broadcast"),
        (to4([10, 0, 1, 254]), "for_us"),
        (to4([10, 12, 0, 1]), "blackhole"),
        (to4([10, 15, 0, 1]), "no_interface"),
        (ipv4(17, &[131, 7, 4, 10, 0, 0, 9, 0], &[0; 8]), "source_route"),
        (ipv4(17, &[137, 7, 4, 10, 0, 0, 9, 0], &[0; 8]), "source_route"),
        (source6("::1"), "ipv6_source"),
        (source6("::"), "ipv6_source"),
        (source6("ff02::1"), "ipv6_source"),
        (source6("::ffff:10.0.0.1"), "ipv6_source"),
        (source6("fd01::ff"), "own_source"),
        (to6("::1"), "ipv6_destination"),
        (to6("ff05::2"), "multicast"),
        (to6("fe80::2"), "link_local"),
        (to6("fd01::ff"), "for_us"),
        (to6("fd12::1"), "blackhole"),
        (with(&six, 18, &[0, 0, 0]), "jumbogram"),
    ];
    for (packet, name) in cases {
        let mut router = router();
        let (verdict, bytes) = run(&mut router, &packet);
        assert_eq!(verdict, Verdict::Drop, "{name}");
        assert_eq!(bytes, packet, "{name}");
        assert_eq!(counted(&router), BTreeMap::from([(name, 1)]), "{packet:02x?}");
    }
    let mut router = router();
    assert_eq!(run_at(&mut router, PortId(9), &four, Nanos::ZERO).0, Verdict::Drop);
    assert_eq!(counted(&router), BTreeMap::from([("no_interface", 1)]));
}

#[test]
fn a_tag_that_the_port_took_off_is_not_routed() {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[&udp(FOUR, b"hello")]);
    batch[0].meta_mut().vlan_tci = 5;
    let mut router = router();
    let mut verdicts = Verdicts::new();
    router.process(&mut batch, &mut verdicts, Nanos::ZERO);
    assert_eq!((verdicts[0], router.counts().tagged), (Verdict::Drop, 1));
    frames.give(batch);
}

#[test]
fn a_tag_that_names_a_priority_and_no_vlan_is_taken_off() {
    for packet in [udp(FOUR, b"hello to bob and padding"), udp(SIX, b"hello to bob")] {
        for (tag, expected) in [
            ([0x81, 0x00, 0xe0, 0x00], Some(forwarded(&packet, BOB_MAC))),
            ([0x81, 0x00, 0xe0, 0x05], None),
            ([0x88, 0xa8, 0xe0, 0x00], Some(forwarded(&packet, BOB_MAC))),
            ([0x88, 0xa8, 0xe0, 0x05], None),
        ] {
            let mut router = router();
            let tagged = [&packet[..12], &tag, &packet[12..]].concat();
            let (verdict, bytes) = run(&mut router, &tagged);
            match expected {
                Some(expected) => assert_eq!((verdict, bytes), (Verdict::Out(OUT), expected)),
                None => assert_eq!(router.counts().tagged, 1, "{tag:x?}"),
            }
        }
    }
    let mut router = router();
    for cut in 12..20 {
        run(&mut router, &[&udp(FOUR, b"")[..12], &[0x81, 0, 0, 0, 8, 0, 0x45, 0]].concat()[..cut]);
    }
}

#[test]
fn who_can_do_something_about_it_is_told_why_a_packet_went_no_further() {
    let long4 = tcp(FOUR, &[0; 1461]);
    let long6 = tcp(SIX, &[0; 1441]);
    let expired = |packet: Vec<u8>, place: usize, limit: u8| {
        let mut packet = packet;
        packet[place] = limit;
        if packet[12] == 8 {
            correct_checksum(&mut packet);
        }
        packet
    };
    let code = |code| ErrorKind::Unreachable { code };
    let cases = [
        (expired(udp(FOUR, b"hello"), 22, 1), "expired", ErrorKind::TimeExceeded),
        (expired(udp(FOUR, b"hello"), 22, 0), "expired", ErrorKind::TimeExceeded),
        (expired(udp(SIX, b"hello"), 21, 1), "expired", ErrorKind::TimeExceeded),
        (expired(udp(SIX, b"hello"), 21, 0), "expired", ErrorKind::TimeExceeded),
        (long4, "too_big", ErrorKind::TooBig { mtu: 1500 }),
        (long6, "too_big", ErrorKind::TooBig { mtu: 1500 }),
        (udp([FOUR[0], "192.0.2.1:9"], b""), "no_route", code(0)),
        (udp([SIX[0], "[2001:db8::1]:9"], b""), "no_route", code(0)),
        (udp([FOUR[0], "10.13.0.1:9"], b""), "unreachable", code(1)),
        (udp([SIX[0], "[fd13::1]:9"], b""), "unreachable", code(0)),
        (udp([FOUR[0], "10.14.0.1:9"], b""), "prohibited", code(13)),
        (udp([SIX[0], "[fd14::1]:9"], b""), "prohibited", code(1)),
        (udp([FOUR[0], "10.0.1.66:9"], b""), "neighbour_failed", code(1)),
        (udp([SIX[0], "[fd01::66]:9"], b""), "neighbour_failed", code(3)),
        (udp(["[fe80::1]:9", SIX[1]], b""), "link_local", code(2)),
    ];
    for (packet, name, kind) in cases {
        let mut router = router();
        let (verdict, bytes) = run(&mut router, &packet);
        assert_eq!(verdict, Verdict::Out(IN), "{name}");
        let error = ErrorMessage::parse(&bytes).expect("an error message");
        assert_eq!(error.kind, kind, "{name}");
        assert_eq!(bytes[..12], [ALICE_MAC, OUR_MAC].concat());
        let quoted = if bytes[14] >> 4 == 4 { &bytes[42..] } else { &bytes[62..] };
        assert!(packet[14..].starts_with(quoted), "{name}: as it came");
        assert_eq!(counted(&router), BTreeMap::from([(name, 1), ("icmp_sent", 1)]));
    }
}

#[test]
fn a_packet_that_just_fits_is_forwarded_and_the_frame_is_cut_to_it() {
    for packet in [tcp(FOUR, &[3; 1460]), tcp(SIX, &[3; 1440]), udp(FOUR, b"hello")] {
        let padded = [&packet[..], &[0xee; 40]].concat();
        let (verdict, bytes) = run(&mut router(), &padded);
        assert_eq!(verdict, Verdict::Out(OUT));
        let kept = packet.len().max(60);
        assert_eq!(bytes, forwarded(&padded[..kept], BOB_MAC));
    }
}

#[test]
fn error_messages_are_limited_and_the_bucket_fills_again() {
    let mut router = router();
    let packet = udp([FOUR[0], "192.0.2.1:9"], b"");
    for _ in 0..60 {
        run(&mut router, &packet);
    }
    let expected = [("no_route", 60), ("icmp_sent", 50), ("icmp_limited", 10)];
    assert_eq!(counted(&router), BTreeMap::from(expected));
    let (verdict, _) = run_at(&mut router, IN, &packet, Nanos::from_millis(1));
    assert_eq!(verdict, Verdict::Out(IN));
}

#[test]
fn routers_that_share_limits_send_no_more_messages_together_than_one_alone() {
    let mut first = router();
    let mut second = router().sharing_limits_with(&first);
    let lost = udp([FOUR[0], "11.0.0.1:9"], b"");
    for _ in 0..100 {
        run(&mut first, &lost);
        run(&mut second, &lost);
    }
    assert_eq!(first.counts().icmp_sent + second.counts().icmp_sent, 50);
}

#[test]
fn nobody_is_told_of_an_error_message_or_a_later_fragment() {
    let error = ipv4(1, &[], &[3, 0, 0, 0, 0, 0, 0, 0]);
    let mut fragment = udp(FOUR, b"hello");
    fragment[21] = 1;
    for mut packet in [error, fragment] {
        packet[22] = 1;
        correct_checksum(&mut packet);
        let mut router = router();
        assert_eq!(run(&mut router, &packet), (Verdict::Drop, packet));
        assert_eq!(counted(&router), BTreeMap::from([("expired", 1), ("icmp_withheld", 1)]));
    }
}

#[test]
fn a_neighbour_that_is_not_known_is_asked_for_once_and_then_gets_its_packets() {
    let mut router = router();
    let on_link = udp([FOUR[0], "10.0.1.9:9"], b"a packet of sixty bytes or more");
    let far = udp([FOUR[0], "10.11.0.1:9"], b"a packet of sixty bytes or more");
    for packet in [&on_link, &far, &on_link, &far] {
        assert_eq!(run(&mut router, packet), (Verdict::Drop, packet.clone()));
    }
    let wanted: Vec<_> = router.take_wanted().collect();
    let want = |text| Wanted { port: OUT, address: address(text) };
    assert_eq!(wanted, [want("10.0.1.9"), want("10.0.1.77")]);
    assert_eq!(router.take_wanted().count(), 0);
    let neighbour = Some(Neighbour::At(BOB_MAC));
    router.apply(&FibChange::Neighbour { port: OUT, address: address("10.0.1.9"), neighbour });
    assert_eq!(run(&mut router, &on_link).1, forwarded(&on_link, BOB_MAC));
    assert_eq!(counted(&router), BTreeMap::from([("neighbour_unknown", 4), ("forwarded", 1)]));
}

#[test]
fn a_neighbour_that_did_not_answer_is_wanted_again_by_each_packet() {
    for packet in [udp([FOUR[0], "10.0.1.66:9"], b""), udp([SIX[0], "[fd01::66]:9"], b"")] {
        let mut router = router();
        for _ in 0..2 {
            run(&mut router, &packet);
            assert_eq!(router.take_wanted().count(), 1);
        }
        assert_eq!(router.counts().neighbour_failed, 2);
    }
}

#[test]
fn a_scan_of_a_link_fills_the_list_of_wanted_neighbours_and_no_more() {
    let mut router = router();
    for last in 70..150 {
        run(&mut router, &udp([FOUR[0], &format!("10.0.1.{last}:9")], b""));
    }
    assert_eq!(router.take_wanted().count(), 64);
    assert_eq!(router.counts().wanted_full, 80 - 64);
}

#[test]
fn a_port_without_address_forwards_and_sends_no_messages() {
    let mut router = router();
    let interface = Some(Interface { mac: OUR_MAC, mtu: 1500, four: None, six: None });
    router.apply(&FibChange::Interface { port: IN, interface });
    assert_eq!(run(&mut router, &udp(FOUR, b"")).0, Verdict::Out(OUT));
    assert_eq!(run(&mut router, &udp([FOUR[0], "192.0.2.1:9"], b"")).0, Verdict::Drop);
    assert_eq!(router.counts().icmp_withheld, 1);
    router.apply(&FibChange::Interface { port: IN, interface: None });
    assert_eq!(run(&mut router, &udp(FOUR, b"")).0, Verdict::Drop);
}

#[test]
fn decided_packets_are_left_alone() {
    let packet = udp(FOUR, b"hello");
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[&packet, &packet]);
    let mut verdicts = Verdicts::new();
    verdicts[0] = Verdict::Out(PortId(7));
    verdicts[1] = Verdict::Drop;
    let mut router = router();
    router.process(&mut batch, &mut verdicts, Nanos::ZERO);
    assert_eq!(verdicts.of(2), [Verdict::Out(PortId(7)), Verdict::Drop]);
    assert!(batch.iter().all(|frame| frame.bytes() == packet));
    assert!(counted(&router).is_empty());
    frames.give(batch);
}

#[test]
fn what_comes_from_outside_with_a_source_of_functions_is_refused_and_what_they_make_is_not() {
    for (text, packet) in
        [("10.0.0.1", udp(FOUR, b"hello to bob")), ("fd00::1", udp(SIX, b"hello"))]
    {
        let mut router = router();
        router.apply(&FibChange::Made { address: address(text), is_made: true });
        let admit = |router: &mut Router, packet: &[u8]| {
            let mut frames = Frames::new();
            let mut batch = frames.batch(&[packet]);
            batch[0].meta_mut().port = IN;
            let mut verdicts = Verdicts::new();
            let has_refused = router.admit(&mut batch, &mut verdicts, Nanos::ZERO);
            frames.give(batch);
            (has_refused, verdicts[0])
        };
        assert_eq!(admit(&mut router, &packet), (true, Verdict::Drop));
        assert_eq!(counted(&router), BTreeMap::from([("own_source", 1)]));
        assert_eq!(run(&mut router, &packet).0, Verdict::Out(OUT), "a function has made it");
        let mut of_another_station = packet.clone();
        of_another_station[5] ^= 1;
        assert_eq!(admit(&mut router, &of_another_station), (true, Verdict::Drop));
        assert_eq!(router.counts().not_to_us, 1);
        router.apply(&FibChange::Made { address: address(text), is_made: false });
        assert_eq!(admit(&mut router, &packet), (false, Verdict::Next));
    }
}

#[test]
fn a_router_without_an_address_of_its_own_may_speak_to_functions_and_to_nobody_else() {
    let mut packet = udp(SIX, b"too big");
    packet[LINK + 8..LINK + 24]
        .copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let destination =
        packet[LINK + 24..LINK + 40].first_chunk::<16>().copied().expect("it is there");
    for is_made in [true, false] {
        let mut router = router();
        router.apply(&FibChange::Made { address: IpAddr::from(destination), is_made });
        let mut frames = Frames::new();
        let mut batch = frames.batch(&[&packet]);
        batch[0].meta_mut().port = IN;
        let mut verdicts = Verdicts::new();
        assert_eq!(router.admit(&mut batch, &mut verdicts, Nanos::ZERO), !is_made);
        frames.give(batch);
        assert_eq!(router.counts().link_local, u64::from(!is_made));
        assert_ne!(run(&mut router, &packet).0, Verdict::Out(OUT), "never forwarded");
    }
}

#[test]
fn servers_answer_in_a_services_name_and_send_nothing_of_its_tunnels() {
    let mut router = router();
    let source = Ipv4Addr::new(10, 0, 0, 1);
    router.apply(&FibChange::Served { address: source, is_served: true });
    router.apply(&FibChange::Made { address: source.into(), is_made: true });
    let is_refused = |protocol: u8, router: &mut Router| {
        let mut frames = Frames::new();
        let mut batch = frames.batch(&[&ipv4(protocol, &[], &[0; 40])]);
        batch[0].meta_mut().port = IN;
        let mut verdicts = Verdicts::new();
        router.admit(&mut batch, &mut verdicts, Nanos::ZERO);
        frames.give(batch);
        verdicts[0] == Verdict::Drop
    };
    for (protocol, is_forged) in
        [(1, false), (6, false), (17, false), (4, true), (41, true), (47, true), (50, true)]
    {
        assert_eq!(is_refused(protocol, &mut router), is_forged, "{protocol}");
    }
    assert_eq!(counted(&router), BTreeMap::from([("own_source", 4)]));
    router.apply(&FibChange::Served { address: source, is_served: false });
    assert!(is_refused(6, &mut router));
}

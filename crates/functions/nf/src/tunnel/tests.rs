//! Packets into tunnels and out of them, headers as the RFCs have them, and all that is refused.

use base::PortId;
use proptest::prelude::*;
use wire::checksum::Sum;

use super::*;
use crate::samples::{Frames, correct_checksum, ipv4, ipv6, udp};

const LINK: usize = 14;

fn settings(kind: Kind, key: Option<u32>, networks: &[&str]) -> TunnelSettings {
    TunnelSettings {
        kind,
        local: "192.0.2.1".parse().expect("an address"),
        remote: "192.0.2.2".parse().expect("an address"),
        networks: networks.iter().map(|text| text.parse().expect("a network")).collect(),
        key,
        mtu: 1500,
        addresses: Vec::new(),
    }
}

/// The tunnel at the other end.
fn turned(tunnel: &TunnelSettings, networks: &[&str]) -> TunnelSettings {
    let networks = networks.iter().map(|text| text.parse().expect("a network")).collect();
    TunnelSettings { local: tunnel.remote, remote: tunnel.local, networks, ..tunnel.clone() }
}

fn function(tunnel: &TunnelSettings) -> Tunnel {
    Tunnel::new(std::slice::from_ref(tunnel)).expect("it can be")
}

/// What becomes of one packet, and its bytes then.
fn pass(function: &mut Tunnel, packet: &[u8], now: Nanos) -> (Verdict, Vec<u8>) {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    batch[0].meta_mut().port = PortId(3);
    let mut verdicts = Verdicts::new();
    function.process(&mut batch, &mut verdicts, now);
    let result = (verdicts[0], batch[0].bytes().to_vec());
    frames.give(batch);
    result
}

/// The packet with one hop less.
fn hopped(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let limit = if packet[12] == 0x08 { LINK + 8 } else { LINK + 7 };
    packet[limit] -= 1;
    if packet[12] == 0x08 {
        correct_checksum(&mut packet);
    }
    packet
}

/// To 10.0.1.2 and fd01::2.
const THERE: &[&str] = &["10.0.1.0/24", "fd01::/16"];
/// From 10.0.0.1 and fd00::1.
const HERE: &[&str] = &["10.0.0.0/24", "fd00::/16"];

#[test]
fn packets_go_in_with_the_headers_of_the_standards_and_come_out_as_they_were() {
    for (kind, key, between) in [
        (Kind::Ipip, None, &[][..]),
        (Kind::Gre, None, &[0, 0]),
        (Kind::Gre, Some(0x0102_0304), &[0x20, 0]),
    ] {
        for is_outer_ipv4 in [true, false] {
            let mut near = settings(kind, key, THERE);
            if !is_outer_ipv4 {
                near.local = "2001:db8::1".parse().expect("an address");
                near.remote = "2001:db8::2".parse().expect("an address");
            }
            let (mut into, mut out) = (function(&near), function(&turned(&near, HERE)));
            for (packet, protocol, ether) in [
                (ipv4(253, &[], &[7; 40]), 4, [0x08, 0x00]),
                (ipv4(253, &[1, 1, 1, 0], &[7; 40]), 4, [0x08, 0x00]),
                (ipv6(253, &[7; 40]), 41, [0x86, 0xdd]),
            ] {
                let (verdict, inside) = pass(&mut into, &packet, Nanos::ZERO);
                assert_eq!(verdict, Verdict::Next);
                let header = if is_outer_ipv4 { 20 } else { 40 };
                let outer = &inside[LINK..LINK + header];
                let wanted = if kind == Kind::Gre { 47 } else { protocol };
                if is_outer_ipv4 {
                    assert_eq!(outer[..2], [0x45, 0]);
                    assert_eq!(outer[2..4], ((inside.len() - LINK) as u16).to_be_bytes());
                    assert_eq!(outer[4..10], [0, 0, 0x40, 0, 64, wanted]);
                    assert_eq!(outer[12..], [192, 0, 2, 1, 192, 0, 2, 2]);
                    assert_eq!(Sum::ZERO.bytes(outer).fold(), 0xffff);
                } else {
                    assert_eq!(outer[4..6], ((inside.len() - LINK - 40) as u16).to_be_bytes());
                    assert_eq!(outer[6..8], [wanted, 64]);
                }
                let mut expected = between.to_vec();
                if kind == Kind::Gre {
                    expected.extend(ether);
                    expected.extend(key.into_iter().flat_map(u32::to_be_bytes));
                }
                expected.extend(&hopped(&packet)[LINK..]);
                assert_eq!(inside[LINK + header..], expected);
                assert_eq!(inside[..12], packet[..12], "it stays on the link that it came by");
                let (verdict, outside) = pass(&mut out, &inside, Nanos::ZERO);
                assert_eq!((verdict, outside), (Verdict::Next, hopped(&packet)));
            }
            assert_eq!((into.counts().wrapped, out.counts().unwrapped), (3, 3));
        }
    }
}

#[test]
fn what_is_of_no_tunnel_passes_untouched() {
    let mut tunnel = function(&settings(Kind::Gre, None, &["10.7.0.0/16"]));
    for packet in [ipv4(253, &[], &[1; 20]), ipv6(253, &[1; 20]), vec![0xff; 60]] {
        assert_eq!(pass(&mut tunnel, &packet, Nanos::ZERO), (Verdict::Next, packet));
    }
    assert_eq!(*tunnel.counts(), TunnelCounters::default());
}

#[test]
fn dscp_and_ecn_go_outside_and_congestion_comes_back_in_by_rfc_6040() {
    let near = settings(Kind::Ipip, None, THERE);
    let (mut into, mut out) = (function(&near), function(&turned(&near, HERE)));
    let with_tos = |tos: u8| {
        let mut packet = ipv4(253, &[], &[7; 40]);
        packet[LINK + 1] = tos;
        correct_checksum(&mut packet);
        packet
    };
    for inner in 0..4 {
        let (_, inside) = pass(&mut into, &with_tos(0xb8 | inner), Nanos::ZERO);
        assert_eq!(inside[LINK + 1], 0xb8 | inner);
        let mut marked = inside;
        marked[LINK + 1] |= 3;
        correct_checksum(&mut marked);
        let (verdict, outside) = pass(&mut out, &marked, Nanos::ZERO);
        match inner {
            0 => assert_eq!((verdict, out.counts().congestion), (Verdict::Drop, 1)),
            _ => assert_eq!((verdict, outside), (Verdict::Next, hopped(&with_tos(0xbb)))),
        }
    }
}

#[test]
fn too_long_packets_and_spent_ones_are_answered() {
    let mut tunnel = function(&settings(Kind::Gre, Some(1), THERE));
    let fits = 1500 - 28;
    for (payload, is_answered) in [(fits - 20, false), (fits - 19, true)] {
        let (verdict, bytes) = pass(&mut tunnel, &ipv4(253, &[], &vec![1; payload]), Nanos::ZERO);
        assert_eq!(verdict == Verdict::Out(PortId(3)), is_answered, "{payload}");
        if is_answered {
            assert_eq!(bytes[LINK + 20..LINK + 22], [3, 4]);
            assert_eq!(bytes[LINK + 26..LINK + 28], (fits as u16).to_be_bytes());
        }
    }
    let mut spent = ipv4(253, &[], &[1; 20]);
    spent[LINK + 8] = 1;
    correct_checksum(&mut spent);
    let (verdict, bytes) = pass(&mut tunnel, &spent, Nanos::ZERO);
    assert_eq!((verdict, bytes[LINK + 20]), (Verdict::Out(PortId(3)), 11));
    let counts = tunnel.counts();
    assert_eq!((counts.too_long, counts.ttl_exceeded, counts.answered), (1, 1, 2));
}

/// An IPv4 packet that asks for the length of its path.
fn whole(payload: usize) -> Vec<u8> {
    let mut packet = ipv4(253, &[], &vec![1; payload]);
    packet[LINK + 6] = 0x40;
    correct_checksum(&mut packet);
    packet
}

/// What a router with a link of `mtu` bytes says of a packet from our end of the tunnel.
fn complaint(about: &[u8], mtu: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&about[LINK..LINK + 28]);
    let mut packet = ipv4(1, &[], &message);
    packet[LINK + 16..LINK + 20].copy_from_slice(&[192, 0, 2, 1]);
    correct_checksum(&mut packet);
    packet
}

#[test]
fn a_shorter_path_is_believed_for_ten_minutes_by_all_slices_and_bounded() {
    let first = function(&settings(Kind::Ipip, None, THERE));
    let (mut one, mut other) = (first.sharing_paths(), first);
    let long = whole(1400);
    let start = Nanos::from_secs(5);
    let (_, inside) = pass(&mut one, &long, start);
    assert_eq!(pass(&mut one, &complaint(&inside, 1300), start).0, Verdict::Drop);
    assert_eq!(one.counts().path_mtu_learned, 1);
    let (verdict, bytes) = pass(&mut other, &long, start);
    assert_eq!(verdict, Verdict::Out(PortId(3)));
    assert_eq!(bytes[LINK + 26..LINK + 28], 1280_u16.to_be_bytes());
    // Nobody makes a path shorter than any may be.
    pass(&mut one, &complaint(&inside, 68), start);
    let least = whole(576 - 40);
    assert_eq!(pass(&mut other, &least, start).0, Verdict::Next);
    assert_eq!(pass(&mut other, &long, start + Nanos::from_secs(601)).0, Verdict::Next);
    // Not about a packet of the tunnel.
    let mut about = inside;
    about[LINK + 19] = 9;
    pass(&mut one, &complaint(&about, 600), start);
    assert_eq!(one.counts().path_mtu_ignored, 1);
}

#[test]
fn packets_of_ipv6_go_in_as_long_as_every_link_takes_them_whatever_a_router_says() {
    let mut tunnel = function(&settings(Kind::Gre, None, THERE));
    let start = Nanos::from_secs(5);
    let (_, inside) = pass(&mut tunnel, &ipv4(253, &[], &[1; 1400]), start);
    assert_eq!(pass(&mut tunnel, &complaint(&inside, 576), start).0, Verdict::Drop);
    assert_eq!(tunnel.counts().path_mtu_learned, 1);
    assert_eq!(pass(&mut tunnel, &ipv6(253, &[1; 1280 - 40]), start).0, Verdict::Next);
    let (verdict, bytes) = pass(&mut tunnel, &ipv6(253, &[1; 1281 - 40]), start);
    // No address of IPv6 is there for an answer, and what is one of IPv4 says what was learned.
    assert_eq!((verdict, bytes.len()), (Verdict::Drop, LINK + 1281));
    let (verdict, bytes) = pass(&mut tunnel, &whole(1000), start);
    assert_eq!(verdict, Verdict::Out(PortId(3)));
    assert_eq!(bytes[LINK + 26..LINK + 28], (576_u16 - 24).to_be_bytes());
}

#[test]
fn packets_that_may_be_fragmented_go_in_as_long_as_the_operator_says_whatever_a_router_does() {
    let mut tunnel = function(&settings(Kind::Ipip, None, THERE));
    let start = Nanos::from_secs(5);
    let (_, inside) = pass(&mut tunnel, &whole(1400), start);
    assert_eq!(pass(&mut tunnel, &complaint(&inside, 576), start).0, Verdict::Drop);
    assert_eq!(tunnel.counts().path_mtu_learned, 1);
    let mut later = ipv4(17, &[], &[1; 1480 - 20]);
    later[LINK + 6..LINK + 8].copy_from_slice(&[0, 185]);
    correct_checksum(&mut later);
    for packet in [later, ipv4(253, &[], &[1; 1480 - 20])] {
        assert_eq!(pass(&mut tunnel, &packet, start).0, Verdict::Next);
    }
    assert_eq!(
        pass(&mut tunnel, &ipv4(253, &[], &[1; 1481 - 20]), start).0,
        Verdict::Out(PortId(3))
    );
    assert_eq!(pass(&mut tunnel, &whole(1000), start).0, Verdict::Out(PortId(3)));
}

#[test]
fn a_router_that_refuses_what_its_link_takes_is_not_believed() {
    let mut tunnel = function(&settings(Kind::Ipip, None, THERE));
    let start = Nanos::from_secs(5);
    let (_, inside) = pass(&mut tunnel, &ipv4(253, &[], &[1; 660]), start);
    // It is 700 bytes long.
    for mtu in [700, 1400] {
        assert_eq!(pass(&mut tunnel, &complaint(&inside, mtu), start).0, Verdict::Drop);
    }
    assert_eq!((tunnel.counts().path_mtu_ignored, tunnel.counts().path_mtu_learned), (2, 0));
    pass(&mut tunnel, &complaint(&inside, 699), start);
    assert_eq!(tunnel.counts().path_mtu_learned, 1);
}

#[test]
fn what_is_wrong_or_comes_from_elsewhere_does_not_come_out() {
    let near = settings(Kind::Gre, Some(7), THERE);
    let mut into = function(&near);
    let (_, good) = pass(&mut into, &ipv4(253, &[], &[1; 40]), Nanos::ZERO);
    let far = turned(&near, HERE);
    let change = |at: usize, to: &[u8]| {
        let mut packet = good.clone();
        packet[at..at + to.len()].copy_from_slice(to);
        correct_checksum(&mut packet);
        packet
    };
    let header = LINK + 20;
    let cut = |bytes: usize| {
        let mut packet = good[..header + bytes].to_vec();
        packet[LINK + 2..LINK + 4].copy_from_slice(&(20 + bytes as u16).to_be_bytes());
        correct_checksum(&mut packet);
        packet
    };
    type Count = fn(&TunnelCounters) -> u64;
    let cases: [(Vec<u8>, Count); 12] = [
        (change(LINK + 15, &[9]), |counts| counts.unknown_peer),
        (change(LINK + 9, &[4]), |counts| counts.unknown_peer),
        (change(LINK + 6, &[0x20, 0]), |counts| counts.fragment),
        (change(header + 4, &[1]), |counts| counts.bad_header),
        (change(header, &[0]), |counts| counts.bad_header),
        (change(header, &[0x60]), |counts| counts.bad_header),
        (change(header + 1, &[1]), |counts| counts.bad_header),
        (change(header + 2, &[0x08, 0x06]), |counts| counts.bad_header),
        (cut(3), |counts| counts.bad_header),
        (cut(7), |counts| counts.bad_header),
        (cut(8), |counts| counts.bad_payload),
        (change(header + 8 + 13, &[9]), |counts| counts.bad_payload),
    ];
    for (number, (packet, count)) in cases.into_iter().enumerate() {
        let mut out = function(&far);
        let (verdict, after) = pass(&mut out, &packet, Nanos::ZERO);
        assert_eq!((verdict, after), (Verdict::Drop, packet), "case {number}");
        assert_eq!(count(out.counts()), 1, "case {number}: {:?}", out.counts());
    }
    let mut out = function(&turned(&near, &["10.5.0.0/16"]));
    assert_eq!(pass(&mut out, &good, Nanos::ZERO).0, Verdict::Drop);
    assert_eq!(out.counts().foreign_source, 1);
}

#[test]
fn what_says_inside_that_it_comes_from_an_end_of_ours_does_not_come_out() {
    let near = settings(Kind::Ipip, None, THERE);
    let mut lie = ipv4(253, &[], &[1; 40]);
    lie[LINK + 12..LINK + 16].copy_from_slice(&[192, 0, 2, 2]);
    correct_checksum(&mut lie);
    let (_, inside) = pass(&mut function(&near), &lie, Nanos::ZERO);
    let far = turned(&near, HERE);
    let other = TunnelSettings {
        local: "192.0.2.9".parse().expect("an address"),
        remote: "192.0.2.7".parse().expect("an address"),
        ..far.clone()
    };
    // Whichever tunnel it is the end of.
    for (end, is_ours) in [(2, true), (3, false), (9, true)] {
        let far = TunnelSettings {
            networks: vec![format!("192.0.2.{end}/32").parse().expect("a network")],
            ..far.clone()
        };
        let mut out = Tunnel::new(&[far, other.clone()]).expect("they can be");
        let mut packet = inside.clone();
        packet[LINK + 20 + 15] = end;
        packet[LINK + 30..LINK + 32].fill(0);
        let sum = wire::checksum::of(&packet[LINK + 20..LINK + 40]);
        packet[LINK + 30..LINK + 32].copy_from_slice(&sum.to_be_bytes());
        let verdict = pass(&mut out, &packet, Nanos::ZERO).0;
        assert_eq!(verdict == Verdict::Drop, is_ours, "{end}");
        assert_eq!(out.counts().foreign_source, u64::from(is_ours), "{end}: {:?}", out.counts());
    }
}

#[test]
fn checksums_and_numbers_of_gre_are_passed_over_when_they_are_right() {
    let inside = ipv4(253, &[], &[1; 40])[LINK..].to_vec();
    for (flags, wrong) in [(0xb0, false), (0xb0, true)] {
        let mut payload = vec![flags, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1];
        payload.extend(&inside);
        let sum = Sum::ZERO.bytes(&payload).checksum() ^ u16::from(wrong);
        payload[4..6].copy_from_slice(&sum.to_be_bytes());
        let found = gre::read(&payload, Some(7));
        assert_eq!(found, (!wrong).then_some((16, true)));
    }
}

#[test]
fn tunnels_that_cannot_be_are_refused_with_a_sentence() {
    let good = settings(Kind::Ipip, None, THERE);
    let six = "2001:db8::1".parse().expect("an address");
    for (bad, words) in [
        (TunnelSettings { local: six, ..good.clone() }, "different IP versions"),
        (TunnelSettings { remote: good.local, ..good.clone() }, "the same address"),
        (TunnelSettings { key: Some(1), ..good.clone() }, "only GRE"),
        (TunnelSettings { networks: Vec::new(), ..good.clone() }, "no networks"),
        (settings(Kind::Gre, None, &["192.0.0.0/8"]), "through itself"),
        (TunnelSettings { mtu: 575, ..good.clone() }, "less than 576"),
        (
            TunnelSettings { mtu: 1307, ..settings(Kind::Gre, Some(7), &["fd02::/16"]) },
            "that IPv6 needs",
        ),
    ] {
        let error = Tunnel::new(&[good.clone(), bad]).expect_err(words);
        assert!(error.index == 1 && error.to_string().contains(words), "{error}");
    }
    let enough = TunnelSettings { mtu: 1308, ..settings(Kind::Gre, Some(7), &["fd02::/16"]) };
    Tunnel::new(&[enough]).expect("1,280 bytes are left inside");
}

proptest! {
    #[test]
    fn no_bytes_upset_a_tunnel(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..60usize) {
        let near = settings(Kind::Gre, Some(7), THERE);
        let mut out = function(&turned(&near, HERE));
        let (_, good) = pass(&mut function(&near), &udp(["10.0.0.1:1", "10.0.1.2:2"], &[1; 40]), Nanos::ZERO);
        pass(&mut out, &bytes, Nanos::ZERO);
        let mut changed = good;
        let end = changed.len().min(at + bytes.len());
        changed[at..end].copy_from_slice(&bytes[..end - at]);
        pass(&mut out, &changed, Nanos::ZERO);
        correct_checksum(&mut changed);
        pass(&mut out, &changed, Nanos::ZERO);
    }
}

#[test]
fn nobody_behind_a_tunnel_sends_from_an_address_that_other_functions_send_from() {
    let near = settings(Kind::Gre, None, THERE);
    let mut into = function(&near);
    for (packet, made) in [(ipv4(253, &[], &[7; 40]), "10.0.0.1"), (ipv6(253, &[7; 40]), "fd00::1")]
    {
        let (_, outer) = pass(&mut into, &packet, Nanos::ZERO);
        for (made, is_refused) in [(made, true), ("10.0.0.2", false)] {
            let all = ["192.0.2.200", made, "2001:db8::7"];
            let all = all.map(|address| address.parse().expect("an address"));
            let out = function(&turned(&near, HERE)).refusing(all.into_iter());
            let mut other_slice = out.sharing_paths();
            let (verdict, after) = pass(&mut other_slice, &outer, Nanos::ZERO);
            assert_eq!(verdict == Verdict::Drop, is_refused, "{made}");
            assert_eq!(other_slice.counts().foreign_source, u64::from(is_refused));
            assert_eq!(after == outer, is_refused, "{made}");
        }
    }
}

/// The outer packet of IPv6 with a header of options, as Linux writes it by default.
fn with_options(outer: &[u8], options: &[u8]) -> Vec<u8> {
    let mut packet = outer.to_vec();
    let bytes = u16::from_be_bytes([packet[LINK + 4], packet[LINK + 5]]) + options.len() as u16 + 2;
    packet[LINK + 4..LINK + 6].copy_from_slice(&bytes.to_be_bytes());
    let next = std::mem::replace(&mut packet[LINK + 6], 60);
    let header = [&[next, (options.len() / 8) as u8], options].concat();
    packet.splice(LINK + 40..LINK + 40, header);
    packet
}

#[test]
fn packets_come_out_from_behind_the_limit_that_linux_writes_and_from_behind_no_other_option() {
    const LIMIT: [u8; 6] = [4, 1, 4, 1, 1, 0];
    for (kind, key) in [(Kind::Ipip, None), (Kind::Gre, None), (Kind::Gre, Some(7))] {
        let mut near = settings(kind, key, THERE);
        near.local = "2001:db8::1".parse().expect("an address");
        near.remote = "2001:db8::2".parse().expect("an address");
        let (mut into, mut out) = (function(&near), function(&turned(&near, HERE)));
        for packet in [ipv4(253, &[], &[7; 40]), ipv6(253, &[7; 40])] {
            let (_, outer) = pass(&mut into, &packet, Nanos::ZERO);
            let long = [&LIMIT[..], &[1, 6, 0, 0, 0, 0, 0, 0]].concat();
            for options in [&LIMIT[..], &[1, 1, 0, 4, 1, 0], &[4, 1, 9, 0, 0, 0], &long] {
                let came = with_options(&outer, options);
                let (verdict, inside) = pass(&mut out, &came, Nanos::ZERO);
                assert_eq!((verdict, inside), (Verdict::Next, hopped(&packet)), "{options:?}");
            }
            let unwrapped = out.counts().unwrapped;
            let longest = [&LIMIT[..], &[1, 14], &[0; 14]].concat();
            // A router alert, a length that has no room, one that is cut off, and one too long.
            for options in
                [&[5, 2, 0, 0, 1, 0][..], &[4, 5, 4, 1, 1, 0], &[4, 1, 4, 0, 0, 1], &longest]
            {
                let came = with_options(&outer, options);
                let (verdict, after) = pass(&mut out, &came, Nanos::ZERO);
                assert_eq!((verdict, &after), (Verdict::Next, &came), "{options:?}");
            }
            assert_eq!(out.counts().unwrapped, unwrapped);
        }
    }
}

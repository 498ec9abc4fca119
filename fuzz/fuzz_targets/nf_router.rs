//! A batch of packets through the router: each becomes what it would become alone, is forwarded or
//! answered as the standards say, or stays as it was.
#![no_main]

use std::net::IpAddr;
use std::sync::{LazyLock, Mutex};

use base::{Nanos, PortId};
use calisto_nf::fib::Interface;
use calisto_nf::router::RouterSettings;
use calisto_nf::{Function, Neighbour, NextHop, Rib, Router, Verdict, Verdicts};
use fuzz::packets::{self, OUR_MAC};
use libfuzzer_sys::fuzz_target;
use shm::{Batch, FramePool};
use wire::checksum::Sum;
use wire::{ipv4, ipv6};

/// Tables and pool are made once: the router remembers of a packet only what it counts.
static HARNESS: LazyLock<Mutex<(Router, FramePool)>> =
    LazyLock::new(|| Mutex::new((router(), packets::pool())));
static TEMPLATES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(packets::templates);

const OUT: PortId = PortId(1);
const OUT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 9];
const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
const MTU: u32 = 1400;

fuzz_target!(|input: &[u8]| {
    let mut harness = HARNESS.lock().expect("one thread");
    let (router, pool) = &mut *harness;
    let mut batch = packets::batch(pool, &TEMPLATES, input);
    let before: Vec<Vec<u8>> = batch.iter().map(|frame| frame.bytes().to_vec()).collect();
    let ports: Vec<PortId> = batch.iter().map(|frame| frame.meta().port).collect();
    let mut verdicts = Verdicts::new();
    router.process(&mut batch, &mut verdicts, Nanos::ZERO);
    assert!(router.take_wanted().count() <= 64);
    for (index, before) in before.iter().enumerate() {
        let after = batch[index].bytes();
        let forwarded = router.counts().forwarded;
        let mut alone: Batch = [packets::frame(pool, before, ports[index])].into_iter().collect();
        let mut verdict = Verdicts::new();
        router.process(&mut alone, &mut verdict, Nanos::ZERO);
        assert_eq!(verdict[0], verdicts[index], "alone, a packet becomes the same");
        assert_eq!(alone[0].bytes(), after, "alone, a packet becomes the same");
        let before = &untagged(before);
        match verdicts[index] {
            Verdict::Drop => assert_eq!(after, before, "a dropped packet stays as it was"),
            Verdict::Out(port) if router.counts().forwarded > forwarded => {
                assert_eq!(port, OUT, "all routes lead there");
                check_forwarded(before, after);
            }
            Verdict::Out(port) => {
                assert_eq!(port, ports[index], "an answer goes where the packet came from");
                check_answer(before, after);
            }
            Verdict::Next => panic!("a router decides"),
        }
        alone.into_iter().for_each(|frame| pool.give(frame));
        router.take_wanted().for_each(drop);
    }
    batch.into_iter().for_each(|frame| pool.give(frame));
});

/// The packet of the link itself: a tag that names only a priority is taken off.
fn untagged(packet: &[u8]) -> Vec<u8> {
    match packet.get(12..16) {
        Some(&[0x81, 0, tci, 0]) if tci & 0x0f == 0 => [&packet[..12], &packet[16..]].concat(),
        _ => packet.to_vec(),
    }
}

fn check_forwarded(before: &[u8], after: &[u8]) {
    assert_eq!(after[..12], [NEXT_MAC, OUT_MAC].concat());
    assert!(after.len() <= before.len() && after.len() <= 14 + MTU as usize);
    let (old, new) = (&before[14..], &after[14..]);
    if old[0] >> 4 == 4 {
        let header = ipv4::Header::parse(new).expect("a forwarded packet is whole");
        assert_eq!(Sum::ZERO.bytes(&new[..usize::from(header.header_bytes)]).fold(), 0xffff);
        assert_eq!(new[8], old[8] - 1);
        assert_eq!((&new[..8], new[9], &new[12..]), (&old[..8], old[9], &old[12..new.len()]));
    } else {
        ipv6::Header::parse(new).expect("a forwarded packet is whole");
        assert_eq!(new[7], old[7] - 1);
        assert_eq!((&new[..7], &new[8..]), (&old[..7], &old[8..new.len()]));
    }
}

fn check_answer(before: &[u8], after: &[u8]) {
    assert_eq!(after[..6], before[6..12]);
    let packet = &after[14..];
    if packet[0] >> 4 == 4 {
        assert!(packet.len() <= 576 && packet[9] == 1);
        assert_eq!(Sum::ZERO.bytes(&packet[..20]).fold(), 0xffff);
        assert_eq!(Sum::ZERO.bytes(&packet[20..]).fold(), 0xffff);
        assert!(before[14..].starts_with(&packet[28..]), "it quotes the packet as it came");
    } else {
        let header = ipv6::Header::parse(packet).expect("an answer is whole");
        let (from, to, bytes) = (header.source, header.destination, header.payload_bytes);
        let pseudo = Sum::ZERO.pseudo_ipv6(from, to, 58, bytes);
        assert!(packet.len() <= 1280 && packet[6] == 58);
        assert_eq!(pseudo.bytes(&packet[40..]).fold(), 0xffff);
        assert!(before[14..].starts_with(&packet[48..]), "it quotes the packet as it came");
    }
}

fn router() -> Router {
    let mut rib = Rib::new();
    let mut steps = Vec::new();
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let gateway = |text| NextHop::Gateway { port: OUT, address: address(text) };
    for (prefix, to) in [
        ("10.0.0.0/16", NextHop::OnLink { port: OUT }),
        ("10.9.0.0/16", gateway("10.0.1.1")),
        ("10.9.1.128/25", NextHop::Unreachable),
        ("10.12.0.0/16", NextHop::Blackhole),
        ("10.14.0.0/16", NextHop::Prohibit),
        ("128.0.0.0/1", gateway("10.0.1.66")),
        ("192.0.0.0/8", NextHop::OnLink { port: PortId(3) }),
        ("10.0.1.254/32", NextHop::Local),
        ("fd00::/15", NextHop::OnLink { port: OUT }),
        ("fd09::/32", gateway("fd01::1")),
        ("fd09::8/125", NextHop::Unreachable),
        ("8000::/1", gateway("10.0.1.66")),
    ] {
        rib.load(prefix.parse().expect("a prefix"), to).expect("room");
    }
    for (text, neighbour) in [
        ("10.0.1.2", Neighbour::At(NEXT_MAC)),
        ("10.0.1.1", Neighbour::At(NEXT_MAC)),
        ("10.0.1.66", Neighbour::Failed),
        ("fd01::2", Neighbour::At(NEXT_MAC)),
        ("fd01::1", Neighbour::At(NEXT_MAC)),
    ] {
        rib.set_neighbour(OUT, address(text), Some(neighbour), &mut steps);
    }
    for (port, mac, four, six) in [
        (PortId(0), OUR_MAC, Some([10, 0, 0, 254]), Some("fd00::ff")),
        (OUT, OUT_MAC, Some([10, 0, 1, 254]), Some("fd01::ff")),
        (PortId(2), OUR_MAC, None, None),
    ] {
        let four = four.map(|bytes| bytes.into());
        let six = six.map(|text| text.parse().expect("an address"));
        rib.set_interface(port, Some(Interface { mac, mtu: MTU, four, six }), &mut steps);
    }
    rib.set_own(address("10.0.1.254"), true, &mut steps);
    rib.set_own(address("fd01::ff"), true, &mut steps);
    // No limit, so that a packet's answer does not depend on how many came before.
    let settings = RouterSettings { icmp_per_second: u32::MAX, icmp_burst: u32::MAX };
    Router::new(rib.fib(1), &settings)
}

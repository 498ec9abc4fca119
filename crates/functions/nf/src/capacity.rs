//! What a function's capacity is measured with: a function set up as in use, and packets that it
//! passes.
//!
//! The measurement itself reads clocks and is elsewhere; with the same subjects every figure is
//! about the same work.

mod fresh;
mod translated;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Nanos, PortId};
use wire::build::UdpPacket;

use fresh::Fresh;
use translated::Translated;

use crate::acl::{Acl, Action, Rule};
use crate::fib::{Interface, Neighbour};
use crate::firewall::FirewallSettings;
use crate::l2::Link;
use crate::nat::{Filtering, NatSettings};
use crate::policer::{Class, PerSource, Policer};
use crate::router::RouterSettings;
use crate::track::{Timeouts, TrackSettings};
use crate::{Firewall, Function, L2, Nat, NextHop, Prefix, Rib, Router, Selector};

/// Where packets come in.
pub const IN: PortId = PortId(0);
/// Where they leave, if the function says where.
pub const OUT: PortId = PortId(1);
/// Link address of both ports and of all neighbours, so that a packet that was forwarded can come
/// in again.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Times that a packet can be forwarded, one after the other, before its TTL ends.
pub const PASSES: usize = 250;

/// What is measured.
pub struct Subject {
    /// What it is, for people.
    pub name: &'static str,
    /// Set up as in use.
    pub function: Box<dyn Function>,
    /// All of them pass. They may come in at [`IN`] again and again, [`PASSES`] times without being
    /// written anew.
    pub packets: Vec<Vec<u8>>,
}

/// Different packets: more than a batch, fewer than a cache.
const PACKETS: usize = 256;
/// Connections that a firewall holds.
const CONNECTIONS: usize = 100_000;
/// Rules before the one that matches.
const RULES: u8 = 15;
/// Bytes of the headers of a UDP packet.
const HEADERS4: usize = 42;
const HEADERS6: usize = 62;

/// Every function, with frames of `frame_bytes` (64 to 1514, without their checksum).
pub fn subjects(frame_bytes: usize) -> Vec<Subject> {
    let (four, six) = (packets(frame_bytes, false), packets(frame_bytes, true));
    let link = Link { from: IN, to: OUT, source: None, destination: None };
    let subject =
        |name, function, packets: &Vec<_>| Subject { name, function, packets: packets.clone() };
    vec![
        subject("l2", Box::new(L2::new(&[link]).expect("one direction")), &four),
        subject("router IPv4", Box::new(router()), &four),
        subject("router IPv6", Box::new(router()), &six),
        subject("acl, 16 rules", Box::new(acl()), &four),
        subject("policer, a class", Box::new(policer(None)), &four),
        subject("policer, sources", Box::new(policer(SITES)), &four),
        subject("firewall, 100,000 connections", Box::new(firewall(&four)), &four),
        subject("firewall, new connections", Box::new(Fresh::new(forgetful_firewall())), &four),
        subject("nat, 100,000 connections", Box::new(nat(&four)), &four),
    ]
}

const SITES: Option<PerSource> = Some(PerSource { ipv4_bits: 32, ipv6_bits: 64 });

/// UDP packets with destinations spread over networks.
fn packets(frame_bytes: usize, is_ipv6: bool) -> Vec<Vec<u8>> {
    let headers = if is_ipv6 { HEADERS6 } else { HEADERS4 };
    let payload = vec![0x5a; frame_bytes.saturating_sub(headers)];
    let packet = |n: usize| {
        // Multiplied by an odd number, so that neighbours in time are not neighbours in the tables.
        let n = (n as u32).wrapping_mul(0x9e37_79b1);
        let [source, destination]: [IpAddr; 2] = match is_ipv6 {
            true => [
                Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n % 64)).into(),
                Ipv6Addr::from_bits(0x2001_0db9 << 96 | u128::from(n) << 64 | 1).into(),
            ],
            false => [
                Ipv4Addr::from_bits(0x0b00_0000 + n % 64).into(),
                Ipv4Addr::from_bits(0x0a00_0000 | n >> 8).into(),
            ],
        };
        let packet = UdpPacket {
            source_mac: MAC,
            destination_mac: MAC,
            source: SocketAddr::new(source, 5000),
            destination: SocketAddr::new(destination, 9),
            payload: &payload,
            vlan: None,
        };
        let mut frame = vec![0; packet.len()];
        packet.write(&mut frame).expect("a buffer of the packet's length");
        let limit = 14 + if is_ipv6 { 7 } else { 8 };
        let old = u16::from_be_bytes([frame[limit], frame[limit + 1]]);
        frame[limit] = u8::MAX;
        if !is_ipv6 {
            let new = u16::from_be_bytes([frame[limit], frame[limit + 1]]);
            let sum = u16::from_be_bytes([frame[24], frame[25]]);
            let sum = wire::checksum::update(sum, old, new);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        frame
    };
    (0..PACKETS).map(packet).collect()
}

/// 65,536 IPv4 and as many IPv6 routes to 16 gateways.
fn router() -> Router {
    let mut rib = Rib::new();
    let mut steps = Vec::new();
    let gateway = |n: u32| IpAddr::from(Ipv4Addr::from_bits(0xac10_0001 + n % 16));
    for n in 0..0x1_0000u32 {
        let to = NextHop::Gateway { port: OUT, address: gateway(n) };
        let four = Prefix::of(Ipv4Addr::from_bits(0x0a00_0000 | n << 8).into(), 24);
        let six = 0x2001_0db9 << 96 | u128::from(n) << 80;
        rib.load(four, to).expect("a fraction of what there is room for");
        rib.load(Prefix::of(Ipv6Addr::from_bits(six).into(), 48), to)
            .expect("a fraction of what there is room for");
    }
    for n in 0..16 {
        rib.set_neighbour(OUT, gateway(n), Some(Neighbour::At(MAC)), &mut steps);
    }
    for port in [IN, OUT] {
        let interface = Interface { mac: MAC, mtu: 1500, four: None, six: None };
        rib.set_interface(port, Some(interface), &mut steps);
    }
    Router::new(rib.fib(1), &RouterSettings::default())
}

/// The last of its rules matches.
fn acl() -> Acl {
    let from = |n: u8| Selector {
        source: Some(Prefix::of(IpAddr::from([192, 168, n, 0]), 24)),
        protocol: Some(6),
        ..Selector::default()
    };
    let mut rules: Vec<_> =
        (0..RULES).map(|n| Rule { action: Action::Deny, selector: from(n) }).collect();
    rules.push(Rule {
        action: Action::Permit,
        selector: Selector { protocol: Some(17), ..Selector::default() },
    });
    Acl::new(&rules, Action::Deny, Action::Deny).expect("rules that packets can match")
}

/// Faster than anything can send.
fn policer(per_source: Option<PerSource>) -> Policer {
    let class = Class {
        selector: Selector::default(),
        bytes_per_second: 1 << 40,
        burst_bytes: Class::BURST_MAX,
        per_source,
    };
    Policer::new(&[class], 1).expect("a class that packets can be of")
}

/// One that has as many connections, those of `packets` among them, none of which runs out while
/// anybody measures.
fn firewall(packets: &[Vec<u8>]) -> Firewall {
    let mut firewall = open_firewall(TrackSettings::default());
    for packet in others(packets.len()).chain(packets.iter().cloned()) {
        assert!(firewall.admits(&packet, IN, Nanos::ZERO), "there is room, and nothing denies it");
    }
    assert_eq!(firewall.connections(), CONNECTIONS, "they differ, and none gave way");
    firewall
}

/// One in which what gives way is drawn from all: no source has more than others.
fn forgetful_firewall() -> Firewall {
    open_firewall(TrackSettings { unanswered_each: u32::MAX, ..TrackSettings::default() })
}

/// One that has as many connections, those of `packets` among them.
fn nat(packets: &[Vec<u8>]) -> Translated {
    let most = TrackSettings {
        unanswered_each: u32::MAX,
        connections_each: u32::MAX,
        ..NatSettings::track()
    };
    let nat = Nat::new(&NatSettings {
        outside: vec![OUT],
        addresses: (1..=32).map(|last| Ipv4Addr::new(192, 0, 2, last)).collect(),
        inside: vec![Prefix::of(Ipv4Addr::new(8, 0, 0, 0).into(), 5)],
        filtering: Filtering::default(),
        ports_each: 64_512,
        track: tracking(most),
    });
    let all: Vec<Vec<u8>> = others(packets.len()).chain(packets.iter().cloned()).collect();
    let translated = Translated::new(nat, [IN, OUT], &all);
    assert_eq!(translated.connections(), CONNECTIONS, "they differ, and none gave way");
    translated
}

/// One that permits everything.
fn open_firewall(track: TrackSettings) -> Firewall {
    Firewall::new(&FirewallSettings {
        rules: Vec::new(),
        default: Action::Permit,
        not_ip: Action::Permit,
        zones: Vec::new(),
        track: tracking(track),
    })
    .expect("no rules at all make sense")
}

/// None of its connections runs out while anybody measures.
fn tracking(track: TrackSettings) -> TrackSettings {
    const DAYS: u32 = 20 * 86_400;
    let timeouts = Timeouts { udp: DAYS, udp_stream: DAYS, ..track.timeouts };
    TrackSettings { connections: 1 << 17, timeouts, seed: 1, ..track }
}

/// First packets of as many connections as are missing beside those.
fn others(there: usize) -> impl Iterator<Item = Vec<u8>> {
    (there..CONNECTIONS).map(|n| {
        let end = |network: u32, n: usize| {
            SocketAddr::new(Ipv4Addr::from_bits(network | n as u32 >> 8).into(), n as u16 | 1024)
        };
        let mut frame = vec![0; HEADERS4];
        let packet = UdpPacket {
            source_mac: MAC,
            destination_mac: MAC,
            source: end(0x0c00_0000, n),
            destination: end(0x0d00_0000, n),
            payload: &[],
            vlan: None,
        };
        packet.write(&mut frame).expect("a buffer of the packet's length");
        frame
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Frames;
    use crate::{Verdict, Verdicts};

    #[test]
    fn every_packet_passes_as_often_as_it_is_said_to() {
        let mut frames = Frames::new();
        for bytes in [64, 1514] {
            for mut subject in subjects(bytes) {
                let name = subject.name;
                for packets in subject.packets.chunks(64) {
                    let slices: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
                    let mut batch = frames.batch(&slices);
                    assert!(batch.iter().all(|frame| frame.len() == bytes), "{name}");
                    for _ in 0..PASSES {
                        let mut verdicts = Verdicts::new();
                        subject.function.process(&mut batch, &mut verdicts, Nanos::ZERO);
                        let passes = |verdict: &Verdict| {
                            matches!(verdict, Verdict::Next | Verdict::Out(OUT))
                        };
                        assert!(verdicts.of(64).iter().all(passes), "{name}");
                    }
                    frames.give(batch);
                }
            }
        }
    }

    #[test]
    fn each_packet_to_a_fresh_firewall_begins_a_connection() {
        let (mut frames, mut fresh) = (Frames::new(), Fresh::new(forgetful_firewall()));
        let packet = &packets(64, false)[0];
        let mut batch = frames.batch(&[&packet[..]; 3]);
        for _ in 0..100 {
            let mut verdicts = Verdicts::new();
            fresh.process(&mut batch, &mut verdicts, Nanos::ZERO);
            assert_eq!(verdicts.of(3), [Verdict::Next; 3]);
        }
        assert_eq!(fresh.connections(), 300);
        frames.give(batch);
    }
}

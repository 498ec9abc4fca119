//! Programs of hooks against the verifier, and their rules against rules written down plainly;
//! needs root. Routers need a network: `tests/tests/hook.rs`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wire::checksum;

use super::*;
use crate::hook::{Exit, HookAcl, HookCounters, HookFunctions, HookRouter, HookRule};
use crate::xdp::bpf::{self, GPL_TOO, MAP_TYPE_XSKMAP, Map};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// The program is loaded; what it counts.
fn load(functions: &HookFunctions, may_be_open: bool) -> (OwnedFd, HookCounters) {
    let counters = HookCounters::create(functions).expect("the tests of XDP run as root");
    let sockets = Map::create(MAP_TYPE_XSKMAP, "test", 4, 4, 4, 0).expect("root makes maps");
    let place = Place {
        functions,
        counters_fd: counters.map().as_fd().as_raw_fd(),
        mac: MAC,
        checksums_may_be_open: may_be_open,
        is_generic: false,
    };
    let code = assemble(&place, sockets.as_fd().as_raw_fd());
    let program = bpf::load_under(GPL_TOO, "test", &code, false)
        .unwrap_or_else(|refused| panic!("{functions:?}: {refused}"));
    (program, counters)
}

/// What a rule sees of a packet.
#[derive(Clone, Copy, Debug)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut payload = self.ports.0.to_be_bytes().to_vec();
        payload.extend(self.ports.1.to_be_bytes());
        payload.extend([0; 20]);
        let mut bytes = MAC.to_vec();
        bytes.extend([2, 0, 0, 0, 0, 8]);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![0x45, 0, 0, 44, 0, 1, 0, 0, 9, self.protocol, 0, 0];
                header.extend(source.octets());
                header.extend(destination.octets());
                let sum = checksum::Sum::ZERO.bytes(&header).checksum().to_be_bytes();
                header[10..12].copy_from_slice(&sum);
                bytes.extend([8, 0]);
                bytes.extend(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, self.protocol, 9]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            _ => panic!("of one version"),
        }
        bytes.extend(payload);
        bytes
    }
}

fn is_within(address: IpAddr, prefix: Option<(IpAddr, u8)>) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
        IpAddr::V6(six) => six.to_bits(),
    };
    prefix.is_none_or(|(network, bits)| {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        network.is_ipv4() == address.is_ipv4() && (number(network) ^ number(address)) & mask == 0
    })
}

/// Which rule decides, from one, or zero for none, and whether it denies.
fn decides(acl: &HookAcl, packet: &Packet) -> (usize, bool) {
    let has_ports = [6, 17, 33, 132, 136].contains(&packet.protocol);
    let within = |range: Option<(u16, u16)>, port: u16| {
        range.is_none_or(|(first, last)| has_ports && first <= port && port <= last)
    };
    let matches = |rule: &&HookRule| {
        is_within(packet.source, rule.source)
            && is_within(packet.destination, rule.destination)
            && rule.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && within(rule.source_ports, packet.ports.0)
            && within(rule.destination_ports, packet.ports.1)
    };
    let found = acl.rules.iter().position(|rule| matches(&rule));
    found.map_or((0, acl.denies), |at| (at + 1, acl.rules[at].denies))
}

/// Addresses that differ in few bits, so that prefixes hit.
fn address(is_ipv6: bool) -> impl Strategy<Value = IpAddr> {
    (0..4u8, 0..4u8, 0..4u8).prop_map(move |(a, b, c)| match is_ipv6 {
        false => Ipv4Addr::new(10 + a, b << 6, 0, c << 6).into(),
        true => Ipv6Addr::from_bits(
            0x2001_0db8 << 96 | u128::from(a) << 94 | u128::from(b) << 62 | u128::from(c) << 30,
        )
        .into(),
    })
}

fn prefix() -> impl Strategy<Value = Option<(IpAddr, u8)>> {
    let four = (address(false), 0..=32u8);
    let six = (address(true), 0..=128u8);
    proptest::option::of(prop_oneof![four, six])
}

fn range() -> impl Strategy<Value = Option<(u16, u16)>> {
    proptest::option::weighted(0.4, (0..6u16, 0..4u16).prop_map(|(from, more)| (from, from + more)))
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(6), Just(17), Just(1), Just(58), Just(132), Just(50)]
}

fn rule() -> impl Strategy<Value = HookRule> {
    let ends = (prefix(), prefix(), range(), range());
    (any::<bool>(), proptest::option::of(protocol()), ends).prop_map(
        |(denies, protocol, (source, destination, source_ports, destination_ports))| HookRule {
            denies,
            source,
            destination,
            protocol,
            source_ports,
            destination_ports,
        },
    )
}

fn acls() -> impl Strategy<Value = Vec<HookAcl>> {
    let acl = (proptest::collection::vec(rule(), 0..8), any::<bool>())
        .prop_map(|(rules, denies)| HookAcl { rules, denies });
    proptest::collection::vec(acl, 1..4)
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let one = (any::<bool>(), protocol(), (0..9u16, 0..9u16)).prop_flat_map(
        |(is_ipv6, protocol, ports)| {
            (address(is_ipv6), address(is_ipv6)).prop_map(move |(source, destination)| Packet {
                source,
                destination,
                protocol,
                ports,
            })
        },
    );
    proptest::collection::vec(one, 1..40)
}

/// What the program answers for a packet that is dropped, and for one that nobody has a socket for.
const DROPPED: u32 = 1;
const LEFT: u32 = 2;

#[test]
fn rules_in_the_hook_decide_and_count_as_rules_do() {
    let mut runner = TestRunner::new(Config { cases: 64, ..Config::default() });
    let checked = runner.run(&(acls(), packets()), |(acls, packets)| {
        let functions = HookFunctions { acls, router: None };
        let (program, counters) = load(&functions, true);
        let mut expected: Vec<Vec<u64>> =
            functions.acls.iter().map(|acl| vec![0; acl.rules.len() + 1]).collect();
        let mut permitted = 0;
        for packet in packets {
            let decided: Vec<_> = functions.acls.iter().map(|acl| decides(acl, &packet)).collect();
            let denied = decided.iter().position(|(_, denies)| *denies);
            let answer = bpf::test_run(&program, &packet.bytes()).expect("the kernel runs it");
            let wanted = if denied.is_some() { DROPPED } else { LEFT };
            prop_assert_eq!(answer, wanted, "{:?}: {:?}", packet, functions);
            // Whoever finishes a packet counts it.
            match denied {
                Some(last) => (0..=last).for_each(|acl| expected[acl][decided[acl].0] += 1),
                None => permitted += 1,
            }
        }
        let counts = counters.read(&functions).expect("root reads maps");
        prop_assert_eq!(&counts.acls, &expected);
        prop_assert_eq!(counts.fixed[HookCounter::Permitted as usize], permitted);
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_verifier_takes_programs_of_every_size() {
    let exits = (1..=40).map(|index| Exit { index, takes_redirects: index % 2 == 0 });
    let router = HookRouter {
        liars: (0..200u32)
            .map(|n| match n % 2 {
                0 => Ipv4Addr::from_bits(n | 10 << 24).into(),
                _ => IpAddr::V6(Ipv6Addr::from_bits(u128::from(n) | 0x20 << 120)),
            })
            .collect(),
        exits: exits.collect(),
    };
    let rule = HookRule {
        denies: true,
        source: Some(("10.1.2.3".parse().expect("an address"), 32)),
        destination: Some(("10.1.2.4".parse().expect("an address"), 31)),
        protocol: Some(6),
        source_ports: Some((1, 2)),
        destination_ports: Some((3, 4)),
    };
    let six = HookRule {
        source: Some(("2001:db8::1".parse().expect("an address"), 127)),
        destination: Some(("2001:db8::2".parse().expect("an address"), 128)),
        ..rule
    };
    let anything = HookRule::default();
    let all = HookRule { denies: true, ..anything };
    let rules = |count| (0..count).map(|n| if n % 2 == 0 { rule } else { six }).collect();
    for (acls, router) in [
        (vec![], Some(HookRouter::default())),
        (vec![], Some(router.clone())),
        (vec![HookAcl { rules: vec![], denies: true }], Some(router.clone())),
        (vec![HookAcl { rules: vec![all, rule], denies: false }], None),
        (vec![HookAcl { rules: vec![anything, rule], denies: true }; 16], Some(router.clone())),
        (vec![HookAcl { rules: rules(HookFunctions::RULES_MAX), denies: true }], Some(router)),
        (vec![HookAcl { rules: rules(16), denies: false }; 16], None),
    ] {
        let functions = HookFunctions { acls, router };
        for may_be_open in [true, false] {
            load(&functions, may_be_open);
        }
    }
}

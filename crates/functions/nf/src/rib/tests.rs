//! The tables against the plain meaning of longest prefix, built at once and step by step.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

mod full_table;
mod room;

/// Every route is looked at for every address.
#[derive(Default)]
struct Oracle {
    routes: BTreeMap<Prefix, NextHop>,
}

impl Oracle {
    fn lookup(&self, address: IpAddr) -> Option<NextHop> {
        let matching = self.routes.iter().filter(|(prefix, _)| prefix.contains(address));
        matching.max_by_key(|(prefix, _)| prefix.bits()).map(|(_, to)| *to)
    }

    /// Addresses where something could change: those at the edges of prefixes.
    fn edges(&self, extra: impl IntoIterator<Item = Prefix>) -> Vec<IpAddr> {
        let mut edges = Vec::new();
        for prefix in self.routes.keys().copied().chain(extra) {
            match prefix.address() {
                IpAddr::V4(first) => {
                    let first = first.to_bits();
                    let last = first | !crate::prefix::mask4(prefix.bits());
                    for address in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                        edges.push(Ipv4Addr::from_bits(address).into());
                    }
                }
                IpAddr::V6(first) => {
                    let first = first.to_bits();
                    let last = first | !crate::prefix::mask6(prefix.bits());
                    for address in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                        edges.push(Ipv6Addr::from_bits(address).into());
                    }
                }
            }
        }
        edges
    }
}

fn lookup(fib: &Fib, address: IpAddr) -> Option<NextHop> {
    let id = match address {
        IpAddr::V4(four) => fib.four.lookup(four.to_bits()),
        IpAddr::V6(six) => fib.six.lookup(six.to_bits()),
    };
    fib.hop(id).map(|hop| hop.to)
}

fn via(port: u16) -> NextHop {
    NextHop::OnLink { port: PortId(port) }
}

/// Prefixes that lie in each other and side by side, of every length.
fn any_prefix() -> impl Strategy<Value = Prefix> {
    let four = (
        0..=32u8,
        prop::sample::select(vec![0x0a00_0000u32, 0x0a01_02ff, 0x0bff_ff00, u32::MAX]),
        any::<u32>(),
        0..=32u32,
    )
        .prop_map(|(bits, base, noise, keep)| {
            let address = base ^ noise.checked_shr(keep).unwrap_or(0);
            Prefix::of(Ipv4Addr::from_bits(address).into(), bits)
        });
    let bases = vec![0x2001_0db8u128 << 96, 0x2a00 << 112 | 0xffff, u128::MAX, 0];
    let six = (0..=128u8, prop::sample::select(bases), any::<u128>(), 0..=128u32).prop_map(
        |(bits, base, noise, keep)| {
            let address = base ^ noise.checked_shr(keep).unwrap_or(0);
            Prefix::of(Ipv6Addr::from_bits(address).into(), bits)
        },
    );
    prop_oneof![four, six]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_step_leaves_tables_that_answer_as_the_routes_before_or_after_it_do(
        changes in prop::collection::vec((any_prefix(), prop::option::weighted(0.7, 1..6u16)), 1..40),
    ) {
        let mut rib = Rib::new();
        let mut fib = rib.fib(1);
        let mut oracle = Oracle::default();
        for (prefix, to) in changes {
            let edges = oracle.edges([prefix]);
            let before: Vec<_> = edges.iter().map(|edge| oracle.lookup(*edge)).collect();
            let mut steps = Vec::new();
            match to {
                Some(port) => {
                    rib.set(prefix, via(port), &mut steps).expect("room");
                    oracle.routes.insert(prefix, via(port));
                }
                None => {
                    let was_there = rib.remove(prefix, &mut steps);
                    prop_assert_eq!(was_there, oracle.routes.remove(&prefix).is_some());
                }
            }
            let after: Vec<_> = edges.iter().map(|edge| oracle.lookup(*edge)).collect();
            for step in &steps {
                prop_assert!(step.entries() <= FibChange::ENTRIES_MAX);
                fib.apply(step);
                if steps.len() < 30 {
                    for ((edge, before), after) in edges.iter().zip(&before).zip(&after) {
                        let now = lookup(&fib, *edge);
                        prop_assert!(now == *before || now == *after, "{}: {:?}", edge, step);
                    }
                }
            }
            for (edge, after) in edges.iter().zip(&after) {
                prop_assert_eq!(lookup(&fib, *edge), *after, "{}", edge);
            }
            prop_assert_eq!(rib.get(prefix), oracle.routes.get(&prefix).copied());
            prop_assert_eq!(rib.len().0 + rib.len().1, oracle.routes.len());
        }
        let fresh = rib.fib(2);
        for edge in oracle.edges([]) {
            prop_assert_eq!(lookup(&fresh, edge), oracle.lookup(edge), "built at once: {}", edge);
        }
        let prefixes: Vec<_> = oracle.routes.keys().copied().collect();
        for prefix in prefixes {
            let mut steps = Vec::new();
            prop_assert!(rib.remove(prefix, &mut steps));
            steps.iter().for_each(|step| fib.apply(step));
            oracle.routes.remove(&prefix);
            for edge in oracle.edges([prefix]) {
                prop_assert_eq!(lookup(&fib, edge), oracle.lookup(edge), "{}", edge);
            }
        }
        prop_assert!(rib.is_empty());
    }

    #[test]
    fn tables_loaded_at_once_answer_as_the_routes_do(
        routes in prop::collection::vec((any_prefix(), 1..200u16), 1..200),
        addresses in prop::collection::vec(any::<u128>(), 64),
    ) {
        let mut rib = Rib::new();
        let mut oracle = Oracle::default();
        for (prefix, port) in routes {
            rib.load(prefix, via(port)).expect("room");
            oracle.routes.insert(prefix, via(port));
        }
        let fib = rib.fib(1);
        let four: Vec<u32> = addresses.iter().map(|address| *address as u32).collect();
        let (mut hops4, mut hops6) = ([HopId::NONE; 64], [HopId::NONE; 64]);
        fib.four.lookup_batch(&four, &mut hops4);
        fib.six.lookup_batch(&addresses, &mut hops6);
        for (n, (four, six)) in four.iter().zip(&addresses).enumerate() {
            let (four, six) = (Ipv4Addr::from_bits(*four).into(), Ipv6Addr::from_bits(*six).into());
            prop_assert_eq!(fib.hop(hops4[n]).map(|hop| hop.to), oracle.lookup(four));
            prop_assert_eq!(fib.hop(hops6[n]).map(|hop| hop.to), oracle.lookup(six));
        }
        for edge in oracle.edges([]) {
            prop_assert_eq!(lookup(&fib, edge), oracle.lookup(edge), "{}", edge);
        }
    }
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a test writes prefixes that parse")
}

#[test]
fn a_default_route_writes_few_entries_however_many_routes_there_are() {
    let mut rib = Rib::new();
    for third in 0..=255u8 {
        rib.load(Prefix::of([10, 0, third, 0].into(), 24), via(1)).expect("room");
    }
    let mut steps = Vec::new();
    rib.set(Prefix::ALL_IPV4, via(2), &mut steps).expect("room");
    rib.set(Prefix::ALL_IPV6, via(2), &mut steps).expect("room");
    assert!(steps.len() <= 2 + 16, "{}", steps.len());
}

#[test]
fn a_gateway_knows_its_link_address_whichever_came_first() {
    let (port, address) = (PortId(2), IpAddr::from([10, 0, 0, 9]));
    let to = NextHop::Gateway { port, address };
    let known = Neighbour::At([2, 0, 0, 0, 0, 9]);
    let mut rib = Rib::new();
    let mut fib = rib.fib(1);
    let mut steps = Vec::new();
    assert!(rib.set_neighbour(port, address, Some(known), &mut steps));
    rib.set(prefix("10.1.0.0/16"), to, &mut steps).expect("room");
    let check = |fib: &Fib, expected| {
        let hop = *fib.hop(fib.four.lookup(0x0a01_0001)).expect("a route");
        assert_eq!(hop, crate::fib::Hop { to, neighbour: expected });
        assert_eq!(fib.neighbour(port, address), expected);
    };
    steps.drain(..).for_each(|step| fib.apply(&step));
    check(&fib, Some(known));
    check(&rib.fib(2), Some(known));
    for next in [None, Some(Neighbour::Failed), Some(known)] {
        assert!(rib.set_neighbour(port, address, next, &mut steps));
        steps.drain(..).for_each(|step| fib.apply(&step));
        check(&fib, next);
    }
}

#[test]
fn neighbours_beyond_the_tables_size_are_refused() {
    let mut rib = Rib::new();
    let mut steps = Vec::new();
    let address = |n: usize| IpAddr::from(Ipv4Addr::from_bits(n as u32));
    for n in 0..NEIGHBOURS {
        assert!(rib.set_neighbour(PortId(0), address(n), Some(Neighbour::Failed), &mut steps));
    }
    assert!(!rib.set_neighbour(
        PortId(0),
        address(NEIGHBOURS),
        Some(Neighbour::Failed),
        &mut steps
    ));
    assert_eq!(steps.len(), NEIGHBOURS);
    assert!(rib.set_neighbour(PortId(0), address(0), Some(Neighbour::At([2; 6])), &mut steps));
    assert!(rib.set_neighbour(PortId(0), address(0), None, &mut steps));
    assert!(rib.set_neighbour(PortId(0), address(NEIGHBOURS), Some(Neighbour::Failed), &mut steps));
}

//! Routes that come and go: after every step the tables answer as the routes before or after it do,
//! and tables built at once answer the same.
#![no_main]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{LazyLock, Mutex};

use base::PortId;
use calisto_nf::{Fib, NextHop, Prefix, Rib};
use libfuzzer_sys::fuzz_target;

/// Made once, because tables are large; every input removes its routes again.
static HARNESS: LazyLock<Mutex<(Rib, Fib)>> = LazyLock::new(|| {
    let rib = Rib::new();
    let fib = rib.fib(1);
    Mutex::new((rib, fib))
});

fuzz_target!(|input: &[u8]| {
    let mut harness = HARNESS.lock().expect("one thread");
    let (rib, fib) = &mut *harness;
    let mut routes = BTreeMap::new();
    for piece in input.chunks_exact(6).take(64) {
        let [kind, bits, one, two, three, hop] = *piece else { unreachable!("chunks of six") };
        let prefix = prefix_of(kind & 1 != 0, bits, [one, two, three]);
        // One of eight next hops, or none: the route goes.
        let to = (kind & 2 == 0).then_some(NextHop::OnLink { port: PortId(u16::from(hop % 8)) });
        change(rib, fib, &mut routes, prefix, to);
    }
    let prefixes: Vec<Prefix> = routes.keys().copied().collect();
    for prefix in prefixes {
        change(rib, fib, &mut routes, prefix, None);
    }
    assert!(rib.is_empty());
});

/// A prefix that often lies in, around or beside others: few of its bytes are free.
fn prefix_of(is_ipv6: bool, bits: u8, [one, two, three]: [u8; 3]) -> Prefix {
    match is_ipv6 {
        true => {
            let address = u128::from(one) << 120
                | u128::from(two) << (u32::from(three % 15) * 8)
                | u128::from(three) << (u32::from(two % 15) * 8);
            Prefix::of(Ipv6Addr::from_bits(address).into(), bits % 129)
        }
        false => {
            let address = u32::from_be_bytes([one & 0x83, two & 1, three, two]);
            Prefix::of(Ipv4Addr::from_bits(address).into(), bits % 33)
        }
    }
}

fn change(
    rib: &mut Rib,
    fib: &mut Fib,
    routes: &mut BTreeMap<Prefix, NextHop>,
    prefix: Prefix,
    to: Option<NextHop>,
) {
    let edges = edges(routes, prefix);
    let answers = |routes: &BTreeMap<Prefix, NextHop>| -> Vec<Option<NextHop>> {
        edges.iter().map(|edge| plainly(routes, *edge)).collect()
    };
    let before = answers(routes);
    let mut steps = Vec::new();
    match to {
        Some(to) => {
            rib.set(prefix, to, &mut steps).expect("64 routes find room");
            routes.insert(prefix, to);
        }
        None => {
            let was_there = rib.remove(prefix, &mut steps);
            assert_eq!(was_there, routes.remove(&prefix).is_some());
        }
    }
    let after = answers(routes);
    for step in &steps {
        fib.apply(step);
        for ((edge, before), after) in edges.iter().zip(&before).zip(&after) {
            let now = lookup(fib, *edge);
            assert!(now == *before || now == *after, "{edge} after {step:?} of {prefix}");
        }
    }
    for (edge, after) in edges.iter().zip(&after) {
        assert_eq!(lookup(fib, *edge), *after, "{edge} after {prefix}");
    }
    assert_eq!(rib.get(prefix), routes.get(&prefix).copied());
}

/// First and last address of each prefix, and those beside them.
fn edges(routes: &BTreeMap<Prefix, NextHop>, prefix: Prefix) -> Vec<IpAddr> {
    let mut edges = Vec::new();
    for prefix in routes.keys().copied().chain([prefix]) {
        match prefix.address() {
            IpAddr::V4(first) => {
                let first = first.to_bits();
                let last = first | u32::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
                for address in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                    edges.push(Ipv4Addr::from_bits(address).into());
                }
            }
            IpAddr::V6(first) => {
                let first = first.to_bits();
                let last = first | u128::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
                for address in [first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                    edges.push(Ipv6Addr::from_bits(address).into());
                }
            }
        }
    }
    edges
}

/// The longest prefix that has the address: every route is looked at.
fn plainly(routes: &BTreeMap<Prefix, NextHop>, address: IpAddr) -> Option<NextHop> {
    let matching = routes.iter().filter(|(prefix, _)| prefix.contains(address));
    matching.max_by_key(|(prefix, _)| prefix.bits()).map(|(_, to)| *to)
}

fn lookup(fib: &Fib, address: IpAddr) -> Option<NextHop> {
    let id = match address {
        IpAddr::V4(four) => fib.four.lookup(four.to_bits()),
        IpAddr::V6(six) => fib.six.lookup(six.to_bits()),
    };
    fib.hop(id).map(|hop| hop.to)
}

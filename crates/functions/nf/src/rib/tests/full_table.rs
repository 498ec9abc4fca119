//! A table of the size and the mix of the Internet's, drawn from a seed.

use std::collections::HashMap;

use super::*;

/// Prefixes of each length in a thousand, as collectors of the Internet's table see it (about).
const MIX: [(u8, u64); 17] = [
    (8, 1),
    (10, 1),
    (11, 1),
    (12, 1),
    (13, 1),
    (14, 1),
    (15, 2),
    (16, 14),
    (17, 9),
    (18, 14),
    (19, 26),
    (20, 46),
    (21, 55),
    (22, 115),
    (23, 105),
    (24, 580),
    (32, 28),
];
/// Of the table that is drawn.
const SEED: u64 = 7;
const PREFIXES: usize = 900_000;

struct Draw(u64);

impl Draw {
    /// SplitMix64 (Steele, Lea, Flood, 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A unicast address.
    fn address(&mut self) -> u32 {
        let first = 1 + (self.next() % 222) as u32;
        first << 24 | (self.next() as u32 & 0x00ff_ffff)
    }

    fn prefix(&mut self) -> (u32, u8) {
        let mut draw = self.next() % MIX.iter().map(|(_, weight)| weight).sum::<u64>();
        let length = MIX.iter().find(|(_, weight)| {
            let is_it = draw < *weight;
            draw = draw.saturating_sub(*weight);
            is_it
        });
        let mut bits = length.map_or(24, |(bits, _)| *bits);
        if bits == 32 {
            bits = 25 + (self.next() % 8) as u8;
        }
        (self.address() & crate::prefix::mask4(bits), bits)
    }
}

fn longest(routes: &HashMap<(u32, u8), u16>, address: u32) -> Option<NextHop> {
    let of = |bits: u8| routes.get(&(address & crate::prefix::mask4(bits), bits));
    (0..=32).rev().find_map(of).map(|port| via(*port))
}

#[test]
fn a_full_table_fits_and_every_choice_is_the_longest_prefix_before_and_after_changes() {
    let mut draw = Draw(SEED);
    let mut rib = Rib::new();
    let mut routes = HashMap::new();
    while routes.len() < PREFIXES {
        let (address, bits) = draw.prefix();
        let port = (draw.next() % 300) as u16;
        rib.load(Prefix::of(Ipv4Addr::from_bits(address).into(), bits), via(port)).expect("room");
        routes.insert((address, bits), port);
    }
    assert_eq!((rib.len(), rib.withheld()), ((PREFIXES, 0), 0));
    let mut fib = rib.fib(SEED);
    let compare = |fib: &Fib, routes: &HashMap<(u32, u8), u16>, draw: &mut Draw| {
        // A fifth of them, which is not the same fifth each time.
        for (address, bits) in routes.keys().step_by(5) {
            for address in [*address, address | !crate::prefix::mask4(*bits)] {
                let found = lookup(fib, Ipv4Addr::from_bits(address).into());
                assert_eq!(found, longest(routes, address), "{address:#x}, SEED={SEED}");
            }
        }
        for _ in 0..200_000 {
            let address = draw.address();
            let found = lookup(fib, Ipv4Addr::from_bits(address).into());
            assert_eq!(found, longest(routes, address), "{address:#x}, SEED={SEED}");
        }
    };
    compare(&fib, &routes, &mut draw);
    let mut steps = Vec::new();
    for _ in 0..50_000 {
        let (address, bits) = draw.prefix();
        let prefix = Prefix::of(Ipv4Addr::from_bits(address).into(), bits);
        let port = (draw.next() % 300) as u16;
        rib.set(prefix, via(port), &mut steps).expect("room");
        routes.insert((address, bits), port);
    }
    let gone: Vec<_> = routes.keys().copied().step_by(9).collect();
    for (address, bits) in gone {
        assert!(rib.remove(Prefix::of(Ipv4Addr::from_bits(address).into(), bits), &mut steps));
        routes.remove(&(address, bits));
    }
    steps.iter().for_each(|step| fib.apply(step));
    compare(&fib, &routes, &mut draw);
}

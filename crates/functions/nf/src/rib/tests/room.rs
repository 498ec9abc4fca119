//! What becomes of routes for which the tables have no room: nothing goes to the wrong router, and
//! they are in force once there is room.

use super::*;

/// Packets for `address` go where the routes say, or nowhere for want of room.
fn is_right(fib: &Fib, oracle: &Oracle, address: IpAddr) -> bool {
    let found = lookup(fib, address);
    found == oracle.lookup(address) || found == Some(NextHop::NoRoom)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_that_are_full_send_nothing_to_the_wrong_router_and_are_right_when_there_is_room(
        changes in prop::collection::vec((any_prefix(), prop::option::weighted(0.7, 1..6u16)), 1..120),
        groups in 0..4u16,
        superblocks in 22..30u32,
    ) {
        let mut rib = Rib::new();
        rib.four = Routes4::with_groups(groups);
        rib.six = Routes6::with_nodes(superblocks * 64);
        let mut fib = rib.fib(1);
        let mut oracle = Oracle::default();
        for (prefix, to) in changes {
            let edges = oracle.edges([prefix]);
            let before: Vec<_> = edges.iter().map(|edge| oracle.lookup(*edge)).collect();
            let mut steps = Vec::new();
            match to {
                Some(port) => {
                    let done = rib.set(prefix, via(port), &mut steps);
                    prop_assert!(done.is_ok() || rib.withheld() > 0);
                    oracle.routes.insert(prefix, via(port));
                }
                None => {
                    let was_there = rib.remove(prefix, &mut steps);
                    prop_assert_eq!(was_there, oracle.routes.remove(&prefix).is_some());
                }
            }
            for step in &steps {
                fib.apply(step);
                if steps.len() < 30 {
                    for (edge, before) in edges.iter().zip(&before) {
                        let now = lookup(&fib, *edge);
                        prop_assert!(
                            now == *before || is_right(&fib, &oracle, *edge),
                            "{}: {:?}", edge, step
                        );
                    }
                }
            }
            let fresh = rib.fib(2);
            for edge in &edges {
                prop_assert!(is_right(&fib, &oracle, *edge), "{}", edge);
                prop_assert_eq!(lookup(&fib, *edge), lookup(&fresh, *edge), "{}", edge);
                if rib.withheld() == 0 {
                    prop_assert_eq!(lookup(&fib, *edge), oracle.lookup(*edge), "{}", edge);
                }
            }
            prop_assert_eq!(rib.get(prefix), oracle.routes.get(&prefix).copied());
            prop_assert_eq!(rib.len().0 + rib.len().1, oracle.routes.len());
            let mut all = BTreeMap::new();
            rib.each(&mut |prefix, to| assert_eq!(all.insert(prefix, to), None, "{prefix} twice"));
            prop_assert_eq!(&all, &oracle.routes);
        }
        // All but one of the longest go: there is room for it again.
        let kept = oracle.routes.keys().copied().max_by_key(|prefix| prefix.bits());
        let gone: Vec<_> = oracle.routes.keys().copied().filter(|one| Some(*one) != kept).collect();
        for prefix in gone {
            let mut steps = Vec::new();
            prop_assert!(rib.remove(prefix, &mut steps));
            steps.iter().for_each(|step| fib.apply(step));
            oracle.routes.remove(&prefix);
        }
        if groups > 0 {
            prop_assert_eq!(rib.withheld(), 0);
            for edge in oracle.edges([]) {
                prop_assert_eq!(lookup(&fib, edge), oracle.lookup(edge), "{}", edge);
            }
        }
    }
}

#[test]
fn networks_with_long_prefixes_beyond_the_groups_get_nothing_until_one_is_free() {
    let mut rib = Rib::new();
    let long = |n: u32| Prefix::of(Ipv4Addr::from_bits(0x0a00_0000 + (n << 8)).into(), 32);
    rib.load(prefix("10.0.0.0/8"), via(7)).expect("room");
    for n in 0..u32::from(crate::fib::LONG_GROUPS) {
        rib.load(long(n), via(1)).expect("room");
    }
    let mut fib = rib.fib(1);
    let one_more = long(u32::from(crate::fib::LONG_GROUPS));
    let mut steps = Vec::new();
    assert_eq!(rib.set(one_more, via(2), &mut steps), Err(RibError::LongPrefixes));
    assert_eq!((rib.get(one_more), rib.withheld()), (Some(via(2)), 1));
    steps.drain(..).for_each(|step| fib.apply(&step));
    assert_eq!(lookup(&fib, one_more.address()), Some(NextHop::NoRoom), "not by 10.0.0.0/8");
    assert_eq!(lookup(&rib.fib(2), one_more.address()), Some(NextHop::NoRoom));
    let of_one_that_has_a_group = prefix("10.0.0.1/32");
    assert_eq!(rib.set(of_one_that_has_a_group, via(1), &mut steps), Ok(()));
    assert!(rib.remove(long(9), &mut steps));
    steps.drain(..).for_each(|step| fib.apply(&step));
    assert_eq!(rib.withheld(), 0);
    assert_eq!(lookup(&fib, one_more.address()), Some(via(2)), "without being set again");
    assert_eq!(lookup(&fib, long(9).address()), Some(via(7)));
}

#[test]
fn routes_to_more_next_hops_than_can_be_numbered_lead_nowhere_until_a_number_is_free() {
    let mut rib = Rib::new();
    let gateway =
        |n: u32| NextHop::Gateway { port: PortId(0), address: Ipv4Addr::from_bits(n).into() };
    let host = |n: u32| Prefix::of(Ipv6Addr::from_bits(u128::from(n) << 96).into(), 32);
    rib.load(prefix("::/0"), gateway(2)).expect("room");
    for n in 2..u32::from(HopId::LIMIT) {
        rib.load(host(n), gateway(n)).expect("room");
    }
    let mut fib = rib.fib(1);
    let mut steps = Vec::new();
    let last = u32::from(HopId::LIMIT);
    for n in [last, last + 1] {
        let full = rib.set(host(n), gateway(last), &mut steps);
        assert_eq!(full, Err(RibError::NextHops));
    }
    assert_eq!(rib.get(host(last)), Some(gateway(last)));
    steps.drain(..).for_each(|step| fib.apply(&step));
    assert_eq!(lookup(&fib, host(last).address()), Some(NextHop::NoRoom), "not by ::/0");
    assert!(rib.remove(host(9), &mut steps));
    steps.drain(..).for_each(|step| fib.apply(&step));
    for n in [last, last + 1] {
        assert_eq!(lookup(&fib, host(n).address()), Some(gateway(last)));
    }
    assert_eq!(rib.withheld(), 0);
}

#[test]
fn a_trie_that_was_filled_and_emptied_takes_as_much_again() {
    let mut rib = Rib::new();
    rib.six = Routes6::with_nodes(64 * 200);
    let host = |n: u128| Prefix::of(Ipv6Addr::from_bits((0x2001 << 112) | (n << 64)).into(), 64);
    let mut steps = Vec::new();
    let mut filled = |spread: u128| {
        let mut n = 0;
        while rib.set(host(n * spread), via(1), &mut steps).is_ok() {
            n += 1;
        }
        for gone in 0..=n {
            assert!(rib.remove(host(gone * spread), &mut steps), "the withheld one too");
        }
        steps.clear();
        assert!(rib.is_empty() && rib.withheld() == 0);
        n
    };
    let first = filled(1);
    // Of other shapes in between, so that the runs are of other lengths.
    for spread in [64, 4096, 7, 1 << 20] {
        filled(spread);
    }
    assert_eq!(filled(1), first);
}

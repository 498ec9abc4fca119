//! Tests of the table of neighbours.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

#[test]
fn a_full_table_refuses_a_new_neighbour_and_still_finds_all_others() {
    let mut table = Neighbours::new(1);
    let address = |n: usize| IpAddr::from(Ipv4Addr::from_bits(n as u32));
    for n in 0..NEIGHBOURS {
        assert!(table.set(PortId(1), address(n), Some(Neighbour::At([2, 0, 0, 0, 0, n as u8]))));
    }
    assert!(!table.set(PortId(1), address(NEIGHBOURS), Some(Neighbour::Failed)));
    assert!(table.set(PortId(1), address(5), Some(Neighbour::Failed)), "a known one may change");
    assert_eq!(table.get(PortId(1), address(NEIGHBOURS)), None);
    assert_eq!(table.get(PortId(1), address(5)), Some(Neighbour::Failed));
    assert_eq!(table.get(PortId(2), address(6)), None, "on another link");
    for n in 6..NEIGHBOURS {
        let expected = Some(Neighbour::At([2, 0, 0, 0, 0, n as u8]));
        assert_eq!(table.get(PortId(1), address(n)), expected);
    }
}

proptest! {
    #[test]
    fn the_table_answers_as_a_map_does(
        seed in any::<u64>(),
        steps in prop::collection::vec((0..3u16, any::<[bool; 2]>(), 0..40u8, any::<Option<u8>>()), 1..300),
    ) {
        let mut table = Neighbours::new(seed);
        let mut map = BTreeMap::new();
        for (port, [is_six, is_far], last, value) in steps {
            let address = match (is_six, is_far) {
                (true, true) => IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 0, 0, 0, 0, 1]),
                (true, false) => IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
                (false, true) => IpAddr::from([10, last, 0, 1]),
                (false, false) => IpAddr::from([10, 0, 0, last]),
            };
            let neighbour = value.map(|value| Neighbour::At([2, 0, 0, 0, 0, value]));
            prop_assert!(table.set(PortId(port), address, neighbour));
            match neighbour {
                Some(neighbour) => map.insert((port, address), neighbour),
                None => map.remove(&(port, address)),
            };
            prop_assert_eq!(table.len(), map.len());
            for ((port, address), neighbour) in &map {
                prop_assert_eq!(table.get(PortId(*port), *address), Some(*neighbour));
            }
        }
    }
}

#[test]
fn entries_that_begin_at_one_place_survive_the_removal_of_any_of_them() {
    let table = Neighbours::new(7);
    let port = PortId(0);
    // Neighbours whose search begins at the last places, so that they go round the end.
    let crowd: Vec<IpAddr> = (0..2_000_000u32)
        .map(|n| IpAddr::from(Ipv4Addr::from_bits(n)))
        .filter(|address| table.home(Key::new(port, *address)) >= PLACES - 2)
        .take(12)
        .collect();
    assert_eq!(crowd.len(), 12);
    for gone in 0..crowd.len() {
        let mut table = table.clone();
        for (n, address) in crowd.iter().enumerate() {
            assert!(table.set(port, *address, Some(Neighbour::At([n as u8; 6]))));
        }
        assert!(table.set(port, crowd[gone], None));
        for (n, address) in crowd.iter().enumerate() {
            let expected = (n != gone).then_some(Neighbour::At([n as u8; 6]));
            assert_eq!(table.get(port, *address), expected, "{n} without {gone}");
        }
    }
}

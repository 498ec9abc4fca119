//! Entries that come and go, against a plain model of what the kernel would use.

use base::PortId;
use proptest::prelude::*;

use super::*;
use crate::ports::PortInterface;

fn ports() -> Ports {
    let interface = |(name, index): (&str, u32)| PortInterface {
        name: name.to_owned(),
        index,
        mac: [2, 0, 0, 0, 0, index as u8],
        mtu: 1500,
    };
    Ports::new([("eth0", 4), ("eth1", 7)].map(interface).to_vec())
}

fn at(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// An entry of table main by eth0.
fn entry(prefix: &str, gateway: Option<&str>, metric: u32) -> Entry {
    let prefix: Prefix = prefix.parse().expect("a prefix");
    Entry {
        destination: prefix.address(),
        prefix_bits: prefix.bits(),
        table: TABLE_MAIN,
        metric,
        tos: 0,
        kind: EntryKind::Unicast,
        interface: 4,
        gateway: gateway.map(at),
        further_hops: 0,
        mtu: None,
        is_alive: true,
    }
}

fn via(gateway: &str) -> Option<NextHop> {
    Some(NextHop::Gateway { port: PortId(0), address: at(gateway) })
}

#[test]
fn the_least_metric_counts_and_the_next_one_when_it_goes() {
    let mut routes = KernelRoutes::new(ports());
    let [one, two] = [("10.0.0.1", 20), ("10.0.0.2", 10)]
        .map(|(gateway, metric)| entry("10.1.0.0/16", Some(gateway), metric));
    let change = |change: Option<RouteChange>| change.map(|(_, to)| to);
    assert_eq!(change(routes.set(&one, Placed::First)), Some(via("10.0.0.1")));
    assert_eq!(change(routes.set(&two, Placed::First)), Some(via("10.0.0.2")));
    assert_eq!(change(routes.remove(&two)), Some(via("10.0.0.1")));
    assert_eq!(change(routes.remove(&one)), Some(None));
    assert_eq!((routes.len(), routes.is_in_doubt()), ((0, 0), false));
}

#[test]
fn entries_of_one_metric_stand_as_the_kernel_placed_them() {
    let mut routes = KernelRoutes::new(ports());
    let new = |gateway| entry("10.1.0.0/16", Some(gateway), 0);
    let change = |change: Option<RouteChange>| change.map(|(_, to)| to);
    assert_eq!(change(routes.set(&new("10.0.0.1"), Placed::First)), Some(via("10.0.0.1")));
    assert_eq!(change(routes.set(&new("10.0.0.2"), Placed::Last)), None);
    assert_eq!(change(routes.set(&new("10.0.0.3"), Placed::First)), Some(via("10.0.0.3")));
    assert_eq!(change(routes.set(&new("10.0.0.4"), Placed::Instead)), Some(via("10.0.0.4")));
    assert_eq!(change(routes.remove(&new("10.0.0.4"))), Some(via("10.0.0.1")));
    assert_eq!(change(routes.remove(&new("10.0.0.1"))), Some(via("10.0.0.2")));
    assert!(!routes.is_in_doubt());
    assert_eq!(change(routes.remove(&new("10.0.0.9"))), None);
    assert!(routes.is_in_doubt(), "something went that was not there");
}

#[test]
fn an_entry_that_was_dumped_and_is_told_again_goes_as_one() {
    let mut routes = KernelRoutes::new(ports());
    let one = entry("10.1.0.0/16", Some("10.0.0.1"), 0);
    routes.add(&one);
    assert_eq!(routes.set(&one, Placed::First), None);
    assert_eq!(routes.remove(&one), Some((gone_prefix(), None)));
    assert!(!routes.is_in_doubt());
}

#[test]
fn our_own_addresses_come_before_routes_and_other_tables_do_not_count() {
    let mut routes = KernelRoutes::new(ports());
    let main = entry("10.1.0.1/32", Some("10.0.0.1"), 0);
    routes.add(&main);
    routes.add(&Entry { table: 255, kind: EntryKind::Here, metric: 9, ..main });
    routes.add(&Entry { table: 7, metric: 0, gateway: Some(at("10.0.0.7")), ..main });
    routes.add(&entry("fe80::/64", None, 256));
    routes.add(&Entry { kind: EntryKind::Here, table: 255, ..entry("ff00::/8", None, 256) });
    let mut all = Vec::new();
    routes.each(|prefix, to| all.push((prefix.to_string(), to)));
    assert_eq!(all, [("10.1.0.1/32".to_owned(), NextHop::Local)]);
}

#[test]
fn what_leads_nowhere_or_elsewhere_is_known_as_that() {
    let mut routes = KernelRoutes::new(ports());
    let mut to = |change: &dyn Fn(&mut Entry)| {
        let mut entry = entry("10.1.0.0/16", None, 0);
        change(&mut entry);
        let _ = routes.remove(&entry);
        routes.set(&entry, Placed::Instead).and_then(|(_, to)| to)
    };
    assert_eq!(to(&|_| {}), Some(NextHop::OnLink { port: PortId(0) }));
    assert_eq!(to(&|entry| entry.interface = 7), Some(NextHop::OnLink { port: PortId(1) }));
    assert_eq!(to(&|entry| entry.interface = 5), Some(NextHop::Local));
    assert_eq!(to(&|entry| entry.kind = EntryKind::Blackhole), Some(NextHop::Blackhole));
    assert_eq!(to(&|entry| entry.kind = EntryKind::Prohibit), Some(NextHop::Prohibit));
    assert_eq!(to(&|entry| entry.kind = EntryKind::Throw), Some(NextHop::NoRoute));
    assert_eq!(to(&|entry| entry.is_alive = false), None);
    assert_eq!(to(&|entry| entry.tos = 8), None);
}

#[test]
fn what_is_not_done_as_the_kernel_does_is_counted() {
    let mut routes = KernelRoutes::new(ports());
    routes.add(&Entry { further_hops: 1, ..entry("10.1.0.0/16", Some("10.0.0.1"), 0) });
    routes.add(&Entry { interface: 5, ..entry("10.2.0.0/16", None, 0) });
    routes.add(&entry("10.3.0.0/16", None, 0));
    assert_eq!(routes.deviations(), Deviations { multipath: 1, elsewhere: 1 });
    let gone = Entry { further_hops: 1, ..entry("10.1.0.0/16", Some("10.0.0.1"), 0) };
    assert_eq!(routes.remove(&gone), Some((gone_prefix(), None)));
    assert!(routes.is_in_doubt(), "it may have been one next hop only");
}

fn gone_prefix() -> Prefix {
    "10.1.0.0/16".parse().expect("a prefix")
}

#[test]
fn a_fresh_dump_changes_what_differs_and_nothing_else() {
    let dump = |entries: &[Entry]| {
        let mut routes = KernelRoutes::new(ports());
        entries.iter().for_each(|entry| routes.add(entry));
        routes
    };
    let [a, b, c, d] = ["10.1.0.0/16", "10.2.0.0/16", "fd01::/16", "fd02::/16"]
        .map(|prefix| entry(prefix, None, 0));
    let mut routes = dump(&[a, b, c]);
    let mut changes = Vec::new();
    routes.replace(dump(&[a, Entry { interface: 7, ..b }, d]), |change| changes.push(change));
    let changes: Vec<_> = changes.iter().map(|(at, to)| (at.to_string(), *to)).collect();
    let [eth0, eth1] = [0, 1].map(|port| Some(NextHop::OnLink { port: PortId(port) }));
    let expected = [("10.2.0.0/16", eth1), ("fd01::/16", None), ("fd02::/16", eth0)];
    assert_eq!(changes, expected.map(|(at, to)| (at.to_owned(), to)));
    assert_eq!(routes.len(), (2, 1));
}

proptest! {
    /// However news and dumps come, what was told adds up to what is known.
    #[test]
    fn changes_add_up_to_the_routes(
        news in prop::collection::vec((0..4_u8, 0..3_u8, 0..2_u32, 0..4_u8), 0..60),
    ) {
        let mut routes = KernelRoutes::new(ports());
        let mut told: BTreeMap<Prefix, NextHop> = BTreeMap::new();
        let mut tell = |(prefix, to): RouteChange| match to {
            Some(to) => { told.insert(prefix, to); }
            None => { told.remove(&prefix); }
        };
        for (net, gateway, metric, what) in news {
            let entry = entry(&format!("10.{net}.0.0/16"), Some(&format!("10.9.0.{gateway}")), metric);
            let change = match what {
                0 => routes.remove(&entry),
                1 => routes.set(&entry, Placed::Last),
                2 => routes.set(&entry, Placed::Instead),
                _ => routes.set(&entry, Placed::First),
            };
            change.into_iter().for_each(&mut tell);
        }
        let mut known = BTreeMap::new();
        routes.each(|prefix, to| { known.insert(prefix, to); });
        prop_assert_eq!(&told, &known);
        let mut lists: Vec<_> = routes.routes.values().map(|id| routes.lists.get(*id)).collect();
        lists.sort_unstable();
        lists.dedup();
        prop_assert_eq!(lists.len(), routes.lists.len(), "each is kept once, and none for nobody");
    }
}

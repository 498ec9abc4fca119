//! Where first packets may come from: the kernel's routes, read again when they change, as workers
//! look them up.
//!
//! A source must be behind the port that it comes by, as with `rp_filter = 1`, also where that is
//! 0: an answer of ours leaves by the port of the question, which Linux's would not. With
//! `rp_filter = 2` on the interface, or for all, any route will do; the kernel tells nobody that it
//! was changed, so it is read with the routes.

use std::net::IpAddr;

use base::Nanos;
use stack::{PREFIXES_MAX, Ports, SourcePrefix, Sources};
use sys::route::{self, Entry, EntryKind, TABLE_MAIN};

use super::interfaces::PortInterface;
use super::routes::Link;

/// Time between two readings of the routes: whoever changes them often has them read late, and
/// callers from behind a new one must say again that they are there.
const READ_EVERY: Nanos = Nanos::from_millis(50);

/// The same where there are too many to be kept: telling them takes the kernel long.
const READ_MANY_EVERY: Nanos = Nanos::from_secs(10);

/// Tables that are looked into where no rule says otherwise (RT_TABLE_LOCAL, RT_TABLE_DEFAULT).
const TABLE_LOCAL: u32 = 255;
const TABLE_DEFAULT: u32 = 253;

/// In the order in which they are looked into.
const TABLES: [u32; 3] = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];

/// The routes as they were read last.
pub(super) struct SourceRoutes {
    links: Vec<Link>,
    /// The interface of each port, which keeps its name with another number.
    names: Vec<(Ports, String)>,
    /// When they are to be read; none: nothing has changed.
    due: Option<Nanos>,
    /// When they may be read again.
    rests_until: Nanos,
}

/// Why sources are not checked.
pub(super) type Unchecked = &'static str;

impl SourceRoutes {
    /// The routes by `links`, not read yet. Names of interfaces by number, for their settings.
    pub(super) fn new(links: Vec<Link>, names: &[PortInterface]) -> Self {
        let name = |link: &Link| {
            let named = names.iter().find(|named| named.number == link.interface);
            named.map(|named| (Ports::of(link.port), named.name.clone()))
        };
        let names = links.iter().filter_map(name).collect();
        Self { links, names, due: Some(Nanos::ZERO), rests_until: Nanos::ZERO }
    }

    /// An interface of ours has another number now.
    pub(super) fn renumber(&mut self, from: u32, to: u32) {
        for link in self.links.iter_mut().filter(|link| link.interface == from) {
            link.interface = to;
        }
    }

    /// Routes, addresses or interfaces have changed.
    pub(super) fn note_change(&mut self, now: Nanos) {
        self.due.get_or_insert(now.max(self.rests_until));
    }

    /// When they are to be read.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.due.unwrap_or(Nanos::FAR_FUTURE)
    }

    /// Reads them if it is time.
    pub(super) fn read(&mut self, now: Nanos) -> Option<Result<Sources, Unchecked>> {
        self.due.take_if(|due| *due <= now)?;
        self.rests_until = now + READ_EVERY;
        match route::rules() {
            Err(_) => return Some(Err("the kernel does not say its rules of routing")),
            Ok(rules) if !rules.is_empty() => {
                return Some(Err("there are rules of routing beside the usual (`ip rule`)"));
            }
            Ok(_) => {}
        }
        let mut entries = Vec::with_capacity(PREFIXES_MAX + 1);
        // One more than is kept says that there are too many.
        let dumped = route::dump(|entry| {
            if entries.len() <= PREFIXES_MAX {
                entries.push(entry);
            }
        });
        if entries.len() > PREFIXES_MAX {
            self.rests_until = now + READ_MANY_EVERY;
        }
        Some(match dumped {
            Err(_) => Err("the kernel does not say its routes"),
            Ok(was_changed) => {
                if was_changed {
                    self.note_change(now);
                }
                self.sources(&entries, loose(&self.names, rp_filter))
            }
        })
    }

    fn sources(&self, entries: &[Entry], loose: Ports) -> Result<Sources, Unchecked> {
        let mut prefixes = Vec::new();
        for entry in deciding(entries) {
            let (ports, is_routed) = match entry.kind {
                // Of a next hop that is an object of its own the kernel may say only the number.
                EntryKind::Unicast if entry.further_hops > 0 || entry.interface == 0 => {
                    (Ports::ALL, true)
                }
                EntryKind::Unicast => (self.port_of(entry.interface), true),
                // What a throw leaves to the table of defaults is taken for unreachable.
                EntryKind::Here
                | EntryKind::Blackhole
                | EntryKind::Unreachable
                | EntryKind::Prohibit
                | EntryKind::Throw => (Ports::NONE, false),
            };
            let (first, bits) = (entry.destination, entry.prefix_bits);
            prefixes.push(SourcePrefix { first, bits, ports, is_routed });
        }
        Sources::new(&prefixes, loose).ok_or("there are more than a thousand routes")
    }

    fn port_of(&self, interface: u32) -> Ports {
        let own = self.links.iter().filter(|link| link.interface == interface);
        own.map(|link| Ports::of(link.port)).fold(Ports::NONE, Ports::with)
    }
}

/// The entries that decide about packets, so that the longest prefix is the kernel's answer: of
/// several for one prefix those of the first table and of the least metric.
///
/// The kernel looks for IPv6 into `local` before `main`, whatever the lengths. For IPv4 both are
/// one trie, and the longest prefix of either decides, until there are rules (`fib_trie.c`).
fn deciding(entries: &[Entry]) -> Vec<&Entry> {
    let mut asked: Vec<_> = entries.iter().filter(|entry| is_asked(entry)).collect();
    let prefix = |entry: &Entry| (entry.destination, entry.prefix_bits);
    let place = |entry: &Entry| TABLES.iter().position(|table| *table == entry.table);
    asked.sort_by_key(|entry| (prefix(entry), place(entry), entry.tos, metric(entry)));
    asked.dedup_by(|later, first| {
        prefix(later) == prefix(first)
            && (later.table != first.table
                || (later.tos == first.tos && metric(later) != metric(first)))
    });
    let is_first = |entry: &Entry| match (entry.table, entry.destination.is_ipv6()) {
        (TABLE_DEFAULT, _) | (TABLE_MAIN, true) => !asked.iter().any(|other| {
            place(other) < place(entry) && other.kind != EntryKind::Throw && covers(other, entry)
        }),
        _ => true,
    };
    asked.iter().copied().filter(|entry| is_first(entry)).collect()
}

/// Whether a host that has no rules of its own looks at an entry: its link is up, and its table is
/// one of the usual, of which IPv6 has no `default`.
fn is_asked(entry: &Entry) -> bool {
    entry.is_alive
        && TABLES.contains(&entry.table)
        && !(entry.table == TABLE_DEFAULT && entry.destination.is_ipv6())
        && !(entry.table == TABLE_LOCAL && entry.kind == EntryKind::Throw)
}

/// Who is on a link is asked for with the link: that another has a lesser metric is no matter.
fn metric(entry: &Entry) -> u32 {
    match entry.destination {
        IpAddr::V6(first) if first.is_unicast_link_local() => 0,
        _ => entry.metric,
    }
}

fn covers(wide: &Entry, narrow: &Entry) -> bool {
    let is_same = match (wide.destination, narrow.destination) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differs = one.to_bits() ^ other.to_bits();
            differs.leading_zeros() >= u32::from(wide.prefix_bits)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differs = one.to_bits() ^ other.to_bits();
            differs.leading_zeros() >= u32::from(wide.prefix_bits)
        }
        _ => false,
    };
    is_same && wide.prefix_bits <= narrow.prefix_bits
}

/// The ports where any route will do, as the settings of interfaces are.
fn loose(names: &[(Ports, String)], rp_filter: impl Fn(&str) -> u8) -> Ports {
    let all = rp_filter("all");
    let loose = names.iter().filter(|(_, name)| all.max(rp_filter(name)) == 2);
    loose.fold(Ports::NONE, |loose, (ports, _)| loose.with(*ports))
}

/// `rp_filter` of an interface: 0, 1 (strict) or 2 (loose); 0 where it cannot be read.
fn rp_filter(interface: &str) -> u8 {
    let Some(path) = rp_filter_path(interface) else { return 0 };
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Where it is; VLANs have a dot in their name.
fn rp_filter_path(interface: &str) -> Option<String> {
    let is_name = !interface.contains('/') && ![".", ".."].contains(&interface);
    is_name.then(|| format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter"))
}

#[cfg(test)]
mod tests {
    use base::PortId;

    use super::*;

    fn entry(destination: &str, prefix_bits: u8, interface: u32) -> Entry {
        Entry {
            destination: destination.parse().expect("an address"),
            prefix_bits,
            table: TABLE_MAIN,
            metric: 0,
            tos: 0,
            kind: EntryKind::Unicast,
            interface,
            gateway: None,
            further_hops: 0,
            mtu: None,
            is_alive: true,
        }
    }

    fn routes() -> SourceRoutes {
        let link = |interface, port| Link { interface, port: PortId(port), mac: [2; 6] };
        SourceRoutes {
            links: vec![link(7, 0), link(8, 1)],
            names: [(0, "eth0"), (1, "eth1.7")]
                .map(|(port, name)| (Ports::of(PortId(port)), name.to_owned()))
                .into(),
            due: None,
            rests_until: Nanos::ZERO,
        }
    }

    #[test]
    fn what_is_routed_by_another_interface_or_is_our_own_comes_by_no_port() {
        let own = Entry { kind: EntryKind::Here, table: TABLE_LOCAL, ..entry("10.0.0.2", 32, 7) };
        let entries =
            [entry("10.0.0.0", 24, 7), own, entry("10.1.0.0", 16, 9), entry("0.0.0.0", 0, 8)];
        let sources = routes().sources(&entries, Ports::NONE).expect("four are few");
        let may_come = |source: &str| {
            let source = source.parse().expect("an address");
            [0, 1].map(|port| sources.may_come(source, PortId(port)))
        };
        assert_eq!(may_come("10.0.0.1"), [true, false]);
        assert_eq!(may_come("10.0.0.2"), [false, false]);
        assert_eq!(may_come("10.1.0.1"), [false, false]);
        assert_eq!(may_come("8.8.8.8"), [false, true]);
    }

    #[test]
    fn several_hops_may_be_any_port_and_too_many_routes_turn_the_check_off() {
        let many = Entry { further_hops: 1, ..entry("0.0.0.0", 0, 9) };
        let sources = routes().sources(&[many], Ports::NONE).expect("one is few");
        assert!(sources.may_come("8.8.8.8".parse().expect("an address"), PortId(1)));
        assert!(
            routes()
                .sources(&vec![entry("10.0.0.0", 24, 7); PREFIXES_MAX + 1], Ports::NONE)
                .is_err()
        );
    }

    #[test]
    fn a_table_that_no_rule_names_and_a_link_that_is_down_decide_nothing() {
        let unused = Entry { table: 100, ..entry("8.8.0.0", 16, 8) };
        let down = Entry { is_alive: false, ..entry("8.8.8.0", 24, 8) };
        let sources = routes().sources(&[entry("0.0.0.0", 0, 7), unused, down], Ports::NONE);
        let sources = sources.expect("three are few");
        assert!(sources.may_come("8.8.8.8".parse().expect("an address"), PortId(0)));
    }

    fn come(entries: &[Entry], source: &str) -> [bool; 2] {
        let sources = routes().sources(entries, Ports::NONE).expect("they are few");
        let source = source.parse().expect("an address");
        [0, 1].map(|port| sources.may_come(source, PortId(port)))
    }

    #[test]
    fn an_own_ipv6_address_that_is_a_whole_prefix_of_a_link_comes_by_no_port() {
        let own = entry("2001:db8::1", 128, 7);
        let local = Entry { kind: EntryKind::Here, table: TABLE_LOCAL, ..own };
        for entries in [[own, local], [local, own]] {
            assert_eq!(come(&entries, "2001:db8::1"), [false, false]);
        }
        let any = Entry { prefix_bits: 32, ..local };
        assert_eq!(come(&[any, entry("2001:db8:1::", 64, 7)], "2001:db8:1::5"), [false, false]);
    }

    #[test]
    fn a_longer_ipv4_route_decides_within_a_prefix_that_is_local_as_in_the_trie_of_both() {
        let any = Entry { kind: EntryKind::Here, table: TABLE_LOCAL, ..entry("10.0.0.0", 8, 9) };
        let entries = [any, entry("10.0.1.0", 24, 7)];
        assert_eq!(come(&entries, "10.0.1.5"), [true, false]);
        assert_eq!(come(&entries, "10.0.2.5"), [false, false]);
    }

    #[test]
    fn of_several_routes_to_one_prefix_that_of_the_least_metric_decides() {
        let [first, second] = [7, 8].map(|link| entry("0.0.0.0", 0, link));
        let spare = Entry { metric: 9, ..second };
        assert_eq!(come(&[spare, first], "8.8.8.8"), [true, false]);
        let hole = Entry { kind: EntryKind::Blackhole, ..first };
        assert_eq!(come(&[hole, spare], "8.8.8.8"), [false, false]);
        let down = Entry { is_alive: false, ..first };
        assert_eq!(come(&[down, spare], "8.8.8.8"), [false, true]);
        let links = [entry("fe80::", 64, 7), Entry { metric: 9, ..entry("fe80::", 64, 8) }];
        assert_eq!(come(&links, "fe80::1"), [true, true], "each link has its own");
    }

    #[test]
    fn a_throw_ends_the_table_and_the_default_table_is_asked_last() {
        let throw = Entry { kind: EntryKind::Throw, ..entry("10.0.0.0", 8, 0) };
        assert_eq!(come(&[entry("0.0.0.0", 0, 7), throw], "10.0.0.1"), [false, false]);
        let last = Entry { table: TABLE_DEFAULT, ..entry("10.1.0.0", 16, 8) };
        assert_eq!(come(&[entry("0.0.0.0", 0, 7), last], "10.1.0.1"), [true, false]);
        assert_eq!(come(&[throw, last], "10.1.0.1"), [false, true]);
    }

    #[test]
    fn a_next_hop_of_which_only_the_number_is_known_may_be_by_any_port() {
        assert_eq!(come(&[entry("0.0.0.0", 0, 0)], "8.8.8.8"), [true, true]);
    }

    #[test]
    fn a_change_is_read_at_once_and_the_next_one_a_while_later() {
        let mut routes = routes();
        let now = Nanos::from_secs(9);
        assert!(routes.read(now).is_none(), "nothing has changed");
        routes.note_change(now);
        assert_eq!(routes.next_deadline(), now);
        assert!(routes.read(now).is_some());
        routes.note_change(now);
        assert_eq!(routes.next_deadline(), now + READ_EVERY);
        assert!(routes.read(now).is_none());
    }

    #[test]
    fn an_interface_that_has_another_number_is_the_same_way() {
        let mut routes = routes();
        routes.renumber(7, 70);
        let sources =
            routes.sources(&[entry("10.0.0.0", 24, 70)], Ports::NONE).expect("one is few");
        assert!(sources.may_come("10.0.0.1".parse().expect("an address"), PortId(0)));
    }

    #[test]
    fn a_port_is_loose_as_its_interface_is_now_also_one_of_a_vlan() {
        let names = routes().names;
        let [zero, one] = [0, 1].map(|port| Ports::of(PortId(port)));
        assert_eq!(loose(&names, |name| u8::from(name == "eth1.7") * 2), one);
        assert_eq!(loose(&names, |name| u8::from(name == "all") * 2), zero.with(one));
        assert_eq!(loose(&names, |_| 1), Ports::NONE);
        let path = rp_filter_path("eth1.7");
        assert_eq!(path.as_deref(), Some("/proc/sys/net/ipv4/conf/eth1.7/rp_filter"));
        assert_eq!(rp_filter_path(".."), None);
    }
}

//! Where first packets may come from: the kernel's routes, read again when they change, as workers
//! look them up.
//!
//! A source must be behind the port that it comes by, as with `rp_filter = 1`, also where that is
//! 0: an answer of ours leaves by the port of the question, which Linux's would not. With
//! `rp_filter = 2` on the interface, or for all, any route will do.

use base::Nanos;
use stack::{PREFIXES_MAX, Ports, SourcePrefix, Sources};
use sys::route::{self, Entry, EntryKind, TABLE_MAIN};

use super::routes::Link;

/// Time between two readings of the routes: whoever changes them often has them read late, and
/// callers from behind a new one must say again that they are there.
const READ_EVERY: Nanos = Nanos::from_millis(50);

/// The same where there are too many to be kept: telling them takes the kernel long.
const READ_MANY_EVERY: Nanos = Nanos::from_secs(10);

/// Tables that are looked into where no rule says otherwise (RT_TABLE_LOCAL, RT_TABLE_DEFAULT).
const TABLE_LOCAL: u32 = 255;
const TABLE_DEFAULT: u32 = 253;

/// The routes as they were read last.
pub(super) struct SourceRoutes {
    links: Vec<Link>,
    loose: Ports,
    /// When they are to be read; none: nothing has changed.
    due: Option<Nanos>,
    /// When they may be read again.
    rests_until: Nanos,
}

/// Why sources are not checked.
pub(super) type Unchecked = &'static str;

impl SourceRoutes {
    /// The routes by `links`, not read yet. Names of interfaces by number, for their settings.
    pub(super) fn new(links: Vec<Link>, names: &[(u32, String, bool)]) -> Self {
        let all = rp_filter("all");
        let is_loose = |link: &&Link| {
            let name = names.iter().find(|(number, ..)| *number == link.interface);
            all.max(name.map_or(0, |(_, name, _)| rp_filter(name))) == 2
        };
        let loose = links.iter().filter(is_loose).map(|link| Ports::of(link.port));
        let loose = loose.fold(Ports::NONE, Ports::with);
        Self { links, loose, due: Some(Nanos::ZERO), rests_until: Nanos::ZERO }
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
                self.sources(&entries)
            }
        })
    }

    fn sources(&self, entries: &[Entry]) -> Result<Sources, Unchecked> {
        let mut prefixes = Vec::new();
        for entry in entries.iter().filter(|entry| is_asked(entry)) {
            let (ports, is_routed) = match entry.kind {
                EntryKind::Unicast if entry.further_hops > 0 => (Ports::ALL, true),
                EntryKind::Unicast => (self.port_of(entry.interface), true),
                EntryKind::Here
                | EntryKind::Blackhole
                | EntryKind::Unreachable
                | EntryKind::Prohibit => (Ports::NONE, false),
                EntryKind::Throw => continue,
            };
            let (first, bits) = (entry.destination, entry.prefix_bits);
            prefixes.push(SourcePrefix { first, bits, ports, is_routed });
        }
        Sources::new(&prefixes, self.loose).ok_or("there are more than a thousand routes")
    }

    fn port_of(&self, interface: u32) -> Ports {
        let own = self.links.iter().filter(|link| link.interface == interface);
        own.map(|link| Ports::of(link.port)).fold(Ports::NONE, Ports::with)
    }
}

/// Whether an entry decides about packets: its link is up, and a host that has no rules of its own
/// looks into its table.
fn is_asked(entry: &Entry) -> bool {
    entry.is_alive && [TABLE_MAIN, TABLE_LOCAL, TABLE_DEFAULT].contains(&entry.table)
}

/// `rp_filter` of an interface: 0, 1 (strict) or 2 (loose); 0 where it cannot be read.
fn rp_filter(interface: &str) -> u8 {
    if interface.contains(['/', '.']) {
        return 0;
    }
    let path = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
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
            loose: Ports::NONE,
            due: None,
            rests_until: Nanos::ZERO,
        }
    }

    #[test]
    fn what_is_routed_by_another_interface_or_is_our_own_comes_by_no_port() {
        let own = Entry { kind: EntryKind::Here, table: TABLE_LOCAL, ..entry("10.0.0.2", 32, 7) };
        let entries =
            [entry("10.0.0.0", 24, 7), own, entry("10.1.0.0", 16, 9), entry("0.0.0.0", 0, 8)];
        let sources = routes().sources(&entries).expect("four are few");
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
        let sources = routes().sources(&[many]).expect("one is few");
        assert!(sources.may_come("8.8.8.8".parse().expect("an address"), PortId(1)));
        assert!(routes().sources(&vec![entry("10.0.0.0", 24, 7); PREFIXES_MAX + 1]).is_err());
    }

    #[test]
    fn a_table_that_no_rule_names_and_a_link_that_is_down_decide_nothing() {
        let unused = Entry { table: 100, ..entry("8.8.0.0", 16, 8) };
        let down = Entry { is_alive: false, ..entry("8.8.8.0", 24, 8) };
        let sources = routes().sources(&[entry("0.0.0.0", 0, 7), unused, down]);
        let sources = sources.expect("three are few");
        assert!(sources.may_come("8.8.8.8".parse().expect("an address"), PortId(0)));
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
        let sources = routes.sources(&[entry("10.0.0.0", 24, 70)]).expect("one is few");
        assert!(sources.may_come("10.0.0.1".parse().expect("an address"), PortId(0)));
    }
}

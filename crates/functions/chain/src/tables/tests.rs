//! Tables that follow the kernel's, against the kernel's own answers, in namespaces of our own.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use sys::clock;
use sys::route::{self, RouteKind};
use testbed::{Testbed, TestbedConfig};

use calisto_nf::Fib;

use super::*;
use crate::file::{Rules, WhenFull};
use crate::ports::PortInterface;

/// Numbers drawn from a seed (Marsaglia's xorshift).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    fn address(&mut self, is_ipv6: bool) -> IpAddr {
        if is_ipv6 {
            // Global ones, of few enough networks that prefixes lie in each other.
            let [high, low] = [self.next(), self.next()];
            let high = (high & 0x0007_00ff_ffff_ffff) | 0x2001_0000_0000_0000;
            Ipv6Addr::from_bits((u128::from(high) << 64) | u128::from(low)).into()
        } else {
            let bits = self.next() as u32;
            let first = 1 + (bits >> 24) % 99;
            Ipv4Addr::from_bits((bits & 0x00ff_ffff) | (first << 24)).into()
        }
    }

    fn prefix(&mut self, is_ipv6: bool) -> Prefix {
        let bits = if is_ipv6 { 16 + self.below(113) } else { 8 + self.below(25) };
        Prefix::of(self.address(is_ipv6), u8::try_from(bits).expect("at most 128"))
    }

    /// An address of one of the prefixes, or any.
    fn destination(&mut self, prefixes: &[Prefix], is_ipv6: bool) -> IpAddr {
        let any = self.address(is_ipv6);
        let Some(prefix) = (self.below(2) == 0)
            .then(|| prefixes[self.below(prefixes.len() as u64) as usize])
            .filter(|prefix| prefix.address().is_ipv6() == is_ipv6)
        else {
            return any;
        };
        match (prefix.address(), any) {
            (IpAddr::V4(net), IpAddr::V4(host)) => {
                let mask = u32::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
                Ipv4Addr::from_bits(net.to_bits() | (host.to_bits() & mask)).into()
            }
            (IpAddr::V6(net), IpAddr::V6(host)) => {
                let mask = u128::MAX.checked_shr(prefix.bits().into()).unwrap_or(0);
                Ipv6Addr::from_bits(net.to_bits() | (host.to_bits() & mask)).into()
            }
            _ => any,
        }
    }

    /// What follows `route replace` for a prefix.
    fn route(&mut self, prefix: Prefix) -> String {
        let gateway = 2 + self.below(40);
        match (self.below(21), prefix.address().is_ipv6()) {
            (0, _) => format!("unreachable {prefix}"),
            (1, _) => format!("prohibit {prefix}"),
            (2, _) => format!("blackhole {prefix}"),
            (20, _) => format!("throw {prefix}"),
            (3, _) => format!("{prefix} dev veth0"),
            (_, true) => format!("{prefix} via fd77::{gateway:x} dev veth0"),
            (_, false) => format!("{prefix} via 10.77.0.{gateway} dev veth0"),
        }
    }
}

/// Runs `ip -batch` with these lines here.
fn ip_batch(lines: &str) {
    ip_batch_of(None, lines);
}

/// Rules are of IPv4 where `ip` is not told otherwise, whatever their addresses are.
fn ip_batch_of(family: Option<&str>, lines: &str) {
    let mut ip = Command::new("ip");
    let ip =
        ip.args(family).args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut ip = ip.spawn().expect("iproute2 is there");
    let mut pipe = ip.stdin.take().expect("it is piped");
    pipe.write_all(lines.as_bytes()).expect("it reads");
    drop(pipe);
    ip.wait().expect("it is our child");
}

fn ports() -> Ports {
    let interface::Interface { name, index, mac, mtu, .. } =
        interface::by_name("veth0").expect("the bed has one");
    Ports::new(vec![PortInterface { name, index, mac, mtu }])
}

fn following_the_kernel() -> Tables {
    load(Rules::Refuse).expect("netlink is there")
}

fn load(rules: Rules) -> Result<Tables, ChainError> {
    let part = RouterPart {
        routes: Routes::Kernel,
        when_full: WhenFull::Drop,
        rules,
        icmp_per_second: None,
        icmp_burst: None,
    };
    Tables::load(&part, Path::new(""), ports(), Senders::default(), |_, _| {})
}

/// What the kernel would do with a packet to there, as the router would say it.
fn of_kernel(destination: IpAddr) -> Option<NextHop> {
    let port = PortId(0);
    match route::lookup(destination, None, None) {
        Ok(found) => Some(match (found.kind, found.gateway) {
            (RouteKind::Unicast, Some(address)) => NextHop::Gateway { port, address },
            (RouteKind::Unicast, None) => NextHop::OnLink { port },
            _ => NextHop::Local,
        }),
        Err(error) => match error.errno() {
            Errno::HOSTUNREACH => Some(NextHop::Unreachable),
            Errno::ACCESS => Some(NextHop::Prohibit),
            Errno::INVAL => Some(NextHop::Blackhole),
            _ => None,
        },
    }
}

/// What tables would do with a packet to there. A route that says that there is none and no route
/// are the same for the kernel.
fn of_fib(fib: &Fib, destination: IpAddr) -> Option<NextHop> {
    let hop = match destination {
        IpAddr::V4(four) => fib.four.lookup(four.to_bits()),
        IpAddr::V6(six) => fib.six.lookup(six.to_bits()),
    };
    fib.hop(hop).map(|hop| hop.to).filter(|to| *to != NextHop::NoRoute)
}

fn bed() -> Testbed {
    let config = TestbedConfig { ipv6: true, ..TestbedConfig::default() };
    Testbed::new(config).expect("this test needs root and the ip command")
}

/// Takes in what is told until nothing is in doubt, and applies it.
fn catch_up(tables: &mut Tables, fib: &mut Fib) {
    let end = clock::now() + Nanos::from_secs(30);
    loop {
        tables.turn(clock::now()).expect("netlink is there");
        tables.steps().drain(..).for_each(|step| fib.apply(&step));
        if tables.following.dump_at() == Nanos::FAR_FUTURE
            && !sys::poll::wait_readable(tables.as_fd(), Nanos::from_millis(50))
        {
            return;
        }
        assert!(clock::now() < end, "it is in doubt for ever");
    }
}

/// Takes in what is told until this is known of a neighbour.
fn becomes(
    tables: &mut Tables,
    fib: &mut Fib,
    wanted: Option<calisto_nf::Neighbour>,
    address: IpAddr,
) {
    let end = clock::now() + Nanos::from_secs(30);
    while fib.neighbour(PortId(0), address) != wanted {
        assert!(clock::now() < end, "{address} is {:?}", fib.neighbour(PortId(0), address));
        sys::poll::wait_readable(tables.as_fd(), Nanos::from_millis(100));
        tables.turn(clock::now()).expect("netlink is there");
        tables.steps().drain(..).for_each(|step| fib.apply(&step));
    }
}

#[test]
fn the_next_hop_is_the_kernels_for_random_destinations_before_and_after_changes() {
    /// Destinations of each version, before and after.
    const ASKED: usize = 250_000;
    let seed = clock::now().0 | 1;
    println!("seed {seed}");
    let bed = bed();
    let work = || {
        // A host passes over IPv6 gateways that do not answer; a router, which we are, does not.
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(Path::new("/proc/sys/net").join(key), "1").expect("root may");
        }
        let mut draw = Draw(seed);
        // Each once: of IPv6 entries of one destination and metric the kernel uses now this, now
        // that.
        let prefixes: BTreeSet<Prefix> = (0..30_000).map(|n| draw.prefix(n % 3 == 0)).collect();
        let prefixes: Vec<Prefix> = prefixes.into_iter().collect();
        let added = |prefix: &Prefix| format!("route add {}\n", draw.route(*prefix));
        let routes: String = prefixes.iter().map(added).collect();
        ip_batch(&routes);
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(seed);
        let (four, six) = tables.table.rib.len();
        assert!(four > 15_000 && six > 8_000, "{four} {six}");
        let compare = |fib: &Fib, draw: &mut Draw| {
            for number in 0..2 * ASKED {
                let destination = draw.destination(&prefixes, number % 2 == 0);
                let (ours, theirs) = (of_fib(fib, destination), of_kernel(destination));
                assert_eq!(ours, theirs, "{destination}, seed {seed}");
            }
        };
        compare(&fib, &mut draw);
        let mut changes = String::new();
        for (number, prefix) in prefixes.iter().step_by(7).enumerate() {
            match (number % 2, prefix.address().is_ipv6()) {
                (0, false) => changes.push_str(&format!("route replace {}\n", draw.route(*prefix))),
                (0, true) => changes
                    .push_str(&format!("route del {prefix}\nroute add {}\n", draw.route(*prefix))),
                _ => changes.push_str(&format!("route del {prefix}\n")),
            }
        }
        ip_batch(&changes);
        catch_up(&mut tables, &mut fib);
        compare(&fib, &mut draw);
    };
    bed.client().enter(work).expect("the namespace is there");
}

#[test]
fn news_and_a_fresh_dump_say_the_same() {
    let seed = clock::now().0 | 1;
    println!("seed {seed}");
    let bed = bed();
    let work = || {
        let mut draw = Draw(seed);
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(seed);
        let prefixes: Vec<Prefix> = (0..60).map(|n| draw.prefix(n % 2 == 0)).collect();
        for _ in 0..6 {
            let mut lines = String::new();
            for _ in 0..150 {
                let prefix = prefixes[draw.below(prefixes.len() as u64) as usize];
                let verb = ["add", "append", "prepend", "replace", "del"][draw.below(5) as usize];
                let metric = 1 + draw.below(3);
                lines.push_str(&format!("route {verb} {} metric {metric}\n", draw.route(prefix)));
            }
            ip_batch(&lines);
            catch_up(&mut tables, &mut fib);
            let fresh = following_the_kernel().rib().fib(seed);
            for prefix in &prefixes {
                let destination = prefix.address();
                let (followed, dumped) = (of_fib(&fib, destination), of_fib(&fresh, destination));
                assert_eq!(followed, dumped, "{destination}, seed {seed}");
            }
        }
    };
    bed.client().enter(work).expect("the namespace is there");
}

#[test]
fn neighbours_that_the_kernel_knows_are_in_the_tables_and_those_that_are_wanted_are_asked_for() {
    let bed = Testbed::new(TestbedConfig { static_neighbours: false, ..TestbedConfig::default() });
    let bed = bed.expect("this test needs root and the ip command");
    let server = (bed.server().ipv4(), bed.server().mac());
    let work = move || {
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(7);
        let (address, mac) = (IpAddr::from(server.0), server.1);
        assert_eq!(fib.neighbour(PortId(0), address), None);
        tables.want(PortId(0), address, clock::now());
        becomes(&mut tables, &mut fib, Some(calisto_nf::Neighbour::At(mac)), address);
        let nobody = IpAddr::from([10, 77, 0, 99]);
        tables.want(PortId(0), nobody, clock::now());
        becomes(&mut tables, &mut fib, Some(calisto_nf::Neighbour::Failed), nobody);
        ip_batch(&format!("neigh del {address} dev veth0\n"));
        becomes(&mut tables, &mut fib, None, address);
    };
    bed.client().enter(work).expect("the namespace is there");
}

#[test]
fn a_neighbour_that_did_not_answer_is_asked_again_and_found_once_it_is_there() {
    let config = TestbedConfig { static_neighbours: false, ipv6: true, ..TestbedConfig::default() };
    let bed = Testbed::new(config).expect("this test needs root and the ip command");
    let late: [IpAddr; 2] = [[10, 77, 0, 99].into(), "fd77::99".parse().expect("an address")];
    let mac = bed.server().mac();
    let fails = || {
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(7);
        for address in late {
            tables.want(PortId(0), address, clock::now());
            becomes(&mut tables, &mut fib, Some(calisto_nf::Neighbour::Failed), address);
        }
        (tables, fib)
    };
    let (mut tables, mut fib) = bed.client().enter(fails).expect("the namespace is there");
    let comes = || {
        ip_batch("addr add 10.77.0.99/24 dev veth0\naddr add fd77::99/64 dev veth0 nodad\n");
    };
    bed.server().enter(comes).expect("the namespace is there");
    let is_found = move || {
        for address in late {
            assert_eq!(fib.neighbour(PortId(0), address), Some(calisto_nf::Neighbour::Failed));
            tables.want(PortId(0), address, clock::now() + Nanos::from_secs(1));
            tables.steps().drain(..).for_each(|step| fib.apply(&step));
            assert_eq!(fib.neighbour(PortId(0), address), None, "it is being asked");
            becomes(&mut tables, &mut fib, Some(calisto_nf::Neighbour::At(mac)), address);
        }
    };
    bed.client().enter(is_found).expect("the namespace is there");
}

#[test]
fn addresses_and_links_of_the_host_are_followed() {
    let bed = bed();
    let work = || {
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(7);
        let port = PortId(0);
        let found = *fib.interface(port).expect("it is there");
        assert_eq!((found.four, found.mtu), (Some(Ipv4Addr::new(10, 77, 0, 1)), 1500));
        assert!(found.six.is_some_and(|six| !six.is_unicast_link_local()), "{found:?}");
        let own = Ipv4Addr::new(10, 88, 0, 1);
        assert!(!fib.is_own4(own.to_bits()));
        ip_batch("addr add 10.88.0.1/24 dev veth0\nlink set veth0 mtu 1400\n");
        catch_up(&mut tables, &mut fib);
        assert!(fib.is_own4(own.to_bits()) && tables.take_readdressed().is_some());
        assert!(tables.take_readdressed().is_none(), "said once");
        assert_eq!(fib.interface(port).map(|found| found.mtu), Some(1400));
        assert_eq!(of_fib(&fib, own.into()), Some(NextHop::Local));
        ip_batch("addr del 10.88.0.1/24 dev veth0\n");
        catch_up(&mut tables, &mut fib);
        assert!(!fib.is_own4(own.to_bits()));
    };
    bed.client().enter(work).expect("the namespace is there");
}

#[test]
fn nobody_sends_from_the_address_of_everybody_on_a_link() {
    let bed = bed();
    let work = || {
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(7);
        let is_lie = |fib: &Fib, octets| fib.is_own4(u32::from_be_bytes(octets));
        assert!(is_lie(&fib, [10, 77, 0, 255]) && !is_lie(&fib, [10, 77, 0, 2]));
        ip_batch(
            "addr add 10.88.0.1/30 brd 10.88.9.9 dev veth0\naddr add 10.89.0.0/31 dev veth0\n",
        );
        catch_up(&mut tables, &mut fib);
        assert!(is_lie(&fib, [10, 88, 0, 3]) && is_lie(&fib, [10, 88, 9, 9]));
        assert!(!is_lie(&fib, [10, 89, 0, 1]), "such a link has two hosts and nobody else");
        ip_batch("addr del 10.88.0.1/30 dev veth0\n");
        catch_up(&mut tables, &mut fib);
        assert!(!is_lie(&fib, [10, 88, 0, 3]) && !is_lie(&fib, [10, 88, 9, 9]));
        assert!(is_lie(&fib, [10, 77, 0, 255]));
    };
    bed.client().enter(work).expect("the namespace is there");
}

#[test]
fn rules_of_routing_are_refused_unless_they_are_to_be_ignored_and_said_when_they_come_later() {
    let bed = bed();
    let work = || {
        let mut tables = following_the_kernel();
        let mut fib = tables.rib().fib(7);
        assert_eq!((tables.take_unfollowed(), tables.figures().rules_ignored), (None, 0));
        ip_batch("rule add from 10.9.0.0/16 table 100\n");
        catch_up(&mut tables, &mut fib);
        let said = tables.take_unfollowed().expect("it is new");
        assert!(said.contains("IPv4") && said.contains("(table 100)"), "{said}");
        assert_eq!((tables.take_unfollowed(), tables.figures().rules_ignored), (None, 1));
        let refused = load(Rules::Refuse).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("rules = \"ignore\""), "{refused}");
        assert!(load(Rules::Ignore).is_ok());
        ip_batch("rule del from 10.9.0.0/16 table 100\n");
        ip_batch_of(Some("-6"), "rule add from fd09::/16 unreachable\n");
        assert!(load(Rules::Refuse).is_err());
        ip_batch_of(Some("-6"), "rule del from fd09::/16 unreachable\n");
        assert!(load(Rules::Refuse).is_ok());
    };
    bed.client().enter(work).expect("the namespace is there");
}

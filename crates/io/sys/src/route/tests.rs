//! Routes that `ip` made, in namespaces of our own.

use base::Nanos;

use super::*;
use crate::testing::{in_fresh_namespace, ip};
use crate::{clock, interface, testing};

fn at(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn to(destination: &str) -> Result<Route, Errno> {
    lookup(at(destination), None, None).map_err(|error| error.errno())
}

fn veth0() -> u32 {
    interface::index_of("veth0").expect("it was made")
}

/// veth0 with an address of both families.
fn with_veth0(work: impl FnOnce() + Send + 'static) {
    testing::in_pair_of_namespaces(|_far| {
        ip("addr add 10.1.0.1/24 dev veth0");
        ip("addr add fd01::1/64 dev veth0 nodad");
        // The kernel finishes an IPv6 address when it finds time for it.
        let end = clock::now() + Nanos::from_secs(10);
        while to("fd01::1").map(|route| route.kind) != Ok(RouteKind::Local) {
            assert!(clock::now() < end, "the address is not ready");
            std::thread::yield_now();
        }
        work();
    });
}

#[test]
fn a_neighbour_is_reached_without_a_gateway_from_the_interfaces_address() {
    with_veth0(|| {
        let expected = Route {
            interface: veth0(),
            gateway: None,
            source: Some(at("10.1.0.1")),
            mtu: None,
            kind: RouteKind::Unicast,
        };
        assert_eq!(to("10.1.0.9"), Ok(expected));
        assert_eq!(to("fd01::9"), Ok(Route { source: Some(at("fd01::1")), ..expected }));
        assert_eq!(expected.next_hop(at("10.1.0.9")), at("10.1.0.9"));
    });
}

#[test]
fn a_gateway_a_source_and_an_mtu_of_the_route_are_told() {
    with_veth0(|| {
        ip("addr add 10.1.0.2/24 dev veth0");
        ip("route add 10.2.0.0/16 via 10.1.0.254 src 10.1.0.2 mtu 1400");
        ip("route add fd02::/16 via fd01::fe mtu 1300");
        ip("route add 10.3.0.0/16 via inet6 fd01::fe");
        let route = to("10.2.3.4").expect("there is a route");
        assert_eq!(route.gateway, Some(at("10.1.0.254")));
        assert_eq!(route.next_hop(at("10.2.3.4")), at("10.1.0.254"));
        assert_eq!((route.source, route.mtu), (Some(at("10.1.0.2")), Some(1400)));
        let route = to("fd02::9").expect("there is a route");
        assert_eq!((route.gateway, route.mtu), (Some(at("fd01::fe")), Some(1300)));
        assert_eq!(to("10.3.0.1").map(|route| route.gateway), Ok(Some(at("fd01::fe"))));
    });
}

#[test]
fn rules_by_source_are_followed() {
    with_veth0(|| {
        ip("addr add 10.1.0.2/24 dev veth0");
        ip("route add default via 10.1.0.254");
        ip("route add default via 10.1.0.253 table 7");
        ip("rule add from 10.1.0.2 table 7");
        let by = |source| {
            let route = lookup(at("192.0.2.1"), source, None).expect("there is a route");
            route.gateway.expect("a default route")
        };
        assert_eq!(by(None), at("10.1.0.254"));
        assert_eq!(by(Some(at("10.1.0.1"))), at("10.1.0.254"));
        assert_eq!(by(Some(at("10.1.0.2"))), at("10.1.0.253"));
        let error = lookup(at("192.0.2.1"), Some(at("10.9.9.9")), None).expect_err("not ours");
        // Which of the two depends on the kernel's version.
        assert!(matches!(error.errno(), Errno::INVAL | Errno::NETUNREACH), "{error}");
        assert!(lookup(at("192.0.2.1"), Some(at("fd01::1")), None).is_err(), "of two families");
    });
}

#[test]
fn what_has_no_way_fails_as_connect_does_in_both_families() {
    with_veth0(|| {
        for (kind, errno) in [
            ("blackhole", Errno::INVAL),
            ("unreachable", Errno::HOSTUNREACH),
            ("prohibit", Errno::ACCESS),
        ] {
            ip(&format!("route replace {kind} 10.4.0.0/16"));
            assert_eq!(to("10.4.0.1"), Err(errno), "{kind}");
            ip(&format!("route replace {kind} fd04::/64"));
            assert_eq!(to("fd04::1"), Err(errno), "{kind} of IPv6");
            ip("route del fd04::/64");
        }
        assert_eq!(to("192.0.2.1"), Err(Errno::NETUNREACH));
        assert_eq!(to("2001:db8::1"), Err(Errno::NETUNREACH));
        let error = lookup(at("192.0.2.1"), None, None).expect_err("no route").to_string();
        assert!(error.contains("192.0.2.1") && error.contains("ip route"), "{error}");
    });
}

#[test]
fn our_own_addresses_groups_and_everybody_are_told_from_one_host() {
    with_veth0(|| {
        ip("route add 224.0.0.0/4 dev veth0");
        let kind = |destination| to(destination).map(|route| route.kind);
        assert_eq!(kind("10.1.0.1"), Ok(RouteKind::Local));
        assert_eq!(kind("127.0.0.1"), Ok(RouteKind::Local));
        assert_eq!(kind("fd01::1"), Ok(RouteKind::Local));
        assert_eq!(kind("10.1.0.255"), Ok(RouteKind::Broadcast));
        assert_eq!(kind("224.0.0.5"), Ok(RouteKind::Multicast));
        assert_eq!(kind("10.1.0.9"), Ok(RouteKind::Unicast));
    });
}

#[test]
fn the_interface_that_is_named_is_the_way_also_to_a_link_local_destination() {
    with_veth0(|| {
        ip("link add veth2 type veth peer name veth3");
        for name in ["veth2", "veth3"] {
            ip(&format!("link set {name} up"));
            ip(&format!("addr add fe80::77/64 dev {name} nodad"));
        }
        for name in ["veth0", "veth2", "veth3"] {
            let interface = interface::index_of(name).expect("it was made");
            let route = lookup(at("fe80::9"), None, Some(interface)).expect("the link is up");
            assert_eq!((route.interface, route.gateway), (interface, None), "{name}");
        }
        ip("route add 10.5.0.0/16 dev veth0 metric 5");
        ip("route add 10.5.0.0/16 dev veth2 metric 9");
        let veth2 = interface::index_of("veth2").expect("it was made");
        assert_eq!(to("10.5.0.1").map(|route| route.interface), Ok(veth0()));
        let route = lookup(at("10.5.0.1"), None, Some(veth2)).expect("there is another route");
        assert_eq!(route.interface, veth2);
        let error = lookup(at("fe80::9"), None, Some(4711)).expect_err("there is none");
        assert!(matches!(error.errno(), Errno::NODEV | Errno::NETUNREACH), "{error}");
    });
}

#[test]
fn an_empty_namespace_reaches_nobody() {
    in_fresh_namespace(|| {
        assert_eq!(to("10.0.0.1"), Err(Errno::NETUNREACH));
        assert_eq!(to("::1"), Err(Errno::NETUNREACH));
    });
}

#[test]
fn an_answer_that_is_cut_forbids_or_names_no_interface_is_no_route() {
    assert_eq!(parse(&[0; 11]), Err(Errno::BADMSG));
    let mut body = [0; 12];
    assert_eq!(parse(&body), Err(Errno::NETUNREACH), "a type that nobody knows");
    for (kind, errno) in [
        (libc::RTN_BLACKHOLE, Errno::INVAL),
        (libc::RTN_UNREACHABLE, Errno::HOSTUNREACH),
        (libc::RTN_PROHIBIT, Errno::ACCESS),
    ] {
        body[7] = kind;
        assert_eq!(parse(&body), Err(errno), "a kernel that shows the route instead");
    }
    body[7] = libc::RTN_UNICAST;
    assert_eq!(parse(&body), Err(Errno::NETUNREACH));
    // The interface's index in two bytes instead of four.
    let cut = [&body[..], &[6, 0, libc::RTA_OIF as u8, 0, 1, 0]].concat();
    assert_eq!(parse(&cut), Err(Errno::BADMSG));
}

//! Tables that `ip` filled, and messages that are none.

use super::*;
use crate::interface;
use crate::testing::{in_pair_of_namespaces, ip};

fn main_table() -> Vec<Entry> {
    let mut entries = Vec::new();
    dump(|entry| entries.push(entry)).expect("netlink is there");
    entries.retain(|entry| entry.table == TABLE_MAIN);
    entries
}

fn at(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn a_dump_has_every_entry_as_ip_made_it() {
    in_pair_of_namespaces(|_far| {
        ip("addr add 10.1.0.1/24 dev veth0");
        ip("addr add fd01::1/64 dev veth0 nodad");
        ip("route add 10.2.0.0/16 via 10.1.0.254 metric 7 mtu 1400");
        ip("route add default via 10.1.0.253 table 9");
        ip("route add blackhole 10.3.0.0/16");
        ip("route add unreachable 10.4.0.0/16");
        ip("route add prohibit fd04::/16");
        ip("route add 10.5.0.0/16 nexthop via 10.1.0.7 dev veth0 nexthop via 10.1.0.8 dev veth0");
        ip("route add fd05::/16 via fd01::fe");
        ip("route add 10.6.0.0/16 via inet6 fd01::fe");
        let veth0 = interface::index_of("veth0").expect("it was made");
        let entries = main_table();
        let find = |destination: &str| {
            let mut found = entries.iter().filter(|entry| entry.destination == at(destination));
            let entry = *found.next().expect(destination);
            assert_eq!(found.next(), None, "{destination}");
            entry
        };
        let expected = Entry {
            destination: at("10.2.0.0"),
            prefix_bits: 16,
            table: TABLE_MAIN,
            metric: 7,
            tos: 0,
            kind: EntryKind::Unicast,
            interface: veth0,
            gateway: Some(at("10.1.0.254")),
            further_hops: 0,
            mtu: Some(1400),
            is_alive: true,
        };
        assert_eq!(find("10.2.0.0"), expected);
        let connected = find("10.1.0.0");
        assert_eq!((connected.gateway, connected.prefix_bits), (None, 24));
        assert_eq!(find("10.3.0.0").kind, EntryKind::Blackhole);
        assert_eq!(find("10.4.0.0").kind, EntryKind::Unreachable);
        assert_eq!(find("fd04::").kind, EntryKind::Prohibit);
        let multipath = find("10.5.0.0");
        assert_eq!((multipath.gateway, multipath.further_hops), (Some(at("10.1.0.7")), 1));
        assert_eq!(find("fd05::").gateway, Some(at("fd01::fe")));
        assert_eq!(find("10.6.0.0").gateway, Some(at("fd01::fe")));
        assert!(entries.iter().all(|entry| entry.prefix_bits > 0), "the default is in table 9");
    });
}

#[test]
fn what_is_cut_or_absurd_is_no_entry() {
    assert_eq!(parse(&[0; 11]), None);
    let mut message = vec![0; 12];
    message[0] = libc::AF_INET as u8;
    message[7] = libc::RTN_UNICAST;
    assert!(parse(&message).is_some(), "the default route");
    for (at, value) in [(0, 99), (1, 33), (2, 8), (7, 99)] {
        let mut wrong = message.clone();
        wrong[at] = value;
        assert_eq!(parse(&wrong), None, "byte {at} is {value}");
    }
    // An IPv6 destination in an IPv4 message, and an interface of two bytes.
    for (kind, bytes) in [(libc::RTA_DST, 16_u8), (libc::RTA_OIF, 2)] {
        let mut wrong = message.clone();
        wrong.extend_from_slice(&[4 + bytes, 0, kind as u8, 0]);
        wrong.resize(wrong.len() + usize::from(bytes), 0);
        assert_eq!(parse(&wrong), None);
    }
}

#[test]
fn a_list_of_next_hops_that_lies_about_its_lengths_ends_there() {
    let mut entry = {
        let mut message = vec![0; 12];
        message[0] = libc::AF_INET as u8;
        message[7] = libc::RTN_UNICAST;
        parse(&message).expect("the default route")
    };
    for len in [0_u16, 7, 9, u16::MAX] {
        let mut hop = vec![0; 8];
        hop[..2].copy_from_slice(&len.to_ne_bytes());
        add_hops(&mut entry, &hop);
        assert_eq!((entry.interface, entry.further_hops), (0, 0), "{len}");
    }
}

//! What the filter takes, against what the acl itself says of the same packets.

use base::Nanos;
use calisto_nf::acl::Rule;
use calisto_nf::{Acl, Function, Verdict, Verdicts};
use port::Filter;
use proptest::prelude::*;
use shm::{Batch, FramePool, PoolConfig};

use super::*;
use crate::filter::{OwnPackets, of_router};

/// Our addresses.
const OWN: [&str; 4] = ["10.0.0.1", "10.0.1.1", "fd00::1", "fd01::1"];
const OTHERS: [&str; 6] =
    ["10.0.0.7", "10.0.1.9", "192.0.2.1", "fd00::7", "fd01::9", "2001:db8::1"];

fn own() -> Vec<IpAddr> {
    OWN.iter().map(|text| text.parse().expect("an address")).collect()
}

fn filter(acl: &AclPart) -> Filter {
    let wanted = of_router(&own(), OwnPackets::default(), &[acl]).expect("four are not too many");
    Filter::compile(&wanted.expression).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether the acl drops a frame.
fn denies(acl: &AclPart, frame: &[u8]) -> bool {
    let mut function =
        Acl::new(&acl.rules, acl.default, acl.not_ip).expect("rules that make sense");
    let config = PoolConfig { frames: 2, chunk_bytes: 2048, numa_node: None };
    let mut pool = FramePool::new(config).expect("a small pool");
    let mut taken = pool.take().expect("a frame");
    assert!(taken.fill(frame));
    let mut batch = Batch::from_iter([taken]);
    let mut verdicts = Verdicts::new();
    function.process(&mut batch, &mut verdicts, Nanos::ZERO);
    batch.drain(..).for_each(|frame| pool.give(frame));
    verdicts[0] == Verdict::Drop
}

/// A packet with `payload`; of IPv4 the part of one at `offset` times eight bytes.
fn packet(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    payload: &[u8],
    offset: u8,
) -> Vec<u8> {
    let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = (24 + payload.len()) as u16;
            let [t0, t1] = total.to_be_bytes();
            // With four bytes of options, which move the ports.
            let fixed = [0x46, 0, t0, t1, 0, 7, 0, offset, 64, protocol, 0, 0];
            let ends = [source.octets(), destination.octets()].concat();
            [&link[..], &[0x08, 0x00], &fixed, &ends, &[1; 4], payload].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [l0, l1] = (payload.len() as u16).to_be_bytes();
            let fixed = [0x60, 0, 0, 0, l0, l1, protocol, 64];
            let ends = [source.octets(), destination.octets()].concat();
            [&link[..], &[0x86, 0xdd], &fixed, &ends, payload].concat()
        }
        _ => panic!("two versions"),
    }
}

fn any_selector() -> impl Strategy<Value = Selector> {
    let prefixes = [
        "10.0.0.0/24",
        "10.0.0.1/32",
        "10.0.0.0/8",
        "0.0.0.0/0",
        "fd00::/64",
        "fd00::1/128",
        "::/0",
    ];
    let prefix = || {
        prop::option::of(
            prop::sample::select(prefixes.to_vec())
                .prop_map(|text| text.parse().expect("a prefix")),
        )
    };
    let range = || {
        prop::option::of(
            (0..4_u16, 0..3_u16)
                .prop_map(|(first, more)| PortRange::new(first, first + more).expect("in order")),
        )
    };
    let protocol = prop::option::of(prop::sample::select(vec![1, 6, 17, 58, 132, 136]));
    (prefix(), prefix(), protocol, range(), range()).prop_map(
        |(source, destination, protocol, source_ports, destination_ports)| Selector {
            source,
            destination,
            protocol,
            source_ports,
            destination_ports,
        },
    )
}

fn any_acl() -> impl Strategy<Value = AclPart> {
    let action = || prop::sample::select(vec![Action::Permit, Action::Deny]);
    let rule = (action(), any_selector()).prop_map(|(action, selector)| Rule { action, selector });
    (prop::collection::vec(rule, 0..6), action()).prop_filter_map(
        "rules that make sense",
        |(rules, default)| {
            let not_ip = Action::Permit;
            Acl::new(&rules, default, not_ip).ok()?;
            Some(AclPart { rules, default, not_ip, guards_host: true })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn of_what_is_for_this_host_exactly_what_the_acl_denies_is_taken(
        acl in any_acl(),
        packets in prop::collection::vec(
            (0..6usize, 0..4usize, prop::sample::select(vec![1u8, 6, 17, 33, 50, 132, 136]), 0..6u8, 0..6u8, prop::sample::select(vec![0u8, 0, 1, 9])),
            1..20,
        ),
    ) {
        let filter = filter(&acl);
        for (source, destination, protocol, source_port, destination_port, offset) in packets {
            let [source, destination]: [IpAddr; 2] =
                [OTHERS[source], OWN[destination]].map(|text| text.parse().expect("an address"));
            if source.is_ipv6() != destination.is_ipv6() {
                continue;
            }
            let mut payload = [0; 24];
            (payload[1], payload[3], payload[12]) = (source_port, destination_port, 0x50);
            let packet = packet(source, destination, protocol, &payload, offset);
            prop_assert_eq!(
                filter.matches(&packet),
                denies(&acl, &packet),
                "{:?} by {}", packet, filter.expression()
            );
            // A tag that names no VLAN is no way round.
            for kind in [[0x81, 0x00], [0x88, 0xa8]] {
                let tagged = [&packet[..12], &kind, &[0xe0, 0], &packet[12..]].concat();
                prop_assert_eq!(filter.matches(&tagged), denies(&acl, &packet), "{:?}", tagged);
                prop_assert_eq!(filter.matches(&tagged), denies(&acl, &tagged), "{:?}", tagged);
            }
            // No more are frames to many, from which Linux takes what is for its addresses.
            for group in [0xff, 0x01, 0x33] {
                let to_many = [&[group; 6], &packet[6..]].concat();
                prop_assert_eq!(filter.matches(&to_many), denies(&acl, &to_many), "{:?}", to_many);
                let tag = [0x81, 0, 0, 0];
                let tagged = [&to_many[..12], &tag, &to_many[12..]].concat();
                prop_assert_eq!(filter.matches(&tagged), denies(&acl, &tagged), "{:?}", tagged);
                // Two tags, which Linux takes off as well, are the chain's whatever they hold.
                let twice = [&to_many[..12], &tag, &tag, &to_many[12..]].concat();
                prop_assert!(filter.matches(&twice), "{:?}", twice);
            }
            // What is for others is taken whatever the rules are.
            let onward = if source.is_ipv6() { "2001:db8::9" } else { "198.51.100.9" };
            let onward = self::packet(source, onward.parse().expect("an address"), protocol, &payload, offset);
            prop_assert!(filter.matches(&onward));
            // What many are to have is left to the kernel, whatever the rules are.
            let all = if source.is_ipv6() { "ff02::5" } else { "10.0.0.255" };
            let all = self::packet(source, all.parse().expect("an address"), protocol, &payload, offset);
            prop_assert!(!filter.matches(&[&[0xff; 6], &all[6..]].concat()));
        }
    }
}

#[test]
fn neighbour_discovery_is_the_kernels_and_what_hides_behind_extension_headers_is_not() {
    let acl = AclPart {
        rules: Vec::new(),
        default: Action::Deny,
        not_ip: Action::Permit,
        guards_host: true,
    };
    let [source, destination] =
        ["fe80::7", "fd00::1"].map(|text| text.parse().expect("an address"));
    let icmp = |kind: u8| packet(source, destination, 58, &[kind, 0, 0, 0, 0, 0, 0, 0], 0);
    let rule = Rule {
        action: Action::Permit,
        selector: Selector { protocol: Some(17), ..Selector::default() },
    };
    let permits_udp = AclPart { rules: vec![rule], ..acl.clone() };
    for acl in [acl, permits_udp] {
        let filter = filter(&acl);
        for kind in 133..=137 {
            assert!(!filter.matches(&icmp(kind)), "{kind}");
        }
        assert!(filter.matches(&icmp(128)) && filter.matches(&icmp(138)));
        for extension in [0, 43, 44, 51, 60] {
            let hidden = packet(
                source,
                destination,
                extension,
                &[17, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 9, 0, 8, 0, 0],
                0,
            );
            assert!(filter.matches(&hidden), "{extension}");
        }
    }
}

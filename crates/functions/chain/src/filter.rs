//! Which packets a chain takes when its file names no filter: those that it could forward. The rest
//! is the kernel's, so ARP, neighbour discovery, ssh and ping to this host work on.

mod guard;
pub(crate) mod wanted;

use std::net::IpAddr;

use crate::file::AclPart;

/// Instructions of the filter of a chain whose acl guards the host, at most: with more the XDP
/// program could not judge, and what is the kernel's would be lost.
pub const INSTRUCTIONS_MAX: usize = 2000;

/// Addresses that are named one by one, twice; a host that has more gets no filter by itself.
pub const ADDRESSES_MAX: usize = 128;

/// Of IPv6 as many of those twice: a program compares four words of each, and must not be longer
/// than [`INSTRUCTIONS_MAX`]. With more they are named once, and tags are the kernel's.
pub const IPV6_ADDRESSES_MAX: usize = 80;

/// A filter by the host's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterFilter {
    /// In the language of tcpdump.
    pub expression: String,
    /// Whether frames with a tag that names no VLAN are as those without: the kernel has them
    /// otherwise, whatever they hold.
    pub reads_tags: bool,
    /// How many rules of guards it holds, each of them twice.
    pub rules: usize,
}

/// What is taken of what is for this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnPackets {
    /// ESP.
    pub esp: bool,
    /// Packets of tunnels (IPIP and GRE), and what routers say of those that are too long for them.
    pub tunnels: bool,
}

impl OwnPackets {
    /// Each in the language of tcpdump.
    fn expressions(self, is_ipv6: bool) -> Vec<String> {
        let family = if is_ipv6 { "ip6" } else { "ip" };
        let mut protocols = Vec::new();
        protocols.extend(self.esp.then_some(50));
        protocols.extend(self.tunnels.then_some([4, 41, 47]).into_iter().flatten());
        let mut all: Vec<String> =
            protocols.iter().map(|protocol| format!("{family} proto {protocol}")).collect();
        // The quoted header stands behind 8 bytes of ICMP, and of IPv4 has options if that has.
        // Behind the header of options that Linux puts before what its tunnels of IPv6 carry.
        all.extend(
            (self.tunnels && is_ipv6)
                .then(|| "(ip6[6]=60 and (ip6[40]=4 or ip6[40]=41 or ip6[40]=47))".to_owned()),
        );
        all.extend(self.tunnels.then(|| {
            match is_ipv6 {
                false => "(icmp[0]=3 and icmp[1]=4 and (icmp[17]=4 or icmp[17]=41 or icmp[17]=47))"
                    .to_owned(),
                true => "(ip6[6]=58 and ip6[40]=2 and (ip6[54]=4 or ip6[54]=41 or ip6[54]=47))"
                    .to_owned(),
            }
        }));
        all
    }
}

/// The filter of a router whose host has these addresses, in the language of tcpdump: IP packets
/// that are for one station of the link and not for this host, `own_packets` to this host, and what
/// `guards` deny of what is for it, whatever stations it is for; all of it with a tag of 802.1Q
/// that names no VLAN, too, if not more than [`IPV6_ADDRESSES_MAX`] leave room for that. `None`:
/// there are too many addresses for a filter, or for one that guards the host.
pub fn of_router(
    addresses: &[IpAddr],
    own_packets: OwnPackets,
    guards: &[&AclPart],
) -> Option<RouterFilter> {
    let mut own: Vec<IpAddr> = addresses.iter().copied().filter(|at| !at.is_loopback()).collect();
    own.sort_unstable();
    own.dedup();
    // What is sent to link-local addresses nobody forwards.
    let is_named = |at: &&IpAddr| !matches!(at, IpAddr::V6(six) if six.is_unicast_link_local());
    let six = own.iter().filter(is_named).filter(|at| at.is_ipv6()).count();
    let reads_tags = six <= IPV6_ADDRESSES_MAX;
    // Half a guard is none.
    if own.len() > ADDRESSES_MAX || !(reads_tags || guards.is_empty()) {
        return None;
    }
    let half = |is_ipv6: bool| {
        let own: Vec<IpAddr> = own.iter().copied().filter(|at| at.is_ipv6() == is_ipv6).collect();
        let (family, local) = match is_ipv6 {
            false => ("ip", None),
            true => ("ip6", Some("dst net fe80::/10".to_owned())),
        };
        let named = own.iter().filter(is_named).map(|at| format!("dst host {at}"));
        let all: Vec<String> = local.into_iter().chain(named).collect();
        if all.is_empty() {
            return (family.to_owned(), None);
        }
        let all = all.join(" or ");
        let mut taken = format!("not ({all})");
        let also = own_packets.expressions(is_ipv6);
        if !also.is_empty() {
            taken = format!("({taken} or {})", also.join(" or "));
        }
        // Linux takes what is for its addresses from frames to many, too. Of IPv6 what is in such
        // a frame and for one host is for us, or for nobody.
        let ours = if is_ipv6 { "not dst net ff00::/8".to_owned() } else { format!("({all})") };
        let denied = guard::denied(guards, &own, is_ipv6);
        let denied = denied.map(|denied| format!("({family} and {ours} and {denied})"));
        (format!("({family} and {taken})"), denied)
    };
    let [(four, denied4), (six, denied6)] = [half(false), half(true)];
    let taken = format!("{four} or {six}");
    // A tag that names no VLAN is taken off by the kernel, and the packet is that of the link (IEEE
    // 802.1Q section 6.9); so is one behind another one. Behind `vlan` all offsets are of what
    // follows the tag. What has two, which nobody sends, is taken whatever it holds.
    let denied: Vec<String> = denied4.into_iter().chain(denied6).collect();
    let expression = match (denied.is_empty(), reads_tags) {
        (true, true) => {
            format!("not ether multicast and ({taken} or (vlan 0 and ({taken} or vlan 0)))")
        }
        (true, false) => format!("not ether multicast and ({taken})"),
        (false, _) => {
            let taken = format!("(not ether multicast and ({taken})) or {}", denied.join(" or "));
            format!("{taken} or (vlan 0 and ({taken} or vlan 0))")
        }
    };
    let rules = [false, true].map(|is_ipv6| {
        let own: Vec<IpAddr> = own.iter().copied().filter(|at| at.is_ipv6() == is_ipv6).collect();
        guard::rules_said(guards, &own, is_ipv6)
    });
    Some(RouterFilter { expression, reads_tags, rules: rules.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(addresses: &[&str], esp: bool) -> Option<String> {
        let parse = |text: &&str| text.parse().expect("an address");
        let own_packets = OwnPackets { esp, tunnels: false };
        let filter =
            of_router(&addresses.iter().map(parse).collect::<Vec<IpAddr>>(), own_packets, &[])?;
        assert!(filter.reads_tags);
        Some(filter.expression)
    }

    fn with_tags(taken: &str) -> Option<String> {
        Some(format!("not ether multicast and ({taken} or (vlan 0 and ({taken} or vlan 0)))"))
    }

    #[test]
    fn packets_to_this_host_are_left_to_the_kernel() {
        let own = ["10.0.0.1", "127.0.0.1", "10.0.0.1", "fe80::1", "fd00::1", "::1"];
        assert_eq!(
            filter(&own, false),
            with_tags(
                "(ip and not (dst host 10.0.0.1)) or \
                 (ip6 and not (dst net fe80::/10 or dst host fd00::1))"
            )
        );
    }

    #[test]
    fn a_tunnel_gateway_takes_esp_to_this_host_too() {
        assert_eq!(
            filter(&["10.0.0.1"], true),
            with_tags(
                "(ip and (not (dst host 10.0.0.1) or ip proto 50)) or \
                 (ip6 and (not (dst net fe80::/10) or ip6 proto 50))"
            )
        );
    }

    #[test]
    fn what_tunnels_of_ipv6_carry_is_taken_behind_the_options_of_linux_too() {
        let own_packets = OwnPackets { esp: false, tunnels: true };
        let own = ["fd00::1".parse().expect("an address")];
        let wanted = of_router(&own, own_packets, &[]).expect("not too many");
        let filter = port::Filter::compile(&wanted.expression).expect("tcpdump knows it");
        let frame = |protocol: u8, next: u8| {
            let mut packet = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20][..], &[0; 54]].concat();
            (packet[8], packet[10], packet[26], packet[41]) = (protocol, 0xfd, 0xfd, 1);
            packet[42] = next;
            [&[2; 12][..], &packet].concat()
        };
        for next in [4, 41, 47] {
            assert!(filter.matches(&frame(next, 0)) && filter.matches(&frame(60, next)));
        }
        assert!(!filter.matches(&frame(6, 47)) && !filter.matches(&frame(60, 6)));
    }

    #[test]
    fn a_host_without_addresses_leaves_only_the_link_to_the_kernel() {
        assert_eq!(filter(&[], false), with_tags("ip or (ip6 and not (dst net fe80::/10))"));
    }

    #[test]
    fn too_many_addresses_are_no_filter() {
        let many: Vec<IpAddr> = (0..200_u32).map(|n| IpAddr::V4((n + (10 << 24)).into())).collect();
        assert_eq!(of_router(&many, OwnPackets::default(), &[]), None);
    }

    #[test]
    fn with_more_of_ipv6_than_can_be_named_twice_tags_are_the_kernels_and_the_rest_is_as_ever() {
        let acl = crate::file::AclPart {
            rules: Vec::new(),
            default: calisto_nf::acl::Action::Permit,
            not_ip: calisto_nf::acl::Action::Permit,
            guards_host: true,
        };
        let six = |count: usize, guards: &[&AclPart]| {
            let all = (1..=count as u128).map(|n| IpAddr::V6((n + (0xfd << 120)).into()));
            of_router(&all.collect::<Vec<_>>(), OwnPackets::default(), guards)
        };
        let most = IPV6_ADDRESSES_MAX;
        for guards in [&[][..], &[&acl]] {
            assert!(six(most, guards).expect("room for both").reads_tags);
        }
        assert_eq!(six(most + 1, &[&acl]), None, "no guard that a tag would get round");
        assert_eq!(six(ADDRESSES_MAX + 1, &[]), None);
        let wanted = six(ADDRESSES_MAX, &[]).expect("room for one");
        assert!(!wanted.reads_tags);
        let filter = port::Filter::compile(&wanted.expression).expect("tcpdump knows it");
        let frame = |tag: &[u8], last: u8| {
            let mut packet = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64][..], &[0; 52]].concat();
            (packet[10], packet[26], packet[41]) = (0xfd, 0xfd, last);
            [&[2; 12], tag, &packet].concat()
        };
        assert!(filter.matches(&frame(&[], 200)) && !filter.matches(&frame(&[], 128)));
        assert!(!filter.matches(&frame(&[0x81, 0, 0, 0], 200)));
    }

    #[test]
    fn as_many_addresses_as_may_be_make_a_filter_that_the_hook_can_run() {
        // Addresses with nothing in common need the longest program.
        let unlike = |n: u128| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 8;
        let six =
            (1..=IPV6_ADDRESSES_MAX as u128).map(|n| IpAddr::V6((unlike(n) | 0x20 << 120).into()));
        let four = (1..=(ADDRESSES_MAX - IPV6_ADDRESSES_MAX) as u128)
            .map(|n| IpAddr::V4(((unlike(n) >> 64) as u32 & 0x3fff_ffff | 1 << 26).into()));
        let own_packets = OwnPackets { esp: true, tunnels: true };
        let all: Vec<IpAddr> = six.chain(four).collect();
        let text = of_router(&all, own_packets, &[]).expect("not too many");
        let filter = port::Filter::compile(&text.expression).expect("tcpdump knows it");
        let len = filter.program().len();
        assert!(len <= INSTRUCTIONS_MAX, "{len}");
    }

    #[test]
    fn a_guard_of_some_rules_has_room_beside_a_server_of_many_addresses() {
        let own = (1..=16_u8).flat_map(|n| {
            let six = [0x2001, 0xdb8, u16::from(n), 0, 0x1234, u16::from(n) << 8, 0xabcd, 1];
            [IpAddr::from([10, n, 3, 1]), IpAddr::from(six)]
        });
        let section: String = (1..=20).fold(String::new(), |text, n| {
            format!(
                "{text}[[function.rules]]\naction = \"permit\"\nsource = \"10.9.{n}.0/24\"\n\
                 protocol = \"tcp\"\ndestination_port = {}\n",
                n + 20
            )
        });
        let text = format!(
            "name = \"c\"\n[[slice]]\nports = [\"xdp:a\"]\n[[function]]\nkind = \"acl\"\n\
             host = \"judge\"\n{section}[[function]]\nkind = \"router\"\n"
        );
        let file = crate::file::ChainFile::parse(&text, "c.toml").expect("a chain");
        let wanted = wanted::filter_of(&file, own).expect("few");
        let filter = wanted::compile(&file, &wanted).expect("there is room");
        assert!(filter.program().len() < INSTRUCTIONS_MAX / 2, "{}", filter.program().len());
    }

    #[test]
    fn more_rules_than_a_filter_can_hold_are_refused_before_it_is_compiled() {
        let rules = |count: u32| {
            let rule = |n: u32| calisto_nf::acl::Rule {
                action: calisto_nf::acl::Action::Deny,
                selector: calisto_nf::Selector {
                    source: Some(calisto_nf::Prefix::of(
                        IpAddr::V4((n * 77 + (10 << 24)).into()),
                        32,
                    )),
                    ..Default::default()
                },
            };
            (0..count).map(rule).collect::<Vec<_>>()
        };
        let text = "name = \"c\"\n[[slice]]\nports = [\"xdp:a\"]\n[[function]]\nkind = \"acl\"\n\
                    default = \"permit\"\nhost = \"judge\"\n[[function]]\nkind = \"router\"\n";
        let mut file = crate::file::ChainFile::parse(text, "c.toml").expect("a chain");
        for (count, words) in [(1001, "room for 1000 at most"), (4096, "4096 rules")] {
            let Some(crate::file::FunctionPart::Acl(acl)) = file.functions.first_mut() else {
                panic!("the first one is the acl")
            };
            acl.rules = rules(count);
            let own = [IpAddr::from([10, 0, 0, 1])];
            let wanted = wanted::filter_of(&file, own.into_iter()).expect("few");
            let said = wanted::compile(&file, &wanted).expect_err("too many").to_string();
            assert!(said.contains(words) && said.len() < 300, "{said}");
            // Behind one that decides all they say nothing.
            let Some(crate::file::FunctionPart::Acl(acl)) = file.functions.first_mut() else {
                panic!("the first one is the acl")
            };
            acl.rules[0].selector = calisto_nf::Selector::default();
            let wanted = wanted::filter_of(&file, own.into_iter()).expect("few");
            wanted::compile(&file, &wanted).expect("it says one thing");
        }
    }

    #[test]
    fn a_tag_without_a_vlan_changes_nothing_of_what_is_taken() {
        let text = filter(&["10.0.0.1", "fd00::1"], true).expect("two are not too many");
        let filter = port::Filter::compile(&text).expect("tcpdump knows it");
        let four = |protocol, to: [u8; 4]| {
            let fixed = [8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 9, 9];
            [&fixed[..], &to, &[0; 20]].concat()
        };
        let six = |last: u8| {
            let mut packet = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64][..], &[0; 52]].concat();
            (packet[10], packet[26], packet[41]) = (0xfd, 0xfd, last);
            packet
        };
        let frame =
            |tags: &[[u8; 4]], packet: &[u8]| [&[2; 12], tags.as_flattened(), packet].concat();
        for (packet, is_taken) in [
            (four(6, [10, 0, 0, 1]), false),
            (four(50, [10, 0, 0, 1]), true),
            (four(6, [10, 0, 0, 2]), true),
            (six(1), false),
            (six(2), true),
            ([&[8, 6][..], &[0; 28]].concat(), false),
        ] {
            for kind in [[0x81, 0], [0x88, 0xa8]] {
                let tag = |high: u8, low: u8| [kind[0], kind[1], high, low];
                let none = tag(0xe0, 0);
                let taken = |tags: &[[u8; 4]]| filter.matches(&frame(tags, &packet));
                assert_eq!(taken(&[]), is_taken, "{packet:02x?}");
                assert_eq!(taken(&[none]), is_taken, "{packet:02x?}");
                assert!(!taken(&[tag(0, 5)]) && !taken(&[tag(1, 0)]), "a VLAN is the kernel's");
                // The kernel takes off any number of them.
                assert!(taken(&[none, none]) && taken(&[none, none, none]));
                assert!(!taken(&[none, tag(0, 5)]));
            }
        }
        let mut group = frame(&[[0x81, 0, 0, 0]], &four(6, [10, 0, 0, 2]));
        group[0] |= 1;
        assert!(!filter.matches(&group));
    }

    #[test]
    fn an_end_of_tunnels_takes_their_packets_and_what_is_said_of_their_length() {
        let own_packets = OwnPackets { esp: false, tunnels: true };
        let addresses = [IpAddr::from([10, 0, 0, 1])];
        let text = of_router(&addresses, own_packets, &[]).expect("one is not too many");
        let filter = port::Filter::compile(&text.expression).expect("tcpdump knows it");
        let frame = |protocol: u8, payload: &[u8]| {
            let mut frame =
                [&[2; 12][..], &[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol]].concat();
            frame.extend([0, 0, 10, 9, 9, 9, 10, 0, 0, 1]);
            frame.extend(payload);
            frame
        };
        let quoted = |protocol: u8, code: u8| {
            let mut message =
                vec![3, code, 0, 0, 0, 0, 4, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol];
            message.extend([0; 30]);
            frame(1, &message)
        };
        for protocol in [4, 41, 47] {
            assert!(filter.matches(&frame(protocol, &[0; 40])), "{protocol}");
            assert!(filter.matches(&quoted(protocol, 4)), "{protocol}");
            assert!(!filter.matches(&quoted(protocol, 1)), "{protocol}");
        }
        assert!(!filter.matches(&frame(6, &[0; 40])) && !filter.matches(&quoted(17, 4)));
    }
}

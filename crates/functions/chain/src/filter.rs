//! Which packets a chain takes when its file names no filter: those that it could forward. The rest
//! is the kernel's, so ARP, neighbour discovery, ssh and ping to this host work on.

mod guard;

use std::net::IpAddr;

use crate::file::AclPart;

/// Instructions of the filter of a chain whose acl guards the host, at most: with more the XDP
/// program could not judge, and what is the kernel's would be lost.
pub const INSTRUCTIONS_MAX: usize = 2000;

/// Addresses that are named one by one; a host that has more gets no filter by itself.
pub const ADDRESSES_MAX: usize = 128;

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
/// `guards` deny of what is for it. `None`: there are too many addresses for a filter.
pub fn of_router(
    addresses: &[IpAddr],
    own_packets: OwnPackets,
    guards: &[&AclPart],
) -> Option<String> {
    let mut own: Vec<IpAddr> = addresses.iter().copied().filter(|at| !at.is_loopback()).collect();
    own.sort_unstable();
    own.dedup();
    if own.len() > ADDRESSES_MAX {
        return None;
    }
    // What is sent to link-local addresses nobody forwards.
    let is_named = |at: &IpAddr| !matches!(at, IpAddr::V6(six) if six.is_unicast_link_local());
    let half = |is_ipv6: bool| {
        let own: Vec<IpAddr> = own.iter().copied().filter(|at| at.is_ipv6() == is_ipv6).collect();
        let (family, local) = match is_ipv6 {
            false => ("ip", None),
            true => ("ip6", Some("dst net fe80::/10".to_owned())),
        };
        let named = own.iter().filter(|at| is_named(at)).map(|at| format!("dst host {at}"));
        let all: Vec<String> = local.into_iter().chain(named).collect();
        if all.is_empty() {
            return family.to_owned();
        }
        let mut taken = format!("not ({})", all.join(" or "));
        let also = own_packets.expressions(is_ipv6);
        if !also.is_empty() {
            taken = format!("({taken} or {})", also.join(" or "));
        }
        match guard::denied(guards, &own, is_ipv6) {
            Some(denied) => format!("({family} and ({taken} or {denied}))"),
            None => format!("({family} and {taken})"),
        }
    };
    Some(format!("({} or {}) and not ether multicast", half(false), half(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(addresses: &[&str], esp: bool) -> Option<String> {
        let parse = |text: &&str| text.parse().expect("an address");
        let own_packets = OwnPackets { esp, tunnels: false };
        of_router(&addresses.iter().map(parse).collect::<Vec<IpAddr>>(), own_packets, &[])
    }

    #[test]
    fn packets_to_this_host_are_left_to_the_kernel() {
        let own = ["10.0.0.1", "127.0.0.1", "10.0.0.1", "fe80::1", "fd00::1", "::1"];
        assert_eq!(
            filter(&own, false).as_deref(),
            Some(
                "((ip and not (dst host 10.0.0.1)) or \
                 (ip6 and not (dst net fe80::/10 or dst host fd00::1))) and not ether multicast"
            )
        );
    }

    #[test]
    fn a_tunnel_gateway_takes_esp_to_this_host_too() {
        assert_eq!(
            filter(&["10.0.0.1"], true).as_deref(),
            Some(
                "((ip and (not (dst host 10.0.0.1) or ip proto 50)) or \
                 (ip6 and (not (dst net fe80::/10) or ip6 proto 50))) and not ether multicast"
            )
        );
    }

    #[test]
    fn a_host_without_addresses_leaves_only_the_link_to_the_kernel() {
        let said = filter(&[], false).expect("no addresses are not too many");
        assert_eq!(said, "(ip or (ip6 and not (dst net fe80::/10))) and not ether multicast");
    }

    #[test]
    fn too_many_addresses_are_no_filter() {
        let many: Vec<IpAddr> = (0..200_u32).map(|n| IpAddr::V4((n + (10 << 24)).into())).collect();
        assert_eq!(of_router(&many, OwnPackets::default(), &[]), None);
    }

    #[test]
    fn an_end_of_tunnels_takes_their_packets_and_what_is_said_of_their_length() {
        let own_packets = OwnPackets { esp: false, tunnels: true };
        let addresses = [IpAddr::from([10, 0, 0, 1])];
        let text = of_router(&addresses, own_packets, &[]).expect("one is not too many");
        let filter = port::Filter::compile(&text).expect("tcpdump knows it");
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

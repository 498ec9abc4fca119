//! Which packets a chain takes when its file names no filter: those that it could forward. The rest
//! is the kernel's, so ARP, neighbour discovery, ssh and ping to this host work on.

use std::net::IpAddr;

/// Addresses that are named one by one; a host that has more gets no filter by itself.
pub const ADDRESSES_MAX: usize = 128;

/// The filter of a router whose host has these addresses, in the language of tcpdump: IP packets
/// that are for one station of the link and not for this host, and with `esp` also ESP to this
/// host. `None`: there are too many addresses for a filter.
pub fn of_router(addresses: &[IpAddr], esp: bool) -> Option<String> {
    let mut own: Vec<IpAddr> = addresses.iter().copied().filter(|at| !at.is_loopback()).collect();
    own.sort_unstable();
    own.dedup();
    if own.len() > ADDRESSES_MAX {
        return None;
    }
    let mut four: Vec<String> = Vec::new();
    // What is sent to link-local addresses nobody forwards.
    let mut six = vec!["dst net fe80::/10".to_owned()];
    for address in own {
        match address {
            IpAddr::V4(at) => four.push(format!("dst host {at}")),
            IpAddr::V6(at) if at.is_unicast_link_local() => {}
            IpAddr::V6(at) => six.push(format!("dst host {at}")),
        }
    }
    let half = |family: &str, own: &[String]| match (own, esp) {
        ([], _) => family.to_owned(),
        (own, false) => format!("({family} and not ({}))", own.join(" or ")),
        (own, true) => {
            let is_esp = if family == "ip" { "ip proto 50" } else { "ip6 proto 50" };
            format!("({family} and (not ({}) or {is_esp}))", own.join(" or "))
        }
    };
    let (four, six) = (half("ip", &four), half("ip6", &six));
    Some(format!("({four} or {six}) and not ether multicast"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(addresses: &[&str], esp: bool) -> Option<String> {
        let parse = |text: &&str| text.parse().expect("an address");
        of_router(&addresses.iter().map(parse).collect::<Vec<IpAddr>>(), esp)
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
        assert_eq!(of_router(&many, false), None);
    }
}

//! What the kernel does to packets that it forwards, and not to those of a chain; and what it
//! believes of strangers that a chain believes then. An operator hears of it at the start.

use std::path::Path;

use sys::{nftables, xfrm};

use crate::file::{ChainFile, FunctionPart, Routes};
use crate::ports::Ports;

/// What there is to say of this machine as it is now, each a sentence.
pub(super) fn notes(file: &ChainFile, ports: &Ports) -> Vec<String> {
    let router = file.functions.iter().find_map(|function| match function {
        FunctionPart::Router(router) => Some(router),
        _ => None,
    });
    let Some(router) = router else { return Vec::new() };
    let mut notes = Vec::new();
    for (_, port) in ports.each() {
        let name = port.name.as_str();
        if router.routes == Routes::Kernel && believes_routers(name) {
            notes.push(format!(
                "{name}: the kernel believes router advertisements there, so anybody on that link makes \
                 routes of this chain: `sysctl {}=0`",
                key("ipv6", name, "accept_ra")
            ));
        }
        if filters_sources(name) {
            notes.push(format!(
                "{name}: the kernel's filter of sources ({}) sees no packet of the chain: say with an \
                 acl which sources may come by which port",
                key("ipv4", name, "rp_filter")
            ));
        }
    }
    // Who may not look is told by the slices that cannot be opened.
    if nftables::guards().is_ok_and(|guards| guards.any()) {
        notes.push(
            "this host has rules of nftables or iptables: packets of the chain meet none of them, those \
             for what is forwarded included"
                .to_owned(),
        );
    }
    if xfrm::policies().is_ok_and(|policies| policies > 0) {
        notes.push(
            "this host has policies of IPsec: packets of the chain are held against none of them"
                .to_owned(),
        );
    }
    notes
}

/// Whether what a stranger says in a router advertisement becomes a route: by 1 on a port by which
/// the kernel does not forward, by 2 whatever it does.
fn believes_routers(name: &str) -> bool {
    let number = |key: &str| number("ipv6", name, key);
    let is_effective = match number("accept_ra") {
        Some(0) | None => false,
        Some(1) => number("forwarding") == Some(0),
        Some(_) => true,
    };
    is_effective && number("disable_ipv6") == Some(0)
}

/// The higher of the values for all interfaces and for this one counts.
fn filters_sources(name: &str) -> bool {
    ["all", name].iter().any(|name| number("ipv4", name, "rp_filter").is_some_and(|it| it > 0))
}

/// How sysctl(8) calls it: in a name with a dot, as of a VLAN, that is no separator.
fn key(family: &str, name: &str, key: &str) -> String {
    let separator = if name.contains('.') { "/" } else { "." };
    ["net", family, "conf", name, key].join(separator)
}

fn number(family: &str, name: &str, key: &str) -> Option<i32> {
    let path = Path::new("/proc/sys/net").join(family).join("conf").join(name).join(key);
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_dot_is_one_word_to_sysctl() {
        assert_eq!(key("ipv6", "eth0", "accept_ra"), "net.ipv6.conf.eth0.accept_ra");
        assert_eq!(key("ipv6", "eth0.5", "accept_ra"), "net/ipv6/conf/eth0.5/accept_ra");
    }
}

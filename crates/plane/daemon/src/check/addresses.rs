//! `listen`: whether the addresses are there, and nobody else listens on them.

use std::net::IpAddr;

use datapath::Listener;
use port::PortSpec;

use super::finding::Finding;
use super::machine::Machine;

pub(super) fn check(
    listeners: &[(usize, Listener)],
    specs: &[(usize, PortSpec)],
    machine: Option<&Machine>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (nth, (at, listener)) in listeners.iter().enumerate() {
        let other = listeners[..nth].iter().find(|(_, other)| listener.overlaps(other));
        if let Some((_, other)) = other {
            let says = format!("{listener} is taken by {other}: remove one of them");
            found.push(Finding::wrong("listen", Some(*at), says));
        }
        let doubt = machine.and_then(|machine| unanswered(listener.address.ip(), specs, machine));
        found.extend(doubt.map(|says| Finding::doubtful("listen", Some(*at), says)));
    }
    found
}

/// Why packets to `address` may never come here, or be answered twice. On XDP ports the kernel
/// answers for addresses (ARP, neighbour discovery), on all others the daemon does.
fn unanswered(address: IpAddr, specs: &[(usize, PortSpec)], machine: &Machine) -> Option<String> {
    if address.is_unspecified() || specs.is_empty() {
        return None;
    }
    let is_here = machine.addresses.contains(&address);
    let are_all = |is_kind: fn(&PortSpec) -> bool| specs.iter().all(|(_, spec)| is_kind(spec));
    if !is_here && are_all(|spec| matches!(spec, PortSpec::Xdp { .. })) {
        return Some(format!(
            "no interface here has the address {address}, so that the kernel will not answer for \
             it and nobody finds it: add it with `ip address add`, or use an address that is here"
        ));
    }
    if is_here && are_all(|spec| matches!(spec, PortSpec::AfPacket { .. })) {
        return Some(format!(
            "the kernel has the address {address} too and sees the same packets, so that both \
             answer: give the daemon an address that the kernel does not have"
        ));
    }
    None
}

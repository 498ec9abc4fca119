//! Which packets for this host the rules of an acl deny, in the language of tcpdump: the chain
//! takes those, so that the acl can drop and count them, and leaves the others to the kernel.
//!
//! What the acl denies must be taken, and what it permits should not: it would be lost. Of IPv6
//! behind extension headers only the acl itself can say; so these are taken, all of them.

use std::net::IpAddr;

use calisto_nf::acl::{Action, Rule};
use calisto_nf::{PortRange, Prefix, Selector};

use crate::file::AclPart;

/// When something is so.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Never,
    Always,
    When(String),
}
use Condition::{Always, Never, When};

/// Extension headers of IPv6: behind them only the acl looks.
const EXTENSIONS: &str = "(ip6[6]=0 or ip6[6]=43 or ip6[6]=44 or ip6[6]=51 or ip6[6]=60)";
/// Fragments of TCP that would write over the flags of the first one (RFC 3128).
const TINY: &str = "(ip[9]=6 and (ip[6:2]&0x1fff)=1)";
/// Neighbour discovery, without which nobody reaches this host at all (RFC 4890 section 4.4.1).
const DISCOVERY: &str = "(ip6[6]=58 and ip6[40]>=133 and ip6[40]<=137)";

/// The packets of one IP version to `own`, this host's addresses of that version, that one of
/// these denies; nothing: there are none.
pub(super) fn denied(acls: &[&AclPart], own: &[IpAddr], is_ipv6: bool) -> Option<String> {
    let by_one = acls.iter().map(|acl| denied_by(acl, own, is_ipv6).0);
    let taken = match (by_one.fold(Never, Condition::or), is_ipv6) {
        (Never, true) => return None,
        (Never, false) => return (!acls.is_empty()).then(|| TINY.to_owned()),
        (Always, false) => return Some("ip".to_owned()),
        (When(denied), false) => return Some(format!("({denied} or {TINY})")),
        (Always, true) => "ip6".to_owned(),
        (When(denied), true) => format!("({denied} or {EXTENSIONS})"),
    };
    Some(format!("({taken} and not {DISCOVERY})"))
}

/// How many rules that says: each is at least one instruction.
pub(super) fn rules_said(acls: &[&AclPart], own: &[IpAddr], is_ipv6: bool) -> usize {
    acls.iter().map(|acl| denied_by(acl, own, is_ipv6).1).sum()
}

/// From the last rule to the first: each says what its packets come to, and leaves the others. With
/// how many of them are said, for packets meet some never, and some decide nothing.
fn denied_by(acl: &AclPart, own: &[IpAddr], is_ipv6: bool) -> (Condition, usize) {
    let default = if acl.default == Action::Deny { Always } else { Never };
    acl.rules.iter().rev().fold((default, 0), |(later, said), Rule { action, selector }| {
        let met = met(selector, own, is_ipv6);
        if met == Never {
            return (later, said);
        }
        let denied = match action {
            Action::Deny => met.or(later),
            Action::Permit => met.not().and(later),
        };
        let said = if matches!(denied, When(_)) { said + 1 } else { 0 };
        (denied, said)
    })
}

/// When a packet to `own` meets the selector.
fn met(selector: &Selector, own: &[IpAddr], is_ipv6: bool) -> Condition {
    let Selector { source, destination, protocol, source_ports, destination_ports } = *selector;
    let is_of_other = |prefix: &Prefix| prefix.address().is_ipv6() != is_ipv6;
    if source.iter().chain(&destination).any(is_of_other) {
        return Never;
    }
    let (family, number, at) = match is_ipv6 {
        false => ("ip", "ip[9]", ["ip[((ip[0]&0xf)<<2):2]", "ip[(((ip[0]&0xf)<<2)+2):2]"]),
        true => ("ip6", "ip6[6]", ["ip6[40:2]", "ip6[42:2]"]),
    };
    let mut met = Always;
    if let Some(prefix) = destination {
        let within = own.iter().filter(|address| prefix.contains(**address)).count();
        met = match within {
            0 => return Never,
            all if all == own.len() => Always,
            _ => When(format!("{family} dst net {prefix}")),
        };
    }
    if let Some(prefix) = source.filter(|prefix| prefix.bits() > 0) {
        met = met.and(When(format!("{family} src net {prefix}")));
    }
    if let Some(protocol) = protocol {
        met = met.and(When(format!("{number}={protocol}")));
    }
    if source_ports.is_none() && destination_ports.is_none() {
        return met;
    }
    if protocol.is_none() {
        let with_ports = [6, 17, 33, 132, 136].map(|protocol| format!("{number}={protocol}"));
        met = met.and(When(format!("({})", with_ports.join(" or "))));
    }
    if !is_ipv6 {
        // Later fragments have no ports.
        met = met.and(When("(ip[6:2]&0x1fff)=0".to_owned()));
    }
    for (range, at) in [source_ports, destination_ports].into_iter().zip(at) {
        if let Some(range) = range {
            met = met.and(When(within(at, range)));
        }
    }
    met
}

fn within(at: &str, range: PortRange) -> String {
    match (range.first(), range.last()) {
        (first, last) if first == last => format!("{at}={first}"),
        (first, last) => format!("({at}>={first} and {at}<={last})"),
    }
}

impl Condition {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Always, _) | (_, Always) => Always,
            (Never, one) | (one, Never) => one,
            (When(one), When(other)) => When(format!("({one} or {other})")),
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Never, _) | (_, Never) => Never,
            (Always, one) | (one, Always) => one,
            (When(one), When(other)) => When(format!("({one} and {other})")),
        }
    }

    fn not(self) -> Self {
        match self {
            Never => Always,
            Always => Never,
            When(one) => When(format!("not ({one})")),
        }
    }
}

#[cfg(test)]
mod tests;

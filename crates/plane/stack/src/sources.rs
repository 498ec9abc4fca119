//! Which addresses may be behind which port: the reverse-path check (RFC 3704).
//!
//! A frame says what its sender wanted to say. An answer to it leaves by the way that it came, so
//! who is on a link could speak for addresses that are elsewhere, and would hear the answers. So
//! the first packet of a flow, the first datagram of a source, and whatever comes by another way
//! than those before it, must come by a port by which the kernel would answer it.

use std::net::IpAddr;

use base::PortId;

/// Prefixes, at most: a table that is larger, such as a full one of the Internet, is not kept here.
pub const PREFIXES_MAX: usize = 1024;

/// The ports by which something is routed, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports(u64);

impl Ports {
    /// None of ours.
    pub const NONE: Self = Self(0);
    /// Any.
    pub const ALL: Self = Self(u64::MAX);

    /// One. Numbers beyond 63 cannot be told apart: that is any.
    pub fn of(port: PortId) -> Self {
        1_u64.checked_shl(u32::from(port.0)).map_or(Self::ALL, Self)
    }

    /// Those of both.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, port: PortId) -> bool {
        self.0 & Self::of(port).0 != 0
    }
}

/// A prefix of addresses, and how they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePrefix {
    /// Its first address.
    pub first: IpAddr,
    /// Bits that count.
    pub bits: u8,
    /// Ports of ours by which the kernel would send there; none for own addresses, broadcasts,
    /// groups, what is forbidden, and what is behind other interfaces.
    pub ports: Ports,
    /// Whether the kernel would send there at all.
    pub is_routed: bool,
}

/// The bits of a prefix, by which ports it is reached, and whether it is reached at all.
type Member = (u128, Ports, bool);

/// What is routed where, as the kernel said last.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// By family and length, longest first: the bits of each prefix in order.
    lengths: Vec<(bool, u8, Vec<Member>)>,
    /// Ports where any route will do (`rp_filter = 2`).
    loose: Ports,
}

impl Sources {
    /// By those prefixes; the same one may be named more than once. Nothing: there are more than
    /// [`PREFIXES_MAX`].
    pub fn new(prefixes: &[SourcePrefix], loose: Ports) -> Option<Self> {
        if prefixes.len() > PREFIXES_MAX {
            return None;
        }
        let mut all: Vec<_> = prefixes
            .iter()
            .map(|prefix| {
                let number = masked(number(prefix.first), prefix.bits, prefix.first.is_ipv6());
                (prefix.first.is_ipv6(), prefix.bits, number, prefix.ports, prefix.is_routed)
            })
            .collect();
        all.sort_by_key(|(is_v6, bits, number, ..)| (*is_v6, std::cmp::Reverse(*bits), *number));
        let mut lengths: Vec<(bool, u8, Vec<Member>)> = Vec::new();
        for (is_v6, bits, number, ports, is_routed) in all {
            let is_same = lengths.last().is_some_and(|last| (last.0, last.1) == (is_v6, bits));
            if !is_same {
                lengths.push((is_v6, bits, Vec::new()));
            }
            let Some((.., members)) = lengths.last_mut() else { continue };
            match members.last_mut().filter(|last| last.0 == number) {
                Some(last) => (last.1, last.2) = (last.1.with(ports), last.2 | is_routed),
                None => members.push((number, ports, is_routed)),
            }
        }
        Some(Self { lengths, loose })
    }

    /// Whether a packet from `source` may come by `port`: at most 33 or 129 lengths, and ten looks
    /// in each.
    pub fn may_come(&self, source: IpAddr, port: PortId) -> bool {
        let (is_v6, number) = (source.is_ipv6(), number(source));
        for (_, bits, members) in self.lengths.iter().filter(|of| of.0 == is_v6) {
            let wanted = masked(number, *bits, is_v6);
            if let Ok(at) = members.binary_search_by_key(&wanted, |member| member.0) {
                let (_, ports, is_routed) = members[at];
                return ports.has(port) || (is_routed && self.loose.has(port));
            }
        }
        false
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn masked(number: u128, bits: u8, is_v6: bool) -> u128 {
    let width = if is_v6 { 128 } else { 32 };
    let cut = u32::from(width - bits.min(width));
    number.checked_shr(cut).map_or(0, |kept| kept << cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, ports: Ports, is_routed: bool) -> SourcePrefix {
        let (first, bits) = text.split_once('/').expect("a prefix");
        let (first, bits) = (first.parse().expect("an address"), bits.parse().expect("bits"));
        SourcePrefix { first, bits, ports, is_routed }
    }

    fn sources(loose: Ports) -> Sources {
        let [zero, one] = [0, 1].map(|port| Ports::of(PortId(port)));
        let prefixes = [
            prefix("0.0.0.0/0", zero, true),
            prefix("10.0.0.0/24", one, true),
            prefix("10.0.0.2/32", Ports::NONE, false),
            prefix("10.0.0.255/32", Ports::NONE, false),
            prefix("127.0.0.0/8", Ports::NONE, false),
            prefix("172.16.0.0/12", Ports::NONE, true),
            prefix("192.168.0.0/16", Ports::NONE, false),
            prefix("fe80::/64", zero, true),
            prefix("fe80::/64", one, true),
        ];
        Sources::new(&prefixes, loose).expect("nine are few")
    }

    fn may_come(sources: &Sources, source: &str) -> [bool; 2] {
        let source = source.parse().expect("an address");
        [0, 1].map(|port| sources.may_come(source, PortId(port)))
    }

    #[test]
    fn a_source_comes_by_the_port_by_which_it_would_be_answered() {
        let strict = sources(Ports::NONE);
        assert_eq!(may_come(&strict, "8.8.8.8"), [true, false]);
        assert_eq!(may_come(&strict, "10.0.0.1"), [false, true]);
        for own in ["10.0.0.2", "10.0.0.255", "127.0.0.1", "192.168.7.7", "172.16.0.1"] {
            assert_eq!(may_come(&strict, own), [false, false], "{own}");
        }
        assert_eq!(may_come(&strict, "fe80::1"), [true, true]);
        assert_eq!(may_come(&strict, "2001:db8::1"), [false, false], "there is no route to there");
    }

    #[test]
    fn a_loose_port_takes_what_is_routed_anywhere_and_no_own_address() {
        let loose = sources(Ports::of(PortId(0)));
        assert_eq!(may_come(&loose, "10.0.0.1"), [true, true]);
        assert_eq!(may_come(&loose, "172.16.0.1"), [true, false]);
        assert_eq!(may_come(&loose, "10.0.0.2"), [false, false]);
        assert_eq!(may_come(&loose, "192.168.7.7"), [false, false], "it is forbidden");
    }

    #[test]
    fn a_table_of_the_whole_internet_is_not_kept() {
        let one = prefix("10.0.0.0/24", Ports::ALL, true);
        assert!(Sources::new(&vec![one; PREFIXES_MAX + 1], Ports::NONE).is_none());
    }
}

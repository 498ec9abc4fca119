//! One entry of the kernel's routing tables, and all of them.
//!
//! [`super::lookup`] says what the kernel would do with one destination; this is for whoever
//! forwards packets by tables of its own that shall say the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{RTA_VIA, RTAX_MTU, address};
use crate::SysError;
use crate::netlink::{NLM_F_DUMP, Request, attributes, u32_at};

/// The table that destinations are looked up in when no rule says otherwise.
pub const TABLE_MAIN: u32 = libc::RT_TABLE_MAIN as u32;

/// One entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first address of its destinations.
    pub destination: IpAddr,
    /// How many leading bits of it count.
    pub prefix_bits: u8,
    /// The table it is in.
    pub table: u32,
    /// Among entries for the same destinations the one with the least is used.
    pub metric: u32,
    /// The type of service that it is for; 0: any.
    pub tos: u8,
    /// What becomes of packets.
    pub kind: EntryKind,
    /// The interface of its first next hop; 0: it has none.
    pub interface: u32,
    /// Whose link address packets get; `None`: the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Next hops that it has besides the first (`ip route` calls it multipath).
    pub further_hops: u16,
    /// Bytes of the largest packet, where the entry says so.
    pub mtu: Option<u32>,
    /// Whether its link was up when the kernel said so.
    pub is_alive: bool,
}

/// What becomes of packets to an entry's destinations (RTN_* of linux/rtnetlink.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// They are sent to the next hop.
    Unicast,
    /// They are for this host, or for groups and everybody on a link: nothing to forward.
    Here,
    /// They are dropped without a word.
    Blackhole,
    /// They are dropped, and the sender is told that the host is unreachable.
    Unreachable,
    /// They are dropped, and the sender is told that it may not.
    Prohibit,
    /// The table has nothing to say about them, whatever shorter entries it has.
    Throw,
}

/// Passes all entries of all tables of both families to `each`, in the calling thread's namespace;
/// whether entries changed meanwhile, so that some may have been missed.
///
/// # Errors
/// Netlink is not available.
pub fn dump(mut each: impl FnMut(Entry)) -> Result<bool, SysError> {
    let mut was_changed = false;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut message = [0; 12];
        message[0] = family as u8;
        let request = Request::new(libc::RTM_GETROUTE, NLM_F_DUMP, &message);
        let dumped = request.dump(|kind, body| {
            if kind == libc::RTM_NEWROUTE {
                parse(body).into_iter().for_each(&mut each);
            }
        });
        was_changed |= dumped.map_err(|errno| SysError::new("list the routes", errno, ""))?;
    }
    Ok(was_changed)
}

/// Reads an RTM_NEWROUTE or RTM_DELROUTE; `None`: it is no entry of a table, or cut short.
pub(crate) fn parse(body: &[u8]) -> Option<Entry> {
    let (fixed, rest) = body.split_at_checked(12)?;
    let (none, bits_max) = match i32::from(fixed[0]) {
        libc::AF_INET => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
        libc::AF_INET6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128),
        _ => return None,
    };
    // What a host has learned of one destination (RTM_F_CLONED) is in no table; an entry for some
    // sources only is not an answer for all.
    let is_learned = u32_at(fixed, 8) & RTM_F_CLONED != 0;
    if is_learned || fixed[1] > bits_max || fixed[2] != 0 {
        return None;
    }
    let kind = match fixed[7] {
        libc::RTN_UNICAST => EntryKind::Unicast,
        libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST => {
            EntryKind::Here
        }
        libc::RTN_BLACKHOLE => EntryKind::Blackhole,
        libc::RTN_UNREACHABLE => EntryKind::Unreachable,
        libc::RTN_PROHIBIT => EntryKind::Prohibit,
        libc::RTN_THROW => EntryKind::Throw,
        _ => return None,
    };
    let mut entry = Entry {
        destination: none,
        prefix_bits: fixed[1],
        table: u32::from(fixed[4]),
        metric: 0,
        tos: fixed[3],
        kind,
        interface: 0,
        gateway: None,
        further_hops: 0,
        mtu: None,
        is_alive: is_alive(u32_at(fixed, 8)),
    };
    for (kind, value) in attributes(rest) {
        match kind {
            libc::RTA_DST => {
                entry.destination = address(value).filter(|at| at.is_ipv4() == none.is_ipv4())?;
            }
            libc::RTA_TABLE => entry.table = number(value)?,
            libc::RTA_PRIORITY => entry.metric = number(value)?,
            libc::RTA_OIF => entry.interface = number(value)?,
            libc::RTA_GATEWAY | RTA_VIA => entry.gateway = gateway(kind, value),
            libc::RTA_METRICS => {
                let mtu = attributes(value).find(|&(kind, _)| kind == RTAX_MTU);
                entry.mtu = mtu.and_then(|(_, value)| number(value)).filter(|&mtu| mtu != 0);
            }
            libc::RTA_MULTIPATH => add_hops(&mut entry, value),
            _ => {}
        }
    }
    Some(entry)
}

/// struct rtnexthop, one after another: length, flags, weight, interface, attributes. The first
/// whose link is alive is taken.
fn add_hops(entry: &mut Entry, mut bytes: &[u8]) {
    let (mut hops, mut taken) = (0_u16, false);
    while bytes.len() >= HOP_BYTES {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let Some(hop) = bytes.get(..len).filter(|hop| hop.len() >= HOP_BYTES) else { break };
        let hop_is_alive = is_alive(u32::from(hop[2]));
        if hops == 0 || (!taken && hop_is_alive) {
            entry.interface = u32_at(hop, 4);
            entry.gateway = attributes(&hop[HOP_BYTES..])
                .filter(|&(kind, _)| kind == libc::RTA_GATEWAY || kind == RTA_VIA)
                .find_map(|(kind, value)| gateway(kind, value));
            entry.is_alive = hop_is_alive;
            taken = hop_is_alive;
        }
        hops = hops.saturating_add(1);
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    entry.further_hops = hops.saturating_sub(1);
}

fn gateway(kind: u16, value: &[u8]) -> Option<IpAddr> {
    // struct rtvia: the family and then the address.
    let octets = if kind == RTA_VIA { value.get(2..)? } else { value };
    address(octets)
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

fn is_alive(flags: u32) -> bool {
    flags & RTNH_F_DEAD == 0
}

const HOP_BYTES: usize = 8;
/// Both of linux/rtnetlink.h.
const RTNH_F_DEAD: u32 = 1;
const RTM_F_CLONED: u32 = 0x200;

#[cfg(test)]
mod tests;

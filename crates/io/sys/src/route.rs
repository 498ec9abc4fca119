//! The route by which the kernel would send a packet: RTM_GETROUTE, asked for one destination.
//!
//! The answer is that of connect(2) in the calling thread's namespace: policy rules, metrics and
//! what path MTU discovery has learned are in it. It holds until [`crate::net_changes`] says
//! otherwise.

use std::net::IpAddr;

use rustix::io::Errno;

use crate::SysError;
use crate::netlink::{Request, attributes};

mod entry;
mod rules;

pub(crate) use entry::parse as parse_entry;
pub use entry::{Entry, EntryKind, TABLE_MAIN, dump};
pub use rules::{Rule, rules};

/// The way to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the interface by which packets leave.
    pub interface: u32,
    /// Whose link address they get; `None`: the destination is on the link itself. May be an IPv6
    /// address for an IPv4 destination (RFC 5549).
    pub gateway: Option<IpAddr>,
    /// The address of ours that they come from if the program chooses none.
    pub source: Option<IpAddr>,
    /// Bytes of the largest packet on this way, where it is less than the interface's or was
    /// learned.
    pub mtu: Option<u32>,
    /// What kind of destination it is.
    pub kind: RouteKind,
}

impl Route {
    /// Whose link address packets to `destination` on this way need.
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        self.gateway.unwrap_or(destination)
    }
}

/// What kind of destination a route leads to (RTN_* of linux/rtnetlink.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// One host somewhere else.
    Unicast,
    /// An address of this host.
    Local,
    /// Everybody on a link.
    Broadcast,
    /// One of several hosts.
    Anycast,
    /// A group.
    Multicast,
}

/// The way to `destination`, from `source` if the program chose one and by `interface` if it did (a
/// link-local IPv6 destination has a way only with one).
///
/// # Errors
/// What connect(2) would say: ENETUNREACH (no route), EHOSTUNREACH (a route of type unreachable),
/// EACCES (prohibit), EINVAL (blackhole), ENODEV (no such interface). A `source` that is none of
/// our addresses is EINVAL or, for later kernels, ENETUNREACH.
pub fn lookup(
    destination: IpAddr,
    source: Option<IpAddr>,
    interface: Option<u32>,
) -> Result<Route, SysError> {
    let failed = |errno| {
        let advice = match errno {
            Errno::NETUNREACH => "see `ip route`: there is no route to there",
            Errno::HOSTUNREACH | Errno::ACCESS => "see `ip route`: a route forbids it",
            Errno::INVAL => "see `ip route`: a route drops it, or the source is no address of ours",
            _ => "",
        };
        SysError::new(format!("find the way to {destination}"), errno, advice)
    };
    if source.is_some_and(|source| source.is_ipv4() != destination.is_ipv4()) {
        return Err(failed(Errno::INVAL));
    }
    let mut request = Request::new(libc::RTM_GETROUTE, 0, &fixed(destination, source))
        .attribute(libc::RTA_DST, &octets(destination));
    if let Some(source) = source {
        request = request.attribute(libc::RTA_SRC, &octets(source));
    }
    if let Some(interface) = interface {
        request = request.attribute(libc::RTA_OIF, &interface.to_ne_bytes());
    }
    let mut found = Err(Errno::BADMSG);
    request
        .send(|kind, body| {
            if kind == libc::RTM_NEWROUTE {
                found = parse(body);
            }
        })
        .map_err(failed)?;
    found.map_err(failed)
}

/// struct rtmsg of linux/rtnetlink.h: family, lengths of both prefixes, type of service, table,
/// protocol, scope, type, flags.
fn fixed(destination: IpAddr, source: Option<IpAddr>) -> [u8; 12] {
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let mut message = [0; 12];
    message[0] = family(destination);
    message[1] = bits(destination);
    message[2] = source.map_or(0, bits);
    message
}

/// The number of an address's family in messages of rtnetlink.
pub(crate) fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    family as u8
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(crate) fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?)),
        _ => None,
    }
}

fn parse(body: &[u8]) -> Result<Route, Errno> {
    let (fixed, rest) = body.split_at_checked(12).ok_or(Errno::BADMSG)?;
    // Some kernels refuse with an errno, some show the route that forbids, for IPv6 at least.
    let kind = match fixed[7] {
        libc::RTN_UNICAST => RouteKind::Unicast,
        libc::RTN_LOCAL => RouteKind::Local,
        libc::RTN_BROADCAST => RouteKind::Broadcast,
        libc::RTN_ANYCAST => RouteKind::Anycast,
        libc::RTN_MULTICAST => RouteKind::Multicast,
        libc::RTN_BLACKHOLE => return Err(Errno::INVAL),
        libc::RTN_UNREACHABLE => return Err(Errno::HOSTUNREACH),
        libc::RTN_PROHIBIT => return Err(Errno::ACCESS),
        _ => return Err(Errno::NETUNREACH),
    };
    let number = |value: &[u8]| Some(u32::from_ne_bytes(value.try_into().ok()?));
    let mut route = Route { interface: 0, gateway: None, source: None, mtu: None, kind };
    for (kind, value) in attributes(rest) {
        match kind {
            libc::RTA_OIF => route.interface = number(value).ok_or(Errno::BADMSG)?,
            libc::RTA_GATEWAY => route.gateway = address(value),
            // struct rtvia: the family and then the address.
            RTA_VIA => route.gateway = value.get(2..).and_then(address),
            libc::RTA_PREFSRC => route.source = address(value),
            libc::RTA_METRICS => {
                let mtu = attributes(value).find(|&(kind, _)| kind == RTAX_MTU);
                route.mtu = mtu.and_then(|(_, value)| number(value)).filter(|&mtu| mtu != 0);
            }
            _ => {}
        }
    }
    if route.interface == 0 { Err(Errno::NETUNREACH) } else { Ok(route) }
}

/// Of linux/rtnetlink.h; libc has no name for it.
const RTA_VIA: u16 = 18;
/// In RTA_METRICS, of the same file.
const RTAX_MTU: u16 = 2;

#[cfg(test)]
mod tests;

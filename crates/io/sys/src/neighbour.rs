//! The link addresses of neighbours: what the kernel knows, and how to make it find out.
//!
//! The kernel owns this table (ARP, RFC 826, and neighbour discovery, RFC 4861): we ask. Packets
//! that it does not see confirm nothing to it, so an entry in use has to be named to it by
//! [`resolve`] again and again, or it grows stale and is collected.

use std::net::IpAddr;

use rustix::io::Errno;

use crate::SysError;
use crate::netlink::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, Request, attributes, u16_at, u32_at,
};
use crate::route::{address, family, octets};

/// What the kernel knows of one neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// How sure it is.
    pub state: NeighbourState,
    /// Its Ethernet address, which may be out of date; `None` while it is not known.
    pub mac: Option<[u8; 6]>,
}

impl Neighbour {
    /// Where to send: its address, as long as the kernel itself would still use it.
    pub fn usable_mac(&self) -> Option<[u8; 6]> {
        match self.state {
            NeighbourState::Incomplete | NeighbourState::Failed => None,
            NeighbourState::Fresh | NeighbourState::Stale | NeighbourState::Fixed => self.mac,
        }
    }
}

/// How sure the kernel is of a neighbour (NUD_* of linux/neighbour.h, as far as it matters here).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// It has been asked for its address and has not answered yet.
    Incomplete,
    /// It answered lately.
    Fresh,
    /// It has not answered lately, or is just being asked again; its address is used meanwhile.
    Stale,
    /// It does not answer.
    Failed,
    /// Somebody set it, or the link needs none: it never changes by itself.
    Fixed,
}

/// What the kernel knows of `neighbour` on the link of `interface`, in the calling thread's
/// namespace; `None`: nothing.
///
/// # Errors
/// There is no such interface.
pub fn lookup(interface: u32, neighbour: IpAddr) -> Result<Option<Neighbour>, SysError> {
    let request = Request::new(libc::RTM_GETNEIGH, 0, &fixed(interface, neighbour, 0))
        .attribute(libc::NDA_DST, &octets(neighbour));
    let mut found = None;
    let result = request.send(|kind, body| {
        if kind == libc::RTM_NEWNEIGH {
            found = parse(body).and_then(|(at, found)| (at == neighbour).then_some(found));
        }
    });
    match result {
        Ok(()) => Ok(found),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(format!("look up neighbour {neighbour}"), errno)),
    }
}

/// Passes interface, address and state of all neighbours of both families to `each`, in the calling
/// thread's namespace.
///
/// # Errors
/// Netlink is not available.
pub fn dump(mut each: impl FnMut(u32, IpAddr, Neighbour)) -> Result<(), SysError> {
    let tell = |kind, body: &[u8]| {
        if kind == libc::RTM_NEWNEIGH
            && let Some((interface, at, found)) = parse_entry(body)
        {
            each(interface, at, found);
        }
    };
    // A zero family asks for all; bridges' tables do not have IP addresses, and are passed over.
    Request::new(libc::RTM_GETNEIGH, NLM_F_DUMP, &[0; 12])
        .send(tell)
        .map_err(|errno| SysError::new("list the neighbours", errno, ""))
}

/// Says that there are packets for `neighbour`, and returns at once. The kernel finds out the link
/// address of one that it does not know, asks one again that did not answer, verifies one that has
/// grown stale by a question to it, and does nothing about one that is fresh. What it learns it
/// tells by [`crate::net_changes`].
///
/// To be called when an address is wanted, and every few seconds for whoever is sent to: an entry
/// is held to be fresh for about thirty.
///
/// # Errors
/// CAP_NET_ADMIN is missing, there is no such interface, or the table is full.
pub fn resolve(interface: u32, neighbour: IpAddr) -> Result<(), SysError> {
    // What the kernel is told to use it makes its own: an entry that somebody set would be lost.
    let known = lookup(interface, neighbour)?;
    if known.is_some_and(|known| known.state == NeighbourState::Fixed) {
        return Ok(());
    }
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    Request::new(libc::RTM_NEWNEIGH, flags, &fixed(interface, neighbour, libc::NTF_USE))
        .attribute(libc::NDA_DST, &octets(neighbour))
        .send(|_, _| {})
        .map_err(|errno| failed(format!("resolve neighbour {neighbour}"), errno))
}

fn failed(doing: String, errno: Errno) -> SysError {
    let advice = match errno {
        Errno::PERM | Errno::ACCESS => "CAP_NET_ADMIN is needed: run as root",
        Errno::NODEV => "the interface is gone",
        Errno::NOBUFS => "the kernel's table is full: see net.ipv4.neigh.default.gc_thresh3",
        _ => "",
    };
    SysError::new(doing, errno, advice)
}

/// struct ndmsg of linux/neighbour.h: family, three bytes of padding, interface, state, flags,
/// type. The state is none: that changes no entry, and makes a new one know nothing.
fn fixed(interface: u32, neighbour: IpAddr, flags: u8) -> [u8; 12] {
    let mut message = [0; 12];
    message[0] = family(neighbour);
    message[4..8].copy_from_slice(&interface.to_ne_bytes());
    message[10] = flags;
    message
}

/// Whose link a message is about, whom, and what it says.
pub(crate) fn parse_entry(body: &[u8]) -> Option<(u32, IpAddr, Neighbour)> {
    let (at, found) = parse(body)?;
    Some((u32_at(body, 4), at, found))
}

/// Whom a message is about, and what it says.
fn parse(body: &[u8]) -> Option<(IpAddr, Neighbour)> {
    let (fixed, rest) = body.split_at_checked(12)?;
    let bits = u16_at(fixed, 8);
    let state = if bits & (libc::NUD_PERMANENT | libc::NUD_NOARP) != 0 {
        NeighbourState::Fixed
    } else if bits & libc::NUD_REACHABLE != 0 {
        NeighbourState::Fresh
    } else if bits & (libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE) != 0 {
        NeighbourState::Stale
    } else if bits & libc::NUD_FAILED != 0 {
        NeighbourState::Failed
    } else {
        NeighbourState::Incomplete
    };
    let (mut at, mut mac) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            libc::NDA_DST => at = address(value),
            libc::NDA_LLADDR => mac = value.try_into().ok(),
            _ => {}
        }
    }
    Some((at?, Neighbour { state, mac }))
}

#[cfg(test)]
mod tests;

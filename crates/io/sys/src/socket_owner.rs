//! The socket to which the kernel would give a packet: asked of SOCK_DIAG (linux/inet_diag.h),
//! which looks it up in the same tables and by the same rules as for a packet that has come.
//!
//! So whatever takes a socket's right to its packets away is seen: that it was shut down or has
//! lost its port, that it is bound to a device, that another one fits better.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use base::Nanos;
use rustix::io::Errno;
use rustix::net::netlink;

use crate::SysError;
use crate::netlink::{NLM_F_DUMP, Request, u32_at};

/// A transport protocol, with its number in an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

/// A socket that would get a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its SO_COOKIE.
    pub cookie: u64,
    /// The user that made it.
    pub uid: u32,
    /// It listens (TCP only).
    pub is_listener: bool,
}

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// From nobody in particular, so that no connection fits.
const NOBODY: u16 = 0;

/// Who gets what a stranger sends to `local` by the interface of that number, in the calling
/// thread's network namespace: a listener, or a UDP socket that is not connected. None: nobody.
///
/// # Errors
/// The kernel does not tell: it may lack CONFIG_INET_DIAG.
pub fn of_address(
    transport: Transport,
    local: SocketAddr,
    interface: u32,
) -> Result<Option<Owner>, SysError> {
    let any: IpAddr = match local {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    of_ends(transport, local, SocketAddr::new(any, NOBODY), interface)
}

/// Who gets what `remote` sends to `local`: a connection of just these ends, or else as
/// [`of_address`].
///
/// # Errors
/// The same.
pub fn of_ends(
    transport: Transport,
    local: SocketAddr,
    remote: SocketAddr,
    interface: u32,
) -> Result<Option<Owner>, SysError> {
    // Of UDP sockets the kernel takes the destination for the source ("for historical reasons").
    let (source, destination) = match transport {
        Transport::Tcp => (local, remote),
        Transport::Udp => (remote, local),
    };
    // struct inet_diag_req_v2: family, protocol, no extensions, every state; ports, addresses,
    // interface, and INET_DIAG_NOCOOKIE.
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut fixed = vec![family as u8, transport as u8, 0, 0];
    fixed.extend(u32::MAX.to_ne_bytes());
    fixed.extend([source.port().to_be_bytes(), destination.port().to_be_bytes()].concat());
    fixed.extend([octets(source.ip()), octets(destination.ip())].concat());
    fixed.extend(interface.to_ne_bytes());
    fixed.extend([0xff; 8]);
    let mut owner = None;
    let asked = Request::new(SOCK_DIAG_BY_FAMILY, 0, &fixed).send_to(
        Some(netlink::SOCK_DIAG),
        |kind, body| {
            if kind == SOCK_DIAG_BY_FAMILY {
                owner = read(body);
            }
        },
    );
    match asked {
        Ok(()) => Ok(owner),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => {
            let advice = "the kernel may lack CONFIG_INET_DIAG";
            Err(SysError::new(format!("ask whose socket is at {local}"), errno, advice))
        }
    }
}

/// Passes on every socket that has a peer and whose own port is one of `ports`, in the calling
/// thread's network namespace: its own address and port, and whose it is. What its peer sends there
/// is its own and nobody else's, whoever shares the port. False: there are more than the kernel
/// told in `at_most` of a processor for each family.
///
/// The kernel walks its whole table once for each family, and for UDP those of one port again for
/// every few hundred that it tells: the time grows with the square of how many share one port. What
/// is not of these ports costs it a step of the walk.
///
/// # Errors
/// The kernel does not tell: it may lack CONFIG_INET_DIAG.
pub fn each_connected(
    transport: Transport,
    ports: RangeInclusive<u16>,
    at_most: Nanos,
    each: impl FnMut(SocketAddr, Owner),
) -> Result<bool, SysError> {
    /// Bits by include/net/tcp_states.h: all but TIME-WAIT, CLOSE, LISTEN and NEW_SYN_RECV. A
    /// connected UDP socket is ESTABLISHED.
    const WITH_PEER: u32 = 0xb3e;
    each_in(WITH_PEER, transport, ports, at_most, each)
}

/// The same of every socket to which anybody may send: one that listens, or a UDP socket with a
/// port and without a peer.
///
/// # Errors
/// The same.
pub fn each_open(
    transport: Transport,
    at_most: Nanos,
    each: impl FnMut(SocketAddr, Owner),
) -> Result<bool, SysError> {
    /// A UDP socket without a peer is TCP_CLOSE.
    const CLOSE: u32 = 1 << 7;
    const LISTEN: u32 = 1 << 10;
    let states = match transport {
        Transport::Tcp => LISTEN,
        Transport::Udp => CLOSE,
    };
    each_in(states, transport, 0..=u16::MAX, at_most, each)
}

fn each_in(
    states: u32,
    transport: Transport,
    ports: RangeInclusive<u16>,
    at_most: Nanos,
    mut each: impl FnMut(SocketAddr, Owner),
) -> Result<bool, SysError> {
    /// INET_DIAG_REQ_BYTECODE of linux/inet_diag.h.
    const FILTER: u16 = 1;
    // The kernel has nobody who answers for both families at once.
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct inet_diag_req_v2: family, protocol, no extensions, states; any ports, addresses,
        // interface and cookie.
        let mut fixed = vec![family as u8, transport as u8, 0, 0];
        fixed.extend(states.to_ne_bytes());
        fixed.resize(56, 0);
        let request = Request::new(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &fixed);
        let request = match ports == (0..=u16::MAX) {
            true => request,
            false => request.attribute(FILTER, &within(&ports)),
        };
        let told = request.dump_within(Some(netlink::SOCK_DIAG), at_most, |kind, body| {
            // One that its program has closed has no owner.
            if kind == SOCK_DIAG_BY_FAMILY
                && let Some(owner) = read(body)
                && u32_at(body, INODE) != 0
            {
                each(own_end(body), owner);
            }
        });
        let told = told.map_err(|errno| {
            let advice = "the kernel may lack CONFIG_INET_DIAG";
            SysError::new("ask which sockets there are", errno, advice)
        })?;
        if !told {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A filter of linux/inet_diag.h that lets pass what has one of these own ports.
fn within(ports: &RangeInclusive<u16>) -> Vec<u8> {
    /// Comparisons of the own port, INET_DIAG_BC_S_GE and _LE, with what stands behind them.
    const AT_LEAST: u8 = 2;
    const AT_MOST: u8 = 3;
    /// Bytes of a comparison and the port behind it; and of what leads out of the filter, where
    /// nothing passes.
    const STEP: u16 = 8;
    const OUT: u16 = 4;
    // struct inet_diag_bc_op: code, and the bytes to go on by if it is so, and if not.
    let step = |code: u8, no: u16, port: u16| {
        let compare = [&[code, STEP as u8][..], &no.to_ne_bytes()].concat();
        let with = [&[0, 0][..], &port.to_ne_bytes()].concat();
        [compare, with].concat()
    };
    let first = step(AT_LEAST, 2 * STEP + OUT, *ports.start());
    [first, step(AT_MOST, STEP + OUT, *ports.end())].concat()
}

/// The own address and port in a struct inet_diag_msg that [`read`] has read; IPv4 as IPv4.
fn own_end(body: &[u8]) -> SocketAddr {
    /// Behind family, state, timer, retransmits; and two ports.
    const PORT: usize = 4;
    const OWN: usize = PORT + 4;
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&body[OWN..OWN + 16]);
    let [one, two, three, four, ..] = bytes;
    let ip = match i32::from(body[0]) == libc::AF_INET {
        true => IpAddr::from([one, two, three, four]),
        false => IpAddr::from(bytes).to_canonical(),
    };
    SocketAddr::new(ip, u16::from_be_bytes([body[PORT], body[PORT + 1]]))
}

fn octets(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    bytes
}

/// In a struct inet_diag_msg: behind family, state, timer and retransmits comes the id (ports,
/// addresses, interface, cookie); then the time to the timer, two queues, the user, the inode.
const COOKIE: usize = 4 + 4 + 32 + 4;
const USER: usize = COOKIE + 8 + 12;
const INODE: usize = USER + 4;
const MESSAGE_BYTES: usize = 72;

/// Reads a struct inet_diag_msg.
fn read(body: &[u8]) -> Option<Owner> {
    /// TCP_LISTEN of include/net/tcp_states.h.
    const LISTEN: u8 = 10;
    if body.len() < MESSAGE_BYTES {
        return None;
    }
    let cookie = u64::from(u32_at(body, COOKIE)) | u64::from(u32_at(body, COOKIE + 4)) << 32;
    Some(Owner { cookie, uid: u32_at(body, USER), is_listener: body[1] == LISTEN })
}

#[cfg(test)]
mod tests;

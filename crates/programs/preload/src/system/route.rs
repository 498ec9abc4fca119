//! Which address of this machine leads to a peer, as the kernel routes.

use std::net::{IpAddr, SocketAddr};

use libc::{c_int, socklen_t};

use crate::system::{address, real};

/// The address that a socket on all addresses sends from when it is connected.
pub(crate) fn source_towards(family: c_int, remote: SocketAddr) -> Option<IpAddr> {
    let (peer, peer_bytes) = address::storage(remote, family);
    // SAFETY: plain numbers.
    let scout = unsafe { real::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    // The kernel chooses the address when a socket is connected; ours stays unconnected.
    // SAFETY: an address of ours. No packet is sent.
    let found = unsafe { real::connect(scout, (&raw const peer).cast(), peer_bytes as socklen_t) };
    let (mut own, mut bytes) = (peer, size_of::<libc::sockaddr_storage>() as socklen_t);
    // SAFETY: `own` has so much room.
    let is_known = found == 0
        && unsafe { real::getsockname(scout, (&raw mut own).cast(), &raw mut bytes) } == 0;
    // SAFETY: it is ours, or no descriptor.
    unsafe { real::close(scout) };
    // SAFETY: the kernel has written it.
    let own = unsafe { address::read((&raw const own).cast(), bytes) };
    own.ok().flatten().filter(|_| is_known).map(|own| own.ip())
}

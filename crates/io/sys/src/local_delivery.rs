//! Gives a packet that came by an interface to this host's own stack, which has not seen it.
//!
//! The kernel takes it from its loopback as one that has come for this host, whoever has sent it.
//! Nothing is looked at but to whom it is: what that stack does with it is as if it had come by
//! itself.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto};

use crate::SysError;

/// The way in, for the network namespace of the thread that made it.
#[derive(Debug)]
pub struct LocalDelivery {
    v4: OwnedFd,
    /// Nothing: the host has no IPv6.
    v6: Option<OwnedFd>,
}

impl LocalDelivery {
    /// Opens it.
    ///
    /// # Errors
    /// EPERM: this thread has no CAP_NET_RAW.
    pub fn new() -> Result<Self, SysError> {
        let open = |family| {
            // Whoever sends by such a socket writes the IP header (raw(7)).
            let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
            rustix::net::socket_with(family, kind, flags, Some(ipproto::RAW))
        };
        let failed = |errno| SysError::new("open a raw socket", errno, "it needs CAP_NET_RAW");
        let v4 = open(AddressFamily::INET).map_err(failed)?;
        let v6 = match open(AddressFamily::INET6) {
            Ok(v6) => Some(v6),
            Err(Errno::AFNOSUPPORT) => None,
            Err(errno) => return Err(failed(errno)),
        };
        Ok(Self { v4, v6 })
    }

    /// Gives `packet`, an IP packet to the own address `to`; false: the kernel did not take it.
    pub fn give(&self, packet: &[u8], to: IpAddr) -> bool {
        let fd = match to {
            IpAddr::V4(_) => Some(&self.v4),
            IpAddr::V6(_) => self.v6.as_ref(),
        };
        let to = SocketAddr::new(to, 0);
        fd.is_some_and(|fd| {
            rustix::net::sendto(fd, packet, SendFlags::DONTWAIT, &to) == Ok(packet.len())
        })
    }
}

#[cfg(test)]
mod tests;

//! Single connections that are ours: their packets are taken, and those of others to the same port
//! are not.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sys::SysError;
use sys::capability::Capability;

use super::bpf::{F_NO_PREALLOC, MAP_TYPE_HASH, Map};
use super::ours::{Destination, KEY_BYTES as OWN_BYTES, Protocol};
use crate::OpenError;

/// Bytes of a key: that of its own end, which is a key of [`super::Ours`], then the other end's.
pub(super) const KEY_BYTES: usize = 40;
const VALUE_BYTES: usize = 4;
/// Where the parts of a key are behind those of its own end, in network order as those; what is
/// left is zero.
pub(super) mod key {
    pub(in crate::xdp) const REMOTE_PORT: i16 = 20;
    pub(in crate::xdp) const REMOTE_ADDRESS: i16 = 24;
}

/// A connection: packets from `remote` to `local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Its protocol.
    pub protocol: Protocol,
    /// The end on this host.
    pub local: SocketAddr,
    /// The other end, of the same family.
    pub remote: SocketAddr,
}

impl Flow {
    fn key(&self) -> [u8; KEY_BYTES] {
        let Self { protocol, local, remote } = *self;
        let own = Destination { protocol, address: Some(local.ip()), port: Some(local.port()) };
        let mut bytes = [0; KEY_BYTES];
        bytes[..OWN_BYTES].copy_from_slice(&own.key());
        let port = key::REMOTE_PORT as usize;
        bytes[port..port + 2].copy_from_slice(&remote.port().to_be_bytes());
        let address = &mut bytes[key::REMOTE_ADDRESS as usize..];
        match remote.ip() {
            IpAddr::V4(v4) => address[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => address.copy_from_slice(&v6.octets()),
        }
        bytes
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "{protocol} {} from {}", self.local, self.remote)
    }
}

/// The connections that are ours, in a map that the kernel's program reads. Changes take effect
/// with the next packet.
#[derive(Debug)]
pub struct Flows {
    map: Map,
}

impl Flows {
    /// How many there can be: those of four users with as many connections as each may have by
    /// default. An entry takes about a hundred bytes, when it is made.
    pub const ENTRIES_MAX: u32 = 1 << 18;

    pub(super) fn create() -> Result<Self, OpenError> {
        let (key, value) = (KEY_BYTES, VALUE_BYTES);
        let name = "calisto_flows";
        let map = Map::create(MAP_TYPE_HASH, name, key, value, Self::ENTRIES_MAX, F_NO_PREALLOC);
        let map = map.map_err(|errno| {
            let needs = [Capability::Bpf];
            OpenError::of("make a BPF map", errno, &needs, "the kernel lacks BPF or memory")
        })?;
        Ok(Self { map })
    }

    pub(super) fn from_fd(fd: OwnedFd) -> Self {
        Self { map: Map::from_fd(fd, KEY_BYTES, VALUE_BYTES) }
    }

    /// Packets of `flow` come to us from now on. One that is ours already is no error.
    ///
    /// # Errors
    /// There are 262,144 already, or memory is short.
    pub fn add(&self, flow: Flow) -> Result<(), SysError> {
        self.map.update(&flow.key(), &1u32.to_ne_bytes()).map_err(|errno| {
            let advice = match errno {
                Errno::TOOBIG => "262,144 connections are the limit",
                Errno::PERM => "CAP_BPF is missing",
                _ => "",
            };
            SysError::new(format!("take packets of {flow}"), errno, advice)
        })
    }

    /// Packets of `flow` go to the kernel again; whether they were ours.
    ///
    /// # Errors
    /// The map cannot be changed.
    pub fn remove(&self, flow: Flow) -> Result<bool, SysError> {
        match self.map.delete(&flow.key()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(SysError::new(format!("give up packets of {flow}"), errno, "")),
        }
    }

    /// Packets of all flows go to the kernel again.
    ///
    /// # Errors
    /// The map cannot be read or changed: some may be left.
    pub fn clear(&self) -> Result<(), SysError> {
        let failed = |errno| SysError::new("give up packets of all connections", errno, "");
        let mut next = self.map.next_key(None).map_err(failed)?;
        // Bounded: who adds some meanwhile adds no more than there can be.
        for _ in 0..=2 * Self::ENTRIES_MAX {
            let Some(key) = next else { break };
            // Behind one that is gone the kernel would start over.
            next = self.map.next_key(Some(&key)).map_err(failed)?;
            match self.map.delete(&key) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }

    /// Whether `flow` was added.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn contains(&self, flow: Flow) -> Result<bool, SysError> {
        let doing = "read which connections are ours";
        self.map.contains(&flow.key()).map_err(|errno| SysError::new(doing, errno, ""))
    }
}

impl AsFd for Flows {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flows_are_given_back_at_once() {
        let flows = Flows::create().expect("the tests of XDP run as root");
        let flow = |port: u16| Flow {
            protocol: Protocol::Tcp,
            local: SocketAddr::from(([10, 0, 0, 1], 80)),
            remote: SocketAddr::from(([10, 0, 0, 2], port)),
        };
        (1..=500).for_each(|port| flows.add(flow(port)).expect("there is room"));
        flows.clear().expect("it is ours");
        assert!((1..=500).all(|port| !flows.contains(flow(port)).expect("it can be read")));
        flows.clear().expect("nothing is left to clear");
    }

    #[test]
    fn a_key_differs_in_each_part_of_a_flow() {
        let parse = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let flow = |protocol, local, remote| {
            Flow { protocol, local: parse(local), remote: parse(remote) }.key()
        };
        let keys = [
            flow(Protocol::Tcp, "10.0.0.1:80", "10.0.0.2:81"),
            flow(Protocol::Udp, "10.0.0.1:80", "10.0.0.2:81"),
            flow(Protocol::Tcp, "10.0.0.3:80", "10.0.0.2:81"),
            flow(Protocol::Tcp, "10.0.0.1:82", "10.0.0.2:81"),
            flow(Protocol::Tcp, "10.0.0.1:80", "10.0.0.3:81"),
            flow(Protocol::Tcp, "10.0.0.1:80", "10.0.0.2:80"),
            flow(Protocol::Tcp, "10.0.0.2:81", "10.0.0.1:80"),
            flow(Protocol::Tcp, "[a00:1::]:80", "[a00:2::]:81"),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
    }
}

//! What is ours: the destinations whose packets the XDP program takes from the kernel.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sys::SysError;
use sys::capability::Capability;

use super::bpf::{F_NO_PREALLOC, MAP_TYPE_HASH, Map};
use crate::OpenError;

/// Bytes of a key of the map.
pub(super) const KEY_BYTES: usize = 20;
const VALUE_BYTES: usize = 4;

/// Values of the map: every packet is taken; packets of connections that the kernel has are not.
pub(super) const TAKE_ALL: u32 = 1;
const TAKE_BESIDE_KERNEL: u32 = 2;

/// Where the parts of a key are. Address and port are in network order; an IPv4 address fills the
/// first four bytes; what is left is zero, and so is what may be anything.
pub(super) mod key {
    pub(in crate::xdp) const ADDRESS: i16 = 0;
    pub(in crate::xdp) const PORT: i16 = 16;
    pub(in crate::xdp) const PROTOCOL: i16 = 18;
    /// 4 or 6; zero when the address may be anything.
    pub(in crate::xdp) const FAMILY: i16 = 19;
}

/// A transport protocol, with its number in an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

/// A destination that is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its address; `None`: whichever, of both families.
    pub address: Option<IpAddr>,
    /// Its port; `None`: whichever.
    pub port: Option<u16>,
}

impl Destination {
    pub(super) fn key(&self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        match self.address {
            Some(IpAddr::V4(v4)) => {
                bytes[..4].copy_from_slice(&v4.octets());
                bytes[key::FAMILY as usize] = 4;
            }
            Some(IpAddr::V6(v6)) => {
                bytes[..16].copy_from_slice(&v6.octets());
                bytes[key::FAMILY as usize] = 6;
            }
            None => {}
        }
        let port = key::PORT as usize;
        bytes[port..port + 2].copy_from_slice(&self.port.unwrap_or(0).to_be_bytes());
        bytes[key::PROTOCOL as usize] = self.protocol as u8;
        bytes
    }

    fn from_key(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; KEY_BYTES] = bytes.try_into().ok()?;
        let address = match bytes[key::FAMILY as usize] {
            0 => None,
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(&bytes[..4]).ok()?)),
            6 => Some(IpAddr::from(<[u8; 16]>::try_from(&bytes[..16]).ok()?)),
            _ => return None,
        };
        let protocol = match bytes[key::PROTOCOL as usize] {
            6 => Protocol::Tcp,
            17 => Protocol::Udp,
            _ => return None,
        };
        let port = u16::from_be_bytes([bytes[key::PORT as usize], bytes[key::PORT as usize + 1]]);
        Some(Self { protocol, address, port: (port != 0).then_some(port) })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.protocol {
            Protocol::Tcp => "tcp ",
            Protocol::Udp => "udp ",
        })?;
        match self.address {
            Some(IpAddr::V4(v4)) => write!(f, "{v4}:")?,
            Some(IpAddr::V6(v6)) => write!(f, "[{v6}]:")?,
            None => f.write_str("*:")?,
        }
        match self.port {
            Some(port) => write!(f, "{port}"),
            None => f.write_str("*"),
        }
    }
}

/// The destinations that are ours, in a map that the kernel's program reads. Changes take effect
/// with the next packet.
#[derive(Debug)]
pub struct Ours {
    map: Map,
}

impl Ours {
    /// How many there can be.
    pub const ENTRIES_MAX: u32 = 1 << 16;

    pub(super) fn create() -> Result<Self, OpenError> {
        let map = Map::create(
            MAP_TYPE_HASH,
            "calisto_ours",
            KEY_BYTES,
            VALUE_BYTES,
            Self::ENTRIES_MAX,
            F_NO_PREALLOC,
        )
        .map_err(|errno| {
            let needs = [Capability::Bpf];
            OpenError::of("make a BPF map", errno, &needs, "the kernel lacks BPF or memory")
        })?;
        Ok(Self { map })
    }

    pub(super) fn from_fd(fd: OwnedFd) -> Self {
        Self { map: Map::from_fd(fd, KEY_BYTES, VALUE_BYTES) }
    }

    /// Packets to `destination` come to us from now on. One that is ours already is no error.
    ///
    /// # Errors
    /// There are 65,536 already, or memory is short. Port 0 is never a destination.
    pub fn add(&self, destination: Destination) -> Result<(), SysError> {
        self.put(destination, TAKE_ALL)
    }

    /// The same, but packets of TCP connections that the kernel has at `destination` stay with the
    /// kernel, which is asked for each packet. With [`Self::add`], all are taken from then on.
    /// Only for a TCP destination with address and port.
    ///
    /// # Errors
    /// The same.
    pub fn add_beside_kernel(&self, destination: Destination) -> Result<(), SysError> {
        self.put(destination, TAKE_BESIDE_KERNEL)
    }

    fn put(&self, destination: Destination, value: u32) -> Result<(), SysError> {
        let failed = |errno| {
            let advice = match errno {
                Errno::TOOBIG => "65,536 destinations are the limit: use wildcards",
                Errno::INVAL => "leave the port out to mean any",
                Errno::PERM => "CAP_BPF is missing",
                _ => "",
            };
            SysError::new(format!("take packets to {destination}"), errno, advice)
        };
        if destination.port == Some(0) {
            return Err(failed(Errno::INVAL));
        }
        self.map.update(&destination.key(), &value.to_ne_bytes()).map_err(failed)
    }

    /// Packets to `destination` go to the kernel again; whether it was ours.
    ///
    /// # Errors
    /// The map cannot be changed.
    pub fn remove(&self, destination: Destination) -> Result<bool, SysError> {
        match self.map.delete(&destination.key()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => {
                Err(SysError::new(format!("give up packets to {destination}"), errno, ""))
            }
        }
    }

    /// Whether exactly `destination` was added (a wildcard that covers it does not count).
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn contains(&self, destination: Destination) -> Result<bool, SysError> {
        let doing = "read what is ours";
        self.map.contains(&destination.key()).map_err(|errno| SysError::new(doing, errno, ""))
    }

    /// All of them, sorted.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn list(&self) -> Result<Vec<Destination>, SysError> {
        let mut list = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        // Bounded: a map that changes meanwhile can make the kernel start over.
        for _ in 0..=2 * Self::ENTRIES_MAX {
            let next = self.map.next_key(last.as_deref());
            let next = next.map_err(|errno| SysError::new("read what is ours", errno, ""))?;
            let Some(key) = next else { break };
            list.extend(Destination::from_key(&key));
            last = Some(key);
        }
        list.sort_unstable();
        list.dedup();
        Ok(list)
    }
}

impl AsFd for Ours {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_everything_that_makes_a_destination() {
        let addresses = [
            None,
            Some("10.1.2.3".parse().expect("an address")),
            Some("2001:db8::7".parse().expect("an address")),
            Some("0.0.0.0".parse().expect("an address")),
            Some("::".parse().expect("an address")),
        ];
        let mut seen = Vec::new();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for address in addresses {
                for port in [None, Some(1), Some(0x1234), Some(u16::MAX)] {
                    let destination = Destination { protocol, address, port };
                    let key = destination.key();
                    assert_eq!(Destination::from_key(&key), Some(destination), "{key:?}");
                    assert!(!seen.contains(&key), "{destination} shares its key");
                    seen.push(key);
                }
            }
        }
    }

    #[test]
    fn destinations_are_printed_as_people_write_them() {
        let text = |address: Option<&str>, port| {
            let address = address.map(|address| address.parse().expect("an address"));
            Destination { protocol: Protocol::Udp, address, port }.to_string()
        };
        assert_eq!(text(Some("10.0.0.1"), Some(53)), "udp 10.0.0.1:53");
        assert_eq!(text(Some("::1"), None), "udp [::1]:*");
        assert_eq!(text(None, Some(7)), "udp *:7");
    }

    #[test]
    fn bytes_that_are_no_key_are_no_destination() {
        assert_eq!(Destination::from_key(&[0; KEY_BYTES]), None, "no such protocol");
        assert_eq!(Destination::from_key(&[6; 3]), None);
    }
}

//! Offloads and channels of an interface: SIOCETHTOOL (linux/ethtool.h).
//!
//! Everything acts in the calling thread's network namespace.

use std::fmt;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::last_errno;
use crate::{SysError, interface};

mod coalescing;
mod driver;
mod flags;
mod flow_hash;
mod queues_max;
mod rings;
mod rss;

pub use coalescing::{Coalescing, coalescing};
pub use driver::{Driver, driver};
pub use flags::{Flags, flags};
pub use flow_hash::{indirection_table, udp_hash_has_ports};
pub use queues_max::queues_max;
pub use rings::{Rings, rings};
pub use rss::{Rss, rss, set_rss_key, set_rss_table};

/// Something that a NIC or its driver can do for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Fill in checksums on transmit.
    TxChecksum,
    /// Verify checksums on receive.
    RxChecksum,
    /// Transmit packets that lie in pieces.
    Sg,
    /// Cut large TCP segments.
    Tso,
    /// Cut large packets in software, late.
    Gso,
    /// Join received packets in software.
    Gro,
}

impl Offload {
    /// All of them, in an order in which they can be switched off one by one.
    pub const ALL: [Self; 6] =
        [Self::Tso, Self::Gso, Self::Gro, Self::TxChecksum, Self::RxChecksum, Self::Sg];

    /// ETHTOOL_G… and ETHTOOL_S… of linux/ethtool.h.
    const fn commands(self) -> (u32, u32) {
        match self {
            Self::RxChecksum => (0x14, 0x15),
            Self::TxChecksum => (0x16, 0x17),
            Self::Sg => (0x18, 0x19),
            Self::Tso => (0x1e, 0x1f),
            Self::Gso => (0x23, 0x24),
            Self::Gro => (0x2b, 0x2c),
        }
    }
}

impl fmt::Display for Offload {
    /// The words of ethtool(8).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TxChecksum => "tx",
            Self::RxChecksum => "rx",
            Self::Sg => "sg",
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
        })
    }
}

/// Whether `offload` is on.
///
/// # Errors
/// No such interface, or its driver knows nothing of it.
pub fn get(name: &str, offload: Offload) -> Result<bool, SysError> {
    let mut value = Value { command: offload.commands().0, data: 0 };
    run(name, &mut value)
        .map_err(|errno| refused(format!("read offload {offload} of {name}"), errno))?;
    Ok(value.data != 0)
}

/// Switches `offload`.
///
/// # Errors
/// No such interface, CAP_NET_ADMIN is missing, or the driver does not let it be changed.
pub fn set(name: &str, offload: Offload, on: bool) -> Result<(), SysError> {
    let mut value = Value { command: offload.commands().1, data: u32::from(on) };
    let word = if on { "on" } else { "off" };
    run(name, &mut value)
        .map_err(|errno| refused(format!("switch offload {offload} of {name} {word}"), errno))
}

/// Queues that an interface uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Receive queues in use: valid queue ids are below it.
    pub rx: u32,
    /// Transmit queues in use.
    pub tx: u32,
}

/// The queues that `name` uses; what it was made with, where the driver does not tell.
///
/// # Errors
/// No such interface.
pub fn channels(name: &str) -> Result<Channels, SysError> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut counts = ChannelCounts { command: ETHTOOL_GCHANNELS, ..ChannelCounts::default() };
    if run(name, &mut counts).is_ok() {
        let ChannelCounts { rx, tx, combined, .. } = counts;
        if rx + combined > 0 && tx + combined > 0 {
            return Ok(Channels { rx: rx + combined, tx: tx + combined });
        }
    }
    let interface = interface::by_name(name)?;
    Ok(Channels { rx: interface.rx_queues, tx: interface.tx_queues })
}

/// struct ethtool_value.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// struct ethtool_channels.
#[derive(Default)]
#[repr(C)]
struct ChannelCounts {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// What SIOCETHTOOL may read and write through the pointer it is given.
///
/// # Safety
/// `repr(C)`, plain numbers, and the structure that its first word, the command, calls for.
unsafe trait Command {}
// SAFETY: as the trait asks; every command of `Offload` takes an ethtool_value.
unsafe impl Command for Value {}
// SAFETY: as the trait asks; ETHTOOL_GCHANNELS takes an ethtool_channels.
unsafe impl Command for ChannelCounts {}

fn run<C: Command>(name: &str, command: &mut C) -> Result<(), Errno> {
    if name.len() > interface::NAME_BYTES_MAX {
        return Err(Errno::NODEV);
    }
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(command).cast();
    // SAFETY: the kernel reads and writes `request` and, through it, as many bytes of `command`
    // as its type has (the promise of `Command`); both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

fn refused(doing: String, errno: Errno) -> SysError {
    let advice = match errno {
        Errno::PERM => "CAP_NET_ADMIN is needed: run as root",
        Errno::NODEV => "there is no such interface here",
        Errno::OPNOTSUPP => "its driver does not offer that",
        _ => "",
    };
    SysError::new(doing, errno, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offload_of_the_loopback_interface_can_be_read() {
        get("lo", Offload::Gro).expect("the loopback interface has it, on or off");
        assert!(get("lo", Offload::TxChecksum).expect("loopback never sums"));
    }

    #[test]
    fn an_interface_without_channels_has_the_queues_it_was_made_with() {
        assert_eq!(channels("lo").expect("it is there"), Channels { rx: 1, tx: 1 });
    }

    #[test]
    fn a_missing_interface_is_named() {
        let error = get("none-such0", Offload::Tso).expect_err("nobody has it").to_string();
        assert!(error.contains("none-such0") && error.contains("no such interface"), "{error}");
        assert!(get("a-name-that-is-far-too-long", Offload::Tso).is_err());
    }
}

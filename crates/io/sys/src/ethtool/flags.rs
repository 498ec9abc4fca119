//! Offloads that one word of flags tells: ETHTOOL_GFLAGS.

use super::{Value, refused, run};
use crate::SysError;

/// What of a packet the NIC changes before it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Received TCP packets are joined by the NIC (LRO).
    pub large_receive: bool,
    /// VLAN tags are cut out of received packets.
    pub vlan_strip: bool,
    /// Packets can be directed to queues by rules (`ethtool -N`).
    pub ntuple: bool,
}

/// The flags of the interface called `name`.
///
/// # Errors
/// No such interface.
pub fn flags(name: &str) -> Result<Flags, SysError> {
    const ETHTOOL_GFLAGS: u32 = 0x25;
    let mut value = Value { command: ETHTOOL_GFLAGS, data: 0 };
    run(name, &mut value).map_err(|errno| refused(format!("read the flags of {name}"), errno))?;
    Ok(of_word(value.data))
}

/// enum ethtool_flags of linux/ethtool.h.
fn of_word(word: u32) -> Flags {
    let bit = |number: u32| word >> number & 1 == 1;
    Flags { large_receive: bit(15), vlan_strip: bit(8), ntuple: bit(27) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_its_bit() {
        let none = Flags { large_receive: false, vlan_strip: false, ntuple: false };
        assert_eq!(of_word(0), none);
        assert_eq!(of_word(1 << 15), Flags { large_receive: true, ..none });
        assert_eq!(of_word(1 << 8), Flags { vlan_strip: true, ..none });
        assert_eq!(of_word(1 << 27), Flags { ntuple: true, ..none });
    }

    #[test]
    fn the_loopback_interface_joins_nothing() {
        assert!(!flags("lo").expect("it is there").large_receive);
    }
}

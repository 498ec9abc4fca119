//! Packets that a NIC's own rings hold: ETHTOOL_GRINGPARAM.

use super::{Command, refused, run};
use crate::SysError;

/// Sizes of the receive rings, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// As they are.
    pub rx: u32,
    /// As large as they may be.
    pub rx_max: u32,
}

/// struct ethtool_ringparam of linux/ethtool.h.
#[derive(Default)]
#[repr(C)]
struct Sizes {
    command: u32,
    rx_max: u32,
    rx_mini_max: u32,
    rx_jumbo_max: u32,
    tx_max: u32,
    rx: u32,
    rx_mini: u32,
    rx_jumbo: u32,
    tx: u32,
}

// SAFETY: as the trait asks; ETHTOOL_GRINGPARAM takes an ethtool_ringparam.
unsafe impl Command for Sizes {}

/// The rings of the interface called `name`.
///
/// # Errors
/// No such interface, or its driver has none.
pub fn rings(name: &str) -> Result<Rings, SysError> {
    const ETHTOOL_GRINGPARAM: u32 = 0x10;
    let mut sizes = Sizes { command: ETHTOOL_GRINGPARAM, ..Sizes::default() };
    run(name, &mut sizes)
        .map_err(|errno| refused(format!("read the ring sizes of {name}"), errno))?;
    Ok(Rings { rx: sizes.rx, rx_max: sizes.rx_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_rings() {
        let error = rings("lo").expect_err("it has no hardware").to_string();
        assert!(error.contains("does not offer"), "{error}");
    }
}

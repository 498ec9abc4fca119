//! How long a NIC gathers packets before it interrupts: ETHTOOL_GCOALESCE.

use super::{Command, refused, run};
use crate::SysError;

/// When a NIC interrupts for received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds after a packet, at most; 0: by count alone, or at once.
    pub rx_micros: u32,
    /// The driver chooses by the traffic.
    pub rx_adaptive: bool,
}

/// struct ethtool_coalesce of linux/ethtool.h: the command and 22 numbers.
#[repr(C)]
struct Settings {
    command: u32,
    numbers: [u32; 22],
}

// SAFETY: as the trait asks; ETHTOOL_GCOALESCE takes an ethtool_coalesce.
unsafe impl Command for Settings {}

/// The settings of the interface called `name`.
///
/// # Errors
/// No such interface, or its driver has none.
pub fn coalescing(name: &str) -> Result<Coalescing, SysError> {
    const ETHTOOL_GCOALESCE: u32 = 0x0e;
    /// Places of `rx_coalesce_usecs` and `use_adaptive_rx_coalesce` after the command.
    const RX_MICROS: usize = 0;
    const RX_ADAPTIVE: usize = 9;
    let mut settings = Settings { command: ETHTOOL_GCOALESCE, numbers: [0; 22] };
    run(name, &mut settings)
        .map_err(|errno| refused(format!("read interrupt coalescing of {name}"), errno))?;
    Ok(Coalescing {
        rx_micros: settings.numbers[RX_MICROS],
        rx_adaptive: settings.numbers[RX_ADAPTIVE] != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<Settings>(), 92);
    }

    #[test]
    fn the_loopback_interface_interrupts_nobody() {
        let error = coalescing("lo").expect_err("it has no hardware").to_string();
        assert!(error.contains("does not offer"), "{error}");
    }
}

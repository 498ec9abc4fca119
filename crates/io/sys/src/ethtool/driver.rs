//! The driver of an interface, and the bus address of its device: ETHTOOL_GDRVINFO.

use super::{Command, refused, run};
use crate::SysError;

/// A driver and its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The driver, as `ethtool -i` names it.
    pub name: String,
    /// The device's address on its bus, such as `0000:03:00.0`; empty where there is none.
    pub bus: String,
}

/// struct ethtool_drvinfo of linux/ethtool.h.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom_version: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

// SAFETY: as the trait asks; ETHTOOL_GDRVINFO takes an ethtool_drvinfo.
unsafe impl Command for DriverInfo {}

/// The driver of the interface called `name`.
///
/// # Errors
/// No such interface, or one without a driver (loopback).
pub fn driver(name: &str) -> Result<Driver, SysError> {
    const ETHTOOL_GDRVINFO: u32 = 0x03;
    let text = [0; 32];
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: text,
        version: text,
        firmware: text,
        bus: text,
        erom_version: text,
        reserved: [0; 12],
        counts: [0; 5],
    };
    run(name, &mut info)
        .map_err(|errno| refused(format!("ask for the driver of {name}"), errno))?;
    Ok(Driver { name: words(&info.driver), bus: words(&info.bus) })
}

/// A text that ends at its first zero.
fn words(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text).trim().to_owned();
    // What the kernel writes when a driver says nothing.
    if text == "N/A" { String::new() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<DriverInfo>(), 196);
    }

    #[test]
    fn a_text_ends_at_its_zero_and_not_available_is_nothing() {
        assert_eq!(words(b"veth\0\0rest"), "veth");
        assert_eq!(words(b"N/A\0"), "");
        assert_eq!(words(&[b'x'; 32]), "x".repeat(32), "one without a zero ends with its field");
    }

    #[test]
    fn a_missing_interface_has_no_driver() {
        let error = driver("none-such0").expect_err("nobody has it").to_string();
        assert!(error.contains("none-such0"), "{error}");
    }
}

//! How a NIC spreads packets over its queues: ETHTOOL_GRXFHINDIR, ETHTOOL_GRXFH.

use rustix::io::Errno;

use super::{Command, refused, run};
use crate::SysError;

/// Entries of the largest table that is read; the largest of a driver today has 4096.
const ENTRIES_MAX: usize = 4096;

/// struct ethtool_rxfh_indir of linux/ethtool.h with room for the table.
#[repr(C)]
struct Table {
    command: u32,
    entries: u32,
    queues: [u32; ENTRIES_MAX],
}

// SAFETY: as the trait asks; ETHTOOL_GRXFHINDIR takes an ethtool_rxfh_indir, and writes a table
// only when `entries`, which is the length of `queues`, says that it fits.
unsafe impl Command for Table {}

/// The head of struct ethtool_rxnfc, which is all that ETHTOOL_GRXFH writes.
#[repr(C)]
struct HashFields {
    command: u32,
    flow_type: u32,
    fields: u64,
}

// SAFETY: as the trait asks; the kernel copies the first three fields only, for the programs that
// were written when the structure had no others.
unsafe impl Command for HashFields {}

/// The queue of each hash value (modulo the table's length) of the interface called `name`.
///
/// # Errors
/// No such interface, its driver has no table, or one of more than 4096 entries.
pub fn indirection_table(name: &str) -> Result<Vec<u16>, SysError> {
    const ETHTOOL_GRXFHINDIR: u32 = 0x38;
    let mut table = Box::new(Table {
        command: ETHTOOL_GRXFHINDIR,
        entries: ENTRIES_MAX as u32,
        queues: [0; ENTRIES_MAX],
    });
    let doing = || format!("read the RSS table of {name}");
    run(name, &mut *table).map_err(|errno| refused(doing(), errno))?;
    let entries = table.queues.get(..table.entries as usize);
    let entries = entries.ok_or_else(|| SysError::new(doing(), Errno::OVERFLOW, "report this"))?;
    Ok(entries.iter().map(|&queue| u16::try_from(queue).unwrap_or(u16::MAX)).collect())
}

/// Whether the NIC's hash of UDP over IPv4 covers the port numbers.
///
/// # Errors
/// No such interface, or its driver does not tell.
pub fn udp_hash_has_ports(name: &str) -> Result<bool, SysError> {
    const ETHTOOL_GRXFH: u32 = 0x29;
    const UDP_V4_FLOW: u32 = 0x02;
    /// RXH_L4_B_0_1 and RXH_L4_B_2_3: source port, destination port.
    const PORTS: u64 = 1 << 6 | 1 << 7;
    let mut hash = HashFields { command: ETHTOOL_GRXFH, flow_type: UDP_V4_FLOW, fields: 0 };
    run(name, &mut hash)
        .map_err(|errno| refused(format!("read the hash fields of {name}"), errno))?;
    Ok(hash.fields & PORTS == PORTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_spreads_nothing() {
        let error = indirection_table("lo").expect_err("it has one queue").to_string();
        assert!(error.contains("does not offer"), "{error}");
        assert!(udp_hash_has_ports("lo").is_err());
    }
}

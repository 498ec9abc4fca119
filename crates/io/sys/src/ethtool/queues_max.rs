//! How many receive queues a NIC could have: the other half of ETHTOOL_GCHANNELS.

use super::{ChannelCounts, refused, run};
use crate::SysError;

/// The most receive queues that `ethtool -L` can give the interface called `name`.
///
/// # Errors
/// No such interface, or its driver does not tell.
pub fn queues_max(name: &str) -> Result<u32, SysError> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut counts = ChannelCounts { command: ETHTOOL_GCHANNELS, ..ChannelCounts::default() };
    run(name, &mut counts)
        .map_err(|errno| refused(format!("read the queue limit of {name}"), errno))?;
    Ok(counts.max_rx.max(counts.max_combined))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_does_not_tell() {
        assert!(queues_max("lo").is_err());
    }
}

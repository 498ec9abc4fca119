//! The key of a NIC's flow hash and the queues that it leads to: ETHTOOL_GRSSH, ETHTOOL_SRSSH.

use rustix::io::Errno;

use super::{Command, refused, run};
use crate::SysError;

/// Entries of the largest table, and bytes of the largest key, that are read.
const ENTRIES_MAX: usize = 4096;
const KEY_BYTES_MAX: usize = 256;
/// `ETH_RXFH_INDIR_NO_CHANGE`.
const SAME_TABLE: u32 = u32::MAX;

/// How a NIC chooses the queue of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rss {
    /// The key of the Toeplitz hash.
    pub key: Vec<u8>,
    /// The queue of each hash value (modulo the table's length).
    pub table: Vec<u32>,
}

/// struct ethtool_rxfh of linux/ethtool.h with room for table and key, which follow each other.
#[repr(C)]
struct Hash {
    command: u32,
    context: u32,
    entries: u32,
    key_bytes: u32,
    function: u8,
    transform: u8,
    reserved: [u8; 2],
    reserved_word: u32,
    content: [u32; ENTRIES_MAX + KEY_BYTES_MAX / 4],
}

// SAFETY: as the trait asks; ETHTOOL_GRSSH and ETHTOOL_SRSSH take an ethtool_rxfh, and read and
// write as much behind its head as `entries` and `key_bytes` say, which are bounded by what
// `content` holds.
unsafe impl Command for Hash {}

const ETHTOOL_GRSSH: u32 = 0x46;
const ETHTOOL_SRSSH: u32 = 0x47;

impl Hash {
    fn new(command: u32, entries: u32, key_bytes: u32) -> Box<Self> {
        Box::new(Self {
            command,
            context: 0,
            entries,
            key_bytes,
            function: 0,
            transform: 0,
            reserved: [0; 2],
            reserved_word: 0,
            content: [0; _],
        })
    }
}

/// Key and table of the interface called `name`.
///
/// # Errors
/// No such interface, or its driver does not tell.
pub fn rss(name: &str) -> Result<Rss, SysError> {
    let doing = || format!("read the RSS key of {name}");
    let mut sizes = Hash::new(ETHTOOL_GRSSH, 0, 0);
    run(name, &mut *sizes).map_err(|errno| refused(doing(), errno))?;
    let (entries, key_bytes) = (sizes.entries as usize, sizes.key_bytes as usize);
    if entries > ENTRIES_MAX || key_bytes > KEY_BYTES_MAX {
        return Err(SysError::new(doing(), Errno::OVERFLOW, "report this"));
    }
    let mut hash = Hash::new(ETHTOOL_GRSSH, sizes.entries, sizes.key_bytes);
    run(name, &mut *hash).map_err(|errno| refused(doing(), errno))?;
    let (table, rest) = hash.content.split_at(entries);
    let key = rest.iter().flat_map(|word| word.to_ne_bytes()).take(key_bytes).collect();
    Ok(Rss { key, table: table.to_vec() })
}

/// Changes the key of the interface called `name`, and leaves its table.
///
/// # Errors
/// No such interface, CAP_NET_ADMIN is missing, or a driver with another length of key or a fixed
/// one.
pub fn set_rss_key(name: &str, key: &[u8]) -> Result<(), SysError> {
    let doing = || format!("set the RSS key of {name}");
    if key.len() > KEY_BYTES_MAX {
        return Err(SysError::new(doing(), Errno::INVAL, "no key is as long"));
    }
    let mut hash = Hash::new(ETHTOOL_SRSSH, SAME_TABLE, key.len() as u32);
    for (word, bytes) in hash.content.iter_mut().zip(key.chunks(4)) {
        let mut padded = [0; 4];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u32::from_ne_bytes(padded);
    }
    run(name, &mut *hash).map_err(|errno| refused(doing(), errno))
}

/// Changes the queues that the hash values of interface `name` lead to, and leaves its key. The
/// table is as long as [`rss`] says.
///
/// # Errors
/// As [`set_rss_key`], or a queue that there is not.
pub fn set_rss_table(name: &str, table: &[u32]) -> Result<(), SysError> {
    let doing = || format!("set the RSS table of {name}");
    // No entries at all would mean the driver's default.
    if table.is_empty() || table.len() > ENTRIES_MAX {
        return Err(SysError::new(doing(), Errno::INVAL, "no table is as long"));
    }
    let mut hash = Hash::new(ETHTOOL_SRSSH, table.len() as u32, 0);
    hash.content[..table.len()].copy_from_slice(table);
    run(name, &mut *hash).map_err(|errno| refused(doing(), errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_head_is_as_long_as_the_kernels() {
        assert_eq!(std::mem::offset_of!(Hash, content), 24);
    }

    #[test]
    fn the_loopback_interface_hashes_nothing_and_what_cannot_be_is_refused() {
        let error = rss("lo").expect_err("it has one queue").to_string();
        assert!(error.contains("RSS key of lo") && error.contains("does not offer"), "{error}");
        assert!(set_rss_key("lo", &[0x6d; 40]).is_err());
        assert!(set_rss_key("lo", &[0; 257]).is_err());
        assert!(set_rss_table("lo", &[]).is_err() && set_rss_table("lo", &[0]).is_err());
    }
}

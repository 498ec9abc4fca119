//! Both directions of a flow to one slice: a key for the NIC's hash that does not care which end
//! sends.
//!
//! The Toeplitz hash of addresses and ports is the same with the ends exchanged if the key repeats
//! every 16 bits (Woo and Park, "Scalable TCP session monitoring with symmetric receive-side
//! scaling"). Such a key spreads flows as well as any other; and since it is known, so is the queue
//! of each flow.

use sys::ethtool::{self, Rss};

use crate::SliceError;

/// What the key repeats: the first word of the key that drivers come with (0x6d5a).
const PATTERN: [u8; 2] = [0x6d, 0x5a];

/// A NIC whose hash is symmetric for as long as this lives; then its key is as before.
#[derive(Debug)]
pub struct SymmetricRss {
    interface: String,
    before: Rss,
}

/// A symmetric key of `bytes`.
pub fn symmetric_key(bytes: usize) -> Vec<u8> {
    PATTERN.iter().copied().cycle().take(bytes).collect()
}

impl SymmetricRss {
    /// Gives the interface called `name`, in the calling thread's namespace, a symmetric key. Which
    /// queues the hash leads to is not changed.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing, or its driver lets nobody choose the key (a veth spreads by what
    /// the sender's kernel chose).
    pub fn of(name: &str) -> Result<Self, SliceError> {
        let before = ethtool::rss(name)?;
        ethtool::set_rss_key(name, &symmetric_key(before.key.len()))?;
        Ok(Self { interface: name.to_owned(), before })
    }
}

impl Drop for SymmetricRss {
    fn drop(&mut self) {
        // The NIC may be gone, and there is nobody to tell.
        let _ = ethtool::set_rss_key(&self.interface, &self.before.key);
    }
}

#[cfg(test)]
mod tests {
    use wire::Toeplitz;

    use super::*;

    #[test]
    fn both_directions_of_a_flow_have_one_hash_and_flows_have_many() {
        let key: [u8; 40] = symmetric_key(40).try_into().expect("as long as was asked");
        let hash = Toeplitz::new(key);
        let mut seen = std::collections::BTreeSet::new();
        for flow in 0..256u16 {
            let [high, low] = flow.wrapping_mul(40_503).to_be_bytes();
            let ends = [[10, 0, high, low], [192, 168, low, 7]].map(std::net::IpAddr::from);
            let there = hash.hash_addresses(ends[0], ends[1]);
            assert_eq!(there, hash.hash_addresses(ends[1], ends[0]));
            seen.insert(there.map(|hash| hash.0 % 128));
        }
        assert!(seen.len() > 64, "256 flows use {} of 128 queues", seen.len());
    }

    #[test]
    fn a_nic_without_a_key_is_named() {
        let error = SymmetricRss::of("lo").expect_err("it has one queue").to_string();
        assert!(error.contains("RSS key of lo"), "{error}");
    }
}

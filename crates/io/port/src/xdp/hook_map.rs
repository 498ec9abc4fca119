//! Where the programs of a hook count: an array with a number for each CPU, so that no CPU waits
//! for another.

use std::os::fd::{AsFd, BorrowedFd};

use sys::SysError;
use sys::cpu_set::CpuSet;

use super::bpf::{MAP_TYPE_PERCPU_ARRAY, Map};

/// The counters of one hook.
#[derive(Debug)]
pub(crate) struct HookMap {
    map: Map,
    cpus: usize,
}

impl HookMap {
    pub(crate) fn create(entries: u32) -> Result<Self, SysError> {
        let failed = |errno| SysError::new("make a map of counters", errno, "CAP_BPF is missing");
        let map = Map::create(MAP_TYPE_PERCPU_ARRAY, "calisto_hook", 4, 8, entries, 0);
        Ok(Self { map: map.map_err(failed)?, cpus: CpuSet::possible()?.len() })
    }

    /// The sum of what all CPUs have counted at `place`.
    pub(crate) fn read(&self, place: u32) -> Result<u64, SysError> {
        let mut each = vec![0; 8 * self.cpus];
        let read = self.map.lookup_each_cpu(&place.to_ne_bytes(), &mut each);
        read.map_err(|errno| SysError::new("read a counter of the hook", errno, ""))?;
        let (numbers, _) = each.as_chunks::<8>();
        Ok(numbers.iter().fold(0, |sum, count| sum.wrapping_add(u64::from_ne_bytes(*count))))
    }
}

impl AsFd for HookMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

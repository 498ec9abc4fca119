//! The link addresses that are this host's, as the kernel's program looks them up.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use sys::SysError;
use sys::capability::Capability;

use super::bpf::{MAP_TYPE_HASH, Map};
use crate::{OpenError, Stations};

const ADDRESS_BYTES: usize = 6;

/// Room for those that are there while others come.
const ENTRIES_MAX: u32 = 2 * Stations::MAX as u32;

/// A map with one entry for each.
#[derive(Debug)]
pub(super) struct StationMap {
    map: Map,
}

impl StationMap {
    pub(super) fn create() -> Result<Self, OpenError> {
        let name = "calisto_macs";
        let map = Map::create(MAP_TYPE_HASH, name, ADDRESS_BYTES, 1, ENTRIES_MAX, 0);
        let map = map.map_err(|errno| {
            let needs = [Capability::Bpf];
            OpenError::of("make a BPF map", errno, &needs, "the kernel lacks BPF or memory")
        })?;
        Ok(Self { map })
    }

    /// From the next packet on these are ours, and no others. One that stays is there all the time.
    /// Where there is no room, because an earlier change has failed half-way, others go first.
    pub(super) fn set(&self, addresses: &[[u8; ADDRESS_BYTES]]) -> Result<(), SysError> {
        let set = || {
            let mut old = Vec::new();
            let mut last = None;
            while let Some(key) = self.map.next_key(last.as_deref())? {
                if !addresses.iter().any(|address| address[..] == key[..]) {
                    old.push(key.clone());
                }
                last = Some(key);
            }
            let add = || addresses.iter().try_for_each(|address| self.map.update(address, &[1]));
            let remove = || old.iter().try_for_each(|key| self.map.delete(key));
            match add() {
                Err(Errno::TOOBIG) => remove().and_then(|()| add()),
                added => added.and_then(|()| remove()),
            }
        };
        set().map_err(|errno: Errno| SysError::new("say which link addresses are ours", errno, ""))
    }
}

impl AsFd for StationMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_there_and_nothing_else_however_many_come_at_once() {
        let map = StationMap::create().expect("this test needs root");
        let address = |last: u8| [2, 0, 0, 0, 0, last];
        let has = |last| map.map.contains(&address(last)).expect("it is there");
        let most: Vec<u8> = (1..=32).collect();
        let others: Vec<u8> = (32..64).collect();
        for addresses in [&[1][..], &most, &others, &most, &[1, 1, 1]] {
            let mut wanted = addresses.to_vec();
            wanted.dedup();
            let addresses: Vec<_> = addresses.iter().copied().map(address).collect();
            map.set(&addresses).expect("there is room");
            let there: Vec<u8> = (0..70).filter(|last| has(*last)).collect();
            assert_eq!(there, wanted);
        }
    }

    #[test]
    fn a_map_that_is_full_of_what_was_is_set_all_the_same() {
        let map = StationMap::create().expect("this test needs root");
        let address = |last: u8| [2, 0, 0, 0, 0, last];
        for left in 0..ENTRIES_MAX as u8 {
            map.map.update(&address(left), &[1]).expect("there is room");
        }
        map.set(&[address(0), address(200)]).expect("others go for them");
        let has = |last: u8| map.map.contains(&address(last)).expect("it is there");
        assert_eq!((0..=255).filter(|last| has(*last)).collect::<Vec<u8>>(), [0, 200]);
    }
}

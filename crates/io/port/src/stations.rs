//! Under which link addresses this host is reached by a port.
//!
//! A NIC in promiscuous mode, a veth, a mirrored switch port bring frames for others too. Linux
//! looks at the destination of each (`eth_type_trans`), and its IP takes none that is another's
//! (`ip_rcv`, PACKET_OTHERHOST). Whoever follows the interface writes them here, and whoever
//! receives looks: one thread writes, any read, and nobody waits.

use std::sync::atomic::{AtomicU64, Ordering};

/// Link addresses as numbers: the first eight bytes of a frame read as one, little-endian, under
/// [`ADDRESS_MASK`].
#[derive(Debug)]
pub struct Stations {
    /// First the port's own. Places without an address of their own repeat it.
    all: [AtomicU64; Self::MAX],
}

/// What of a frame's first eight bytes is its destination.
pub const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_ffff;

/// The bit that says that a destination is a group or everybody (IEEE 802 I/G).
const GROUP: u64 = 1;

impl Stations {
    /// How many there can be: who keeps many addresses alive (VRRP) has a macvlan interface for
    /// each.
    pub const MAX: usize = 32;

    /// Of a port that is reached under `own` alone.
    pub fn new(own: [u8; 6]) -> Self {
        Self { all: std::array::from_fn(|_| AtomicU64::new(number(own))) }
    }

    /// From now on this host is reached under `own` and `others`. Those beyond [`Self::MAX`] have
    /// no place: how many. One that stays may be missed by a reader that looks meanwhile, as if its
    /// frame had been lost on the way.
    pub fn set(&self, own: [u8; 6], others: &[[u8; 6]]) -> usize {
        let repeated = std::iter::repeat(&own);
        for (place, address) in self.all[1..].iter().zip(others.iter().chain(repeated)) {
            place.store(number(*address), Ordering::Relaxed);
        }
        self.all[0].store(number(own), Ordering::Relaxed);
        others.len().saturating_sub(Self::MAX - 1)
    }

    /// The port's own, with which its packets leave.
    pub fn own(&self) -> [u8; 6] {
        address(self.own_number())
    }

    /// The same as a number.
    #[inline]
    pub fn own_number(&self) -> u64 {
        self.all[0].load(Ordering::Relaxed)
    }

    /// All of them; some may be there more than once.
    pub fn all(&self) -> [[u8; 6]; Self::MAX] {
        std::array::from_fn(|at| address(self.all[at].load(Ordering::Relaxed)))
    }

    /// Whether `address` is one of them.
    pub fn has(&self, address: [u8; 6]) -> bool {
        self.has_number(number(address))
    }

    /// Whether a frame to this destination is for another host: of no group, and for none of these.
    #[cold]
    pub fn is_for_another(&self, destination: u64) -> bool {
        destination & GROUP == 0 && !self.has_number(destination)
    }

    fn has_number(&self, number: u64) -> bool {
        self.all.iter().any(|place| place.load(Ordering::Relaxed) == number)
    }
}

fn address(number: u64) -> [u8; 6] {
    let [address @ .., _, _] = number.to_le_bytes();
    address
}

fn number([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u8) -> [u8; 6] {
        [2, 0xff, 0, 0, 0, last]
    }

    #[test]
    fn a_frame_is_for_us_under_each_of_our_addresses_and_no_other() {
        let stations = Stations::new(mac(1));
        let others: Vec<_> = (2..=32).map(mac).collect();
        assert_eq!(stations.set(mac(1), &others), 0);
        for last in 0..=33 {
            let frame = [&mac(last)[..], &[0xab, 0xcd]].concat();
            let word = u64::from_le_bytes(frame.try_into().expect("eight bytes"));
            let is_ours = (1..=32).contains(&last);
            assert_eq!(stations.is_for_another(word & ADDRESS_MASK), !is_ours, "{last}");
            assert_eq!(stations.has(mac(last)), is_ours);
        }
        assert_eq!(stations.own(), mac(1));
        assert_eq!(stations.own_number(), number(mac(1)));
    }

    #[test]
    fn everybody_and_groups_are_for_nobody_else() {
        let stations = Stations::new(mac(1));
        for group in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
            assert!(!stations.is_for_another(number(group)), "{group:x?}");
        }
        assert!(stations.is_for_another(0));
    }

    #[test]
    fn what_is_set_takes_the_place_of_what_was_and_too_many_are_told() {
        let stations = Stations::new(mac(1));
        let others: Vec<_> = (2..=34).map(mac).collect();
        assert_eq!(stations.set(mac(1), &others), 2);
        assert!(stations.has(mac(32)) && !stations.has(mac(33)));
        assert_eq!(stations.set(mac(41), &[mac(33)]), 0);
        let known = (0..=42).map(mac).filter(|it| stations.has(*it));
        assert_eq!(known.collect::<Vec<_>>(), [mac(33), mac(41)]);
        assert_eq!(stations.own(), mac(41));
        let all = stations.all();
        assert!(all.iter().all(|it| [mac(33), mac(41)].contains(it)), "{all:x?}");
    }
}

//! Link addresses of the hosts on our links, by port and address.
//!
//! A table of fixed size with open addressing: a search ends at the first empty place, and a
//! removed entry leaves none behind that a search would have to pass.

use std::net::IpAddr;

use base::PortId;

use super::Neighbour;

/// Neighbours that the table can hold; Linux forgets its own from 1024 on by default.
pub const NEIGHBOURS: usize = 16_384;

/// Twice as many: with half of the places empty a search looks at two or three.
const PLACES: usize = NEIGHBOURS * 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    address: u128,
    port: PortId,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Neighbours {
    places: Vec<Option<(Key, Neighbour)>>,
    len: usize,
    seed: u64,
}

impl Neighbours {
    /// An empty table. `seed` is anything that others cannot know.
    pub fn new(seed: u64) -> Self {
        Self { places: vec![None; PLACES], len: 0, seed }
    }

    /// What is known of `address` on the link of `port`.
    #[inline]
    pub fn get(&self, port: PortId, address: IpAddr) -> Option<Neighbour> {
        let key = Key::new(port, address);
        self.places[self.find(key)].map(|(_, neighbour)| neighbour)
    }

    /// Sets what is known, or forgets it. A full table takes no new one: false.
    pub fn set(&mut self, port: PortId, address: IpAddr, neighbour: Option<Neighbour>) -> bool {
        let key = Key::new(port, address);
        let place = self.find(key);
        match (self.places[place].is_some(), neighbour) {
            (true, None) => self.remove(place),
            (false, Some(_)) if self.len == NEIGHBOURS => return false,
            (was, Some(neighbour)) => {
                self.len += usize::from(!was);
                self.places[place] = Some((key, neighbour));
            }
            (false, None) => {}
        }
        true
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where `key` is, or the empty place where it would be. Half of the places are empty, so there
    /// is one.
    #[inline]
    fn find(&self, key: Key) -> usize {
        let mut place = self.home(key);
        while self.places[place].is_some_and(|(other, _)| other != key) {
            place = (place + 1) % PLACES;
        }
        place
    }

    /// Empties a place, and moves those behind it up that would else no longer be found.
    fn remove(&mut self, mut empty: usize) {
        self.places[empty] = None;
        self.len -= 1;
        let mut place = empty;
        loop {
            place = (place + 1) % PLACES;
            let Some((key, _)) = self.places[place] else { return };
            // It may move when the empty place is not before its home: at least as far from it.
            let from_home = (place + PLACES - self.home(key)) % PLACES;
            let from_empty = (place + PLACES - empty) % PLACES;
            if from_home >= from_empty {
                self.places[empty] = self.places[place].take();
                empty = place;
            }
        }
    }

    /// Where a search for `key` begins: both halves of the address, stirred with the seed by
    /// multiplications whose upper halves come back in.
    #[inline]
    fn home(&self, key: Key) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let stir = |one: u64, other: u64| {
            let product = u128::from(one) * u128::from(other);
            (product as u64) ^ (product >> 64) as u64
        };
        let (high, low) = ((key.address >> 64) as u64, key.address as u64);
        let stirred = stir(high ^ self.seed, ODD ^ u64::from(key.port.0));
        stir(low ^ stirred, ODD ^ self.seed.rotate_left(32)) as usize % PLACES
    }
}

impl Key {
    #[inline]
    fn new(port: PortId, address: IpAddr) -> Self {
        let address = match address {
            IpAddr::V4(four) => four.to_ipv6_mapped(),
            IpAddr::V6(six) => six,
        };
        Self { address: address.to_bits(), port }
    }
}

#[cfg(test)]
mod tests;

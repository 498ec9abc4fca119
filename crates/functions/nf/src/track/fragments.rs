//! What the first fragment of a packet has said holds for its later ones, such as to which
//! connection they belong.

use base::Nanos;

use super::tuple::{Tuple, hash_of};

/// Packets in pieces that are known at once; a newer one takes the place of an older one.
const PLACES: usize = 4096;
/// As long as Linux waits for the rest of a packet (net.ipv4.ipfrag_time).
const KEPT_FOR: Nanos = Nanos::from_secs(30);

#[derive(Debug)]
pub(crate) struct Fragments<T> {
    places: Box<[Option<Packet<T>>]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Packet<T> {
    source: u128,
    destination: u128,
    id: u32,
    protocol: u8,
    of: T,
    until: Nanos,
}

impl<T: Copy> Fragments<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { places: vec![None; PLACES].into(), seed: seed.rotate_left(41) }
    }

    /// A first fragment has passed, as a packet of this connection in this direction.
    pub(crate) fn note(&mut self, tuple: &Tuple, id: u32, of: T, now: Nanos) {
        let place = self.place(tuple, id);
        self.places[place] = Some(Packet {
            source: tuple.source,
            destination: tuple.destination,
            id,
            protocol: tuple.protocol,
            of,
            until: now + KEPT_FOR,
        });
    }

    /// What the first fragment was of, of which this is a later one.
    pub(crate) fn find(&self, tuple: &Tuple, id: u32, now: Nanos) -> Option<T> {
        let packet = self.places[self.place(tuple, id)]?;
        let is_it = (packet.source, packet.destination, packet.id, packet.protocol)
            == (tuple.source, tuple.destination, id, tuple.protocol);
        (is_it && now < packet.until).then_some(packet.of)
    }

    fn place(&self, tuple: &Tuple, id: u32) -> usize {
        let halves = |address: u128| ((address >> 64) as u64, address as u64);
        let ((a, b), (c, d)) = (halves(tuple.source), halves(tuple.destination));
        let last = u64::from(id) << 8 | u64::from(tuple.protocol);
        hash_of(self.seed, &[a, b, c, d, last]) as usize % PLACES
    }
}

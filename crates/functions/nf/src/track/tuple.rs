//! The two ends of a packet, and the one key that both directions of a connection have.

/// What tells connections apart. IPv4 addresses are mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Where the packet comes from.
    pub source: u128,
    /// Where it goes to.
    pub destination: u128,
    /// From which port; of an ICMP query its identifier; 0 where there are neither.
    pub source_port: u16,
    /// To which port; likewise.
    pub destination_port: u16,
    /// The protocol's number.
    pub protocol: u8,
    /// Of an ICMP query the type of its request; else 0.
    pub query: u8,
}

/// A tuple whose ends are in order, so that it is the same for both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// Halves of the lesser end's address, then of the greater one's.
    words: [u64; 4],
    ports: [u16; 2],
    protocol: u8,
    query: u8,
}

impl Key {
    /// The key, and whether the packet goes from the lesser end to the greater one.
    #[inline]
    pub(super) fn of(tuple: &Tuple) -> (Self, bool) {
        let from = (tuple.source, tuple.source_port);
        let to = (tuple.destination, tuple.destination_port);
        let is_upward = from <= to;
        let ((low, low_port), (high, high_port)) = if is_upward { (from, to) } else { (to, from) };
        let words = [(low >> 64) as u64, low as u64, (high >> 64) as u64, high as u64];
        let ports = [low_port, high_port];
        (Self { words, ports, protocol: tuple.protocol, query: tuple.query }, is_upward)
    }

    /// A number that nobody can foretell without the seed.
    #[inline]
    pub(super) fn hash(&self, seed: u64) -> u64 {
        let [a, b, c, d] = self.words;
        let ports = u64::from(self.ports[0]) << 32
            | u64::from(self.ports[1]) << 16
            | u64::from(self.protocol) << 8
            | u64::from(self.query);
        hash_of(seed, &[a, b, c, d, ports])
    }
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that nobody can foretell without the seed, and in which each bit of the words counts:
/// word by word both halves of a product, folded.
#[inline]
pub(crate) fn hash_of(seed: u64, words: &[u64]) -> u64 {
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(ODD);
        (product as u64) ^ (product >> 64) as u64
    };
    // The seed is folded too: one that is small is none the worse for it.
    let state =
        words.iter().fold(fold(!seed, seed.rotate_left(32)), |state, word| fold(state, *word));
    fold(state, seed)
}

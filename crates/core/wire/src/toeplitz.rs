//! Keyed Toeplitz hash of a flow, as receive-side scaling of network cards defines it.
//!
//! Each bit of the input that is set adds (exclusive or) the 32 bits of the key that start at its
//! position. The sum over the eight bits of a byte depends on its value and position alone, so one
//! table per position makes a byte one load. Read [`Toeplitz::hash`] first.

use std::net::IpAddr;

use base::FlowHash;

use crate::FlowKey;
use crate::flow_key::RssInput;

/// Source and destination address of IPv6 and two ports.
const INPUT_BYTES: usize = 36;

/// A key, spread out for speed: 36 KiB, of which IPv4 touches 12.
///
/// The protocol number is not in the input, as in a network card: a TCP and a UDP flow between the
/// same ends have one hash.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    tables: Box<[[u32; 256]; INPUT_BYTES]>,
}

impl Toeplitz {
    /// The key of Microsoft's verification suite, which many cards have as their default. Known to
    /// everybody, and so no protection against chosen collisions.
    pub const MICROSOFT_KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// Prepares `key`.
    pub fn new(key: [u8; 40]) -> Self {
        let tables: Box<[[u32; 256]]> = (0..INPUT_BYTES).map(|byte| table(&key, byte)).collect();
        Self { tables: tables.try_into().expect("as many tables as bytes were collected") }
    }

    /// The key that gives a flow and its answers the same hash: `seed` over and over (Woo and Park,
    /// "Scalable TCP session monitoring with symmetric receive-side scaling", whose seed is
    /// 0x6d5a).
    ///
    /// A period of 16 bits also means at most 65,536 different hashes, and a seed with few bits set
    /// means fewer; take this key only where both directions must meet.
    pub const fn symmetric(seed: u16) -> [u8; 40] {
        let [high, low] = seed.to_be_bytes();
        let mut key = [0; 40];
        let mut at = 0;
        while at < key.len() {
            key[at] = high;
            key[at + 1] = low;
            at += 2;
        }
        key
    }

    /// A key that cannot be guessed without `seed` (five steps of SplitMix64).
    pub const fn key_from_seed(seed: u64) -> [u8; 40] {
        let mut key = [0; 40];
        let mut state = seed;
        let mut at = 0;
        while at < key.len() {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let bytes = (word ^ (word >> 31)).to_be_bytes();
            let mut byte = 0;
            while byte < bytes.len() {
                key[at + byte] = bytes[byte];
                byte += 1;
            }
            at += bytes.len();
        }
        key
    }

    /// The hash of addresses and ports.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> FlowHash {
        FlowHash(match flow.rss_input() {
            RssInput::Ipv4(addresses, ports) => self.word(0, addresses) ^ self.half_word(8, ports),
            RssInput::Ipv6([a, b, c, d], ports) => {
                self.word(0, a)
                    ^ self.word(8, b)
                    ^ self.word(16, c)
                    ^ self.word(24, d)
                    ^ self.half_word(32, ports)
            }
        })
    }

    /// The hash of addresses alone, for packets without ports; nothing when one of them is IPv4
    /// and the other IPv6.
    pub fn hash_addresses(&self, source: IpAddr, destination: IpAddr) -> Option<FlowHash> {
        let sum = match (source, destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                self.sum(from.octets().into_iter().chain(to.octets()))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                self.sum(from.octets().into_iter().chain(to.octets()))
            }
            _ => return None,
        };
        Some(FlowHash(sum))
    }

    fn sum(&self, input: impl Iterator<Item = u8>) -> u32 {
        self.tables.iter().zip(input).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }

    /// The part of the hash of the eight bytes from position `first`.
    #[inline]
    fn word(&self, first: usize, word: u64) -> u32 {
        let mut sum = 0;
        for (position, byte) in word.to_be_bytes().into_iter().enumerate() {
            sum ^= self.tables[first + position][usize::from(byte)];
        }
        sum
    }

    /// The part of the hash of the four bytes in the low half of `word`.
    #[inline]
    fn half_word(&self, first: usize, word: u64) -> u32 {
        let [.., a, b, c, d] = word.to_be_bytes();
        self.tables[first][usize::from(a)]
            ^ self.tables[first + 1][usize::from(b)]
            ^ self.tables[first + 2][usize::from(c)]
            ^ self.tables[first + 3][usize::from(d)]
    }
}

/// What each value of input byte `byte` adds to the hash.
fn table(key: &[u8; 40], byte: usize) -> [u32; 256] {
    // The eight windows of this byte start in its own key byte and end in the fourth behind it.
    let mut windows: u64 = 0;
    for key_byte in &key[byte..byte + 5] {
        windows = (windows << 8) | u64::from(*key_byte);
    }
    std::array::from_fn(|value| {
        (0..8).filter(|bit| value & (0x80 >> bit) != 0).fold(0, |sum, bit| {
            let [.., a, b, c, d] = (windows >> (8 - bit)).to_be_bytes();
            sum ^ u32::from_be_bytes([a, b, c, d])
        })
    })
}

#[cfg(test)]
mod tests;

//! What is asked of a store: which keys, how often to set, how large the values are.
//!
//! A value follows from its key, so every value that comes back can be checked whoever stored it.

use crate::flow_order::Pick;
use crate::{Error, FlowOrder, Random};

use super::Ask;

/// Longest key: memcached's.
pub const KEY_MAX: usize = 250;
/// Shortest key: a letter and the digits of [`KEYS_MAX`].
pub const KEY_MIN: usize = 8;
/// Keys of a run.
pub const KEYS_MAX: u32 = 1_000_000;
/// Longest value: what memcached takes unless it is told otherwise.
pub const VALUE_MAX: usize = 1 << 20;

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheConfig {
    /// Different keys.
    pub keys: u32,
    /// Which one is next.
    pub key_order: FlowOrder,
    /// The exponent, where that is by Zipf's law.
    pub zipf_exponent: f64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value: at least, and at most; any size between is as frequent.
    pub value_bytes: (usize, usize),
    /// Which share of the requests sets a value, 0 to 1; the others get one.
    pub set_share: f64,
}

impl Default for CacheConfig {
    /// 10,000 keys of 16 bytes with values of 64, one in ten requests a set.
    fn default() -> Self {
        Self {
            keys: 10_000,
            key_order: FlowOrder::Random,
            zipf_exponent: 0.99,
            key_bytes: 16,
            value_bytes: (64, 64),
            set_share: 0.1,
        }
    }
}

impl CacheConfig {
    /// Whether it can be.
    ///
    /// # Errors
    /// A sentence about the setting that cannot.
    pub fn check(&self) -> Result<(), Error> {
        let Self { keys, key_bytes, value_bytes: (least, most), set_share, .. } = *self;
        let sentence = if !(1..=KEYS_MAX).contains(&keys) {
            format!("{keys} keys are not possible: choose 1 to {KEYS_MAX}")
        } else if !(KEY_MIN..=KEY_MAX).contains(&key_bytes) {
            format!("keys of {key_bytes} bytes are not possible: choose {KEY_MIN} to {KEY_MAX}")
        } else if least == 0 || least > most || most > VALUE_MAX {
            format!("values of {least} to {most} bytes are not possible: choose 1 to {VALUE_MAX}")
        } else if !(0.0..=1.0).contains(&set_share) {
            format!("a share of {set_share} cannot be set: choose 0 (only gets) to 1 (only sets)")
        } else {
            return Ok(());
        };
        Err(Error::Setting(sentence))
    }
}

/// Asks a store.
#[derive(Clone, Debug)]
pub struct Cache {
    config: CacheConfig,
    pick: Pick,
    random: Random,
    index: u64,
}

impl Cache {
    /// `config` was checked; equal seeds ask the same.
    pub fn new(config: CacheConfig, seed: u64) -> Self {
        let pick = Pick::new(config.key_order, config.keys, config.zipf_exponent);
        Self { config, pick, random: Random::new(seed), index: 0 }
    }

    /// Asks from now on as if it had been made with this seed.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
        self.index = 0;
    }

    #[inline]
    pub(super) fn ask(&mut self) -> Ask {
        let key = self.pick.at(self.index, &mut self.random);
        self.index += 1;
        if self.random.unit() <= self.config.set_share { self.set(key) } else { Ask::Get { key } }
    }

    /// Sets this key.
    pub(crate) fn set(&mut self, key: u32) -> Ask {
        let (least, most) = self.config.value_bytes;
        let bytes = least as u32 + self.random.below((most - least) as u32 + 1);
        Ask::Set { key, bytes }
    }

    /// Bytes of the longest value that it stores: an answer with more is none, so that a hostile
    /// store cannot make every connection keep as much as stores can hold.
    pub(super) fn longest(&self) -> usize {
        self.config.value_bytes.1
    }

    pub(crate) fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// Adds the name of a key.
    #[inline]
    pub(super) fn write_key(&self, key: u32, to: &mut Vec<u8>) {
        let start = to.len();
        to.resize(start + self.config.key_bytes, b'0');
        to[start] = b'c';
        let mut rest = key;
        for digit in to[start + 1..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// Whether this is the name of that key.
    pub(super) fn is_key(&self, key: u32, name: &[u8]) -> bool {
        let mut own = Vec::with_capacity(KEY_MAX);
        self.write_key(key, &mut own);
        own == name
    }

    pub(super) fn describe(&self) -> String {
        let CacheConfig {
            keys, key_order, key_bytes, value_bytes: (least, most), set_share, ..
        } = self.config;
        format!(
            "{keys} keys of {key_bytes} B in {key_order} order, values of {least} to {most} B, \
             {:.0}% sets",
            100.0 * set_share
        )
    }
}

/// The bytes of a key's value, as many as are wanted.
pub(super) fn value(key: u32) -> impl Iterator<Item = u8> {
    let start = key.wrapping_mul(0x9e37_79b1);
    start.to_be_bytes().into_iter().chain(
        (1_u32..).map(move |step| (start.wrapping_add(step.wrapping_mul(0x0101_6b2f)) >> 16) as u8),
    )
}

/// Adds a value.
#[inline]
pub(super) fn write_value(key: u32, bytes: u32, to: &mut Vec<u8>) {
    to.extend(value(key).take(bytes as usize));
}

/// Whether these are the bytes of the key's value.
#[inline]
pub(super) fn is_value(key: u32, bytes: &[u8]) -> bool {
    bytes.iter().zip(value(key)).all(|(found, stored)| *found == stored)
}

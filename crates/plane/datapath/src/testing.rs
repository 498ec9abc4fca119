//! What tests here and in crates above share.

/// Random numbers for schedules: the same on every machine (xorshift64*).
#[derive(Debug)]
pub struct Lots(u64);

impl Lots {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let lot = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((lot * u64::from(limit)) >> 32) as u32
    }
}

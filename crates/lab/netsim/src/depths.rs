//! How deep a queue was, as those found it who came.

/// Bytes of a step: depths are known to this much.
const STEP: u32 = 256;

/// A histogram of queue depths in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    steps: Vec<u64>,
    count: u64,
    sum: u64,
    deepest: u32,
}

impl Depths {
    /// Somebody found that many bytes waiting.
    #[inline]
    pub(crate) fn note(&mut self, bytes: u32) {
        let step = (bytes / STEP) as usize;
        if step >= self.steps.len() {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += 1;
        self.count += 1;
        self.sum += u64::from(bytes);
        self.deepest = self.deepest.max(bytes);
    }

    /// How many looked.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, in bytes; zero when nobody looked.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The most that was found, in bytes.
    pub fn deepest(&self) -> u32 {
        self.deepest
    }

    /// This share of all looks found at most the returned bytes, to 256 bytes; zero when
    /// nobody looked.
    pub fn quantile(&self, share: f64) -> u32 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (step, count) in self.steps.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return (step as u32 * STEP).min(self.deepest);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_step() {
        let mut depths = Depths::default();
        assert_eq!((depths.quantile(0.5), depths.mean(), depths.deepest()), (0, 0.0, 0));
        (0..100).for_each(|packet| depths.note(packet * 1500));
        assert!((depths.quantile(0.5)).abs_diff(49 * 1500) < 256);
        assert!((depths.quantile(0.99)).abs_diff(98 * 1500) < 256);
        assert_eq!((depths.quantile(1.0), depths.deepest()), (99 * 1500 / 256 * 256, 99 * 1500));
        assert_eq!(depths.mean(), 49.5 * 1500.0);
    }
}

//! Zipf's law: the k-th of n things is drawn with a share proportional to `1 / k^exponent`.
//!
//! By rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996): exact, without a table of all n, in 1.1 tries or so.

use crate::Random;

/// Exponents that can be asked for, at most: beyond it all but a handful are never drawn.
pub(crate) const EXPONENT_MAX: f64 = 10.0;

/// Things drawn by Zipf's law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the law's hat from its left end, and to its right one.
    low: f64,
    high: f64,
    /// Closer than this to its rank, a point needs no second look.
    squeeze: f64,
}

impl Zipf {
    /// `count` things (at least one). Exponent 0: all are drawn as often; 1: as words in a text.
    pub fn new(count: u32, exponent: f64) -> Self {
        let count = f64::from(count.max(1));
        let exponent = exponent.clamp(0.0, EXPONENT_MAX);
        let mut zipf = Self { count, exponent, low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.share(2.0));
        zipf
    }

    /// The next one, counted from zero: that is the most frequent.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let at = self.high + random.unit() * (self.low - self.high);
            let point = self.inverse(at);
            let rank = point.round().clamp(1.0, self.count);
            let is_under =
                rank - point <= self.squeeze || at >= self.integral(rank + 0.5) - self.share(rank);
            if is_under {
                return rank as u32 - 1;
            }
        }
    }

    /// The share of a rank, not normalised.
    fn share(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// The integral of `x^-exponent` up to `x`: continuous in the exponent at 1 too.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        growth((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may push it below the pole.
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        (logarithm(scaled) * area).exp()
    }
}

/// `(e^x - 1) / x`, and what it tends to.
fn growth(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// `ln(1 + x) / x`, and what it tends to.
fn logarithm(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_the_share_that_the_law_gives_it() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0] {
            let zipf = Zipf::new(50, exponent);
            let mut random = Random::new(31);
            let mut counts = [0_u32; 50];
            let draws = 400_000;
            (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let total: f64 = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for (rank, &count) in (1..).zip(&counts) {
                let expected = f64::from(draws) * f64::from(rank).powf(-exponent) / total;
                // Five standard deviations of a count.
                let allowed = 5.0 * expected.sqrt() + 1.0;
                assert!(
                    (f64::from(count) - expected).abs() < allowed,
                    "exponent {exponent}, rank {rank}: {count}, {expected}"
                );
            }
        }
    }

    #[test]
    fn one_thing_is_always_drawn_and_many_stay_in_range() {
        let mut random = Random::new(32);
        assert!((0..100).all(|_| Zipf::new(1, 0.99).draw(&mut random) == 0));
        let many = Zipf::new(u32::MAX, 0.2);
        assert!((0..1000).map(|_| many.draw(&mut random)).max() > Some(1 << 30));
    }
}

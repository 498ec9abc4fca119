//! How many bytes a flow carries.

use load::Random;

use crate::Refused;
use crate::refused::check;

/// A distribution of flow sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All flows carry as much.
    Exactly(u64),
    /// Points of a distribution function: bytes, and the share of flows that carry at most this
    /// many. Evenly spread between two points. Both columns grow and the last share is 1.
    Points(Vec<(u64, f64)>),
}

/// Flow sizes of a web search cluster as the DCTCP paper measured them (Alizadeh et al., SIGCOMM
/// 2010, figure 4), by the points at which the literature repeats it.
pub const WEB_SEARCH: &[(u64, f64)] = &[
    (1_000, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
];

impl Sizes {
    /// [`WEB_SEARCH`], every size divided by `divisor`, so that a run is so much shorter.
    pub fn web_search(divisor: u64) -> Self {
        Self::Points(
            WEB_SEARCH.iter().map(|(bytes, share)| (bytes / divisor.max(1), *share)).collect(),
        )
    }

    /// The mean, in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Exactly(bytes) => *bytes as f64,
            Self::Points(points) => points
                .windows(2)
                .map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) as f64 / 2.0)
                .sum(),
        }
    }

    /// The next flow's, at least one byte.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let points = match self {
            Self::Exactly(bytes) => return (*bytes).max(1),
            Self::Points(points) => points,
        };
        let share = random.unit();
        let Some(pair) = points.windows(2).find(|pair| share <= pair[1].1) else { return 1 };
        let within = (share - pair[0].1) / (pair[1].1 - pair[0].1);
        let bytes = pair[0].0 as f64 + within.clamp(0.0, 1.0) * (pair[1].0 - pair[0].0) as f64;
        (bytes.round() as u64).max(1)
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        match self {
            Self::Exactly(bytes) => check(*bytes > 0, "sizes", bytes, "at least a byte"),
            Self::Points(points) => {
                let grow = |pair: &[(u64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
                let ends = points.last().is_some_and(|(_, share)| *share == 1.0);
                let begins = points.first().is_some_and(|(_, share)| *share >= 0.0);
                let is_fine = ends && begins && points.len() > 1 && points.windows(2).all(grow);
                let allowed =
                    "at least two points that grow in bytes and share, up to a share of 1";
                check(is_fine, "sizes", format!("{points:?}"), allowed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_mean_and_the_shares_of_the_distribution() {
        let sizes = Sizes::web_search(1);
        let mut random = Random::new(3);
        let drawn: Vec<u64> = (0..200_000).map(|_| sizes.draw(&mut random)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.02, "{mean}, {}", sizes.mean());
        let small = drawn.iter().filter(|bytes| **bytes <= 80_000).count() as f64;
        assert!((small / drawn.len() as f64 - 0.53).abs() < 0.01);
    }

    #[test]
    fn a_distribution_that_is_none_is_refused() {
        for points in [vec![], vec![(5, 1.0)], vec![(5, 0.0), (4, 1.0)], vec![(1, 0.0), (2, 0.5)]] {
            let refused = Sizes::Points(points.clone()).check().expect_err("it is none");
            assert!(refused.to_string().starts_with("`sizes` is ["), "{refused}");
        }
        assert_eq!(Sizes::web_search(100).check(), Ok(()));
    }
}

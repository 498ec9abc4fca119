//! Figures that sum up many flows.

/// Jain's index of fairness: 1 when all have the same, 1/n when one of n has everything.
///
/// Nothing for nobody, and when nobody has anything.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// The smallest of `sorted` that at least this share of them does not exceed; nothing of nothing.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_of_four_that_has_all_is_a_quarter_fair() {
        assert_eq!(jain([3.0; 7]), Some(1.0));
        assert_eq!(jain([0.0, 0.0, 5.0, 0.0]), Some(0.25));
        assert_eq!((jain([]), jain([0.0])), (None, None));
    }

    #[test]
    fn a_quantile_is_one_of_the_values_by_its_rank() {
        let values: Vec<u64> = (1..=100).collect();
        for (share, value) in [(0.0, 1), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)] {
            assert_eq!(quantile(&values, share), Some(value), "{share}");
        }
        assert_eq!(quantile::<u64>(&[], 0.5), None);
    }
}

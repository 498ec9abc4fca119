//! What runs with seeds of their own say together.
//!
//! A claim is a sentence that each run finds true or false, so the share of runs in which it is
//! true is known by the exact binomial test (Clopper and Pearson, 1934): it holds when, at 95 %, it
//! would in most runs, does not when in most it would not, and is open in between. Of ten runs that
//! takes nine. Two series of a map are apart when the interval of the mean logarithm of their
//! ratio, over pairs of runs with the same requests, does not reach zero (Student's t, 95 %).

/// Student's t for 95 % of both sides, by degrees of freedom from one on; it only falls from there.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// What may be left to chance on each side.
const SIDE: f64 = 0.025;

/// Whether something that was so in `holds` of `of` runs is so in most, is not, or is not known.
pub(crate) fn decided(holds: u32, of: u32) -> Option<bool> {
    if at_least(holds, of) <= SIDE {
        Some(true)
    } else if at_least(of - holds, of) <= SIDE {
        Some(false)
    } else {
        None
    }
}

/// How often `of` fair coins show `heads` heads or more.
fn at_least(heads: u32, of: u32) -> f64 {
    let (mut choose, mut sum) = (0.5_f64.powi(of as i32), 0.0);
    for number in 0..=of {
        if number >= heads {
            sum += choose;
        }
        choose *= f64::from(of - number) / f64::from(number + 1);
    }
    sum
}

/// Whether the first of each pair is lower than the second beyond what chance does.
pub(crate) fn is_lower(pairs: impl Iterator<Item = (f64, f64)>) -> bool {
    let logs: Vec<f64> = pairs.map(|(one, other)| (other / one).ln()).collect();
    let count = logs.len() as f64;
    let Some(freedom) = logs.len().checked_sub(2) else { return false };
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = T_95[freedom.min(T_95.len() - 1)];
    mean.is_finite() && mean > t * (variance / count).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_hold_and_eight_leave_it_open() {
        for (holds, of, expected) in [
            (10, 10, Some(true)),
            (9, 10, Some(true)),
            (8, 10, None),
            (5, 10, None),
            (2, 10, None),
            (1, 10, Some(false)),
            (0, 10, Some(false)),
            (27, 30, Some(true)),
            (21, 30, Some(true)),
            (20, 30, None),
            // Three runs decide nothing.
            (3, 3, None),
        ] {
            assert_eq!(decided(holds, of), expected, "{holds} of {of}");
        }
        // The published bounds: 11 and 56 of 1024.
        assert!((at_least(9, 10) - 11.0 / 1024.0).abs() < 1e-12);
        assert!((at_least(8, 10) - 56.0 / 1024.0).abs() < 1e-12);
    }

    #[test]
    fn series_are_apart_when_their_pairs_are_and_not_when_their_runs_differ_more() {
        let pairs = |by: [f64; 5]| {
            let ones = [10.0, 12.0, 9.0, 15.0, 11.0];
            ones.into_iter().zip(by).map(|(one, by)| (one, one * by))
        };
        // The runs differ by half, the pairs by a tenth each time.
        assert!(is_lower(pairs([1.10, 1.09, 1.11, 1.10, 1.12])));
        assert!(!is_lower(pairs([1.10, 0.80, 1.30, 0.90, 1.20])));
        assert!(!is_lower(pairs([0.90, 0.91, 0.89, 0.90, 0.90])), "it is higher");
        assert!(!is_lower(pairs([1.0; 5])), "equal is not lower");
        assert!(!is_lower(std::iter::once((1.0, 2.0))), "one pair says nothing");
    }

    #[test]
    fn a_true_difference_is_found_as_often_as_is_said_and_none_is_not_invented() {
        let mut random = load::Random::new(11);
        let mut wrong = 0;
        for _ in 0..2_000 {
            let pairs: Vec<(f64, f64)> =
                (0..10).map(|_| (random.exponential() + 5.0, random.exponential() + 5.0)).collect();
            wrong += u32::from(is_lower(pairs.into_iter()));
        }
        // One side of 95 %: 50 of 2,000, and what chance does to that.
        assert!((25..80).contains(&wrong), "{wrong} of 2000");
    }
}

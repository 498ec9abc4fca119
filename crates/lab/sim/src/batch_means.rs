//! How far a mean of dependent samples can be trusted: the method of batch means.
//!
//! Waiting times in a queue depend on their neighbours, so that their variance says little about
//! that of their mean. Means of long consecutive batches are nearly independent: their spread is
//! the mean's own (Law, Simulation Modeling and Analysis, 9.5.3).

/// Batches that a run is cut into.
const BATCHES: usize = 20;

/// Student's t for 95 % of both sides and 19 degrees of freedom.
const T_95: f64 = 2.093;

/// Collects samples of a run whose length is known.
#[derive(Clone, Debug)]
pub struct BatchMeans {
    batch_len: u64,
    sums: [f64; BATCHES],
    count: u64,
}

/// A mean with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// Half the width of the interval that has the true mean in 95 of 100 runs.
    pub half_width: f64,
}

impl Interval {
    /// Whether `value` is in it, or as close again: 95 % intervals of many runs miss now and then,
    /// twice as wide ones (four standard errors) do not.
    pub fn allows(&self, value: f64) -> bool {
        (value - self.mean).abs() <= 2.0 * self.half_width
    }
}

impl BatchMeans {
    /// For a run of `samples` samples; those beyond a multiple of the number of batches are
    /// ignored.
    pub fn new(samples: u64) -> Self {
        Self { batch_len: (samples / BATCHES as u64).max(1), sums: [0.0; BATCHES], count: 0 }
    }

    /// One more sample.
    #[inline]
    pub fn add(&mut self, sample: f64) {
        let batch = self.count / self.batch_len;
        self.count += 1;
        if let Some(sum) = self.sums.get_mut(batch as usize) {
            *sum += sample;
        }
    }

    /// The mean and its bounds; nothing before the run is over.
    pub fn interval(&self) -> Option<Interval> {
        if self.count < self.batch_len * BATCHES as u64 {
            return None;
        }
        let means = self.sums.map(|sum| sum / self.batch_len as f64);
        let mean = means.iter().sum::<f64>() / BATCHES as f64;
        let squares: f64 = means.iter().map(|batch| (batch - mean).powi(2)).sum();
        let variance = squares / (BATCHES - 1) as f64;
        Some(Interval { mean, half_width: T_95 * (variance / BATCHES as f64).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use load::Random;

    use super::*;

    #[test]
    fn intervals_of_independent_samples_have_the_mean_in_95_of_100_runs() {
        let has_mean = |seed| {
            let mut random = Random::new(seed);
            let mut means = BatchMeans::new(2000);
            (0..2000).for_each(|_| means.add(random.exponential()));
            let Interval { mean, half_width } = means.interval().expect("the run is over");
            (mean - 1.0).abs() <= half_width
        };
        let count = (0..400).filter(|seed| has_mean(*seed)).count();
        // 380 expected, standard deviation 4.4.
        assert!((362..=398).contains(&count), "{count} of 400");
    }

    #[test]
    fn a_run_that_is_not_over_has_no_interval() {
        let mut means = BatchMeans::new(100);
        (0..99).for_each(|_| means.add(1.0));
        assert_eq!(means.interval(), None);
        means.add(1.0);
        assert_eq!(means.interval(), Some(Interval { mean: 1.0, half_width: 0.0 }));
    }
}

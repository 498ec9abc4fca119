//! One figure: a median with its range, what it is held against, and whether that was reached.

use serde::Serialize;

/// One line of output.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) bench: &'static str,
    pub(crate) case: &'static str,
    pub(crate) metric: String,
    /// The median of the rounds; nothing when it could not be measured.
    pub(crate) value: Option<f64>,
    pub(crate) unit: &'static str,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    /// Rounds.
    pub(crate) n: usize,
    pub(crate) baseline: Option<Baseline>,
    /// The median of the rounds' ratios of value to baseline.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<String>,
    pub(crate) met: Option<bool>,
    /// Why something is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Where it was measured, and of which commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<String>,
    #[serde(skip)]
    wanted: Option<Target>,
}

/// What a figure is held against.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Baseline {
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The ratio to the baseline is no larger.
    RatioAtMost(f64),
    /// The ratio to the baseline is no smaller.
    RatioAtLeast(f64),
    /// The value is no larger.
    AtMost(f64),
    /// The value is no smaller.
    AtLeast(f64),
    /// The value is no larger, or no larger than the baseline.
    AtMostOrBaseline(f64),
    /// The value is no smaller, or no smaller than the baseline.
    AtLeastOrBaseline(f64),
    /// The value is this, give or take the second.
    Near(f64, f64),
}

impl Target {
    fn is_met(self, value: Option<f64>, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::RatioAtMost(bound) => ratio.map(|ratio| ratio <= bound),
            Self::RatioAtLeast(bound) => ratio.map(|ratio| ratio >= bound),
            Self::AtMost(bound) => value.map(|value| value <= bound),
            Self::AtLeast(bound) => value.map(|value| value >= bound),
            Self::AtMostOrBaseline(bound) => {
                value.map(|value| value <= bound || ratio.is_some_and(|ratio| ratio <= 1.0))
            }
            Self::AtLeastOrBaseline(bound) => {
                value.map(|value| value >= bound || ratio.is_some_and(|ratio| ratio >= 1.0))
            }
            Self::Near(centre, margin) => value.map(|value| (value - centre).abs() <= margin),
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::RatioAtMost(bound) => format!("ratio <= {bound}"),
            Self::RatioAtLeast(bound) => format!("ratio >= {bound}"),
            Self::AtMost(bound) => format!("<= {bound} {unit}").trim_end().to_owned(),
            Self::AtLeast(bound) => format!(">= {bound} {unit}").trim_end().to_owned(),
            Self::AtMostOrBaseline(bound) => format!("<= {bound} or the baseline"),
            Self::AtLeastOrBaseline(bound) => format!(">= {bound} or the baseline"),
            Self::Near(centre, margin) => format!("{centre} +- {margin} {unit}"),
        }
    }
}

impl Figure {
    /// A figure of one sample a round. Which bench and case it belongs to is the report's to say.
    pub(crate) fn new(metric: impl Into<String>, unit: &'static str, samples: &[f64]) -> Self {
        Self {
            bench: "",
            case: "",
            metric: metric.into(),
            value: median(samples),
            unit,
            min: samples.iter().copied().reduce(f64::min),
            max: samples.iter().copied().reduce(f64::max),
            n: samples.len(),
            baseline: None,
            ratio: None,
            target: None,
            met: None,
            note: None,
            machine: None,
            wanted: None,
        }
    }

    /// A figure that could not be measured, and why.
    pub(crate) fn missing(metric: impl Into<String>, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::new(metric, "", &[]) }
    }

    /// Holds it against a baseline: `samples` are of the same rounds, in turns with `own`.
    #[must_use]
    pub(crate) fn against(mut self, name: &str, own: &[f64], samples: &[f64]) -> Self {
        let pairs = own.iter().zip(samples).filter(|&(_, &baseline)| baseline != 0.0);
        let ratios: Vec<f64> = pairs.map(|(own, baseline)| own / baseline).collect();
        self.ratio = median(&ratios);
        self.baseline = median(samples).map(|value| Baseline { name: name.to_owned(), value });
        self.judged()
    }

    /// Says what it must reach, if anything.
    #[must_use]
    pub(crate) fn target(mut self, target: impl Into<Option<Target>>) -> Self {
        self.wanted = target.into();
        self.judged()
    }

    /// Says which bench and case it belongs to.
    #[must_use]
    pub(crate) fn of(
        self,
        bench: &'static str,
        case: &'static str,
        machine: Option<String>,
    ) -> Self {
        Self { bench, case, machine, ..self }
    }

    /// Adds an explanation.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    fn judged(mut self) -> Self {
        self.met = self.wanted.and_then(|target| target.is_met(self.value, self.ratio));
        self.target = self.wanted.map(|target| target.text(self.unit));
        self
    }
}

/// The smallest of `sorted` that at least this share of them does not exceed; zero of nothing. All
/// quantiles of one round are these, [`load::Latencies`]' to three digits; what is said of several
/// rounds is their [`median`].
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    netsim::quantile(sorted, share).unwrap_or(0.0)
}

/// The middle sample, or the mean of the two middle ones; nothing of nothing.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_middle_and_of_nothing_there_is_none() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn the_ratio_is_of_rounds_and_not_of_medians() {
        let (own, baseline) = ([10.0, 100.0, 40.0], [20.0, 100.0, 40.0]);
        let figure = Figure::new("rate", "Mpps", &own).against("other", &own, &baseline);
        assert_eq!((figure.value, figure.min, figure.max), (Some(40.0), Some(10.0), Some(100.0)));
        assert_eq!(figure.ratio, Some(1.0));
    }

    #[test]
    fn a_missed_target_is_missed_and_an_unmeasured_one_is_neither() {
        let met = |target, own: &[f64], other: &[f64]| {
            Figure::new("m", "us", own).target(target).against("b", own, other).met
        };
        assert_eq!(met(Target::RatioAtLeast(0.5), &[4.0], &[10.0]), Some(false));
        assert_eq!(met(Target::RatioAtLeast(0.4), &[4.0], &[10.0]), Some(true));
        assert_eq!(met(Target::RatioAtMost(0.3), &[4.0], &[10.0]), Some(false));
        assert_eq!(met(Target::AtMost(3.0), &[4.0], &[]), Some(false));
        assert_eq!(met(Target::AtLeast(3.0), &[4.0], &[]), Some(true));
        assert_eq!(met(Target::Near(5.0, 1.0), &[4.0], &[]), Some(true));
        assert_eq!(met(Target::RatioAtLeast(0.5), &[4.0], &[]), None);
        let at_most = Target::AtMostOrBaseline(3.0);
        assert_eq!(met(at_most, &[4.0], &[2.0]), Some(false));
        assert_eq!(met(at_most, &[4.0], &[5.0]), Some(true));
        assert_eq!(met(at_most, &[3.0], &[2.0]), Some(true));
        let at_least = Target::AtLeastOrBaseline(0.9);
        assert_eq!(met(at_least, &[0.8], &[0.9]), Some(false));
        assert_eq!(met(at_least, &[0.8], &[0.7]), Some(true));
    }
}

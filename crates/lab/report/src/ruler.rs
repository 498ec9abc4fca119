//! One axis: from values to a part of its length, and the marks beside it.

use crate::line::Scale;
use crate::number;

/// Marks that an axis has about.
const TICKS: f64 = 6.0;
/// Decades with a mark of their own; of more every second, third, ... has one.
const DECADES: f64 = 8.0;
/// What a logarithmic axis sets apart for zero, as part of its length.
const ZERO_SHARE: f64 = 0.07;
/// Values of x that are so few are the marks themselves.
const FEW: usize = 10;

/// How the ends of an axis are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// At the first and the last value.
    AtValues,
    /// At the next mark beyond them, so that nothing lies on the edge.
    AtTicks,
}

/// A mark beside an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// A logarithmic axis has no zero: it gets a place of its own below the low end.
    zero_apart: bool,
    ticks: Vec<Tick>,
}

impl Ruler {
    /// An axis that all `values` fit on.
    pub(crate) fn over(scale: Scale, ends: Ends, values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        match scale {
            Scale::Linear => Self::linear(ends, &values),
            Scale::Log => Self::log(ends, &values),
        }
    }

    pub(crate) fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    pub(crate) fn has_zero_apart(&self) -> bool {
        self.zero_apart
    }

    /// Where zero ends and the logarithmic part begins, as part of the length.
    pub(crate) fn break_at(&self) -> f64 {
        ZERO_SHARE / 2.0
    }

    /// Where `value` is: 0 at the low end, 1 at the high end, never outside.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let Self { scale, low, high, zero_apart, ticks: _ } = self;
        let part = match scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log if value <= 0.0 => return 0.0,
            Scale::Log => (value / low).log10() / (high / low).log10(),
        };
        let part = part.clamp(0.0, 1.0);
        if *zero_apart { ZERO_SHARE + part * (1.0 - ZERO_SHARE) } else { part }
    }

    fn linear(ends: Ends, values: &[f64]) -> Self {
        let (low, high) = match values {
            [] => (0.0, 1.0),
            [only] if *only == 0.0 => (0.0, 1.0),
            [only] => ((2.0 * only).min(0.0), (2.0 * only).max(0.0)),
            [first, .., last] => (*first, *last),
        };
        // Zero belongs on the axis unless all there is to see would shrink: up to a flat line,
        // across to a corner.
        let spread = high - low;
        let enough = match ends {
            Ends::AtValues => 0.75,
            Ends::AtTicks => 0.25,
        };
        let low = if low > 0.0 && spread > enough * high { 0.0 } else { low };
        let high = if high < 0.0 && spread > -enough * low { 0.0 } else { high };
        let step = nice((high - low) / TICKS);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let (low, high) = match ends {
            Ends::AtValues => (low, high),
            Ends::AtTicks => (first * step, last * step),
        };
        let largest = low.abs().max(high.abs());
        // The steps between the two ends are TICKS and a few at most.
        let ticks = (0..=2 * TICKS as i32)
            .map(|number| (first + f64::from(number)) * step)
            .filter(|value| (low - step * 1e-6..=high + step * 1e-6).contains(value))
            .map(|value| Tick { value, label: number::stepped(value, step, largest) })
            .collect();
        Self { scale: Scale::Linear, low, high, zero_apart: false, ticks }
    }

    fn log(ends: Ends, values: &[f64]) -> Self {
        let zero_apart = values.first().is_some_and(|first| *first <= 0.0);
        let positive = &values[values.partition_point(|value| *value <= 0.0)..];
        let (low, high) = match positive {
            [] => (1.0, 10.0),
            [only] => (only / 2.0, only * 2.0),
            // So close that they are one to the eye, and to the search for marks below.
            [first, .., last] if *last <= first * 1.000_001 => (first / 2.0, last * 2.0),
            [first, .., last] => (*first, *last),
        };
        let decades = (high / low).log10();
        // Within few decades 1, 2 and 5 of each are marks; within many only 1.
        let steps: &[f64] = if decades <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let candidates: Vec<f64> = (low.log10().floor() as i32 - 1
            ..=high.log10().ceil() as i32 + 1)
            .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
            .collect();
        let near = 1e-9;
        let (low, high) = match ends {
            Ends::AtValues => (low, high),
            Ends::AtTicks => (
                candidates.iter().rfind(|tick| **tick <= low * (1.0 + near)).map_or(low, |t| *t),
                candidates.iter().find(|tick| **tick >= high * (1.0 - near)).map_or(high, |t| *t),
            ),
        };
        let every = (decades / DECADES).ceil().max(1.0) as usize;
        let mut ticks: Vec<f64> = match ends {
            Ends::AtValues if positive.len() <= FEW => positive.to_vec(),
            _ => candidates
                .into_iter()
                .filter(|tick| *tick >= low * (1.0 - near) && *tick <= high * (1.0 + near))
                .step_by(every)
                .collect(),
        };
        if ticks.len() < 2 && positive.len() != 1 {
            ticks = vec![low, high];
        }
        if zero_apart {
            ticks.insert(0, 0.0);
        }
        let tick = |value| Tick { value, label: number::short(value) };
        Self {
            scale: Scale::Log,
            low,
            high,
            zero_apart,
            ticks: ticks.into_iter().map(tick).collect(),
        }
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let [one, two, five] = [1.0, 2.0, 5.0].map(|digit| digit * power);
    // A step is allowed to be a little too small: a tick more does no harm.
    [one, two, five].into_iter().find(|nice| step <= nice * 1.1).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruler(scale: Scale, ends: Ends, values: &[f64]) -> Ruler {
        Ruler::over(scale, ends, values.iter().copied())
    }

    fn labels(ruler: &Ruler) -> Vec<&str> {
        ruler.ticks().iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_begins_at_zero_unless_values_lie_close_together() {
        let wide = ruler(Scale::Linear, Ends::AtTicks, &[40.0, 95.0, 12.0]);
        assert_eq!(labels(&wide), ["0", "20", "40", "60", "80", "100"]);
        let close = ruler(Scale::Linear, Ends::AtTicks, &[0.981, 0.994]);
        assert_eq!(close.ticks()[0].label, "0.980");
        let below = ruler(Scale::Linear, Ends::AtTicks, &[-40.0, -95.0]);
        assert_eq!(below.ticks().last().map(|tick| tick.label.as_str()), Some("0"));
    }

    #[test]
    fn a_logarithmic_axis_has_equal_factors_at_equal_distances() {
        let ruler = ruler(Scale::Log, Ends::AtTicks, &[3.0, 20_000.0]);
        assert_eq!(labels(&ruler), ["1", "10", "100", "1000", "10k", "100k"]);
        let step = ruler.place(100.0) - ruler.place(10.0);
        assert!((ruler.place(10_000.0) - ruler.place(1_000.0) - step).abs() < 1e-9);
        assert_eq!((ruler.place(1.0), ruler.place(100_000.0)), (0.0, 1.0));
    }

    #[test]
    fn zero_on_a_logarithmic_axis_has_a_place_of_its_own() {
        let ruler = ruler(Scale::Log, Ends::AtTicks, &[0.0, 1.0, 100.0]);
        assert!(ruler.has_zero_apart());
        assert_eq!(labels(&ruler), ["0", "1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(ruler.place(0.0), 0.0);
        assert!(ruler.place(0.0) < ruler.break_at() && ruler.break_at() < ruler.place(1.0));
        let nothing_else = super::Ruler::over(Scale::Log, Ends::AtTicks, [0.0].into_iter());
        assert_eq!(nothing_else.place(0.0), 0.0);
    }

    #[test]
    fn few_values_along_a_logarithmic_axis_are_its_marks() {
        let cores = ruler(Scale::Log, Ends::AtValues, &[1.0, 2.0, 4.0, 8.0, 128.0]);
        assert_eq!(labels(&cores), ["1", "2", "4", "8", "128"]);
    }

    #[test]
    fn every_value_has_a_place_however_odd_the_axis() {
        let cases: [&[f64]; 8] = [
            &[],
            &[0.0],
            &[5.0],
            &[-5.0],
            &[1e18, -1e18],
            &[1e-18, 1e18],
            &[7.0, 7.0],
            &[1.0, 1.0 + 1e-12],
        ];
        for values in cases {
            for ends in [Ends::AtValues, Ends::AtTicks] {
                for scale in [Scale::Linear, Scale::Log] {
                    let ruler = ruler(scale, ends, values);
                    for value in values {
                        let place = ruler.place(*value);
                        assert!((0.0..=1.0).contains(&place), "{value} of {values:?}: {ruler:?}");
                    }
                    let ticks = ruler.ticks();
                    assert!((1..=24).contains(&ticks.len()), "{values:?}: {ruler:?}");
                }
            }
        }
    }
}

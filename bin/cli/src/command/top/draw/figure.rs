//! Figures as the screen shows them: short, aligned by their column, a dash where there is none.

use crate::table::grouped;

/// Digits of a figure before the power of ten is written out.
const DIGITS_MAX: f64 = 1e12;

/// A rate a second.
pub(super) fn rate(value: Option<f64>) -> String {
    match value {
        Some(value) => quantity(value),
        None => "-".to_owned(),
    }
}

/// A quantity: whole, with one digit after the point while it is small.
pub(super) fn quantity(value: f64) -> String {
    if !value.is_finite() {
        "-".to_owned()
    } else if value.abs() >= DIGITS_MAX {
        format!("{value:.1e}")
    } else if value > 0.0 && value < 10.0 && value.fract() > 0.0 {
        format!("{value:.1}")
    } else {
        grouped(value.max(0.0).round() as u64)
    }
}

/// A share as a percentage.
pub(super) fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.1} %", value * 100.0))
}

/// Nanoseconds as microseconds.
pub(super) fn micros(nanos: u64) -> String {
    quantity(nanos as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_short_whatever_its_size() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (7.0, "7"),
            (12.6, "13"),
            (1_234_567.0, "1,234,567"),
            (u64::MAX as f64, "1.8e19"),
            (f64::NAN, "-"),
            (-1.0, "0"),
        ] {
            assert_eq!(quantity(value), text);
        }
        assert_eq!(rate(None), "-");
        assert_eq!((share(Some(0.125)), share(None)), ("12.5 %".to_owned(), "-".to_owned()));
        assert_eq!((micros(310), micros(5000)), ("0.3".to_owned(), "5".to_owned()));
    }
}

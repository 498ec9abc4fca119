//! Numbers for people.

/// Digits that are told of a result: more would be noise.
const RESULT_DIGITS: i32 = 6;
/// Digits that fit beside an axis.
const LABEL_DIGITS: i32 = 4;
/// From here on a number is written in thousands, millions, ...
const LONG: f64 = 1e4;

/// A result: six digits that count, whole numbers whole.
pub(crate) fn result(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-6) {
        return format!("{value:.5e}");
    }
    digits(value, RESULT_DIGITS)
}

/// A number where there is little room.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e15).contains(&size) {
        let text = format!("{value:.2e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", without_empty_end(mantissa));
    }
    let (factor, suffix) = thousands(size);
    format!("{}{suffix}", digits(value / factor, LABEL_DIGITS))
}

/// A number where there is hardly any room: two digits that count, in thousands early.
pub(crate) fn tiny(value: f64) -> String {
    let size = value.abs();
    if (1e3..LONG).contains(&size) {
        return format!("{}k", digits(value / 1e3, 2));
    }
    let (factor, suffix) = thousands(size);
    format!("{}{suffix}", digits(value / factor, 2))
}

/// `value` as one of numbers that are `step` apart and at most `largest`: all of them written
/// alike.
pub(crate) fn stepped(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e15).contains(&largest.abs()) {
        return short(value);
    }
    let (factor, suffix) = thousands(largest.abs());
    let step = step / factor;
    let decimals = decimals(-step.log10().floor());
    format!("{:.decimals$}{suffix}", value / factor)
}

fn thousands(size: f64) -> (f64, &'static str) {
    match size {
        _ if size < LONG => (1.0, ""),
        _ if size < 1e6 => (1e3, "k"),
        _ if size < 1e9 => (1e6, "M"),
        _ => (1e9, "G"),
    }
}

fn digits(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = decimals(f64::from(digits - 1) - value.abs().log10().floor());
    without_empty_end(&format!("{value:.decimals$}")).to_owned()
}

fn decimals(wanted: f64) -> usize {
    // Twelve are enough for every number that is not written with an exponent.
    (0..=12).find(|&decimals| wanted <= f64::from(decimals)).unwrap_or(12) as usize
}

fn without_empty_end(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_keeps_six_digits_and_whole_numbers_whole() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (812.345_678_9, "812.346"),
            (123_456_789.0, "123456789"),
            (-0.012_345_67, "-0.0123457"),
            (0.1 + 0.2, "0.3"),
            (1e18, "1.00000e18"),
            (2.5e-9, "2.50000e-9"),
        ];
        for (value, expected) in cases {
            assert_eq!(result(value), expected);
        }
    }

    #[test]
    fn a_short_number_is_in_thousands_when_it_is_long() {
        let cases = [
            (0.0, "0"),
            (9_999.0, "9999"),
            (10_000.0, "10k"),
            (1_500_000.0, "1.5M"),
            (2e10, "20G"),
            (0.05, "0.05"),
            (1e-6, "1e-6"),
            (1.5e17, "1.5e17"),
            (-20_000.0, "-20k"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn a_tiny_number_keeps_two_digits() {
        let cases = [
            (0.0, "0"),
            (7.25, "7.2"),
            (70.3, "70"),
            (598.0, "598"),
            (1_234.0, "1.2k"),
            (2e6, "2M"),
        ];
        for (value, expected) in cases {
            assert_eq!(tiny(value), expected);
        }
    }

    #[test]
    fn steps_are_written_alike() {
        let labels: Vec<_> = [0.0, 0.5, 1.0].map(|v| stepped(v, 0.5, 1.0)).into();
        assert_eq!(labels, ["0", "0.5", "1.0"]);
        let labels: Vec<_> = [0.0, 5e3, 1e4].map(|v| stepped(v, 5e3, 1e4)).into();
        assert_eq!(labels, ["0", "5k", "10k"]);
        assert_eq!(stepped(1_000.2, 0.1, 1_000.4), "1000.2");
    }
}

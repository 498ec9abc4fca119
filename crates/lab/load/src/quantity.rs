//! Numbers as people write them: rates like `20k`, lengths of time like `100us`.

use base::Nanos;

/// A rate a second: `500`, `20k`, `1.5M`.
///
/// # Errors
/// A sentence saying what was wrong.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no rate: write a number above zero like 500, 20k or 1.5M");
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // A packet a nanosecond is beyond every link, and the clock.
    if rate > 0.0 && rate <= 1e9 { Ok(rate) } else { Err(wrong()) }
}

/// A length of time: `100us`, `1.5ms`, `2s`, `800ns`; a bare number is microseconds.
///
/// # Errors
/// A sentence saying what was wrong.
pub fn parse_duration(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("{text:?} is no length of time: write it like 100us, 1.5ms or 2s");
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1e3));
    let nanos = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // 1e18 ns are 31 years.
    if (0.0..=1e18).contains(&nanos) { Ok(Nanos(nanos.round() as u64)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_take_suffixes_and_fractions() {
        for (text, rate) in [("500", 500.0), ("20k", 20e3), ("1.5M", 1.5e6), ("0.25m", 250e3)] {
            assert_eq!(parse_rate(text), Ok(rate));
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_by_a_sentence_that_shows_one() {
        for text in ["", "k", "0", "-5", "NaN", "inf", "5G", "2e9", "20 k", "1é"] {
            let sentence = parse_rate(text).expect_err(text);
            assert!(sentence.contains("20k"), "{sentence}");
        }
    }

    #[test]
    fn lengths_of_time_take_units() {
        for (text, nanos) in [("100us", 100_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000)] {
            assert_eq!(parse_duration(text), Ok(Nanos(nanos)));
        }
        assert_eq!(parse_duration("800ns"), Ok(Nanos(800)));
        assert_eq!(parse_duration("7"), Ok(Nanos(7_000)));
        for text in ["", "us", "-1us", "5 m", "NaN", "infs", "1h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}

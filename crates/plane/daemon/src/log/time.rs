//! Moments as RFC 3339 writes them.

use std::time::Duration;

/// A moment so long after 1970, as RFC 3339 section 5.6 writes it: UTC, milliseconds.
pub(super) fn rfc3339(since_1970: Duration) -> String {
    const DAY_S: u64 = 86_400;
    let (mut days, second) = (since_1970.as_secs() / DAY_S, since_1970.as_secs() % DAY_S);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // The calendar is the same again after 400 years, so that no clock makes this long.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!(
        "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        days + 1,
        second / 3600,
        second / 60 % 60,
        second % 60,
        since_1970.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        // As date(1) has them.
        for (seconds, day) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (16_725_225_600, "2500-01-01T00:00:00"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), format!("{day}.000Z"));
        }
    }
}

//! Nanoseconds on a monotonic clock that the caller reads; nothing here reads one.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time, or a length of it, in nanoseconds.
///
/// Points count from an origin that the host chooses (the daemon: CLOCK_MONOTONIC; the simulator:
/// zero). 64 bits last 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin, and the empty length.
    pub const ZERO: Self = Self(0);
    /// Later than every deadline that is ever reached.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// How long ago `earlier` was; zero when it is not earlier.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Microseconds, for people.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// Seconds, for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, length: Self) {
        *self = *self + length;
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// Saturates: a clock that steps back gives an empty length, never a panic on the data path.
    fn sub(self, earlier: Self) -> Self {
        self.since(earlier)
    }
}

impl From<Duration> for Nanos {
    fn from(length: Duration) -> Self {
        Self(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(length: Nanos) -> Self {
        Self::from_nanos(length.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            nanos @ 0..1_000 => write!(f, "{nanos} ns"),
            nanos @ 1_000..1_000_000 => write!(f, "{:.1} us", nanos as f64 / 1e3),
            nanos @ 1_000_000..1_000_000_000 => write!(f, "{:.1} ms", nanos as f64 / 1e6),
            nanos => write!(f, "{:.2} s", nanos as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_gives_an_empty_length() {
        assert_eq!(Nanos(5) - Nanos(9), Nanos::ZERO);
    }

    #[test]
    fn lengths_are_printed_in_the_unit_a_person_would_choose() {
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(1_500).to_string(), "1.5 us");
        assert_eq!(Nanos(2_000_000).to_string(), "2.0 ms");
        assert_eq!(Nanos(3_250_000_000).to_string(), "3.25 s");
    }
}

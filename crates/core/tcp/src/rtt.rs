//! Round-trip time and the retransmission timeout (RFC 6298), in whole microseconds.

use base::Nanos;

use crate::Config;

/// What is known of a path's round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    /// Smoothed, times eight; zero: nothing measured yet.
    srtt_us_x8: u32,
    /// Mean deviation, times four.
    rttvar_us_x4: u32,
    /// Shortest of this and the last half window, for RACK (RFC 8985 section 5.2).
    min_us: [u32; 2],
    /// When the present half window began, in milliseconds (wraps).
    min_since_ms: u32,
    /// Timeouts in a row: each doubles the next (RFC 6298 section 5.5).
    pub(crate) backoff: u8,
}

/// Half the time for which a shortest round trip counts: Linux's tcp_min_rtt_wlen of 300 s.
const MIN_HALF_WINDOW_MS: u32 = 150_000;
/// A sample above this is no round trip, and the sums below stay far from overflowing.
const SAMPLE_US_MAX: u64 = 1 << 26;

impl Rtt {
    /// Takes a sample in (RFC 6298 section 2), and returns it in microseconds.
    #[inline]
    pub(crate) fn sample(&mut self, round_trip: Nanos, now: Nanos) -> u32 {
        let us = (round_trip.0 / 1000).clamp(1, SAMPLE_US_MAX) as u32;
        if self.srtt_us_x8 == 0 {
            self.srtt_us_x8 = us * 8;
            self.rttvar_us_x4 = us * 2;
        } else {
            let srtt = self.srtt_us_x8 / 8;
            self.rttvar_us_x4 = self.rttvar_us_x4 - self.rttvar_us_x4 / 4 + srtt.abs_diff(us);
            self.srtt_us_x8 = self.srtt_us_x8 - srtt + us;
        }
        let now_ms = (now.0 / 1_000_000) as u32;
        if now_ms.wrapping_sub(self.min_since_ms) > MIN_HALF_WINDOW_MS || self.min_us[0] == 0 {
            self.min_us = [us, if self.min_us[0] == 0 { us } else { self.min_us[0] }];
            self.min_since_ms = now_ms;
        } else {
            self.min_us[0] = self.min_us[0].min(us);
        }
        us
    }

    /// The smoothed round trip; nothing before the first sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        (self.srtt_us_x8 != 0).then(|| Nanos::from_micros(u64::from(self.srtt_us_x8 / 8)))
    }

    /// The mean deviation; zero before the first sample.
    pub(crate) fn variation(&self) -> Nanos {
        Nanos::from_micros(u64::from(self.rttvar_us_x4 / 4))
    }

    /// The shortest round trip of the last minutes.
    pub(crate) fn shortest(&self) -> Option<Nanos> {
        let us = self.min_us[0].min(self.min_us[1]);
        (us != 0).then(|| Nanos::from_micros(u64::from(us)))
    }

    /// The timeout before any doubling. The deviation counts at least `rto_min`, as in Linux: a
    /// steady path must not time out because its receiver delays an acknowledgement.
    #[inline]
    pub(crate) fn rto(&self, config: &Config) -> Nanos {
        let Some(srtt) = self.smoothed() else { return config.rto_initial };
        let deviation = Nanos::from_micros(u64::from(self.rttvar_us_x4)).max(config.rto_min);
        (srtt + deviation).min(config.rto_max)
    }

    /// The timeout after [`Self::backoff`] doublings.
    #[inline]
    pub(crate) fn rto_backed_off(&self, config: &Config) -> Nanos {
        let rto = self.rto(config);
        Nanos(rto.0.saturating_mul(1 << self.backoff.min(31))).min(config.rto_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    #[test]
    fn the_first_sample_sets_the_round_trip_and_half_of_it_as_deviation() {
        let config = Config { rto_min: Nanos::ZERO, ..Config::default() };
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(&config), config.rto_initial);
        rtt.sample(millis(100), Nanos::ZERO);
        assert_eq!(rtt.smoothed(), Some(millis(100)));
        // RFC 6298 (2.2): SRTT + 4 * RTT/2.
        assert_eq!(rtt.rto(&config), millis(300));
    }

    #[test]
    fn later_samples_weigh_an_eighth_and_a_quarter() {
        let config = Config { rto_min: Nanos::ZERO, ..Config::default() };
        let mut rtt = Rtt::default();
        rtt.sample(millis(100), Nanos::ZERO);
        rtt.sample(millis(180), Nanos::ZERO);
        // RFC 6298 (2.3): SRTT = 7/8*100 + 1/8*180; RTTVAR = 3/4*50 + 1/4*80.
        assert_eq!(rtt.smoothed(), Some(millis(110)));
        assert_eq!(rtt.rto(&config), millis(110 + 4 * 57) + Nanos::from_micros(2000));
    }

    #[test]
    fn timeouts_double_up_to_the_largest() {
        let config = Config::default();
        let mut rtt = Rtt::default();
        rtt.sample(millis(100), Nanos::ZERO);
        let rto = rtt.rto(&config);
        rtt.backoff = 3;
        assert_eq!(rtt.rto_backed_off(&config), Nanos(rto.0 * 8));
        rtt.backoff = 200;
        assert_eq!(rtt.rto_backed_off(&config), config.rto_max);
    }

    #[test]
    fn the_shortest_round_trip_is_forgotten_after_two_half_windows() {
        let mut rtt = Rtt::default();
        rtt.sample(millis(10), millis(1));
        rtt.sample(millis(50), millis(2));
        assert_eq!(rtt.shortest(), Some(millis(10)));
        rtt.sample(millis(50), millis(160_000));
        assert_eq!(rtt.shortest(), Some(millis(10)));
        rtt.sample(millis(50), millis(320_000));
        assert_eq!(rtt.shortest(), Some(millis(50)));
    }

    #[test]
    fn no_sample_overflows() {
        let mut rtt = Rtt::default();
        for round_trip in [0, u64::MAX, 1, u64::MAX, u64::MAX] {
            for _ in 0..100 {
                rtt.sample(Nanos(round_trip), Nanos(round_trip));
            }
        }
        assert!(rtt.rto(&Config::default()) <= Config::default().rto_max);
    }
}

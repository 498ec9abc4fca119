//! CUBIC: the window as a cubic of the time since it last fell (RFC 9438), in integers.

use base::Nanos;

use super::{Cause, Control, Report, Window};

/// State since the window last fell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cubic {
    /// When growth began after the last fall; zero before the next acknowledgement.
    epoch: Nanos,
    /// Window at which the last fall came, less if it came earlier than the one before.
    w_max: u32,
    /// Window before the last fall.
    prior: u32,
    /// Window at the curve's turning point.
    origin: u32,
    /// Time from the epoch to the turning point.
    k_ms: u32,
    /// What Reno would have by now.
    reno: u32,
    /// Acknowledged segments that have not made `reno` grow yet, times [`RENO_DENOMINATOR`].
    reno_credit: u32,
}

/// The window falls to 7/10.
const BETA: (u32, u32) = (7, 10);
/// Reno's growth that is as strong as CUBIC's with this beta: 3 (1 - 0.7) / (1 + 0.7) = 9/17.
const RENO_NUMERATOR: u32 = 9;
const RENO_DENOMINATOR: u32 = 17;
/// C is 0.4 segments per second cubed, so a segment is (ms)^3 * 2 / 5e9.
const CUBE_MS_PER_TWO: u64 = 5_000_000_000;
/// Beyond it the cube of the distance to the turning point would not fit.
const DISTANCE_MS_MAX: u64 = 1_500_000;

impl Cubic {
    /// Segments that the curve is away from its turning point after so long a time.
    fn height(distance_ms: u64) -> u32 {
        let distance = distance_ms.min(DISTANCE_MS_MAX);
        u32::try_from(distance * distance * distance / (CUBE_MS_PER_TWO / 2)).unwrap_or(u32::MAX)
    }

    fn begin(&mut self, window: &Window, now: Nanos) {
        // Zero stands for none.
        self.epoch = now.max(Nanos(1));
        self.reno = window.segments;
        self.reno_credit = 0;
        if window.segments < self.w_max {
            let below = u64::from(self.w_max - window.segments);
            // The root of a number of 64 bits has 22.
            self.k_ms = cube_root(below * (CUBE_MS_PER_TWO / 2)) as u32;
            self.origin = self.w_max;
        } else {
            self.k_ms = 0;
            self.origin = window.segments;
        }
    }

    /// RFC 9438 section 4.2: where the curve will be one round trip from now.
    fn target(&mut self, window: &Window, report: &Report) -> u32 {
        if self.epoch == Nanos::ZERO {
            self.begin(window, report.now);
        }
        let since = report.now.since(self.epoch) + report.round_trip;
        let (ms, k_ms) = (since.0 / 1_000_000, u64::from(self.k_ms));
        let target = if ms < k_ms {
            self.origin.saturating_sub(Self::height(k_ms - ms))
        } else {
            self.origin.saturating_add(Self::height(ms - k_ms))
        };
        target.min(window.segments.saturating_add(window.segments / 2))
    }

    /// RFC 9438 section 4.3: what Reno would have.
    fn reno(&mut self, window: &Window, acked: u32) -> u32 {
        // Once Reno is back where the window fell, it grows like Reno itself.
        let slope = if self.reno < self.prior { RENO_NUMERATOR } else { RENO_DENOMINATOR };
        self.reno_credit = self.reno_credit.saturating_add(acked.saturating_mul(slope));
        // A window has at most 2^22 segments.
        let price = RENO_DENOMINATOR * window.segments.max(1);
        let steps = self.reno_credit / price;
        self.reno_credit -= steps * price;
        self.reno = self.reno.saturating_add(steps);
        self.reno
    }
}

impl Control for Cubic {
    fn reduce(&mut self, window: &Window, _cause: Cause) -> u32 {
        let segments = window.segments;
        // RFC 9438 section 4.7: a fall below the last one's height leaves room for newcomers.
        let (numerator, denominator) = BETA;
        self.w_max = if segments < self.w_max {
            u64::from(segments)
                .saturating_mul(u64::from(denominator + numerator))
                .wrapping_div(u64::from(2 * denominator)) as u32
        } else {
            segments
        };
        self.prior = segments;
        self.epoch = Nanos::ZERO;
        (u64::from(segments) * u64::from(numerator) / u64::from(denominator)) as u32
    }

    #[inline]
    fn acknowledged(&mut self, window: &mut Window, report: &Report) {
        let mut acked = report.acked;
        if window.is_in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        let target = self.target(window, report);
        let segments = window.segments;
        // Flat parts of the curve still grow by a hundredth, so that it never sticks.
        let mut per_segment = if target > segments {
            segments / (target - segments)
        } else {
            segments.saturating_mul(100)
        };
        let reno = self.reno(window, acked);
        if reno > segments {
            per_segment = per_segment.min(segments / (reno - segments));
        }
        window.grow(acked, per_segment.max(2));
    }

    fn idled(&mut self, length: Nanos) {
        if self.epoch > Nanos::ZERO {
            self.epoch += length;
        }
    }
}

/// Cube root of 2^64: the cube of a larger number would not fit.
const CUBE_ROOT_MAX: u64 = 2_642_245;

/// The largest number whose cube is not above `value`.
fn cube_root(value: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let next = root | (1 << bit);
        if next <= CUBE_ROOT_MAX && next.pow(3) <= value {
            root = next;
        }
    }
    root
}

#[cfg(test)]
pub(super) fn cube_root_for_tests(value: u64) -> u64 {
    cube_root(value)
}

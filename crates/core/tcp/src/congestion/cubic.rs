//! CUBIC: the window as a cubic of the time since it last fell (RFC 9438), in integers.

use base::Nanos;

use super::hystart::HyStart;
use super::{Cause, Control, Report, Sample, Window};

/// State since the window last fell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cubic {
    /// Window at which the last fall came, less if it came earlier than the one before; zero: none
    /// has come, or a timeout has made it forgotten, as in Linux.
    w_max: u32,
    /// Window before the last fall.
    prior: u32,
    stage: Stage,
}

/// Slow start and the curve follow each other, so that they share memory.
#[derive(Clone, Copy, Debug)]
enum Stage {
    SlowStart(HyStart),
    Avoidance(Curve),
}

impl Default for Stage {
    fn default() -> Self {
        Self::SlowStart(HyStart::default())
    }
}

/// The curve, and Reno's line that it must not be below.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// When growth began after the last fall, in milliseconds; zero before the next
    /// acknowledgement.
    epoch_ms: u32,
    /// Window at the curve's turning point.
    origin_point: u32,
    /// Time from the epoch to the turning point.
    k_ms: u32,
    /// What Reno would have by now.
    reno: u32,
    /// Acknowledged segments that have not made `reno` grow yet, times [`RENO_DENOMINATOR`].
    reno_credit: u32,
    /// Acknowledged segments that a step costs, when that was found out, and for which window.
    cnt: u32,
    cnt_ms: u32,
    cnt_at: u32,
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

/// A cnt is good for this long, or a round trip, as long as the window is the same (Linux's HZ/32).
const CNT_GOOD_FOR_MS: u32 = 31;
/// Before anything was lost a step costs no more than that: nothing says where the path ends.
const FIRST_CNT_MAX: u32 = 20;

/// Milliseconds since the start; never zero, which stands for no time at all.
fn clock_ms(now: Nanos) -> u32 {
    ((now.0 / 1_000_000) as u32).max(1)
}

impl Curve {
    /// Segments that the curve is away from its turning point after so long a time.
    fn delta(distance_ms: u64) -> u32 {
        let distance = distance_ms.min(DISTANCE_MS_MAX);
        u32::try_from(distance * distance * distance / (CUBE_MS_PER_TWO / 2)).unwrap_or(u32::MAX)
    }

    fn begin(&mut self, w_max: u32, segments: u32, now_ms: u32) {
        *self =
            Self { epoch_ms: now_ms, reno: segments, origin_point: segments, ..Self::default() };
        if segments < w_max {
            let below = u64::from(w_max - segments);
            // The root of a number of 64 bits has 22.
            self.k_ms = cube_root(below * (CUBE_MS_PER_TWO / 2)) as u32;
            self.origin_point = w_max;
        }
    }

    /// RFC 9438 section 4.2: where the curve will be one round trip from now.
    fn target(&self, segments: u32, now_ms: u32, round_trip: Nanos) -> u32 {
        let since = u64::from(now_ms.wrapping_sub(self.epoch_ms));
        let (ms, k_ms) = (since + round_trip.0 / 1_000_000, u64::from(self.k_ms));
        let target = if ms < k_ms {
            self.origin_point.saturating_sub(Self::delta(k_ms - ms))
        } else {
            self.origin_point.saturating_add(Self::delta(ms - k_ms))
        };
        target.min(segments.saturating_add(segments / 2))
    }

    /// RFC 9438 section 4.3: lets what Reno would have grow.
    fn grow_reno(&mut self, prior: u32, segments: u32, acked: u32) {
        // Once Reno is back where the window fell, it grows like Reno itself.
        let was_there = prior > 0 && self.reno >= prior;
        let slope = if was_there { RENO_DENOMINATOR } else { RENO_NUMERATOR };
        self.reno_credit = self.reno_credit.saturating_add(acked.saturating_mul(slope));
        // A window has at most 2^22 segments.
        let cnt = RENO_DENOMINATOR * segments.max(1);
        let steps = self.reno_credit / cnt;
        self.reno_credit -= steps * cnt;
        self.reno = self.reno.saturating_add(steps);
    }
}

impl Cubic {
    /// Acknowledged segments that the next step of the window costs.
    fn cnt(&mut self, segments: u32, acked: u32, report: &Report) -> u32 {
        let (w_max, prior) = (self.w_max, self.prior);
        let now_ms = clock_ms(report.now);
        let curve = self.curve();
        if curve.epoch_ms == 0 {
            curve.begin(w_max, segments, now_ms);
        }
        curve.grow_reno(prior, segments, acked);
        let good_for = u64::from(CNT_GOOD_FOR_MS).min(report.round_trip.0 / 1_000_000);
        let is_good =
            curve.cnt_at == segments && u64::from(now_ms.wrapping_sub(curve.cnt_ms)) <= good_for;
        if is_good && good_for > 0 {
            return curve.cnt;
        }
        let target = curve.target(segments, now_ms, report.round_trip);
        // Flat parts of the curve still grow by a hundredth, so that it never sticks.
        let mut cnt = if target > segments {
            segments / (target - segments)
        } else {
            segments.saturating_mul(100)
        };
        if w_max == 0 {
            cnt = cnt.min(FIRST_CNT_MAX);
        }
        if curve.reno > segments {
            cnt = cnt.min(segments / (curve.reno - segments));
        }
        (curve.cnt, curve.cnt_ms, curve.cnt_at) = (cnt.max(2), now_ms, segments);
        curve.cnt
    }

    fn curve(&mut self) -> &mut Curve {
        loop {
            match self.stage {
                Stage::Avoidance(ref mut curve) => return curve,
                Stage::SlowStart(_) => self.stage = Stage::Avoidance(Curve::default()),
            }
        }
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
        self.stage = Stage::Avoidance(Curve::default());
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
        let cnt = self.cnt(window.segments, acked, report);
        window.grow(acked, cnt);
    }

    #[inline]
    fn measured(&mut self, window: &mut Window, sample: &Sample) {
        if let Stage::SlowStart(hystart) = &mut self.stage {
            hystart.measured(window, sample);
        }
    }

    fn timed_out(&mut self) {
        *self = Self::default();
    }

    fn idled(&mut self, length: Nanos) {
        if let Stage::Avoidance(curve) = &mut self.stage
            && curve.epoch_ms > 0
        {
            curve.epoch_ms = curve.epoch_ms.wrapping_add((length.0 / 1_000_000) as u32);
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

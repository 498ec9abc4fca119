//! CLOCK_MONOTONIC and the time-stamp counter.
//!
//! The data path reads no clock itself: a loop reads one once per turn and passes `now` down.

use base::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC now.
#[inline]
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// The time for which the calling thread has had a processor (CLOCK_THREAD_CPUTIME_ID): others and
/// sleep cost it nothing.
pub fn of_thread() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// The same of another thread of this process, by its number. None: there is none.
pub fn of_other_thread(thread: i32) -> Option<Nanos> {
    /// CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of include/linux/posix-timers.h; the number
    /// stands inverted above them.
    const OF_THREAD: libc::clockid_t = 4 | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that may be written; which clock is meant is only a number.
    let refused = unsafe { libc::clock_gettime(!thread << 3 | OF_THREAD, &raw mut time) };
    (refused == 0).then_some(Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

#[inline]
fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // Neither part of these times is negative.
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The time-stamp counter: cheaper than [`now`] (12 ns against 28 ns on the machine this was
/// written on), in ticks of an unknown length. Not ordered with the instructions around it.
#[inline]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has RDTSC, and Linux does not forbid it to programs
        // unless PR_SET_TSC was asked for, which nothing here does.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: CNTVCT_EL0 is readable from user space under Linux, and reading it has no
        // effect on memory or flags.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        now().0
    }
}

/// How long a tick of [`tsc`] is.
#[derive(Clone, Copy, Debug)]
pub struct TscRate {
    ticks_per_second: f64,
}

impl TscRate {
    /// Compares the counter with CLOCK_MONOTONIC over `length` (10 ms give about 10 ppm).
    /// Busy for that long.
    pub fn calibrate(length: Nanos) -> Self {
        let length = length.max(Nanos::from_micros(100));
        let (time_start, tick_start) = best_pair();
        while now().since(time_start) < length {
            std::hint::spin_loop();
        }
        let (time_end, tick_end) = best_pair();
        Self::from_interval(tick_end.wrapping_sub(tick_start), time_end.since(time_start))
    }

    /// The rate at which `ticks` pass in `length`.
    pub fn from_interval(ticks: u64, length: Nanos) -> Self {
        Self { ticks_per_second: ticks.max(1) as f64 / length.0.max(1) as f64 * 1e9 }
    }

    /// Ticks in a second.
    pub fn ticks_per_second(&self) -> f64 {
        self.ticks_per_second
    }

    /// How long `ticks` take.
    pub fn length(&self, ticks: u64) -> Nanos {
        Nanos((ticks as f64 / self.ticks_per_second * 1e9) as u64)
    }
}

/// A time and a tick read closely together: of several tries the one that the fewest ticks
/// passed around, because an interrupt between the two reads would spoil the rate.
fn best_pair() -> (Nanos, u64) {
    let mut best = (now(), tsc());
    let mut best_gap = u64::MAX;
    for _ in 0..16 {
        let before = tsc();
        let time = now();
        let gap = tsc().wrapping_sub(before);
        if gap < best_gap {
            best_gap = gap;
            best = (time, before.wrapping_add(gap / 2));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_step_back() {
        let first = now();
        assert!(now() >= first);
        assert!(first > Nanos::ZERO);
    }

    #[test]
    fn a_thread_that_sleeps_has_no_processor_meanwhile() {
        let (begun, had) = (now(), of_thread());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(of_thread().since(had) < now().since(begun));
        let worked = of_thread();
        while of_thread() == worked {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_another_thread_has_run_is_known_while_it_runs_and_nothing_of_one_that_is_gone() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let own = rustix::thread::gettid().as_raw_pid();
            while of_thread() < Nanos::from_millis(20) {
                std::hint::spin_loop();
            }
            tell.send(own).expect("the test waits");
            let _ = ended.recv();
        });
        let number = told.recv().expect("it tells");
        let ran = of_other_thread(number);
        assert!(ran.is_some_and(|ran| ran >= Nanos::from_millis(20)), "{ran:?}");
        drop(end);
        other.join().expect("it does not panic");
        // More than there can be (PID_MAX_LIMIT).
        assert_eq!(of_other_thread(1 << 27), None);
    }

    #[test]
    fn a_rate_turns_ticks_into_time() {
        let rate = TscRate::from_interval(2_500, Nanos(1_000));
        assert_eq!(rate.ticks_per_second(), 2.5e9);
        assert_eq!(rate.length(5_000_000), Nanos::from_millis(2));
    }

    #[test]
    fn calibration_finds_a_rate_that_a_real_counter_can_have() {
        let rate = TscRate::calibrate(Nanos::from_millis(5)).ticks_per_second();
        assert!((1e6..1e11).contains(&rate), "{rate}");
    }

    #[test]
    fn an_empty_interval_gives_a_finite_rate() {
        assert!(TscRate::from_interval(0, Nanos::ZERO).ticks_per_second().is_finite());
    }
}

//! Measured: how long it takes until a thread that sleeps runs.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use base::Nanos;
use sys::clock;
use sys::eventfd::EventFd;
use sys::futex::{self, Scope};

use crate::Finding;

/// The median time from before a wake-up until the thread that slept has the time itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WakeFacts {
    /// Both threads on one CPU.
    pub same_cpu: Option<WakeTimes>,
    /// Each on a CPU of its own; `None` also where there is only one.
    pub other_cpu: Option<WakeTimes>,
}

/// The ways to wake a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WakeTimes {
    /// futex(2).
    pub futex: Nanos,
    /// eventfd(2) and ppoll(2), which is what a doorbell of ours is.
    pub eventfd: Nanos,
}

const ROUNDS: usize = 200;
/// How long the other thread has slept by then: long enough for its CPU to go to sleep, too.
const ASLEEP: Nanos = Nanos::from_micros(100);
/// For all rounds of one way.
const LENGTH_MAX: Nanos = Nanos::from_millis(60);
/// For one wait.
const WAIT_MAX: Nanos = Nanos::from_millis(20);

/// A wake-up that takes longer is told as a cost: it is as long as a loop polls before it sleeps.
const SLOW: Nanos = Nanos::from_micros(50);

/// Measures on the first and the last of `cpus`.
pub(crate) fn gather(cpus: &[u16]) -> Option<WakeFacts> {
    let (&first, &last) = (cpus.first()?, cpus.last()?);
    Some(WakeFacts {
        same_cpu: wake_times(last, last),
        other_cpu: (first != last).then(|| wake_times(first, last)).flatten(),
    })
}

fn wake_times(here: u16, there: u16) -> Option<WakeTimes> {
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let by_word = |side: usize, number: u32, wait: bool| {
        let word = &words[side];
        if !wait {
            word.store(number, Ordering::Release);
            futex::wake(word, Scope::Private, 1);
            return true;
        }
        let end = clock::now() + WAIT_MAX;
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen >= number {
                return true;
            }
            if clock::now() >= end {
                return false;
            }
            futex::wait(word, seen, Scope::Private, WAIT_MAX);
        }
    };
    let doorbells = [EventFd::new().ok()?, EventFd::new().ok()?];
    let by_doorbell = |side: usize, _: u32, wait: bool| {
        if !wait {
            doorbells[side].ring();
            return true;
        }
        sys::poll::wait_readable(doorbells[side].as_fd(), WAIT_MAX) && doorbells[side].drain() > 0
    };
    Some(WakeTimes {
        futex: wake_time(here, there, &by_word)?,
        eventfd: wake_time(here, there, &by_doorbell)?,
    })
}

/// How long a thread on CPU `here` takes to wake one on CPU `there`. `pass(side, round, wait)`
/// waits for the word of `side` in `round`, or gives it.
fn wake_time(
    here: u16,
    there: u16,
    pass: &(impl Fn(usize, u32, bool) -> bool + Sync),
) -> Option<Nanos> {
    let start = clock::now();
    let woken_at = AtomicU64::new(0);
    let sleep = || {
        // A thread that cannot get there answers nothing, and the other gives up.
        if sys::thread::pin(usize::from(there)).is_err() {
            return;
        }
        for round in 1..=ROUNDS as u32 {
            if !pass(0, round, true) {
                return;
            }
            woken_at.store(clock::now().0, Ordering::Release);
            pass(1, round, false);
        }
    };
    let wake = || {
        sys::thread::pin(usize::from(here)).ok()?;
        let mut lengths = Vec::with_capacity(ROUNDS);
        for round in 1..=ROUNDS as u32 {
            let ready = clock::now();
            while clock::now().since(ready) < ASLEEP {
                // Where both share a CPU the other one needs it to fall asleep.
                sys::thread::sched_yield();
            }
            let sent = clock::now();
            if sent.since(start) > LENGTH_MAX || !(pass(0, round, false) && pass(1, round, true)) {
                break;
            }
            lengths.push(Nanos(woken_at.load(Ordering::Acquire)).since(sent).0);
        }
        lengths.sort_unstable();
        Some(Nanos(*lengths.get(lengths.len() / 2)?))
    };
    thread::scope(|scope| {
        let sleeping = thread::Builder::new().spawn_scoped(scope, sleep).ok()?;
        let waking = thread::Builder::new().spawn_scoped(scope, wake).ok()?.join();
        let slept = sleeping.join();
        slept.ok().and(waking.ok()?)
    })
}

/// What that means; `None`: it could not be measured.
pub(crate) fn judge(facts: Option<&WakeFacts>) -> Vec<Finding> {
    let subject = "wake";
    let micros = |time: Nanos| format!("{:.1}", time.0 as f64 / 1000.0);
    let mut parts = Vec::new();
    let mut slowest = Nanos::ZERO;
    for (wake_times, place) in [
        (facts.and_then(|facts| facts.same_cpu), "on the same CPU"),
        (facts.and_then(|facts| facts.other_cpu), "on another"),
    ] {
        if let Some(WakeTimes { futex, eventfd }) = wake_times {
            slowest = slowest.max(futex).max(eventfd);
            parts.push(format!(
                "{place} {} us by futex, {} us by eventfd",
                micros(futex),
                micros(eventfd)
            ));
        }
    }
    let what = format!("takes {}", parts.join(", "));
    vec![if parts.is_empty() {
        Finding::note(subject, "could not be measured: no thread may be put on a CPU")
    } else if slowest > SLOW {
        Finding::worse(subject, what)
            .cost("a packet that meets a sleeping thread waits as long")
            .mend("poll longer: calisto up --set wait.spin_us=1000 (-1: for ever)")
    } else {
        Finding::fine(subject, what)
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn wake_times_of(micros: u64) -> WakeTimes {
        WakeTimes { futex: Nanos::from_micros(micros), eventfd: Nanos::from_micros(micros + 1) }
    }

    #[test]
    fn a_slow_wake_up_of_another_cpu_is_worse() {
        let facts =
            WakeFacts { same_cpu: Some(wake_times_of(3)), other_cpu: Some(wake_times_of(80)) };
        let finding = &judge(Some(&facts))[0];
        assert_eq!(finding.level, Level::Worse);
        assert!(finding.what.contains("on another 80.0 us by futex, 81.0 us"), "{finding}");
        let eventfd = Nanos::from_micros(51);
        let doorbells =
            WakeFacts { other_cpu: Some(WakeTimes { eventfd, ..wake_times_of(3) }), ..facts };
        assert_eq!(judge(Some(&doorbells))[0].level, Level::Worse);
        let near = WakeFacts { other_cpu: Some(wake_times_of(20)), ..facts };
        assert_eq!(judge(Some(&near))[0].level, Level::Fine);
    }

    #[test]
    fn one_cpu_gives_one_number_and_none_gives_a_note() {
        let facts = WakeFacts { same_cpu: Some(wake_times_of(3)), other_cpu: None };
        assert!(!judge(Some(&facts))[0].what.contains("another"));
        assert_eq!(judge(None)[0].level, Level::Note);
    }

    #[test]
    fn threads_on_one_cpu_wake_each_other_and_elsewhere_nobody_answers() {
        let cpu = *crate::cpus::allowed().last().expect("some CPU runs this");
        let facts = gather(&[cpu]).expect("one CPU is enough");
        let same = facts.same_cpu.expect("the CPU is allowed");
        assert!(same.futex > Nanos::ZERO && same.eventfd > Nanos::ZERO, "{same:?}");
        assert_eq!(facts.other_cpu, None);
        assert_eq!(wake_times(cpu, 8000), None);
        assert_eq!(gather(&[]), None);
    }
}

//! Measured: what a thread that polls costs its neighbour on the same CPU.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::Nanos;
use sys::clock;

use crate::Finding;

/// How fast a neighbour runs beside a poller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpinFacts {
    /// The CPU that both shared.
    pub cpu: u16,
    /// The neighbour's speed beside a poller that spins, over its speed alone.
    pub beside_spinner: f64,
    /// The same beside a poller that offers its CPU in every turn (sched_yield).
    pub beside_yielder: f64,
    /// What a sched_yield costs when nobody else wants the CPU.
    pub yield_nanos: f64,
}

/// What the poller does when it has found nothing.
#[derive(Clone, Copy)]
enum Poller {
    Spins,
    Yields,
}

/// Long enough for some time slices of the scheduler (3 ms and more).
const ROUND: Nanos = Nanos::from_millis(60);
const YIELDS: u32 = 1000;

/// Measures on `cpu`; `None` when no thread may run there, or none can be started.
pub(crate) fn gather(cpu: u16) -> Option<SpinFacts> {
    let alone = neighbour_speed(cpu, None)?;
    let beside = |poller| Some(neighbour_speed(cpu, Some(poller))? / alone);
    Some(SpinFacts {
        cpu,
        beside_spinner: beside(Poller::Spins)?,
        beside_yielder: beside(Poller::Yields)?,
        yield_nanos: yield_nanos(cpu)?,
    })
}

/// Rounds of work in a nanosecond that a thread on `cpu` does beside `poller`.
fn neighbour_speed(cpu: u16, poller: Option<Poller>) -> Option<f64> {
    let end = &AtomicBool::new(false);
    thread::scope(|scope| {
        let polling = match poller {
            None => None,
            Some(kind) => Some(
                thread::Builder::new().spawn_scoped(scope, move || poll(cpu, kind, end)).ok()?,
            ),
        };
        let neighbour = thread::Builder::new()
            .spawn_scoped(scope, || work(cpu))
            .map(thread::ScopedJoinHandle::join);
        end.store(true, Ordering::Relaxed);
        let polled = polling.is_none_or(|thread| thread.join().unwrap_or(false));
        neighbour.ok()?.ok()?.filter(|_| polled)
    })
}

/// Polls until `end`; whether it was on `cpu`.
fn poll(cpu: u16, kind: Poller, end: &AtomicBool) -> bool {
    if sys::thread::pin(usize::from(cpu)).is_err() {
        return false;
    }
    // Whatever happens to the neighbour, this ends.
    let deadline = clock::now() + Nanos(10 * ROUND.0);
    while !end.load(Ordering::Relaxed) && clock::now() < deadline {
        match kind {
            Poller::Spins => std::hint::spin_loop(),
            Poller::Yields => sys::thread::sched_yield(),
        }
    }
    true
}

/// Works for a round, on `cpu`.
fn work(cpu: u16) -> Option<f64> {
    sys::thread::pin(usize::from(cpu)).ok()?;
    let start = clock::now();
    let mut done = 0u64;
    let mut value = 1u64;
    loop {
        for _ in 0..256 {
            value = black_box(value).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        done += 1;
        let length = clock::now().since(start);
        if length >= ROUND {
            return Some(done as f64 / length.0 as f64);
        }
    }
}

fn yield_nanos(cpu: u16) -> Option<f64> {
    let measure = move || {
        sys::thread::pin(usize::from(cpu)).ok()?;
        let start = clock::now();
        let mut count = 0;
        while count < YIELDS && clock::now().since(start) < ROUND {
            sys::thread::sched_yield();
            count += 1;
        }
        Some(clock::now().since(start).0 as f64 / f64::from(count))
    };
    thread::Builder::new().spawn(measure).ok()?.join().ok()?
}

/// What that means; `None`: it could not be measured.
pub(crate) fn judge(facts: Option<&SpinFacts>) -> Vec<Finding> {
    let subject = "spinning";
    let Some(facts) = facts else {
        return vec![Finding::note(
            subject,
            "could not be measured: no thread may be put on a CPU",
        )];
    };
    let percent = |share: f64| (share * 100.0).clamp(0.0, 100.0);
    let SpinFacts { cpu, beside_spinner, beside_yielder, yield_nanos } = *facts;
    let what = format!(
        "leaves a thread on the same CPU ({cpu}) {:.0} % of its speed, spinning with sched_yield \
         {:.0} %; a yield takes {:.2} us",
        percent(beside_spinner),
        percent(beside_yielder),
        yield_nanos / 1000.0,
    );
    // Two threads that share fairly get half each; more than that is kept only by chance.
    vec![if beside_spinner.min(beside_yielder) >= 0.9 {
        Finding::fine(subject, what)
    } else {
        Finding::note(subject, what)
            .cost("whatever shares a CPU with a thread that polls gets the rest only")
            .mend("name CPUs in workers.cpus that nothing else uses, and keep wait.spin_us short")
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    #[test]
    fn a_neighbour_that_loses_half_is_noted_with_the_numbers() {
        let facts =
            SpinFacts { cpu: 3, beside_spinner: 0.497, beside_yielder: 0.61, yield_nanos: 420.0 };
        let finding = &judge(Some(&facts))[0];
        assert_eq!(finding.level, Level::Note);
        assert!(finding.what.contains("(3) 50 % of its speed"), "{finding}");
        assert!(finding.what.contains("61 %; a yield takes 0.42 us"), "{finding}");
        let free = SpinFacts { beside_spinner: 1.02, beside_yielder: 0.99, ..facts };
        assert_eq!(judge(Some(&free))[0].level, Level::Fine);
        assert_eq!(judge(None)[0].level, Level::Note);
    }

    #[test]
    fn a_measurement_on_an_allowed_cpu_gives_numbers_and_one_elsewhere_none() {
        let cpu = *crate::cpus::allowed().last().expect("some CPU runs this");
        let facts = gather(cpu).expect("the CPU is allowed");
        assert!(facts.beside_spinner > 0.0 && facts.beside_yielder > 0.0, "{facts:?}");
        assert!(facts.yield_nanos > 0.0, "{facts:?}");
        assert_eq!(gather(8000), None);
    }
}

//! Items a second when the consumer never waits: every queue busy, or one among many.

use std::sync::atomic::{AtomicBool, Ordering};

use base::Nanos;
use sys::clock::now;

use super::latency::{joined, undisturbed};
use super::queues::{Asking, Feed, Polling, TURN, Taker};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::flows::{SEED, SplitMix};
use crate::place::Cpus;
use crate::report::Report;

/// Items that a queue holds.
const SLOTS: usize = 64;

/// Up to here plain polling is hard to beat.
const FEW: usize = 1024;

/// A round is measured in windows. In one that took twice as long, or in which nothing came, a CPU
/// was taken away.
const WINDOW: Nanos = Nanos::from_micros(200);

/// The first part of a round is not counted.
const WARM_UP: Nanos = Nanos::from_millis(3);

/// Which queues the items go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// All in turn.
    Balanced,
    /// One, and now and then another by lot.
    OneHot,
}

impl Pattern {
    const fn name(self) -> &'static str {
        match self {
            Self::Balanced => "all busy",
            Self::OneHot => "one hot",
        }
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let length = plan.pick(Nanos::from_millis(40), Nanos::from_millis(8));
    let sizes: &[usize] = plan.pick(&[1, 8, 64, 256, 1024, 4096], &[1, 64, 4096]);
    report.begin(
        "throughput",
        &format!(
            "a producer on CPU {client} fills N rings with bursts of {TURN} items, one publication each, as \
             fast as they have room, a consumer on CPU {server} takes up to {TURN} of a ring at a look; {length} a \
             round. All busy: the rings in turn. One hot: 1023 of 1024 bursts into one ring, the \
             others by lot. Linger: a ring that ran empty is looked at 16 more times before it is armed. \
             Windows of {WINDOW} that took twice as long, or in which nothing came, are left out: a CPU was taken \
             away."
        ),
    )?;
    plan.cpus.need_two()?;
    for pattern in [Pattern::Balanced, Pattern::OneHot] {
        let mut asking: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
        let mut polling = asking.clone();
        let _: [_; 2] = turns_of(plan, report, pattern.name(), |which, round| {
            for (at, &queues) in sizes.iter().enumerate() {
                unless_interrupted()?;
                let run = (pattern, queues, length, SEED ^ u64::from(round));
                if which == 0 {
                    asking[at].push(undisturbed(|| items_per_second::<Asking>(plan.cpus, run))?);
                } else {
                    polling[at].push(undisturbed(|| items_per_second::<Polling>(plan.cpus, run))?);
                }
            }
            Ok(())
        })?;
        for (at, &queues) in sizes.iter().enumerate() {
            let metric = format!("{}, {queues} queues: ready set", pattern.name());
            let figure = Figure::new(metric, "M items/s", &asking[at]);
            let figure = figure.against(Polling::NAME, &asking[at], &polling[at]);
            let least = if queues <= FEW { 0.9 } else { 1.0 };
            report.figure(figure.target(Target::RatioAtLeast(least)))?;
        }
    }
    Ok(())
}

/// One round, in millions; nothing when no window counts.
fn items_per_second<T: Taker>(
    cpus: Cpus,
    (pattern, queues, length, seed): (Pattern, usize, Nanos, u64),
) -> Result<Option<f64>, Error> {
    let (feed, mut taker) = T::new(queues, SLOTS);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            sys::thread::pin(cpus.client).or_needs("place on that CPU")?;
            produce(feed, pattern, seed, &stop);
            Ok(())
        });
        let consumer = scope.spawn(|| {
            let placed = sys::thread::pin(cpus.server).or_needs("place on that CPU");
            let mut rate = None;
            if placed.is_ok() {
                take_for(&mut taker, WARM_UP);
                rate = rate_over(&mut taker, length);
            }
            // The producer must end whatever has happened.
            stop.store(true, Ordering::Relaxed);
            placed.map(|()| rate)
        });
        let rate = joined(consumer);
        joined(producer)?;
        rate
    })
}

/// Millions a second over all windows that count.
fn rate_over<T: Taker>(taker: &mut T, length: Nanos) -> Option<f64> {
    let end = now() + length;
    let (mut taken, mut seconds) = (0, 0.0);
    while now() < end {
        let began = now();
        let came = take_for(taker, WINDOW);
        let took = now().since(began);
        if came > 0 && took < WINDOW + WINDOW {
            taken += came;
            seconds += took.as_secs_f64();
        }
    }
    (seconds > 0.0).then(|| taken as f64 / seconds / 1e6)
}

#[inline]
fn take_for<T: Taker>(taker: &mut T, length: Nanos) -> u64 {
    let end = now() + length;
    let (mut taken, mut sum) = (0, 0);
    while now() < end {
        for _ in 0..256 {
            taken += taker.take(|item| sum += item) as u64;
        }
    }
    std::hint::black_box(sum);
    taken
}

fn produce(mut feed: Feed, pattern: Pattern, seed: u64, stop: &AtomicBool) {
    let queues = feed.queues();
    let mut random = SplitMix(seed);
    let hot = queues / 2;
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        for burst in 0..1024 {
            let queue = match pattern {
                Pattern::Balanced => {
                    next = if next + 1 == queues { 0 } else { next + 1 };
                    next
                }
                Pattern::OneHot if burst > 0 => hot,
                Pattern::OneHot => (((random.next() >> 32) * queues as u64) >> 32) as usize,
            };
            // A full ring has its next chance in the next round.
            if feed.put_many(queue, TURN as usize) == 0 {
                std::hint::spin_loop();
            }
        }
    }
}

//! How long an item lies in its queue, at light load, by the number of queues.

use base::Nanos;
use sys::clock::{TscRate, now, tsc};

use super::queues::{Asking, Feed, Polling, Taker};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target, median, quantile};
use crate::flows::{SEED, SplitMix};
use crate::place::Cpus;
use crate::report::Report;

/// Items that a queue holds: a cache line of them.
const SLOTS: usize = 8;

/// From here on a ready set must be much better.
const MANY: usize = 512;

/// Between two items: 2 to 8 us, so that the queues are nearly always empty.
const GAP_MIN_NS: u64 = 2_000;
const GAP_SPREAD_NS: u64 = 6_000;

/// One sweep over the most queues takes some 20 us; an item that waited for longer than this waited
/// for a CPU.
const TAKEN_AWAY_NS: f64 = 200_000.0;

/// No round takes longer.
const TIMEOUT: Nanos = Nanos::from_secs(5);

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let items = plan.pick(6000, 500);
    let sizes: &[usize] = plan.pick(&[1, 8, 64, 256, 512, 1024, 2048, 4096], &[1, 64, 512, 4096]);
    report.begin(
        "latency",
        &format!(
            "a producer on CPU {client} puts an item each 2 to 8 us into one of N rings by lot, a consumer on \
             CPU {server}, which does nothing else, takes it; {items} items a round; from before the \
             put to after the take, by the time-stamp counter. Both ways spin; plain polling looks at \
             one ring after the other. What took over 200 us is left out: a CPU was taken away."
        ),
    )?;
    plan.cpus.need_two()?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    let mut asking: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    let mut polling = asking.clone();
    let mut tails = asking.clone();
    let mut left_out = Vec::new();
    let [_] = turns_of(plan, report, "", |_, round| {
        for (at, &queues) in sizes.iter().enumerate() {
            unless_interrupted()?;
            let seed = SEED ^ (u64::from(round) << 16) ^ queues as u64;
            let (ours, away) =
                undisturbed(|| latencies::<Asking>(plan.cpus, queues, items, rate, seed))?;
            left_out.push(away);
            let (plain, away) =
                undisturbed(|| latencies::<Polling>(plan.cpus, queues, items, rate, seed))?;
            left_out.push(away);
            asking[at].push(quantile(&ours, 0.5));
            tails[at].push(quantile(&ours, 0.95));
            polling[at].push(quantile(&plain, 0.5));
        }
        Ok(())
    })?;
    for (at, &queues) in sizes.iter().enumerate() {
        let metric = format!("{queues} queues: p50, ready set");
        let figure = Figure::new(metric, "ns", &asking[at]);
        let figure = figure.against(Polling::NAME, &asking[at], &polling[at]);
        report.figure(if queues >= MANY {
            figure.target(Target::RatioAtMost(0.2))
        } else {
            figure
        })?;
    }
    for (at, &queues) in sizes.iter().enumerate().skip(1) {
        let metric = format!("{queues} queues: p50, ready set, against 1 queue");
        let figure = Figure::new(metric, "ns", &asking[at]);
        let figure = figure.against("1 queue", &asking[at], &asking[0]);
        report.figure(figure.target(Target::RatioAtMost(1.5)))?;
    }
    for (at, &queues) in sizes.iter().enumerate() {
        report.figure(Figure::new(format!("{queues} queues: p95, ready set"), "ns", &tails[at]))?;
    }
    report.figure(Figure::new("items left out", "%", &left_out))?;
    let best = median(&polling[0]).zip(median(&asking[0]));
    if let Some((plain, ours)) = best {
        let note = "what one queue pays for not being looked at while it is idle";
        let price = Figure::new("1 queue: the ready set's price", "ns", &[ours - plain]);
        report.figure(price.note(note))?;
    }
    Ok(())
}

/// One round: nanoseconds of each item, sorted; and how many were left out, in percent. Nothing
/// when that were most.
fn latencies<T: Taker>(
    cpus: Cpus,
    queues: usize,
    items: usize,
    rate: TscRate,
    seed: u64,
) -> Result<Option<(Vec<f64>, f64)>, Error> {
    let (feed, mut taker) = T::new(queues, SLOTS);
    let end = now() + TIMEOUT;
    let mut ticks = Vec::with_capacity(items);
    std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            sys::thread::pin(cpus.client).or_needs("place on that CPU")?;
            produce(feed, items, rate, seed, end);
            Ok::<_, Error>(())
        });
        let taken = scope.spawn(|| {
            sys::thread::pin(cpus.server).or_needs("place on that CPU")?;
            let mut looks = 0_u32;
            while ticks.len() < items {
                taker.take(|stamp| ticks.push(tsc().wrapping_sub(stamp)));
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1 << 16) && now() > end {
                    break;
                }
            }
            Ok::<_, Error>(())
        });
        joined(taken)?;
        joined(producer)
    })?;
    let mut latencies: Vec<f64> =
        ticks.iter().map(|&ticks| ticks as f64 * 1e9 / rate.ticks_per_second()).collect();
    let all = latencies.len().max(1);
    latencies.retain(|&ns| ns < TAKEN_AWAY_NS);
    latencies.sort_by(f64::total_cmp);
    let left_out = 100.0 * (all - latencies.len()) as f64 / all as f64;
    Ok((left_out < 50.0 && !latencies.is_empty()).then_some((latencies, left_out)))
}

fn produce(mut feed: Feed, items: usize, rate: TscRate, seed: u64, end: Nanos) {
    let mut random = SplitMix(seed);
    let ticks = |ns: u64| (ns as f64 * rate.ticks_per_second() / 1e9) as u64;
    let mut due = tsc() + ticks(1_000_000);
    for item in 0..items {
        let bits = random.next();
        let queue = (((bits >> 32) * feed.queues() as u64) >> 32) as usize;
        while (tsc().wrapping_sub(due) as i64) < 0 {
            std::hint::spin_loop();
        }
        // A full ring is one whose consumer was away: that item is not sent.
        while !feed.put(queue, tsc()) {
            if now() > end {
                return;
            }
        }
        if item % 1024 == 0 && now() > end {
            return;
        }
        // Not early for what was late.
        due = tsc() + ticks(GAP_MIN_NS + (bits & 0xffff_ffff) % GAP_SPREAD_NS);
    }
}

/// Tries a round again that gave nothing because others had the CPUs, but not for ever.
pub(super) fn undisturbed<T>(
    mut round: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    for _ in 0..10 {
        unless_interrupted()?;
        if let Some(outcome) = round()? {
            return Ok(outcome);
        }
    }
    Err("others have them all the time").or_needs("two CPUs that are free for a moment")
}

/// What a thread has come to; its panic goes on here.
pub(super) fn joined<T>(
    thread: std::thread::ScopedJoinHandle<'_, Result<T, Error>>,
) -> Result<T, Error> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

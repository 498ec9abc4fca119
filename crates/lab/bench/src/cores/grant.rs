//! From the decision to grant a core to the first instruction of the worker there.

use base::Nanos;
use sys::clock::{TscRate, now, tsc};

use super::hands::PinningHands;
use super::realm::Realm;
use super::sleeper::{By, Sleeper};
use super::waiter::{WaitMode, Waiter};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target, median};
use crate::flows::SplitMix;
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// A CPU on which nobody has run for this long has halted.
const REST: Nanos = Nanos::from_micros(300);

/// One sample a round: medians.
#[derive(Default)]
struct Samples {
    granted: Vec<f64>,
    stepped: Vec<f64>,
    futex: Vec<f64>,
    pipe: Vec<f64>,
    spinning: Vec<f64>,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "grant",
        &format!(
            "allocator on CPU {client}, which never sleeps; worker (client library) and the baselines' threads on \
             CPU {server}. From when the core is decided on to when the worker's wait has returned: in between \
             the allocator looks whether the thread must be moved, and wakes it. Halted: all of CPU {server}'s threads here have \
             slept for {REST} and more; baselines take turns with it: a bare futex wake, and a byte in a pipe \
             that is polled. Spinning: the worker has asked and looks at its core grant; from before the allocator's step, which \
             hears, decides, and writes the core grant. The core stays the \
             same, so that no thread is moved."
        ),
    )?;
    if !plan.cpus.are_two() {
        return Err("only one may be used").or_needs("second CPU");
    }
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    let times = plan.pick(500, 50);
    let mut samples = Samples::default();
    let [_] = turns_of(plan, report, "", |_, round| {
        let mut random = SplitMix(u64::from(round));
        on_cpu(client, || {
            halted(times, server, rate, &mut random, &mut samples)?;
            spinning(times, server, rate, &mut samples)
        })
    })?;
    let Samples { granted, stepped, futex, pipe, spinning } = samples;
    let figure = Figure::new("halted CPU, p50", "us", &granted);
    let figure = figure.against("bare futex wake", &granted, &futex);
    report.figure(figure.target(Target::RatioAtMost(1.2)))?;
    let figure = Figure::new("halted CPU, p50, to a byte in a pipe", "us", &granted);
    report.figure(figure.against("byte in a pipe", &granted, &pipe))?;
    let figure = Figure::new("halted CPU, p50, hearing and deciding included", "us", &stepped);
    report.figure(figure.against("bare futex wake", &stepped, &futex))?;
    let figure = Figure::new("worker still spinning, p50", "us", &spinning);
    report.figure(figure.target(Target::AtMost(1.0)))
}

/// Lets the other CPU come to rest.
pub(super) fn rest(random: &mut SplitMix) {
    let began = now();
    // Not in step with any timer.
    let length = Nanos(REST.0 + random.next() % REST.0);
    while now().since(began) < length {
        std::hint::spin_loop();
    }
}

/// The median of ticks, in microseconds.
pub(super) fn micros(ticks: &[f64], rate: TscRate) -> f64 {
    median(ticks).map_or(f64::NAN, |ticks| ticks / rate.ticks_per_second() * 1e6)
}

/// From `from` to `to` on two CPUs whose counters run together: never less than nothing.
pub(super) fn span(from: u64, to: u64) -> f64 {
    (to.wrapping_sub(from) as i64).max(0) as f64
}

fn halted(
    times: u32,
    cpu: usize,
    rate: TscRate,
    random: &mut SplitMix,
    samples: &mut Samples,
) -> Result<(), Error> {
    let mut realm = Realm::new(&[cpu as u16])?;
    let mut hands = PinningHands::default();
    let waiter = Waiter::start(&mut realm, WaitMode::Sleeps)?;
    let sleepers = [Sleeper::start(cpu, By::Futex)?, Sleeper::start(cpu, By::Pipe)?];
    let [mut granted, mut stepped, mut futex, mut pipe] = [const { Vec::new() }; 4];
    for time in 0..=times {
        waiter.until_parked(&mut realm, &mut hands)?;
        rest(random);
        waiter.ask(&mut realm)?;
        let from = tsc();
        realm.step(now(), &mut hands);
        let ran_at = waiter.ran_at(time + 1)?;
        // The first one is put on its core.
        if time > 0 {
            granted.push(span(hands.decided_at, ran_at));
            stepped.push(span(from, ran_at));
        }
        waiter.until_parked(&mut realm, &mut hands)?;
        for (sleeper, samples) in sleepers.iter().zip([&mut futex, &mut pipe]) {
            rest(random);
            let from = tsc();
            sleeper.wake();
            samples.push(span(from, sleeper.ran_at()?));
        }
    }
    samples.granted.push(micros(&granted, rate));
    samples.stepped.push(micros(&stepped, rate));
    samples.futex.push(micros(&futex, rate));
    samples.pipe.push(micros(&pipe, rate));
    Ok(())
}

fn spinning(times: u32, cpu: usize, rate: TscRate, samples: &mut Samples) -> Result<(), Error> {
    let mut realm = Realm::new(&[cpu as u16])?;
    let mut hands = PinningHands::default();
    let waiter = Waiter::start(&mut realm, WaitMode::Spins)?;
    let mut spinning = Vec::new();
    for time in 0..=times {
        waiter.until_parked(&mut realm, &mut hands)?;
        waiter.ask(&mut realm)?;
        let from = tsc();
        realm.step(now(), &mut hands);
        let ran_at = waiter.ran_at(time + 1)?;
        if time > 0 {
            spinning.push(span(from, ran_at));
        }
    }
    samples.spinning.push(micros(&spinning, rate));
    Ok(())
}

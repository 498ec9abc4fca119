//! What a waiter leaves of its CPU to a computation that shares it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Nanos;
use sched::WaitConfig;
use shm::wait::Wait;
use sys::clock::now;
use sys::futex::Scope;
use sys::sleep::Sleeper;

use super::latency::joined;
use super::queues::{Around, Asking, Feed, Polling, Taker, wake};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::Cpus;
use crate::report::Report;

/// Items that a queue holds.
const SLOTS: usize = 64;

const QUEUES: usize = 1024;

/// Rows and columns: three of them fit into a second-level cache.
const SIZE: usize = 96;

/// Between two items for the waiter.
const INTERVAL: Duration = Duration::from_millis(1);

/// Who shares the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nobody,
    Waiter,
    Spinner,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let length = plan.pick(Nanos::from_millis(400), Nanos::from_millis(60));
    report.begin(
        "corunner",
        &format!(
            "products of two {SIZE} x {SIZE} matrices on CPU {server} for {length} a round: alone; beside a thread \
             on the same CPU that waits for {QUEUES} queues (ready set, spin budget, futex) of \
             which one gets an item each {INTERVAL:?} from CPU {client}; beside one that polls them. All \
             SCHED_OTHER. A stand-in for the other hyper-thread, which this needs not have."
        ),
    )?;
    let [alone, waiter, spinner] = turns_of(plan, report, "", |which, _| {
        let beside = [Beside::Nobody, Beside::Waiter, Beside::Spinner][which];
        products(plan.cpus, beside, length)
    })?;
    let beside = |what: &str, own: &[f64]| {
        Figure::new(what, "products/s", own).against("alone", own, &alone)
    };
    let target = Target::RatioAtLeast(0.9);
    report.figure(beside("beside an idle waiter", &waiter).target(target))?;
    report.figure(beside("beside a spinning one", &spinner))
}

/// Matrix products a second.
fn products(cpus: Cpus, beside: Beside, length: Nanos) -> Result<f64, Error> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let pinned = move || sys::thread::pin(cpus.server).or_needs("place on that CPU");
        let other = match beside {
            Beside::Nobody => None,
            Beside::Waiter => {
                let (feed, taker) = Asking::new(QUEUES, SLOTS);
                let set = taker.set();
                scope.spawn(move || {
                    // On any CPU it is the same load.
                    let _ = sys::thread::pin(cpus.client);
                    feed_slowly(feed, &set, stop);
                });
                Some(scope.spawn(move || pinned().map(|()| wait(taker, stop))))
            }
            Beside::Spinner => {
                let (_feed, mut taker) = Polling::new(QUEUES, SLOTS);
                Some(scope.spawn(move || {
                    pinned()?;
                    while !stop.load(Ordering::Relaxed) {
                        taker.take(|_| ());
                    }
                    Ok(())
                }))
            }
        };
        let rate = joined(scope.spawn(move || pinned().map(|()| multiply_for(length))));
        // The others must end whatever has happened.
        stop.store(true, Ordering::Relaxed);
        if let Some(other) = other {
            joined(other)?;
        }
        rate
    })
}

fn feed_slowly(mut feed: Feed, set: &shm::ReadySet, stop: &AtomicBool) {
    let mut queue = 0;
    while !stop.load(Ordering::Relaxed) {
        queue = (queue + 7) % QUEUES;
        feed.put(queue, 0);
        wake(set);
        std::thread::sleep(INTERVAL);
    }
}

fn wait(mut taker: Asking, stop: &AtomicBool) {
    let set = taker.set();
    // The CPU is somebody else's too: nothing is to be burned.
    let mut wait = Wait::new(WaitConfig { spin_share_max: 0, ..WaitConfig::default() });
    let mut sleeper = Sleeper::Futex(Scope::Private);
    while !stop.load(Ordering::Relaxed) {
        while taker.take(|_| ()) > 0 {}
        let deadline = now() + Nanos::from_millis(20);
        let mut around = Around { taker: &mut taker, sleeper: &mut sleeper, looks: 0 };
        wait.until_ready(set.doorbell(), set.summary(), deadline, &mut around);
    }
}

fn multiply_for(length: Nanos) -> f64 {
    let left: Vec<f64> = (0..SIZE * SIZE).map(|at| at as f64).collect();
    let right: Vec<f64> = left.iter().rev().copied().collect();
    let mut product = vec![0.0; SIZE * SIZE];
    let began = now();
    let mut count = 0_u64;
    while now().since(began) < length {
        multiply(std::hint::black_box(&left), &right, &mut product);
        std::hint::black_box(&mut product);
        count += 1;
    }
    count as f64 / now().since(began).as_secs_f64().max(1e-9)
}

fn multiply(left: &[f64], right: &[f64], product: &mut [f64]) {
    for (row, out) in left.chunks_exact(SIZE).zip(product.chunks_exact_mut(SIZE)) {
        out.fill(0.0);
        for (&factor, column) in row.iter().zip(right.chunks_exact(SIZE)) {
            for (sum, value) in out.iter_mut().zip(column) {
                *sum += factor * value;
            }
        }
    }
}

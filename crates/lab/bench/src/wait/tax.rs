//! The polling tax: what a consumer burns on looks that find nothing, by load.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Nanos;
use sched::WaitConfig;
use shm::ReadySet;
use shm::wait::Wait;
use sys::clock::{TscRate, now, tsc};
use sys::futex::Scope;
use sys::sleep::Sleeper;

use super::latency::joined;
use super::queues::{Around, Asking, Feed, Polling, Taker, wake};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::Figure;
use crate::flows::{SEED, SplitMix};
use crate::place::{Cpus, cpu_time};
use crate::report::Report;

/// Items that a queue holds.
const SLOTS: usize = 64;

const QUEUES: [usize; 3] = [1, 4, 8];
const LOADS: [u32; 6] = [0, 10, 25, 50, 75, 100];

/// What an item costs.
const WORK: Nanos = Nanos::from_micros(2);

/// What a round has spent.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// Of the time, in percent: CPU time that was not work on an item.
    tax: f64,
    /// Looks that found nothing, by item.
    polls: f64,
}

/// One kind of consumer's rounds.
#[derive(Clone, Debug, Default)]
struct Samples {
    tax: Vec<f64>,
    polls: Vec<f64>,
}

impl Samples {
    fn push(&mut self, spent: Spent) {
        self.tax.push(spent.tax);
        self.polls.push(spent.polls);
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let length = plan.pick(Nanos::from_millis(60), Nanos::from_millis(10));
    report.begin(
        "tax",
        &format!(
            "items that need {WORK} each, put at random times (Poisson) into 1, 4 or 8 rings by lot from CPU {client}; \
             load is their work's share of CPU {server}, where one consumer polls the rings, or asks a \
             ready set and sleeps (futex) after a learned spin of a quarter of the time at most; {length} a \
             round. Tax: CPU time of the consumer that is not work, wake-ups included."
        ),
    )?;
    plan.cpus.need_two()?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    for queues in QUEUES {
        let mut asking: Vec<Samples> = vec![Samples::default(); LOADS.len()];
        let mut polling = asking.clone();
        let [_] = turns_of(plan, report, format_args!("{queues} queues"), |_, round| {
            for (at, load) in LOADS.into_iter().enumerate() {
                unless_interrupted()?;
                let stage = Stage {
                    cpus: plan.cpus,
                    queues,
                    load,
                    length,
                    rate,
                    seed: SEED ^ u64::from(round),
                };
                asking[at].push(stage.asking()?);
                polling[at].push(stage.polling()?);
            }
            Ok(())
        })?;
        for (at, load) in LOADS.into_iter().enumerate() {
            let (own, plain) = (&asking[at], &polling[at]);
            let metric = format!("{queues} queues, load {load} %: tax, ready set");
            let tax = Figure::new(metric, "% of the CPU", &own.tax);
            report.figure(tax.against(Polling::NAME, &own.tax, &plain.tax))?;
            if load > 0 {
                let metric = format!("{queues} queues, load {load} %: empty polls, ready set");
                let polls = Figure::new(metric, "per item", &own.polls);
                report.figure(polls.against(Polling::NAME, &own.polls, &plain.polls))?;
            }
        }
    }
    report.figure(Figure::missing("instructions per item, IPC", counters()))
}

/// Why there is no figure of the CPU's own counters.
fn counters() -> &'static str {
    // Where the kernel registers a PMU of the CPU.
    if Path::new("/sys/bus/event_source/devices/cpu").exists() {
        "measure with: perf stat -e instructions,cycles calisto bench wait --case tax"
    } else {
        "no PMU: this machine offers no hardware counters"
    }
}

/// What one round is.
#[derive(Clone, Copy)]
struct Stage {
    cpus: Cpus,
    queues: usize,
    load: u32,
    length: Nanos,
    rate: TscRate,
    seed: u64,
}

impl Stage {
    fn ticks(&self, time: Nanos) -> u64 {
        (time.as_secs_f64() * self.rate.ticks_per_second()) as u64
    }

    fn polling(&self) -> Result<Spent, Error> {
        let (feed, mut taker) = Polling::new(self.queues, SLOTS);
        self.consume(feed, None, |work, _end| {
            let items = taker.take(work) as u64;
            (items, u64::from(items == 0))
        })
    }

    fn asking(&self) -> Result<Spent, Error> {
        let (feed, mut taker) = Asking::new(self.queues, SLOTS);
        let set = taker.set();
        let mut wait = Wait::new(WaitConfig::default());
        let mut sleeper = Sleeper::Futex(Scope::Private);
        self.consume(feed, Some(set.clone()), |work, end| {
            let items = taker.take(work) as u64;
            if items > 0 {
                return (items, 0);
            }
            let mut around = Around { taker: &mut taker, sleeper: &mut sleeper, looks: 1 };
            wait.until_ready(set.doorbell(), set.summary(), end, &mut around);
            (0, around.looks)
        })
    }

    /// `look` gives items and looks that found nothing.
    fn consume(
        &self,
        feed: Feed,
        set: Option<ReadySet>,
        mut look: impl FnMut(&mut dyn FnMut(u64), Nanos) -> (u64, u64) + Send,
    ) -> Result<Spent, Error> {
        let stop = AtomicBool::new(false);
        let work_ticks = self.ticks(WORK);
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| {
                sys::thread::pin(self.cpus.client).or_needs("place on that CPU")?;
                self.produce(feed, set, &stop);
                Ok(())
            });
            let consumer = scope.spawn(|| {
                let placed = sys::thread::pin(self.cpus.server).or_needs("place on that CPU");
                let (mut items, mut empty) = (0, 0);
                let (began, cpu_began) = (now(), cpu_time());
                let end = began + self.length;
                let mut work = |_| {
                    let begun = tsc();
                    while tsc().wrapping_sub(begun) < work_ticks {
                        std::hint::spin_loop();
                    }
                };
                while placed.is_ok() && now() < end {
                    let (taken, misses) = look(&mut work, end);
                    items += taken;
                    empty += misses;
                }
                let wall = now().since(began).as_secs_f64();
                let cpu = cpu_time().since(cpu_began).as_secs_f64();
                // The producer must end whatever has happened.
                stop.store(true, Ordering::Relaxed);
                let useful = items as f64 * WORK.as_secs_f64();
                placed.map(|()| Spent {
                    tax: 100.0 * (cpu - useful).max(0.0) / wall,
                    polls: empty as f64 / (items as f64).max(1.0),
                })
            });
            let spent = joined(consumer);
            joined(producer)?;
            spent
        })
    }

    fn produce(&self, mut feed: Feed, set: Option<ReadySet>, stop: &AtomicBool) {
        let mut random = SplitMix(self.seed);
        let gap = self.ticks(WORK) as f64 * 100.0 / f64::from(self.load.max(1));
        let mut due = tsc();
        while !stop.load(Ordering::Relaxed) {
            let is_due = (tsc().wrapping_sub(due) as i64) >= 0;
            if self.load == 0 || !is_due {
                std::hint::spin_loop();
                continue;
            }
            let bits = random.next();
            let unit = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            due = due.wrapping_add((-unit.ln() * gap) as u64);
            // Items that find their ring full are more than can be done.
            feed.put((bits % self.queues as u64) as usize, 0);
            if let Some(set) = &set {
                wake(set);
            }
        }
    }
}

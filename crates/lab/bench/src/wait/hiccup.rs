//! Scale-out against scale-up: a queue for each worker, or all queues for any worker, when some
//! items take long.

use std::sync::Mutex;

use base::Nanos;
use shm::{Consumer, Producer, ring};
use sys::clock::{TscRate, now, tsc};

use super::latency::{joined, undisturbed};
use super::ready_queues::ReadyQueues;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, median, quantile};
use crate::flows::{SEED, SplitMix};
use crate::place::Cpus;
use crate::report::Report;

const WORKERS: usize = 2;
const FLOWS: usize = 64;
const SLOTS: usize = 1024;
const LOADS: [u32; 7] = [10, 20, 40, 60, 70, 80, 120];

/// An item that took longer, at a load that can be done, waited for a CPU.
const TAKEN_AWAY_US: f64 = 500.0;

/// Items that arrive are put into their queues this many at once, at most.
const GENERATED_AT_ONCE: usize = 8;

/// Items of one queue that a claim is for, at most.
const CLAIMED_AT_ONCE: usize = 2;

/// Of a hundred items, this many take longer.
const HICCUPS_IN_100: u64 = 1;

/// How long items take.
#[derive(Clone, Copy, Debug)]
struct Service {
    usual: Nanos,
    hiccup: Nanos,
}

impl Service {
    fn mean_ns(self) -> f64 {
        self.usual.0 as f64 + self.hiccup.0 as f64 * HICCUPS_IN_100 as f64 / 100.0
    }
}

/// The papers' hiccup, and one that stands out of what the hypervisor does to this machine.
const SERVICES: [Service; 2] = [
    Service { usual: Nanos::from_micros(2), hiccup: Nanos::from_micros(1) },
    Service { usual: Nanos::from_micros(2), hiccup: Nanos::from_micros(20) },
];

/// Something to be done.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// Ticks of the time-stamp counter: when it comes, and how long it takes.
    due: u64,
    work: u64,
    flow: u32,
}

/// Items in the order of their arrival, and the queues that they go to. Whichever worker finds the
/// lock free puts what is due: a third thread would need a third CPU.
struct Source<'a> {
    items: &'a [Item],
    next: usize,
    rings: Vec<Producer<Item>>,
}

impl Source<'_> {
    #[inline]
    fn generate(&mut self, mut published: impl FnMut(u32)) {
        let now = tsc();
        for _ in 0..GENERATED_AT_ONCE {
            let Some(&item) = self.items.get(self.next) else { return };
            if (now.wrapping_sub(item.due) as i64) < 0 {
                return;
            }
            let queue = item.flow as usize % self.rings.len();
            if self.rings[queue].push(item).is_err() {
                // Full: it is due still, and those behind it wait as well.
                return;
            }
            self.next += 1;
            published(queue as u32);
        }
    }
}

/// What came of a round.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    p50_us: f64,
    p99_us: f64,
    /// In percent.
    left_out: f64,
    /// Millions a second, done within the time.
    rate: f64,
}

impl Outcome {
    /// Whether the CPUs were there for most of it. Beyond what can be done, everything is late.
    fn counts(&self, load: u32) -> bool {
        self.rate > 0.0 && (load > 100 || self.left_out < 50.0)
    }
}

#[derive(Clone, Debug, Default)]
struct Samples {
    p50: Vec<f64>,
    p99: Vec<f64>,
    left_out: Vec<f64>,
    rate: Vec<f64>,
}

impl Samples {
    fn push(&mut self, outcome: Outcome) {
        self.p50.push(outcome.p50_us);
        self.p99.push(outcome.p99_us);
        self.left_out.push(outcome.left_out);
        self.rate.push(outcome.rate);
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let length = plan.pick(Nanos::from_millis(50), Nanos::from_millis(8));
    report.begin(
        "hiccup",
        &format!(
            "{WORKERS} workers, one on CPU {client}, one on CPU {server}; items of {FLOWS} flows at random times \
             (Poisson), load is their work's share of both CPUs; {length} a round, from the time at which an item is due \
             until it is done. Own queues (scale-out): a flow's items go to one worker's ring. Shared \
             queues (scale-up): a ring a flow, any worker claims any ready one, {CLAIMED_AT_ONCE} items at most. \
             Whichever worker comes by puts what is due into the rings. What took over {TAKEN_AWAY_US} us is \
             left out: a CPU was taken away."
        ),
    )?;
    plan.cpus.need_two()?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    for service in SERVICES {
        let mut shared: Vec<Samples> = vec![Samples::default(); LOADS.len()];
        let mut own = shared.clone();
        let [_] = turns_of(plan, report, service.hiccup, |_, round| {
            for (at, load) in LOADS.into_iter().enumerate() {
                unless_interrupted()?;
                let seed = SEED ^ (u64::from(round) << 8) ^ u64::from(load);
                let items = schedule(service, load, length, rate, seed);
                let counts = |outcome: Outcome| outcome.counts(load).then_some(outcome);
                let ours = || shared_queues(plan.cpus, &items, length, rate).map(counts);
                let other = || own_queues(plan.cpus, &items, length, rate).map(counts);
                shared[at].push(undisturbed(ours)?);
                own[at].push(undisturbed(other)?);
            }
            Ok(())
        })?;
        print(service, &shared, &own, report)?;
    }
    Ok(())
}

fn print(
    service: Service,
    shared: &[Samples],
    own: &[Samples],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let what = format!("{} and 1 % {} more", service.usual, service.hiccup);
    let mut crossing = None;
    for (at, load) in LOADS.into_iter().enumerate() {
        let (ours, other) = (&shared[at], &own[at]);
        if load > 100 {
            let metric = format!("{what}: most, shared queues");
            let figure = Figure::new(metric, "M items/s", &ours.rate);
            report.figure(figure.against("own queues", &ours.rate, &other.rate))?;
            continue;
        }
        for (quantile, ours, other) in
            [("p50", &ours.p50, &other.p50), ("p99", &ours.p99, &other.p99)]
        {
            let metric = format!("{what}, load {load} %: {quantile}, shared queues");
            report.figure(Figure::new(metric, "us", ours).against("own queues", ours, other))?;
        }
        let is_better = median(&ours.p99).zip(median(&other.p99)).is_some_and(|(a, b)| a < b);
        if is_better {
            let (first, _) = crossing.unwrap_or((load, load));
            crossing = Some((first, load));
        }
    }
    let feasible = LOADS.iter().zip(shared.iter().zip(own)).filter(|(load, _)| **load <= 100);
    let left_out: Vec<f64> = feasible
        .flat_map(|(_, (ours, other))| ours.left_out.iter().chain(&other.left_out).copied())
        .collect();
    report.figure(Figure::new(format!("{what}: items left out"), "%", &left_out))?;
    let metric = format!("{what}: shared queues have the lower p99");
    report.figure(match crossing {
        Some((first, last)) => Figure::new(metric, "% load, at first", &[f64::from(first)])
            .note(format!("at {last} % for the last time")),
        None => Figure::missing(metric, "at no load"),
    })
}

/// Items at random times, from a moment from now on.
fn schedule(service: Service, load: u32, length: Nanos, rate: TscRate, seed: u64) -> Vec<Item> {
    let mut random = SplitMix(seed);
    let ticks = |ns: f64| ns * rate.ticks_per_second() / 1e9;
    let gap = ticks(service.mean_ns() * 100.0 / f64::from(load) / WORKERS as f64);
    let (usual, hiccup) = (ticks(service.usual.0 as f64), ticks(service.hiccup.0 as f64));
    let (mut due, end) = (0.0, ticks(length.0 as f64));
    let mut items = Vec::new();
    while due < end {
        let bits = random.next();
        let unit = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        due += -unit.ln() * gap;
        let choice = random.next();
        let is_long = (choice >> 32) % 100 < HICCUPS_IN_100;
        let work = usual + if is_long { hiccup } else { 0.0 };
        let flow = (choice & 0xffff_ffff) as u32 % FLOWS as u32;
        items.push(Item { due: due as u64, work: work as u64, flow });
    }
    items
}

/// The same, beginning soon.
fn from_now(items: &[Item], rate: TscRate) -> Vec<Item> {
    let start = tsc() + (rate.ticks_per_second() / 1e3) as u64;
    items.iter().map(|item| Item { due: start.wrapping_add(item.due), ..*item }).collect()
}

/// Works on an item; how long it took from when it was due.
#[inline]
fn serve(item: &Item) -> u64 {
    let begun = tsc();
    while tsc().wrapping_sub(begun) < item.work {
        std::hint::spin_loop();
    }
    tsc().wrapping_sub(item.due)
}

fn own_queues(cpus: Cpus, items: &[Item], length: Nanos, rate: TscRate) -> Result<Outcome, Error> {
    let items = from_now(items, rate);
    let (rings, inboxes): (Vec<_>, Vec<_>) = (0..WORKERS).map(|_| ring(SLOTS)).unzip();
    let source = Mutex::new(Source { items: &items, next: 0, rings });
    let work = |mut inbox: Consumer<Item>| {
        let source = &source;
        move |took: &mut Vec<u64>| {
            if let Ok(mut source) = source.try_lock() {
                source.generate(|_| ());
            }
            if let Some(item) = inbox.pop() {
                took.push(serve(&item));
            }
        }
    };
    two_workers(cpus, length, rate, inboxes.into_iter().map(work).collect())
}

fn shared_queues(
    cpus: Cpus,
    items: &[Item],
    length: Nanos,
    rate: TscRate,
) -> Result<Outcome, Error> {
    let items = from_now(items, rate);
    let (rings, inboxes): (Vec<_>, Vec<_>) = (0..FLOWS).map(|_| ring(SLOTS)).unzip();
    let source = Mutex::new(Source { items: &items, next: 0, rings });
    let queues = ReadyQueues::<Consumer<Item>>::new(inboxes);
    let work = |worker: usize| {
        let (source, queues) = (&source, &queues);
        // They begin far from each other.
        let mut cursor = (worker * FLOWS / WORKERS) as u32;
        move |took: &mut Vec<u64>| {
            if let Ok(mut source) = source.try_lock() {
                source.generate(|queue| _ = queues.set_ready(queue));
            }
            if queues.is_quiet() {
                return;
            }
            let Some(mut claim) = queues.claim(&mut cursor) else { return };
            let is_empty = claim.with(|inbox| {
                for _ in 0..CLAIMED_AT_ONCE {
                    let Some(item) = inbox.pop() else { return true };
                    took.push(serve(&item));
                }
                inbox.is_empty()
            });
            if is_empty {
                // Dropped, it is ready for whoever comes next.
                drop(claim.rearm());
            }
        }
    };
    two_workers(cpus, length, rate, (0..WORKERS).map(work).collect())
}

/// Runs each worker's turns on a CPU of its own until the time is over.
fn two_workers(
    cpus: Cpus,
    length: Nanos,
    rate: TscRate,
    workers: Vec<impl FnMut(&mut Vec<u64>) + Send>,
) -> Result<Outcome, Error> {
    // The items begin in a millisecond.
    let end = now() + Nanos::from_millis(1) + length;
    let took: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let places = [cpus.client, cpus.server];
        let running: Vec<_> = workers
            .into_iter()
            .zip(places)
            .map(|(mut turn, cpu)| {
                scope.spawn(move || {
                    sys::thread::pin(cpu).or_needs("place on that CPU")?;
                    let mut took = Vec::with_capacity(1 << 17);
                    while now() < end {
                        for _ in 0..16 {
                            turn(&mut took);
                        }
                    }
                    Ok(took)
                })
            })
            .collect();
        running.into_iter().map(joined).collect::<Result<_, Error>>()
    })?;
    let mut us: Vec<f64> =
        took.iter().flatten().map(|&ticks| ticks as f64 * 1e6 / rate.ticks_per_second()).collect();
    us.sort_by(f64::total_cmp);
    let all = us.len();
    let kept = us.partition_point(|&took| took < TAKEN_AWAY_US);
    let rate = all as f64 / length.as_secs_f64() / 1e6;
    us.truncate(kept);
    Ok(Outcome {
        left_out: 100.0 * (all - kept) as f64 / all.max(1) as f64,
        p50_us: quantile(&us, 0.5),
        p99_us: quantile(&us, 0.99),
        rate,
    })
}

//! A new table for every group while packets flow: nothing lost, nothing reordered, no stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::{BURST, Nanos};
use datapath::counters::DispatchEvent;
use datapath::message::Moving;
use datapath::{Job, Verdict, Worker};
use shm::Frame;
use sys::clock::{TscRate, now, tsc};

use super::durations::{Durations, STALL};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{FLOWS, Packets, SEED, SplitMix, numbers};
use crate::place::{cpu_time, on_cpu};
use crate::report::Report;
use crate::rig::{Rig, RigConfig, policy, spawn};

const WORKERS: usize = 4;
/// At 1 Mpps these last for 16 ms.
const FRAMES: u32 = 16_384;
const PACKETS_PER_SECOND: f64 = 1e6;

/// Where the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workers {
    /// On the dispatcher's thread, each stepped once a turn: no scheduler between barrier and
    /// release.
    Fused,
    /// On a thread and a CPU of their own.
    OtherThread,
}

/// Checks that every flow's packets come in the order in which they were sent.
struct InOrder {
    seen: Arc<Seen>,
}

/// By flow the number of its last packet, and how many came too late.
struct Seen {
    last: Vec<AtomicU32>,
    reordered: AtomicU64,
}

impl Job for InOrder {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        let found = numbers(frame.bytes())
            .and_then(|(flow, number)| Some((self.seen.last.get(flow as usize)?, number)));
        if let Some((last, number)) = found {
            // The flow is this worker's alone until it is handed over, and rings order that.
            if number <= last.load(Ordering::Relaxed) {
                self.seen.reordered.fetch_add(1, Ordering::Relaxed);
            }
            last.store(number, Ordering::Relaxed);
        }
        Verdict::Consume
    }

    fn detach(&mut self, _: Moving, _: Nanos) -> bool {
        true
    }

    fn attach(&mut self, _: Moving, _: Nanos) {}
}

/// One round.
struct Outcome {
    without: Durations,
    with: Durations,
    offered: u64,
    unsent_without: u64,
    unsent_with: u64,
    lost: u64,
    /// Of those lost, dropped and counted by the dispatcher.
    dropped: u64,
    reordered: u64,
    change: Nanos,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let count = plan.pick(FLOWS, FLOWS / 10);
    let (server, client) = (plan.cpus.server, plan.cpus.client);
    report.begin(
        "table",
        &format!(
            "generator and dispatcher on one thread on CPU {server}, {WORKERS} workers either \
             fused into that thread or on one thread on CPU {client}; 1 Mi groups, {count} flows \
             by lot, 1 Mpps of UDP packets with flow and number in them, open loop by the \
             time-stamp counter over a wire in memory; sticky -> modulo -> sticky; {FRAMES} \
             frames, rings and hold queue for all of them. A turn is the dispatcher's step with \
             the change itself. Turns over {STALL} are counted twice: by the clock, and by the \
             thread's own CPU time, in which others that share the CPU do not show."
        ),
    )?;
    let packets = Packets::new(count, SEED, &[0; 16]);
    let window = plan.pick(Nanos::from_millis(400), Nanos::from_millis(100));
    let arrangements = [(Workers::Fused, "fused"), (Workers::OtherThread, "other thread")];
    let mut outcomes: [Vec<Outcome>; 2] = Default::default();
    let _: [_; 2] = turns_of(plan, report, "", |which, _| {
        let (workers, _) = arrangements[which];
        if workers == Workers::Fused || plan.cpus.are_two() {
            outcomes[which].push(one_round(plan, workers, &packets, window)?);
        }
        Ok(())
    })?;
    for ((_, name), outcomes) in arrangements.into_iter().zip(&outcomes) {
        if outcomes.is_empty() {
            report.figure(Figure::missing(name, "one CPU only: the threads would share it"))?;
        } else {
            print(name, outcomes, report)?;
        }
    }
    Ok(())
}

fn print(name: &str, outcomes: &[Outcome], report: &mut Report<'_>) -> Result<(), Error> {
    let of = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).collect::<Vec<f64>>();
    // One is too many, in whichever round: the sum, not the median.
    let none_of = |metric: &str, samples: &[f64]| {
        let all = samples.iter().sum();
        Figure::new(format!("{name}: {metric}, all rounds"), "", &[all]).target(Target::AtMost(0.0))
    };
    let lost = none_of("packets lost", &of(|round| round.lost as f64));
    let dropped: u64 = outcomes.iter().map(|round| round.dropped).sum();
    report.figure(if dropped == 0 { lost } else { lost.note(format!("{dropped} counted")) })?;
    report.figure(none_of("packets reordered", &of(|round| round.reordered as f64)))?;
    let own = none_of("turns over 100 us by own work", &of(|round| round.with.long_of_own as f64));
    let (long, long_without): (u64, u64) = outcomes
        .iter()
        .map(|round| (round.with.long, round.without.long))
        .fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    let own_without: u64 = outcomes.iter().map(|round| round.without.long_of_own).sum();
    let mut note = format!(
        "without a change {own_without}; by the clock {long}, without a change {long_without}"
    );
    let worst = outcomes.iter().map(|round| round.with.worst_own).max();
    if let Some((own, released)) = worst
        && own > Nanos::ZERO
    {
        note.push_str(&format!("; worst {own}, which released {released} held packets"));
    }
    report.figure(own.note(note))?;
    let (with, without) =
        (of(|round| round.unsent_with as f64), of(|round| round.unsent_without as f64));
    let unsent = Figure::new(format!("{name}: not offered, no frame free"), "packets", &with);
    report.figure(unsent.against("without a change", &with, &without))?;
    let offered = of(|round| round.offered as f64 / 1e3);
    report.figure(Figure::new(format!("{name}: offered"), "thousand packets", &offered))?;
    for (quantile, value) in [
        ("p99.9", (|turns| turns.turns.quantile(0.999).as_micros_f64()) as fn(&Durations) -> f64),
        ("longest", |turns| turns.longest.as_micros_f64()),
    ] {
        let with: Vec<f64> = outcomes.iter().map(|round| value(&round.with)).collect();
        let without: Vec<f64> = outcomes.iter().map(|round| value(&round.without)).collect();
        let figure = Figure::new(format!("{name}: {quantile} turn in the change"), "us", &with);
        report.figure(figure.against("without a change", &with, &without))?;
    }
    let change = of(|round| round.change.0 as f64 / 1e6);
    report.figure(Figure::new(format!("{name}: there and back"), "ms", &change))
}

fn one_round(
    plan: &Plan,
    place: Workers,
    packets: &Packets,
    window: Nanos,
) -> Result<Outcome, Error> {
    // Rings and hold queue take every frame there is: on a shared CPU the workers may be away for
    // several scheduler ticks, and what is lost then must be the change's doing.
    let config = RigConfig {
        frames: FRAMES,
        ring: FRAMES as usize,
        hold_packets: FRAMES as usize,
        ..RigConfig::default()
    };
    let seen = Arc::new(Seen {
        last: (0..packets.len()).map(|_| AtomicU32::new(0)).collect(),
        reordered: AtomicU64::new(0),
    });
    let stop = AtomicBool::new(false);
    let cpus = plan.cpus;
    std::thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::channel::<Worker<InOrder>>();
        let stop = &stop;
        let workers = scope.spawn(move || {
            sys::thread::pin(cpus.client).or_needs("place on that CPU")?;
            let mut workers: Vec<_> = take.iter().take(WORKERS).collect();
            while !workers.is_empty() && !stop.load(Ordering::Relaxed) {
                let time = now();
                for worker in &mut workers {
                    worker.step(time);
                }
            }
            Ok(())
        });
        let result = on_cpu(cpus.server, || {
            let mut rig = Rig::new(&config)?;
            let mut here = Vec::new();
            for _ in 0..WORKERS {
                let worker = spawn(&mut rig.dispatcher, InOrder { seen: Arc::clone(&seen) })?;
                match place {
                    Workers::Fused => here.push(worker),
                    // A thread that is gone shows when it is joined.
                    Workers::OtherThread => drop(give.send(worker)),
                }
            }
            drop(give);
            Load::new(&mut rig, here, packets).round(window, &seen)
        });
        stop.store(true, Ordering::Relaxed);
        workers.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        result
    })
}

/// One packet a microsecond, whatever happens, and the loop that must keep up.
struct Load<'a> {
    rig: &'a mut Rig,
    /// Those that are stepped here.
    workers: Vec<Worker<InOrder>>,
    packets: &'a Packets,
    numbers: Vec<u32>,
    random: SplitMix,
    rate: TscRate,
    start: u64,
    due_before: u64,
    offered: u64,
    unsent: u64,
    /// CPU time and clock at some earlier turn: what a long turn is compared with.
    checked: (Nanos, Nanos),
}

impl<'a> Load<'a> {
    fn new(rig: &'a mut Rig, workers: Vec<Worker<InOrder>>, packets: &'a Packets) -> Self {
        Self {
            rig,
            workers,
            packets,
            numbers: vec![0; packets.len()],
            random: SplitMix(SEED),
            rate: TscRate::calibrate(Nanos::from_millis(20)),
            start: 0,
            due_before: 0,
            offered: 0,
            unsent: 0,
            checked: (Nanos::ZERO, Nanos::ZERO),
        }
    }

    fn round(mut self, window: Nanos, seen: &Seen) -> Result<Outcome, Error> {
        let groups = self.rig.dispatcher.steering().table().len();
        let mut discard = Durations::default();
        self.start = tsc();
        self.turns_until(now() + window, &mut discard);
        let mut without = Durations::default();
        let unsent_before = self.unsent;
        self.turns_until(now() + window, &mut without);
        let unsent_without = self.unsent - unsent_before;
        let mut with = Durations::default();
        let began = now();
        for name in ["modulo", "sticky"] {
            let steer = policy(name, groups)?;
            self.turn(&mut with, |rig| {
                rig.dispatcher.steering_mut().control_mut().0.set_policy(steer)
            });
            let end = now() + Nanos::from_secs(5);
            while !self.rig.dispatcher.steering().is_settled() && now() < end {
                self.turn(&mut with, |_| ());
            }
        }
        let change = now().since(began);
        self.turns_until(began + window.max(change), &mut with);
        // Everything that is under way arrives, or is lost.
        let end = now() + Nanos::from_secs(2);
        while self.rig.outstanding() > 0 && now() < end {
            self.work();
            self.rig.dispatcher.step(now());
        }
        let arrived = self.rig.dispatcher.counters().get(DispatchEvent::Consumed);
        Ok(Outcome {
            without,
            with,
            offered: self.offered,
            unsent_without,
            unsent_with: self.unsent - unsent_before - unsent_without,
            dropped: self.rig.dropped(),
            lost: self.offered.saturating_sub(arrived),
            reordered: seen.reordered.load(Ordering::Relaxed),
            change,
        })
    }

    fn turns_until(&mut self, end: Nanos, durations: &mut Durations) {
        self.checked = (cpu_time(), now());
        while now() < end {
            for _ in 0..16 {
                self.turn(durations, |_| ());
            }
        }
    }

    fn work(&mut self) {
        let time = now();
        for worker in &mut self.workers {
            worker.step(time);
        }
    }

    /// Offers what is due and lets the dispatcher take one step, preceded by `change`.
    fn turn(&mut self, durations: &mut Durations, change: impl FnOnce(&mut Rig)) {
        let elapsed = tsc().wrapping_sub(self.start) as f64 / self.rate.ticks_per_second();
        let due = (elapsed * PACKETS_PER_SECOND) as u64;
        let wanted = (due.saturating_sub(self.due_before) as usize).min(BURST);
        let Self { packets, numbers, random, rig, .. } = self;
        let time = now();
        let sent = rig.offer(wanted, time, |frame| {
            let flow = (((random.next() >> 32) * packets.len() as u64) >> 32) as usize;
            numbers[flow] += 1;
            packets.write_numbered(flow, numbers[flow], frame);
        });
        self.due_before += wanted as u64;
        self.offered += sent as u64;
        self.unsent += (wanted - sent) as u64;
        self.work();
        let held = self.rig.dispatcher.steering().held();
        let before = now();
        change(self.rig);
        self.rig.dispatcher.step(before);
        let after = now();
        let length = after.since(before);
        durations.note(length);
        if length > STALL {
            durations.long += 1;
            let cpu = cpu_time();
            let (cpu_before, clock_before) = self.checked;
            // What the clock showed and the thread did not get, at most all of it in this turn.
            let taken = after.since(clock_before).since(cpu.since(cpu_before));
            let own = length.since(taken);
            if own > STALL {
                durations.long_of_own += 1;
                let released = held.saturating_sub(self.rig.dispatcher.steering().held());
                durations.worst_own = durations.worst_own.max((own, released));
            }
            self.checked = (cpu, now());
        } else if after.since(self.checked.1) > Nanos::from_millis(1) {
            self.checked = (cpu_time(), now());
        }
    }
}

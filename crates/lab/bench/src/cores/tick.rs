//! What a look of the core control costs: gather what the workers' words say, and decide.
//!
//! Before each look every worker's thread, on the other CPU, has taken a packet and told about its
//! tasks, so that the two cache lines that the look reads of it are in the other CPU's cache.

use std::io::PipeReader;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{AppId, BURST, Nanos, WorkerId};
use datapath::cores::CoreEvent;
use policy::cores::{AppTerms, BusyWorker, Class, CoresPlan, CoresSample, Progress};
use shm::CoreCommand;
use shm::core_grant::CoreGrantTasks;
use shm::packets::{Next, PacketEnd, PacketMemory};
use sys::clock::{TscRate, now, tsc};

use super::hands::IdleHands;
use super::realm::{Realm, Subject, control};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target, median};
use crate::flows::{Packets, SEED};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// Workers of all applications, and what a look at them may take.
const SIZES: [(u16, f64); 3] = [(2, 1.0), (64, 4.0), (256, 15.0)];

/// Workers of one application.
const APP_WORKERS: u16 = 16;

/// With this many flows each of 16 workers owns one for certain: (15/16)^2000 is 1e-56.
const FLOWS: usize = 2000;

/// One sample a round.
#[derive(Default)]
struct Samples {
    whole_us: Vec<f64>,
    decide_us: Vec<f64>,
    gather_us: Vec<f64>,
    interval_us: Vec<f64>,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "tick",
        &format!(
            "one step of the core allocator (gather and decide, policy queue_delay, all workers active, nobody \
             asks) on CPU {server}, over applications of up to {APP_WORKERS} workers in shared memory. Before \
             each step a thread on CPU {client} has taken a packet of every worker's ring and told about \
             its tasks at its core grant: two lines a worker, dirty in the other CPU's cache. Median of a \
             round's steps, less what reading the clock takes. Decide: the core control alone, over \
             samples of the same size; gather: the rest."
        ),
    )?;
    if !plan.cpus.are_two() {
        return Err("only one may be used").or_needs("second CPU");
    }
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    let ticks = plan.pick(2000, 200);
    let mut samples: [Samples; SIZES.len()] = Default::default();
    let _: [_; SIZES.len()] = turns_of(plan, report, "", |which, _| {
        let ((workers, _), samples) = (SIZES[which], &mut samples[which]);
        on_cpu(server, || measure(workers, ticks, rate, client, samples))
    })?;
    for ((workers, bound), samples) in SIZES.into_iter().zip(&samples) {
        let Samples { whole_us, decide_us, gather_us, interval_us } = samples;
        let metric = format!("{workers} active workers");
        report.figure(Figure::new(&metric, "us", whole_us).target(Target::AtMost(bound)))?;
        report.figure(Figure::new(format!("{metric}: gather"), "us", gather_us))?;
        report.figure(Figure::new(format!("{metric}: decide"), "us", decide_us))?;
        let figure = Figure::new(format!("{metric}: interval in force"), "us", interval_us);
        let figure = figure.against("what a step takes", interval_us, whole_us);
        report.figure(figure.target(Target::RatioAtLeast(10.0)))?;
    }
    Ok(())
}

/// The applications, and a flow for each of their workers.
struct Crowd {
    realm: Realm,
    ends: Vec<PacketEnd>,
    /// Kept open: a pipe that nobody can read is an error to write to.
    doorbells: Vec<PipeReader>,
    /// By worker: the packets of its application, and which of them are its own.
    flows: Vec<(usize, usize)>,
    packets: Vec<Packets>,
}

impl Crowd {
    /// That many workers, each of which holds a core.
    fn gather(workers: u16) -> Result<Self, Error> {
        let cores: Vec<u16> = (0..workers).collect();
        let mut crowd = Self {
            realm: Realm::new(&cores)?,
            ends: Vec::new(),
            doorbells: Vec::new(),
            flows: Vec::new(),
            packets: Vec::new(),
        };
        for first in (0..workers).step_by(usize::from(APP_WORKERS)) {
            let subject = crowd.realm.admit(Class::Latency, APP_WORKERS.min(workers - first))?;
            crowd.take_up(subject)?;
        }
        crowd.grant_all(workers)?;
        Ok(crowd)
    }

    fn take_up(&mut self, mut subject: Subject) -> Result<(), Error> {
        self.doorbells.append(&mut subject.doorbells);
        let mut memory = PacketMemory::open(subject.region).or_needs("second mapping")?;
        let address = subject.destination.ok_or("a batch job").or_needs("destination")?;
        let seed = SEED + self.packets.len() as u64;
        let packets = Packets::to(address, FLOWS, seed, &[0; 18]);
        let mut ends: Vec<_> =
            (0..subject.slots.len() as u32).filter_map(|worker| memory.end(worker)).collect();
        let mut owned = vec![None; ends.len()];
        for flow in 0..packets.len() {
            let time = now();
            self.realm.rig.offer(1, time, |frame| packets.write(flow, frame));
            self.realm.rig.dispatcher.receive(time);
            for (end, owned) in ends.iter_mut().zip(&mut owned) {
                if take_one(end)? {
                    owned.get_or_insert((self.packets.len(), flow));
                }
            }
            self.realm.rig.dispatcher.transmit(time);
            if owned.iter().all(Option::is_some) {
                break;
            }
        }
        let count = ends.len();
        self.flows.extend(owned.into_iter().flatten());
        self.ends.append(&mut ends);
        self.packets.push(packets);
        let all = self.flows.len() == self.ends.len();
        all.then_some(()).ok_or(format!("{count} workers got none")).or_needs("flow a worker")
    }

    /// Every worker asks for a core and gets one.
    fn grant_all(&mut self, workers: u16) -> Result<(), Error> {
        for end in &mut self.ends {
            end.core_grant().look();
            end.core_grant().want();
            // Nobody sleeps.
            let _ = end.core_grant_spoke();
        }
        for _ in 0..=10 * workers {
            while !self.realm.allocator.is_due(now()) {
                std::hint::spin_loop();
            }
            self.realm.step(now(), &mut IdleHands);
            if self.realm.allocator.counts(None).get(CoreEvent::Grants) == u64::from(workers) {
                return Ok(());
            }
        }
        Err("the allocator grants fewer").or_needs("core for each worker")
    }

    /// A packet for every worker.
    fn feed(&mut self) {
        let Self { realm, flows, packets, .. } = self;
        for some in flows.chunks(BURST) {
            let time = now();
            let mut next = some.iter();
            realm.rig.offer(some.len(), time, |frame| {
                if let Some(&(app, flow)) = next.next() {
                    packets[app].write(flow, frame);
                }
            });
            realm.rig.dispatcher.receive(time);
        }
        // What the workers gave back: at most a burst each time.
        while realm.rig.dispatcher.transmit(now()).0 > 0 {}
    }
}

/// Whether there was a packet; it is done with.
fn take_one(end: &mut PacketEnd) -> Result<bool, Error> {
    match end.receive().or_needs("honest daemon")? {
        Next::Packet(frame) => {
            end.done(frame).map_err(|_| "the ring is full").or_needs("way back")?;
            let _ = end.publish();
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// What the workers do between two looks: each is always one packet behind.
fn work(ends: &mut [PacketEnd], turn: u64) -> Result<(), Error> {
    for end in ends {
        if matches!(end.core_grant().look(), CoreCommand::Run(_)) && turn == 0 {
            end.core_grant().run();
        }
        if turn > 0 {
            take_one(end)?;
        }
        let count = turn as u32;
        let tasks = CoreGrantTasks { put: count, taken: count, oldest_ns: 0, idle_ns: turn };
        end.core_grant().note(tasks);
    }
    Ok(())
}

/// One round.
fn measure(
    workers: u16,
    ticks: u64,
    rate: TscRate,
    other: usize,
    samples: &mut Samples,
) -> Result<(), Error> {
    let mut crowd = Crowd::gather(workers)?;
    let mut ends = std::mem::take(&mut crowd.ends);
    // Even: the workers' turn; odd: the allocator's.
    let (turn, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (turn, stop) = (&turn, &stop);
    let micros = |ticks: f64| ticks / rate.ticks_per_second() * 1e6;
    let clock = clock_ticks();
    crowd.feed();
    let mut intervals = Vec::with_capacity(ticks as usize);
    let whole = std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            on_cpu(other, || {
                while !stop.load(Ordering::Relaxed) {
                    let at = turn.load(Ordering::Acquire);
                    if at % 2 == 0 && at / 2 <= ticks {
                        work(&mut ends, at / 2)?;
                        turn.store(at + 1, Ordering::Release);
                    }
                    std::hint::spin_loop();
                }
                Ok(())
            })
        });
        let mut spent = Vec::with_capacity(ticks as usize);
        for tick in 0..=ticks {
            while turn.load(Ordering::Acquire) != 2 * tick + 1 && !working.is_finished() {
                std::hint::spin_loop();
            }
            while !crowd.realm.allocator.is_due(now()) {
                std::hint::spin_loop();
            }
            let time = now();
            let before = tsc();
            crowd.realm.step(time, &mut IdleHands);
            let took = tsc().wrapping_sub(before);
            // As the daemon does it, with its clock.
            crowd.realm.allocator.note_cost(rate.length(took));
            // The first one finds everything cold.
            if tick > 0 {
                spent.push(took.saturating_sub(clock) as f64);
                intervals.push(crowd.realm.allocator.pace().1.as_micros_f64());
            }
            crowd.feed();
            turn.store(2 * tick + 2, Ordering::Release);
        }
        stop.store(true, Ordering::Relaxed);
        let worked = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        worked.map(|()| spent)
    })?;
    let whole = micros(median(&whole).unwrap_or(f64::NAN));
    let decide = micros(decide(workers, ticks, clock)?);
    samples.whole_us.push(whole);
    samples.decide_us.push(decide);
    samples.gather_us.push((whole - decide).max(0.0));
    samples.interval_us.push(median(&intervals).unwrap_or(f64::NAN));
    Ok(())
}

/// Ticks from one reading of the clock to the next.
fn clock_ticks() -> u64 {
    (0..1000).map(|_| tsc().wrapping_neg().wrapping_add(tsc())).min().unwrap_or(0)
}

/// The median ticks that the control alone takes.
fn decide(workers: u16, ticks: u64, clock: u64) -> Result<f64, Error> {
    let cores: Vec<u16> = (0..workers).collect();
    let mut control = control(&cores)?;
    let mut sample = CoresSample::default();
    for (app, first) in (0..workers).step_by(usize::from(APP_WORKERS)).enumerate() {
        let count = APP_WORKERS.min(workers - first);
        let ids: Vec<WorkerId> = (first..first + count).map(WorkerId).collect();
        let id = AppId(app as u16 + 1);
        let terms = AppTerms {
            id,
            guaranteed: count,
            burst: count,
            class: Class::Latency,
            queue_delay: Nanos::ZERO,
        };
        control.add_app(terms, &ids).or_needs("application in the core control")?;
        sample.waiting.push(id);
    }
    let mut plan = CoresPlan::with_room(cores.len());
    for tick in 0..u64::from(APP_WORKERS) {
        sample.now = Nanos::from_micros(100 * tick);
        control.tick(&sample, &mut plan);
    }
    sample.waiting.clear();
    sample.busy = cores
        .iter()
        .map(|&worker| BusyWorker {
            id: WorkerId(worker),
            packets: Progress::default(),
            tasks: Progress::default(),
            oldest: Nanos::ZERO,
            idle: Nanos::ZERO,
        })
        .collect();
    let mut spent = Vec::with_capacity(ticks as usize);
    for tick in 0..ticks as u32 {
        sample.now = Nanos::from_micros(100 * u64::from(tick + 100));
        for busy in &mut sample.busy {
            busy.packets = Progress { put: tick + 1, taken: tick };
            busy.tasks = Progress { put: tick, taken: tick };
        }
        let before = tsc();
        control.tick(&sample, &mut plan);
        spent.push(tsc().wrapping_sub(before).saturating_sub(clock) as f64);
        if !plan.is_empty() {
            return Err("it plans something").or_needs("core control that is content");
        }
    }
    Ok(median(&spent).unwrap_or(f64::NAN))
}

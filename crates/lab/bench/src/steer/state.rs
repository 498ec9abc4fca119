//! What a move costs on real cores: cycles per packet of the worker before it and after it.
//!
//! This is the thesis of the Calisto paper: a flow that changes core finds its state cold. One
//! packet of every flow right after the workers have changed is compared with packets before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::{BURST, Nanos, WorkerId};
use datapath::{Synthetic, SyntheticState, Worker};
use shm::FlowState;
use sys::clock::{TscRate, now, tsc};

use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::Figure;
use crate::flows::{Packets, SEED};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::rig::{Rig, RigConfig, spawn};

/// Workers before and after one more comes; even ones live on the first CPU, odd ones on the other.
const WORKERS: u16 = 4;

/// A step of 64 packets takes 10 to 60 us even when all is cold; in one this long the CPU was
/// somebody else's.
const STEP_MAX: Nanos = Nanos::from_micros(150);

/// There and back again is tried no more after this long: once is always measured.
const RUN_MAX: Nanos = Nanos::from_millis(400);

/// Windows of time whose cycles are kept apart.
#[derive(Clone, Copy)]
enum Window {
    Other,
    BeforeGrowth,
    AfterGrowth,
    BeforeShrinking,
    AfterShrinking,
    /// After a table was published in which every group stays where it is.
    AfterNothing,
}

const WINDOWS: usize = 6;

/// Ticks in the workers' steps and the packets of these steps, by window.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    ticks: [u64; WINDOWS],
    packets: [u64; WINDOWS],
}

impl Meter {
    /// Steps a worker and notes what it cost, unless the CPU was taken away meanwhile.
    #[inline]
    fn step(&mut self, worker: &mut Worker<Synthetic>, window: usize, max: u64) -> bool {
        let time = now();
        let start = tsc();
        let step = worker.step(time);
        let ticks = tsc().wrapping_sub(start);
        if step.messages > 0 && ticks < max {
            self.ticks[window] += ticks;
            self.packets[window] += step.messages as u64;
        }
        step.retired
    }

    fn add(&mut self, other: &Self) {
        for window in 0..WINDOWS {
            self.ticks[window] += other.ticks[window];
            self.packets[window] += other.packets[window];
        }
    }

    fn per_packet(&self, window: Window) -> f64 {
        let window = window as usize;
        self.ticks[window] as f64 / self.packets[window].max(1) as f64
    }
}

/// One size of state and number of flows.
#[derive(Clone, Copy)]
struct Size {
    state_bytes: usize,
    flows: usize,
    fits: bool,
}

impl Size {
    /// A worker's CPU holds half of all flows; 512 KiB of state leave room in an L2 of 1 MiB,
    /// and 16 MiB fit in none.
    fn all(plan: &Plan) -> Vec<Self> {
        let fitting = |state_bytes: usize| match state_bytes {
            0 => 2048,
            bytes => (1 << 20) / bytes,
        };
        let sizes = [(0, 65_536), (256, 65_536), (4096, 8192)];
        let sizes = sizes.into_iter().flat_map(|(state_bytes, many)| {
            let few = fitting(state_bytes);
            [(few, true), (plan.pick(many, many / 4), false)].map(|(flows, fits)| Self {
                state_bytes,
                flows,
                fits,
            })
        });
        sizes.collect()
    }

    fn name(self) -> String {
        let Self { state_bytes, flows, fits } = self;
        let place = if fits { "in L2" } else { "beyond L2" };
        format!("state {state_bytes} B x {flows} flows ({place})")
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "state",
        &format!(
            "workers {WORKERS} -> {} -> {WORKERS}, job synthetic without iterations, touching \
             every line of the flow's state; workers 0, 2, 4 on one thread on CPU {server} \
             together with the dispatcher and the generator (so they feel both in their cache), \
             workers 1 and 3 on one thread on CPU {client}; prebuilt UDP packets, one of each \
             flow in turn, over a wire in memory. Cycles are those of worker.step over its \
             packets; after: the first packet of every flow once the hand-over is complete; \
             before: those of four rounds over the flows just before; nothing moves: the same table \
             published anew, which takes as long and touches as much of the dispatcher's memory. Steps over {STEP_MAX} are left out: the CPU \
             was taken away.",
            WORKERS + 1
        ),
    )?;
    if !plan.cpus.are_two() {
        let why = "one CPU only: nothing can move between cores";
        return report.figure(Figure::missing("cycles after a move", why));
    }
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    for size in Size::all(plan) {
        report.progress(size.name());
        let packets = Packets::new(size.flows, SEED, &[0; 16]);
        let mut meters: [Vec<Meter>; 2] = Default::default();
        for _ in 0..plan.rounds {
            crate::error::unless_interrupted()?;
            for (policy, meters) in ["modulo", "sticky"].into_iter().zip(&mut meters) {
                meters.push(one_run(plan, size, policy, &packets, rate)?);
            }
        }
        print(size, &meters, report)?;
    }
    Ok(())
}

fn print(size: Size, meters: &[Vec<Meter>; 2], report: &mut Report<'_>) -> Result<(), Error> {
    let [modulo, sticky] = meters;
    let of = |meters: &[Meter], window| -> Vec<f64> {
        meters.iter().map(|meter| meter.per_packet(window)).collect()
    };
    for (policy, meters) in [("modulo", modulo), ("sticky", sticky)] {
        let (before, after) = (of(meters, Window::BeforeGrowth), of(meters, Window::AfterNothing));
        let metric = format!("{}, {policy} nothing moves, after", size.name());
        let figure = Figure::new(metric, "cycles/packet", &after);
        report.figure(figure.against("before", &after, &before))?;
    }
    for (change, before, after) in [
        ("4->5", Window::BeforeGrowth, Window::AfterGrowth),
        ("5->4", Window::BeforeShrinking, Window::AfterShrinking),
    ] {
        for (policy, meters) in [("modulo", modulo), ("sticky", sticky)] {
            let (before, after) = (of(meters, before), of(meters, after));
            let metric = format!("{}, {policy} {change}, after", size.name());
            let figure = Figure::new(metric, "cycles/packet", &after);
            report.figure(figure.against("before", &after, &before))?;
        }
        let (sticky, modulo) = (of(sticky, after), of(modulo, after));
        let metric = format!("{}, sticky for modulo {change}", size.name());
        let figure = Figure::new(metric, "cycles/packet", &sticky);
        report.figure(figure.against("modulo after", &sticky, &modulo))?;
    }
    Ok(())
}

/// Several changes there and back under one policy.
fn one_run(
    plan: &Plan,
    size: Size,
    policy: &'static str,
    packets: &Packets,
    rate: TscRate,
) -> Result<Meter, Error> {
    let max = (STEP_MAX.as_secs_f64() * rate.ticks_per_second()) as u64;
    let state: SyntheticState = match size.state_bytes {
        0 => None,
        bytes => {
            let slab = FlowState::new(packets.len() as u32, bytes);
            Some(Arc::new(slab.or_needs("memory for the flows' state")?))
        }
    };
    let (stop, window) = (AtomicBool::new(false), AtomicUsize::new(Window::Other as usize));
    let (give, take) = std::sync::mpsc::channel::<Worker<Synthetic>>();
    let cpus = plan.cpus;
    std::thread::scope(|scope| {
        let (stop, window) = (&stop, &window);
        let far = scope.spawn(move || {
            sys::thread::pin(cpus.client).or_needs("place on that CPU")?;
            let mut workers: Vec<_> = take.iter().take(usize::from(WORKERS / 2)).collect();
            let mut meter = Meter::default();
            while !stop.load(Ordering::Relaxed) {
                for worker in &mut workers {
                    meter.step(worker, window.load(Ordering::Relaxed), max);
                }
            }
            Ok(meter)
        });
        let near = on_cpu(cpus.server, || {
            let rig = Rig::new(&RigConfig {
                groups: 1 << 16,
                // Few, so that the frames themselves stay in cache.
                frames: 512,
                policy,
                ..RigConfig::default()
            })?;
            let mut near = Near { rig, state, packets, workers: Vec::new(), window, max };
            for id in 0..WORKERS {
                let worker = near.spawn()?;
                if id % 2 == 0 {
                    near.workers.push(worker);
                } else {
                    // A thread that is gone shows when it is joined.
                    let _ = give.send(worker);
                }
            }
            drop(give);
            near.changes(plan.pick((1 << 18) / packets.len(), 1).clamp(1, 32))
        });
        stop.store(true, Ordering::Relaxed);
        let far: Result<Meter, Error> =
            far.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut meter = near?;
        meter.add(&far?);
        Ok(meter)
    })
}

/// The thread of the dispatcher, the generator and the even workers.
struct Near<'a> {
    rig: Rig,
    state: SyntheticState,
    packets: &'a Packets,
    workers: Vec<Worker<Synthetic>>,
    window: &'a AtomicUsize,
    max: u64,
}

impl Near<'_> {
    fn spawn(&mut self) -> Result<Worker<Synthetic>, Error> {
        spawn(&mut self.rig.dispatcher, Synthetic::new(self.state.clone()))
    }

    fn changes(mut self, changes: usize) -> Result<Meter, Error> {
        let mut meter = Meter::default();
        let end = now() + RUN_MAX;
        for change in 0..changes {
            if change > 0 && now() > end {
                break;
            }
            self.passes(4, Window::Other, &mut meter)?;
            self.publish_same_table()?;
            self.settle(&mut meter)?;
            self.passes(1, Window::AfterNothing, &mut meter)?;
            self.passes(3, Window::Other, &mut meter)?;
            self.passes(4, Window::BeforeGrowth, &mut meter)?;
            let worker = self.spawn()?;
            self.workers.push(worker);
            self.settle(&mut meter)?;
            self.passes(1, Window::AfterGrowth, &mut meter)?;
            self.passes(3, Window::Other, &mut meter)?;
            self.passes(4, Window::BeforeShrinking, &mut meter)?;
            self.rig.dispatcher.steering_mut().remove_worker(WorkerId(WORKERS));
            self.settle(&mut meter)?;
            self.passes(1, Window::AfterShrinking, &mut meter)?;
        }
        Ok(meter)
    }

    /// Asks for a whole-table change that moves nothing: what a change costs without its moves.
    fn publish_same_table(&mut self) -> Result<(), Error> {
        let (control, table) = self.rig.dispatcher.steering_mut().control_mut();
        let owners = table.entries().iter().take(table.groups() as usize);
        let owners = owners.map(|entry| entry.with_idle(false).with_moving(false)).collect();
        control.load(owners, table).or_needs("table published anew")
    }

    /// One packet of every flow, so often, and all of it done.
    fn passes(&mut self, passes: usize, window: Window, meter: &mut Meter) -> Result<(), Error> {
        self.window.store(window as usize, Ordering::Relaxed);
        let (flows, mut next) = (self.packets.len(), 0);
        let end = now() + Nanos::from_secs(5);
        while next < passes * flows || self.rig.outstanding() > 0 {
            // Half of the frames under way are enough to keep two CPUs at work.
            let room = 256_usize.saturating_sub(self.rig.outstanding());
            let wanted = (passes * flows - next).min(room).min(BURST);
            let packets = self.packets;
            let mut flow = next;
            next += self.rig.offer(wanted, now(), |frame| {
                packets.write(flow % flows, frame);
                flow += 1;
            });
            self.turn(window, meter);
            if now() > end {
                return Err("a pass over the flows does not end").or_needs("steady state");
            }
        }
        self.window.store(Window::Other as usize, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until nothing moves and whoever was to leave has left. No packet is under way.
    fn settle(&mut self, meter: &mut Meter) -> Result<(), Error> {
        let end = now() + Nanos::from_secs(10);
        // The first turn takes up the request.
        self.turn(Window::Other, meter);
        let expected = |near: &Self| {
            let leaving = near.rig.dispatcher.steering().workers();
            leaving.filter(|&(_, state, _)| state != datapath::WorkerQueueState::Active).count()
                == 0
        };
        while !self.rig.dispatcher.steering().is_settled() || !expected(self) {
            self.turn(Window::Other, meter);
            if now() > end {
                return Err("the workers do not come to rest").or_needs("steady state");
            }
        }
        Ok(())
    }

    fn turn(&mut self, window: Window, meter: &mut Meter) {
        let time = now();
        self.rig.dispatcher.receive(time);
        let max = self.max;
        self.workers.retain_mut(|worker| !meter.step(worker, window as usize, max));
        self.rig.dispatcher.transmit(time);
        self.rig.dispatcher.control(time);
        self.rig.take_answers(time);
    }
}

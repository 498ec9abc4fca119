//! A core on which a batch job runs goes to a worker with a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use base::Nanos;
use datapath::cores::CoreEvent;
use policy::cores::Class;
use sys::clock::{TscRate, now, tsc};

use super::grant::{micros, rest, span};
use super::hands::PinningHands;
use super::realm::{Realm, Subject};
use super::sleeper::{By, Sleeper};
use super::waiter::{WaitMode, Waiter};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::SplitMix;
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// What does not come within this long never comes.
const TIMEOUT: Nanos = Nanos::from_secs(1);

/// One sample a round: medians.
#[derive(Default)]
struct Samples {
    reclaimed: Vec<f64>,
    bare: Vec<f64>,
    by_affinity: Vec<f64>,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "reclaim",
        &format!(
            "allocator on CPU {client}, which never sleeps; CPU {server} is held by a batch job, a thread that \
             spins as SCHED_IDLE. From before the allocator's step, which revokes the job's core, grants it \
             and wakes the worker (client library), to when the worker's wait has returned. Baseline, in turns, \
             beside the same spinner: sched_setaffinity and a futex wake of a thread that sleeps there. By \
             affinity: the spinner is SCHED_OTHER and moved to CPU {client} before the futex wake."
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
            reclaimed(times, server, rate, &mut random, &mut samples)?;
            by_affinity(times, plan.cpus, rate, &mut random, &mut samples)
        })
    })?;
    let Samples { reclaimed, bare, by_affinity } = samples;
    let name = "bare affinity and wake";
    let figure = Figure::new("from a SCHED_IDLE job, p50", "us", &reclaimed);
    let figure = figure.against(name, &reclaimed, &bare);
    report.figure(figure.target(Target::RatioAtMost(1.5)))?;
    let figure = Figure::new("by affinity from a SCHED_OTHER job, p50", "us", &by_affinity);
    report.figure(figure.against(name, &by_affinity, &bare))
}

/// A thread that uses all of a CPU that it gets. Ends when dropped.
struct Spinner {
    stop: Arc<AtomicBool>,
    tid: u32,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    fn start(cpu: usize, idle: bool) -> Result<Self, Error> {
        let (stop, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (seen, told) = (Arc::clone(&stop), Arc::clone(&tid));
        let spin = move || {
            let placed = sys::thread::pin(cpu).and_then(|()| match idle {
                true => sys::scheduling::set_idle(true),
                false => Ok(()),
            });
            told.store(placed.map_or(u32::MAX, |()| sys::thread::tid()), Ordering::Release);
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let thread = std::thread::Builder::new().name("batch".to_owned()).spawn(spin);
        let mut spinner = Self { stop, tid: 0, thread: Some(thread.or_needs("thread")?) };
        while spinner.tid == 0 {
            std::thread::yield_now();
            spinner.tid = tid.load(Ordering::Acquire);
        }
        if spinner.tid == u32::MAX {
            return Err("it is refused").or_needs("spinner of that class on that CPU");
        }
        Ok(spinner)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // There is nothing to hear of its end.
            let _ = thread.join();
        }
    }
}

/// Has the allocator step until the job holds its core.
fn until_held(realm: &mut Realm, job: &Subject, hands: &mut PinningHands) -> Result<(), Error> {
    let began = now();
    loop {
        let counts = realm.allocator.counts(Some(job.id));
        if counts.get(CoreEvent::Grants) > counts.get(CoreEvent::Revokes) {
            return Ok(());
        }
        realm.step(now(), hands);
        if now().since(began) > TIMEOUT {
            return Err("it gets none").or_needs("core for the batch job");
        }
    }
}

/// By the allocator, and by the bare system calls, in turns.
fn reclaimed(
    times: u32,
    cpu: usize,
    rate: TscRate,
    random: &mut SplitMix,
    samples: &mut Samples,
) -> Result<(), Error> {
    let mut realm = Realm::new(&[cpu as u16])?;
    let mut hands = PinningHands::default();
    let waiter = Waiter::start(&mut realm, WaitMode::Sleeps)?;
    let job = realm.admit(Class::Batch, 1)?;
    let _spinner = Spinner::start(cpu, true)?;
    let sleeper = Sleeper::start(cpu, By::Futex)?;
    let [mut reclaimed, mut bare] = [const { Vec::new() }; 2];
    for time in 0..=times {
        waiter.until_parked(&mut realm, &mut hands)?;
        until_held(&mut realm, &job, &mut hands)?;
        rest(random);
        waiter.ask(&mut realm)?;
        let from = tsc();
        realm.step(now(), &mut hands);
        let ran_at = waiter.ran_at(time + 1)?;
        // The first one is put on its core.
        if time > 0 {
            reclaimed.push(span(from, ran_at));
        }
        waiter.until_parked(&mut realm, &mut hands)?;
        rest(random);
        let from = tsc();
        let placed = sys::thread::pin_other(sleeper.tid(), cpu);
        sleeper.wake();
        bare.push(span(from, sleeper.ran_at()?));
        placed.or_needs("place on that CPU")?;
    }
    samples.reclaimed.push(micros(&reclaimed, rate));
    samples.bare.push(micros(&bare, rate));
    Ok(())
}

/// From a job of the normal class, which has to be moved away.
fn by_affinity(
    times: u32,
    cpus: Cpus,
    rate: TscRate,
    random: &mut SplitMix,
    samples: &mut Samples,
) -> Result<(), Error> {
    let spinner = Spinner::start(cpus.server, false)?;
    let sleeper = Sleeper::start(cpus.server, By::Futex)?;
    let mut spans = Vec::new();
    // Each time, the job and this thread share a CPU for a while.
    for _ in 0..times.div_ceil(5) {
        rest(random);
        let from = tsc();
        let moved = sys::thread::pin_other(spinner.tid, cpus.client);
        sleeper.wake();
        spans.push(span(from, sleeper.ran_at()?));
        let back = sys::thread::pin_other(spinner.tid, cpus.server);
        moved.and(back).or_needs("place on that CPU")?;
    }
    samples.by_affinity.push(micros(&spans, rate));
    Ok(())
}

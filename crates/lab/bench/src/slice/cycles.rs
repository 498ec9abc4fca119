//! What each function costs by itself, and whether two slices on two cores do twice as much.

use std::sync::Barrier;
use std::thread;

use base::Nanos;
use sys::clock::TscRate;

use super::absent::in_turns_if_there;
use super::memory::{self, Spent, Work};
use super::table;
use super::works::{Internet, works};
use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{allowed, on_cpu};
use crate::report::Report;

/// `calisto bench slice --case cycles`.
pub(super) fn cycles(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    report.begin(
        "cycles",
        &format!(
            "a slice of two wires in memory on CPU {cpu}, full batches: read_multi, the function, \
             write_multi; what writes the packets and takes them away is not in it. This is what a \
             NIC that costs nothing would see. Turns that the CPU was taken away in are left out"
        ),
    )?;
    let (length, rate) = (length(plan), TscRate::calibrate(Nanos::from_millis(20)));
    let internet = internet(plan);
    let works = works(&internet);
    let samples = in_turns_if_there(plan, report, "every function", works.len(), |which| {
        on_cpu(cpu, || memory::run(&works[which], length, rate))
    })?;
    for (work, samples) in works.iter().zip(&samples) {
        let samples = match samples {
            Ok(samples) => samples,
            Err(why) => {
                report.figure(Figure::missing(&work.name, why))?;
                continue;
            }
        };
        let column = |of: fn(&Spent, TscRate) -> f64| -> Vec<f64> {
            samples.iter().map(|spent| of(spent, rate)).collect()
        };
        let name = &work.name;
        let [cycles, rate_wanted] = targets(name);
        let own = column(|spent, _| spent.cycles());
        let figure = Figure::new(format!("{name}: per packet"), "cycles (tsc)", &own);
        report.figure(cycles.map_or(figure.clone(), |target| figure.target(target)))?;
        let rates = column(|spent, rate| spent.mpps(rate));
        let figure = Figure::new(format!("{name}: one core"), "Mpps", &rates);
        report.figure(rate_wanted.map_or(figure.clone(), |target| figure.target(target)))?;
        let left_out = column(|spent, _| {
            100.0 * spent.turns_left_out as f64 / (spent.turns + spent.turns_left_out).max(1) as f64
        });
        report.figure(Figure::new(format!("{name}: turns left out"), "%", &left_out))?;
    }
    Ok(())
}

/// What is wanted of a function: cycles of a packet, and millions of packets a second.
fn targets(name: &str) -> [Option<Target>; 2] {
    match name.split_once(", 64 B").map_or(name, |(function, _)| function) {
        "firewall, 100,000 connections" => [Some(Target::AtMost(60.0)), None],
        "nat, 100,000 connections" => [Some(Target::AtMost(110.0)), None],
        // Each of its packets begins one.
        "firewall, new connections" => [None, Some(Target::AtLeast(1.0))],
        _ => [None, None],
    }
}

/// `calisto bench slice --case cores`.
pub(super) fn cores(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpus = allowed();
    let cores = plan.cores;
    let cpus = cpus.get(..cores).ok_or_else(|| format!("there are {}", cpus.len()));
    let cpus = cpus.or_needs("CPUs for as many slices")?;
    report.begin(
        "cores",
        &format!(
            "as in case cycles, a slice on each of the CPUs {cpus:?} at the same time, and one \
             alone on the last of them, in turns. Rates are packets by the time of the slices' own \
             turns, added up"
        ),
    )?;
    let (length, rate) = (length(plan), TscRate::calibrate(Nanos::from_millis(20)));
    // Nine tenths of a core are lost to nothing, and 1.9 of two cores is what is wanted.
    let target = Target::RatioAtLeast(0.95 * cores as f64);
    let internet = internet(plan);
    for work in &works(&internet) {
        let ways = [cpus, &cpus[cores - 1..]];
        let samples = in_turns_if_there(plan, report, &work.name, ways.len(), |which| {
            together(work, ways[which], length, rate)
        })?;
        let [all, alone] = match [&samples[0], &samples[1]] {
            [Ok(all), Ok(alone)] => [all, alone],
            [Err(why), _] | [_, Err(why)] => {
                report.figure(Figure::missing(&work.name, why))?;
                continue;
            }
        };
        let metric = format!("{}: {cores} slices", work.name);
        let figure = Figure::new(metric, "Mpps", all).against("one slice", all, alone);
        report.figure(figure.target(target))?;
    }
    Ok(())
}

/// The table of routes, or why there is none.
fn internet(plan: &Plan) -> Result<Internet, Error> {
    Internet::new(&table::routes(plan.table.as_deref(), plan.pick(usize::MAX, 10_000))?)
}

fn length(plan: &Plan) -> Nanos {
    plan.pick(Nanos::from_millis(400), Nanos::from_millis(30))
}

/// Millions of packets a second of slices on all `cpus` at once.
fn together(work: &Work<'_>, cpus: &[usize], length: Nanos, rate: TscRate) -> Result<f64, Error> {
    let begin = Barrier::new(cpus.len());
    // Whatever fails, no thread is left waiting.
    let ready = || {
        begin.wait();
    };
    let one = |cpu: usize| {
        let pinned = sys::thread::pin(cpu).or_needs("place on that CPU");
        pinned.inspect_err(|_| ready())?;
        memory::run_after(work, length, rate, &ready)
    };
    thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || one(cpu))).collect();
        let mut sum = 0.0;
        for thread in threads {
            let spent = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            sum += spent.mpps(rate);
        }
        Ok(sum)
    })
}

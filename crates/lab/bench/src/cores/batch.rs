//! What a latency-critical server notices of a batch job on its CPU, and what the job gets.

mod server;

use std::path::PathBuf;
use std::process::Command;

use base::Nanos;
use load::{Arrival, Pace};
use testbed::ScratchDir;

use self::server::{FLOWS, Server, Site};
use crate::apps::harness::Harness;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::helper::{self, Kind};
use crate::place::{Cpus, on_cpu};
use crate::process::{Process, cpu_time, idle_time};
use crate::programs;
use crate::report::Report;

/// Of the requests a second that are answered when 16 are always under way.
const LOAD: f64 = 0.2;

/// A span of time in which processes that are not ours had more of the CPU than this is measured
/// again, so often in all; the quietest counts. A round that was never quiet is left out, unless
/// none was.
const STRANGERS_MAX: f64 = 0.1;
const TRIES: u32 = 6;

/// A way to share a CPU.
struct Way {
    name: &'static str,
    /// Lines of the daemon's configuration about cores; none: there is no daemon.
    cores: Option<&'static str>,
    /// What the latency-critical server's p95 may become, and what the job must get of what is
    /// left.
    targets: [Option<Target>; 2],
}

static WAYS: [Way; 4] = [
    Way {
        name: "queue_delay",
        cores: Some("policy = \"queue_delay\"\n"),
        targets: [Some(Target::RatioAtMost(1.3)), Some(Target::RatioAtLeast(0.8))],
    },
    Way {
        name: "queue_delay every 10 ms",
        cores: Some("policy = \"queue_delay\"\ninterval_us = 10000\n"),
        targets: [None; 2],
    },
    Way { name: "static_set", cores: Some("policy = \"static_set\"\n"), targets: [None; 2] },
    Way { name: "Linux, nice 19", cores: None, targets: [None; 2] },
];

/// What was seen in one span of time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    p50_us: f64,
    p95_us: f64,
    lost: f64,
    /// Shares of the CPU: the server's (with the daemon), the job's, and that of everybody else.
    server: f64,
    job: f64,
    others: f64,
    /// Products that the job made a second.
    speed: f64,
}

/// A way's samples, one a round.
#[derive(Default)]
struct Samples {
    alone: Vec<Seen>,
    beside: Vec<Seen>,
}

impl Samples {
    /// The rounds in which the CPU was ours, with the job's speeds alone in them, and how many
    /// others there were; all rounds when none was quiet.
    fn quiet(&self, speeds: &[f64]) -> (Self, Vec<f64>, usize) {
        let is_quiet = |seen: &Seen| seen.others <= STRANGERS_MAX;
        let rounds = || self.alone.iter().zip(&self.beside).zip(speeds);
        let quiet =
            |((alone, beside), _): &((&Seen, &Seen), &f64)| is_quiet(alone) && is_quiet(beside);
        let count = rounds().filter(quiet).count();
        let mut kept = (Self::default(), Vec::new(), 0);
        for round in rounds() {
            if count > 0 && !quiet(&round) {
                kept.2 += 1;
                continue;
            }
            let ((alone, beside), speed) = round;
            kept.0.alone.push(*alone);
            kept.0.beside.push(*beside);
            kept.1.push(*speed);
        }
        kept
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    if !plan.cpus.are_two() {
        return Err("only one may be used").or_needs("second CPU");
    }
    let rate = capacity(plan)? * LOAD;
    report.begin(
        "batch",
        &format!(
            "UDP echo for a kernel client (open loop, {rate:.0} requests/s: {LOAD} of what a closed loop with \
             {FLOWS} gets; {FLOWS} flows) on CPU {client}, over a veth. On CPU {server}: calistod over AF_XDP \
             with cores.set = [{server}], an echo server of the client library with a guaranteed core, \
             and a batch job, {job}. queue_delay, static_set: the job under `calisto run --batch`. Linux: a \
             blocking server over a kernel socket without XDP, the job at nice 19, both pinned. Each alone \
             first, then beside the job. Left over: what daemon and server do not use when alone, less what \
             processes that are not ours use of the CPU; where that is over a tenth of it, the span is \
             measured again, up to {TRIES} times in all, and rounds that were never quiet are left out if any was. Latency from the intended time.",
            job = "which multiplies matrices of 128 x 128"
        ),
    )?;
    let mut samples: [Samples; WAYS.len()] = Default::default();
    let mut speeds = Vec::new();
    let _: [_; WAYS.len() + 1] = turns_of(plan, report, "", |which, _| {
        // The last one is the job that has the CPU for itself.
        let Some(way) = WAYS.get(which) else {
            speeds.push(speed_alone(plan)?);
            return Ok(());
        };
        let (alone, beside) = measure(plan, way, rate)?;
        samples[which].alone.push(alone);
        samples[which].beside.push(beside);
        Ok(())
    })?;
    for (way, samples) in WAYS.iter().zip(&samples) {
        print(way, samples, &speeds, report)?;
    }
    Ok(())
}

fn print(
    way: &Way,
    samples: &Samples,
    speeds: &[f64],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Way { name, targets: [latency, share], .. } = way;
    let column = |seen: &[Seen], of: fn(&Seen) -> f64| seen.iter().map(of).collect::<Vec<f64>>();
    let targeted = |figure: Figure, target: &Option<Target>| match target {
        Some(target) => figure.target(*target),
        None => figure,
    };
    let (samples, speeds, left_out) = samples.quiet(speeds);
    let Samples { alone, beside } = &samples;
    for (what, of, target) in [
        ("p50", (|seen| seen.p50_us) as fn(&Seen) -> f64, &None),
        ("p95", |seen| seen.p95_us, latency),
    ] {
        let (own, baseline) = (column(beside, of), column(alone, of));
        let figure = Figure::new(format!("{name}: {what} beside the job"), "us", &own);
        let figure = figure.against("alone", &own, &baseline);
        let figure = match left_out {
            0 => figure,
            count => figure.note(format!("{count} rounds with strangers on the CPU left out")),
        };
        report.figure(targeted(figure, target))?;
    }
    let job = column(beside, |seen| 100.0 * seen.job);
    let left: Vec<f64> = alone
        .iter()
        .zip(beside)
        .map(|(alone, beside)| 100.0 * (1.0 - alone.server - beside.others).max(0.0))
        .collect();
    let figure = Figure::new(format!("{name}: the job's CPU time"), "%", &job);
    report.figure(targeted(figure.against("left over", &job, &left), share))?;
    let speed = column(beside, |seen| seen.speed);
    let figure = Figure::new(format!("{name}: the job's work"), "products/s", &speed);
    report.figure(figure.against("alone on the CPU", &speed, &speeds))?;
    let (own, baseline) =
        (column(beside, |seen| 100.0 * seen.server), column(alone, |seen| 100.0 * seen.server));
    let figure = Figure::new(format!("{name}: the server's CPU time"), "%", &own);
    report.figure(figure.against("alone", &own, &baseline))?;
    let others: Vec<f64> = alone.iter().chain(beside).map(|seen| 100.0 * seen.others).collect();
    report.figure(Figure::new(format!("{name}: CPU time of strangers"), "%", &others))?;
    let lost: f64 = alone.iter().chain(beside).map(|seen| seen.lost).sum();
    report.figure(Figure::new(format!("{name}: requests without an answer"), "", &[lost]))
}

/// A batch job, and how far it has come.
struct Job {
    _process: Process,
    pid: u32,
    progress: PathBuf,
    _folder: ScratchDir,
}

impl Job {
    /// Under `calisto run --batch` where there is a daemon, else at nice 19 on the server's CPU.
    fn start(cpus: Cpus, harness: Option<&Harness>) -> Result<Self, Error> {
        let folder = ScratchDir::new("batch").or_needs("folder for the progress")?;
        let progress = folder.path().join("progress");
        let program = programs::ourselves()?;
        let kind = Kind::Multiply { progress: progress.clone(), nice: harness.is_none() };
        let (mut command, cpu) = match harness {
            Some(harness) => {
                let mut command = Command::new(programs::command()?);
                command.args(["run", "--batch", "--cores", "1", "--socket"]).arg(harness.socket());
                command.arg("--").arg(program);
                // The runner is on a core that no worker has.
                (command, cpus.client)
            }
            None => (Command::new(program), cpus.server),
        };
        command.args(kind.words());
        let (process, pid) = helper::start(command, cpu)?;
        Ok(Self { _process: process, pid, progress, _folder: folder })
    }

    /// Products that it has made.
    fn products(&self) -> Result<u64, Error> {
        let bytes = std::fs::read(&self.progress).or_needs("progress of the job")?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
    }
}

/// Requests a second that a closed loop gets.
fn capacity(plan: &Plan) -> Result<f64, Error> {
    let server = Server::start(plan.cpus, WAYS[0].cores)?;
    let length = Nanos::from_millis(plan.pick(300, 200));
    let mut best = 0.0_f64;
    // What somebody else had of the CPU is not the server's fault.
    for _ in 0..plan.pick(5, 2) {
        unless_interrupted()?;
        let report = server.load(plan, Pace::Closed { outstanding: FLOWS }, length)?;
        best = best.max(report.rates.achieved_rate);
    }
    Ok(best)
}

/// Products a second of a job that has the CPU for itself.
fn speed_alone(plan: &Plan) -> Result<f64, Error> {
    let job = Job::start(plan.cpus, None)?;
    let length = std::time::Duration::from_millis(plan.pick(500, 200));
    let (began, before) = (sys::clock::now(), job.products()?);
    std::thread::sleep(length);
    let products = job.products()? - before;
    Ok(products as f64 / sys::clock::now().since(began).as_secs_f64())
}

/// One way, alone and beside the job.
fn measure(plan: &Plan, way: &Way, rate: f64) -> Result<(Seen, Seen), Error> {
    let server = Server::start(plan.cpus, way.cores)?;
    let alone = watch(plan, &server, None, rate)?;
    let harness = match &server.place {
        Site::Harness(harness) => Some(harness),
        Site::Bed(_) => None,
    };
    let beside = match job(plan, harness, way)? {
        Some(job) => watch(plan, &server, Some(&job), rate)?,
        None => watch(plan, &server, None, rate)?,
    };
    Ok((alone, beside))
}

/// The job; none where it is never given a core, and so never begins.
fn job(plan: &Plan, harness: Option<&Harness>, way: &Way) -> Result<Option<Job>, Error> {
    if way.name == "static_set" {
        return Ok(None);
    }
    Job::start(plan.cpus, harness).map(Some)
}

/// Some time of load, as quiet as can be had.
fn watch(plan: &Plan, server: &Server, job: Option<&Job>, rate: f64) -> Result<Seen, Error> {
    let mut quietest = span_of_load(plan, server, job, rate)?;
    for _ in 1..TRIES {
        if quietest.others <= STRANGERS_MAX {
            break;
        }
        unless_interrupted()?;
        let again = span_of_load(plan, server, job, rate)?;
        if again.others < quietest.others {
            quietest = again;
        }
    }
    Ok(quietest)
}

/// Some time of load.
fn span_of_load(plan: &Plan, server: &Server, job: Option<&Job>, rate: f64) -> Result<Seen, Error> {
    let cpu = plan.cpus.server;
    let pace = Pace::Open { arrival: Arrival::Poisson, rate };
    let length = Nanos::from_millis(plan.pick(400, 300));
    let times = || {
        let job_time = job.map_or(Ok(Nanos::ZERO), |job| cpu_time(job.pid))?;
        Ok([sys::clock::now(), server.cpu_time()?, job_time, idle_time(cpu)?])
    };
    let products = || job.map_or(Ok(0), Job::products);
    let (before, made) = (times()?, products()?);
    let report = on_cpu(plan.cpus.client, || server.load(plan, pace, length))?;
    let (after, made) = (times()?, products()? - made);
    let [span, server, job, idle] =
        std::array::from_fn(|at| after[at].since(before[at]).as_secs_f64());
    Ok(Seen {
        p50_us: report.times.latency.p50_us,
        p95_us: report.times.latency.p95_us,
        lost: report.requests.lost as f64,
        server: server / span,
        job: job / span,
        others: ((span - idle - server - job) / span).max(0.0),
        speed: made as f64 / span,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(others: f64) -> Seen {
        Seen { others, ..Seen::default() }
    }

    #[test]
    fn rounds_with_strangers_on_the_cpu_are_left_out_unless_all_are_such() {
        let samples = |alone: [f64; 3], beside: [f64; 3]| Samples {
            alone: alone.map(seen).to_vec(),
            beside: beside.map(seen).to_vec(),
        };
        let (kept, speeds, left_out) =
            samples([0.0, 0.5, 0.05], [0.0, 0.0, 0.1]).quiet(&[1.0, 2.0, 3.0]);
        assert_eq!((kept.alone.len(), speeds, left_out), (2, vec![1.0, 3.0], 1));
        let (kept, speeds, left_out) = samples([0.5; 3], [0.0; 3]).quiet(&[1.0, 2.0, 3.0]);
        assert_eq!((kept.beside.len(), speeds.len(), left_out), (3, 3, 0));
    }
}

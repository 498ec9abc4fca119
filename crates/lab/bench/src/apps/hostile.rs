//! What an honest application notices of a hostile neighbour, beyond the CPU time that any busy
//! neighbour takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Nanos;
use calisto_client::{App, AttachOptions, reply};
use load::transport::kernel::{KernelConfig, KernelUdp};
use load::{Arrival, Options, Pace};

use super::harness::Harness;
use super::neighbour::Neighbour;
use super::stream::Stream;
use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::helper::{Conduct, VICTIM_PORT};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// Where the victim's neighbour listens.
const NEIGHBOUR_PORT: u16 = 8;

/// Requests a second of the open loop.
const RATE: f64 = 5000.0;

/// Requests that the closed loop has in flight.
const OUTSTANDING: u32 = 4;

/// The nice value of the client: before everybody else.
const FIRST: i32 = -20;

/// Between two packets to the neighbour, where it is sent any.
const INTERVAL: Duration = Duration::from_micros(100);

/// A way to be hostile.
struct Hostility {
    conduct: Conduct,
    /// What takes as much of their CPU and does nothing wrong.
    baseline: Conduct,
    /// Whether both are sent packets.
    is_sent_packets: bool,
    name: &'static str,
    /// What is counted.
    acts: &'static str,
}

const HOSTILITIES: [Hostility; 4] = [
    Hostility {
        conduct: Conduct::Spoof,
        baseline: Conduct::Honest,
        is_sent_packets: false,
        name: "spoofing",
        acts: "forged packets/s",
    },
    Hostility {
        conduct: Conduct::Ring,
        baseline: Conduct::RingOwn,
        is_sent_packets: false,
        name: "wake storm",
        acts: "rings/s",
    },
    Hostility {
        conduct: Conduct::Sleep,
        baseline: Conduct::Honest,
        is_sent_packets: true,
        name: "sleep storm",
        acts: "wake-ups/s",
    },
    Hostility {
        conduct: Conduct::Garbage,
        baseline: Conduct::RingOwn,
        is_sent_packets: false,
        name: "garbage",
        acts: "times thrown out/s",
    },
];

/// One sample a round.
#[derive(Default)]
struct Seen {
    /// What the victim's client saw, closed loop and open.
    loads: [Samples; 2],
    /// What the neighbour did a second.
    acts: Vec<f64>,
}

#[derive(Default)]
struct Samples {
    rate: Vec<f64>,
    p50_us: Vec<f64>,
    p95_us: Vec<f64>,
}

impl Samples {
    fn push(&mut self, report: &load::Report) {
        self.rate.push(report.rates.achieved_rate);
        self.p50_us.push(report.times.latency.p50_us);
        self.p95_us.push(report.times.latency.p95_us);
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "hostile",
        &format!(
            "calistod over AF_XDP on a veth and the victim (an echo server on the client library) \
             on CPU {server}; the victim's client (kernel socket, closed loop with {OUTSTANDING} in flight, then \
             open loop with {RATE} requests/s) and the neighbour, a process that never sleeps, on CPU {client}, \
             the client before it (nice {FIRST}). \
             Baseline of each row: the same neighbour, honest, spinning in user space \
             or (wake storm, garbage) in system calls that concern nobody else. Sleep storm: both \
             neighbours are sent a packet every {INTERVAL:?} as well. Latency from the intended time."
        ),
    )?;
    let harness = Harness::start(plan.cpus)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (harness, stop) = (&harness, &stop);
        let victim = scope.spawn(move || on_cpu(server, || serve(harness, stop)));
        let result = rounds(plan, harness, report, &|| victim.is_finished());
        stop.store(true, Ordering::Relaxed);
        victim.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        result
    })
}

/// Answers until it is told to stop.
fn serve(harness: &Harness, stop: &AtomicBool) -> Result<(), Error> {
    let options =
        AttachOptions::new("victim").socket(harness.socket()).listen(harness.listener(VICTIM_PORT));
    let (_app, mut workers) = App::attach(&options).or_needs("attachment of the victim")?;
    let worker = workers.first_mut().ok_or("it has no worker").or_needs("victim")?;
    while !stop.load(Ordering::Relaxed) {
        if worker.step(reply::echo).or_needs("attachment of the victim")? == 0 {
            worker.wait(Nanos::from_millis(20)).or_needs("attachment of the victim")?;
        }
    }
    Ok(())
}

fn rounds(
    plan: &Plan,
    harness: &Harness,
    report: &mut Report<'_>,
    victim_is_gone: &dyn Fn() -> bool,
) -> Result<(), Error> {
    // By kind: honest, hostile.
    let mut seen: [[Seen; 2]; HOSTILITIES.len()] = Default::default();
    for round in 0..plan.rounds {
        plan.round(report, round, "")?;
        for (hostility, seen) in HOSTILITIES.iter().zip(&mut seen) {
            // Nobody always comes first.
            let turns = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for turn in turns {
                unless_interrupted()?;
                let conduct = [hostility.baseline, hostility.conduct][turn];
                measure(plan, harness, conduct, hostility.is_sent_packets, &mut seen[turn])?;
                if victim_is_gone() {
                    // Its own error says why.
                    return Ok(());
                }
            }
        }
    }
    for (hostility, [honest, hostile]) in HOSTILITIES.iter().zip(&seen) {
        print(hostility, honest, hostile, report)?;
    }
    Ok(())
}

fn print(
    hostility: &Hostility,
    honest: &Seen,
    hostile: &Seen,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let Hostility { name, acts, .. } = *hostility;
    report.figure(Figure::new(format!("{name}: what it does"), acts, &hostile.acts))?;
    let loads = honest.loads.iter().zip(&hostile.loads);
    for (what, (honest, hostile)) in ["closed loop", "open loop"].into_iter().zip(loads) {
        let figure = |of: &str, unit, own: &[f64], baseline: &[f64]| {
            let figure = Figure::new(format!("{name}: {what}{of}"), unit, own);
            figure.against("honest neighbour", own, baseline)
        };
        let answered = figure(", answered", "requests/s", &hostile.rate, &honest.rate);
        report.figure(answered.target(Target::RatioAtLeast(0.95)))?;
        report.figure(figure(", p50", "us", &hostile.p50_us, &honest.p50_us))?;
        let p95 = figure(", p95", "us", &hostile.p95_us, &honest.p95_us);
        report.figure(p95.target(Target::RatioAtMost(1.2)))?;
    }
    Ok(())
}

/// One neighbour, two loads.
fn measure(
    plan: &Plan,
    harness: &Harness,
    conduct: Conduct,
    is_sent_packets: bool,
    seen: &mut Seen,
) -> Result<(), Error> {
    let cpu = plan.cpus.client;
    let began = sys::clock::now();
    let neighbour = Neighbour::start(harness, conduct, NEIGHBOUR_PORT, cpu)?;
    let target = harness.address(NEIGHBOUR_PORT);
    let [closed, open] = on_cpu(cpu, || {
        // Threads inherit it: what the client measures is not its waiting for a CPU that the
        // neighbour does not give away.
        rustix::process::setpriority_process(None, FIRST).or_needs("priority")?;
        let stream =
            is_sent_packets.then(|| Stream::start(harness.bed.client(), target, INTERVAL, cpu));
        let _stream = stream.transpose()?;
        Ok([
            load(plan, harness, Pace::Closed { outstanding: OUTSTANDING })?,
            load(plan, harness, Pace::Open { arrival: Arrival::Poisson, rate: RATE })?,
        ])
    })?;
    let seconds = sys::clock::now().since(began).as_secs_f64();
    seen.acts.push(neighbour.stop()? as f64 / seconds);
    for (samples, report) in seen.loads.iter_mut().zip([&closed, &open]) {
        samples.push(report);
    }
    Ok(())
}

fn load(plan: &Plan, harness: &Harness, pace: Pace) -> Result<load::Report, Error> {
    let wanted = load::Plan {
        pace,
        flows: OUTSTANDING,
        warmup: Nanos::from_millis(plan.pick(300, 100)),
        length: Nanos::from_millis(plan.pick(1500, 300)),
        grace: Nanos::from_millis(100),
        ..load::Plan::default()
    };
    // It sleeps when there is nothing to do: a spinning client would only fight with the
    // neighbour for their CPU.
    let options = Options { cpus: vec![plan.cpus.client], spin: Nanos::ZERO, ..Options::default() };
    let open = |plan: &load::Plan, _| {
        let config = KernelConfig {
            target: harness.address(VICTIM_PORT),
            sources: None,
            flows: plan.flows,
            payload_bytes: plan.payload_bytes,
            first_port: load::transport::sources::FIRST_PORT,
        };
        let opened = harness.bed.client().enter(|| KernelUdp::open(&config));
        opened.map_err(|error| load::Error::Failed(error.to_string()))?
    };
    load::run(&wanted, &options, open, None).or_needs("load")
}

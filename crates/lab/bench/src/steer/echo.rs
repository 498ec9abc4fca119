//! UDP echo over a veth pair: what the dispatcher and its rings cost against a bare loop.
//!
//! Server and client are in namespaces of their own. The client is a kernel socket that never
//! sleeps, so that no wake-up is measured.

use std::sync::atomic::Ordering;

use base::Nanos;
use datapath::Echo;
use port::Port;
use port::xdp::XdpPort;
use shm::{Batch, FramePool};
use sys::clock::now;

use crate::cases::{Plan, turns_of};
use crate::echo_wire::{Answers, EchoWire, PAYLOAD_BYTES, Signals, TIMEOUT};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::listeners;
use crate::place::Cpus;
use crate::report::Report;
use crate::rig::{RigConfig, dispatcher, spawn};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// Receive, turn around, transmit: one loop over the port.
    Bare,
    /// Dispatcher and worker in one loop.
    Fused,
    /// Dispatcher and worker on two threads of one CPU.
    TwoThreads,
}

const SERVERS: [(Server, &str); 3] = [
    (Server::Bare, "bare loop"),
    (Server::Fused, "fused"),
    (Server::TwoThreads, "worker on another thread"),
];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "echo",
        &format!(
            "UDP, {PAYLOAD_BYTES} bytes, over veth between two namespaces; client: one kernel \
             socket, closed loop with 1 or 16 outstanding, spinning, on CPU {client}; server: \
             AF_XDP (native, copy) with all its threads on CPU {server}, spinning, two threads \
             yielding to each other when idle. Bare: one thread, port and reply only. The kernel \
             runs each side's receive path on the sender's CPU."
        ),
    )?;
    let wire = EchoWire::new()?;
    let length = plan.pick(Nanos::from_millis(500), Nanos::from_millis(100));
    for (outstanding, targets) in [
        (1, [None, Some(Target::RatioAtLeast(0.85)), Some(Target::RatioAtLeast(0.5))]),
        (16, [None, Some(Target::RatioAtLeast(0.85)), Some(Target::RatioAtLeast(0.9))]),
    ] {
        let what = format!("{outstanding} outstanding");
        let answers: [Vec<Answers>; 3] = turns_of(plan, report, what, |which, _| {
            let (server, _) = SERVERS[which];
            let serve = |port, pool, signals: &_| serve(server, plan.cpus, port, pool, signals);
            wire.measure(plan, outstanding, length, serve)
        })?;
        let of = |index: usize, value: fn(&Answers) -> f64| {
            answers[index].iter().map(value).collect::<Vec<f64>>()
        };
        let (bare_rate, bare_p50) = (of(0, |run| run.per_second), of(0, |run| run.p50_us));
        for (index, (server, name)) in SERVERS.into_iter().enumerate() {
            let (rate, p50) = (of(index, |run| run.per_second), of(index, |run| run.p50_us));
            let name = format!("{name}, {outstanding} outstanding");
            let mut rates = Figure::new(&name, "requests/s", &rate).target(targets[index]);
            let mut delays = Figure::new(format!("{name}, p50"), "us", &p50);
            if server != Server::Bare {
                rates = rates.against("bare loop", &rate, &bare_rate);
                delays = delays.against("bare loop", &p50, &bare_p50);
            }
            let resent: u64 = answers[index].iter().map(|run| run.resent).sum();
            if resent > 0 {
                rates = rates.note(format!("{resent} requests sent again after {TIMEOUT}"));
            }
            report.figure(rates)?;
            report.figure(delays)?;
        }
    }
    Ok(())
}

/// Answers until it is told to stop. `ready` is set once the port is open.
fn serve(
    server: Server,
    cpus: Cpus,
    port: XdpPort,
    pool: FramePool,
    signals: &Signals,
) -> Result<(), Error> {
    if server == Server::Bare {
        return bare(port, pool, signals);
    }
    let Signals { stop, ready } = signals;
    let config = RigConfig { groups: 1 << 16, ..RigConfig::default() };
    let mut dispatcher = dispatcher(&config, port, pool, listeners())?;
    let mut worker = spawn(&mut dispatcher, Echo)?;
    ready.store(true, Ordering::Release);
    if server == Server::Fused {
        while !stop.load(Ordering::Relaxed) {
            let time = now();
            dispatcher.receive(time);
            worker.step(time);
            dispatcher.transmit(time);
            dispatcher.control(time);
        }
        dispatcher.close();
        return Ok(());
    }
    std::thread::scope(|scope| {
        let working = scope.spawn(move || {
            sys::thread::pin(cpus.server).or_needs("place on that CPU")?;
            while !stop.load(Ordering::Relaxed) {
                if worker.step(now()).messages == 0 {
                    sys::thread::sched_yield();
                }
            }
            Ok(())
        });
        while !stop.load(Ordering::Relaxed) {
            if dispatcher.step(now()).is_idle() {
                sys::thread::sched_yield();
            }
        }
        let worked = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        dispatcher.close();
        worked
    })
}

/// The least that an echo server over a port can do.
pub(crate) fn bare(mut port: XdpPort, mut pool: FramePool, signals: &Signals) -> Result<(), Error> {
    signals.ready.store(true, Ordering::Release);
    let mut batch = Batch::new();
    while !signals.stop.load(Ordering::Relaxed) {
        let time = now();
        port.rx(&mut pool, &mut batch, time);
        if batch.is_empty() {
            continue;
        }
        for frame in &mut batch {
            // Ethernet without a tag and IPv4 without options: the client is known.
            let turned = wire::reply::turn_around(frame.bytes_mut(), (14, 34), None);
            debug_assert!(turned.is_some(), "the XDP program lets nothing else in");
        }
        port.tx(&mut pool, &mut batch, time);
        for frame in batch.drain(..) {
            pool.give(frame);
        }
    }
    port.close(&mut pool);
    Ok(())
}

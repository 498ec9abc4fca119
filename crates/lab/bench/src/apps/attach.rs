//! How soon an application is served after it has asked, and what applications that come and go
//! leave behind in the daemon.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use base::Nanos;
use calisto_client::{App, AttachOptions, Batch, Worker};
use sys::clock::now;

use super::harness::{Harness, Holdings};
use super::neighbour::Neighbour;
use super::stream::{Stream, connected};
use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::helper::Conduct;
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// Between two packets of the client.
const INTERVAL: Duration = Duration::from_micros(100);

/// An application that has got no packet by then gets none.
const TIMEOUT: Nanos = Nanos::from_secs(1);

/// The first port of those that are listened on in turn.
const FIRST_PORT: u16 = 20_000;

/// The daemon remembers this many programs that are gone, with their descriptors: earlier ones do
/// not count.
const REMEMBERED: u32 = 100;

/// Used ports that are looked at in the end.
const LOOKED_AT: u16 = 100;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let cycles = plan.pick(10_000, 100);
    report.begin(
        "attach",
        &format!(
            "calistod over AF_XDP on a veth, all its threads on CPU {server}; a kernel socket in another \
             namespace sends a packet every {INTERVAL:?} from before; application (client library, \
             polling) and sender on CPU {client}. First packet: from the call of attach until the application \
             has a packet. Cycles: {cycles} times attach on a port of its own and leave, every tenth time as a \
             process that is ended by SIGKILL; what the daemon holds from /proc before (after \
             {REMEMBERED} cycles: it keeps the counters of the last who left) and after."
        ),
    )?;
    let harness = Harness::start(plan.cpus)?;
    first_packets(plan, &harness, "attach to first packet", report)?;
    come_and_go(plan, &harness, cycles, report)
}

/// From asking to the first packet, again and again.
fn first_packets(
    plan: &Plan,
    harness: &Harness,
    metric: &str,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let target = harness.address(FIRST_PORT);
    let cpu = plan.cpus.client;
    let _stream = Stream::start(harness.bed.client(), target, INTERVAL, cpu)?;
    let (mut calls, mut packets) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds * plan.pick(20, 5) {
        unless_interrupted()?;
        let (call, packet) = on_cpu(cpu, || first_packet(harness, FIRST_PORT))?;
        calls.push(call.0 as f64 / 1e6);
        packets.push(packet.0 as f64 / 1e6);
        if round.is_multiple_of(20) {
            report.progress(format_args!("first packet, {} attachments", round + 1));
        }
        // It leaves, and the next finds the port free and a daemon that may sleep.
        std::thread::sleep(Duration::from_millis(5));
    }
    let figure = Figure::new(metric, "ms", &packets);
    report.figure(figure.target(Target::AtMost(10.0)))?;
    report.figure(Figure::new(format!("{metric}: of that, the call"), "ms", &calls))
}

fn attach(harness: &Harness, port: u16) -> Result<(App, Worker), Error> {
    let options =
        AttachOptions::new("bench").socket(harness.socket()).listen(harness.listener(port));
    let (app, mut workers) = App::attach(&options).or_needs("attachment")?;
    let worker = workers.pop().ok_or("it has no worker").or_needs("attachment")?;
    Ok((app, worker))
}

/// How long the call took, and until the first packet was here.
fn first_packet(harness: &Harness, port: u16) -> Result<(Nanos, Nanos), Error> {
    let asked = now();
    let (_app, mut worker) = attach(harness, port)?;
    let call = now().since(asked);
    let mut batch = Batch::new();
    while worker.receive(&mut batch).or_needs("attachment")? == 0 {
        if now().since(asked) > TIMEOUT {
            return Err("none has come within a second").or_needs("packet after attaching");
        }
        // The sender is on this CPU.
        std::thread::yield_now();
    }
    let packet = now().since(asked);
    worker.done(&mut batch).or_needs("attachment")?;
    worker.flush();
    Ok((call, packet))
}

/// Whether the application of this cycle does not leave but is killed.
fn is_killed(cycle: u32) -> bool {
    cycle % 10 == 9
}

/// What is left of many who came and went.
fn come_and_go(
    plan: &Plan,
    harness: &Harness,
    cycles: u32,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let cycle = |number: u32| {
        let port = FIRST_PORT + (number % 10_000) as u16;
        if is_killed(number) {
            // Dropped, it is killed.
            drop(Neighbour::start(harness, Conduct::Mortal, port, plan.cpus.client)?);
        } else {
            on_cpu(plan.cpus.client, || attach(harness, port).map(drop))?;
        }
        Ok::<_, Error>(())
    };
    for number in 0..REMEMBERED {
        cycle(number)?;
    }
    let before = settled(harness, None)?;
    let (mut left, mut killed) = (Vec::new(), Vec::new());
    for number in 0..cycles {
        if number.is_multiple_of(500) {
            unless_interrupted()?;
            report.progress(format_args!("cycle {number} of {cycles}"));
        }
        let began = now();
        cycle(number)?;
        let times = if is_killed(number) { &mut killed } else { &mut left };
        times.push(now().since(began).0 as f64 / 1e6);
    }
    let after = settled(harness, Some(before))?;
    for (what, unit, before, after, bound) in [
        ("open descriptors", "", before.descriptors as f64, after.descriptors as f64, 0.0),
        ("mapped application memories", "", before.regions as f64, after.regions as f64, 0.0),
        ("resident", "KiB", before.resident_kib as f64, after.resident_kib as f64, 1024.0),
    ] {
        let figure =
            Figure::new(format!("{what}: growth in {cycles} cycles"), unit, &[after - before]);
        let figure = figure.target(Target::AtMost(bound));
        report.figure(figure.note(format!("{before} before, {after} after")))?;
    }
    report.figure(Figure::new("a cycle of one that leaves", "ms", &left))?;
    report.figure(Figure::new(
        "a cycle of one that is killed, its start included",
        "ms",
        &killed,
    ))?;
    let missing = ports_that_are_kept(harness)?;
    let figure =
        Figure::new(format!("of {LOOKED_AT} used ports not the kernel's again"), "", &[missing]);
    report.figure(figure.target(Target::AtMost(0.0)))?;
    first_packets(plan, harness, "attach to first packet, after all cycles", report)
}

/// What the daemon holds when it has heard that everybody has left: no application's memory, and
/// no more descriptors than `before`. If it never comes to that, what it holds after a while.
fn settled(harness: &Harness, before: Option<Holdings>) -> Result<Holdings, Error> {
    let began = Instant::now();
    loop {
        let holdings = harness.holdings()?;
        let at_rest = holdings.regions == 0
            && before.is_none_or(|before| holdings.descriptors <= before.descriptors);
        // The first look may come before the last one's leaving was heard.
        let waited = began.elapsed();
        if at_rest && waited > Duration::from_millis(100) || waited > Duration::from_secs(2) {
            return Ok(holdings);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ports that were listened on and whose packets a kernel socket of the server does not get.
fn ports_that_are_kept(harness: &Harness) -> Result<f64, Error> {
    let mut kept = 0;
    for port in FIRST_PORT..FIRST_PORT + LOOKED_AT {
        let address = harness.address(port);
        let receiver = harness.bed.server().enter(|| UdpSocket::bind(address));
        let receiver = receiver.or_needs("thread in a namespace")?.or_needs("server socket")?;
        receiver.set_read_timeout(Some(Duration::from_millis(200))).or_needs("timeout")?;
        let sender = connected(harness.bed.client(), address)?;
        sender.send(&[1]).or_needs("way to send")?;
        if receiver.recv(&mut [0; 8]).is_err() {
            kept += 1;
        }
    }
    Ok(f64::from(kept))
}

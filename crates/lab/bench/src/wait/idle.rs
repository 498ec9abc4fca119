//! A real calistod with a thousand attached queues: what it burns when nothing comes, and when
//! something comes each ten microseconds.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Nanos, PortId};
use calisto_client::{App, AttachOptions, Batch, Worker};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use shm::ring;
use sys::clock::now;
use sys::eventfd::EventFd;
use wire::build::UdpPacket;

use super::latency::joined;
use crate::apps::harness::Harness;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target, quantile};
use crate::flows::{SEED, SplitMix};
use crate::place::{Cpus, cpu_time, on_cpu};
use crate::report::Report;

const APPS: u16 = 16;
const WORKERS: u16 = 63;
const FIRST_PORT: u16 = 21_000;
const SINK_PORT: u16 = 9;

/// Between two packets.
const GAP: Nanos = Nanos::from_micros(10);

/// Times that every worker looks at its ring before anything is measured.
const SETTLING: u32 = 150;

/// What is still under way after the last one gets this long.
const GRACE: Nanos = Nanos::from_millis(20);

/// An application, and how the client sees it.
struct Tenant {
    _app: App,
    workers: Vec<Worker>,
    mac: [u8; 6],
    address: SocketAddr,
}

/// What a round at ten microseconds gave.
#[derive(Clone, Copy, Debug)]
struct Round {
    p50_us: f64,
    /// Of a core, in percent.
    cpu: f64,
    lost: f64,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let packets = plan.pick(20_000, 2_000);
    let quiet = plan.pick(Duration::from_millis(1000), Duration::from_millis(200));
    report.begin(
        "idle",
        &format!(
            "calistod over AF_XDP on a veth, on CPU {server}; {APPS} applications x {WORKERS} workers attached by \
             the client library, none of which does anything but send. Idle: CPU time of its loop in \
             {quiet:?}. At {GAP} gaps: a thread on CPU {client} has one worker by lot send a packet, a \
             kernel socket in the other namespace gets it (polled by the same thread), {packets} packets a round; \
             from before the send to after the receive. Bare: eventfd written for each item, the \
             consumer on CPU {server} in epoll_wait, items through a ring. [wait] spin_us = 0 sleeps at \
             once; 50 is the default."
        ),
    )?;
    plan.cpus.need_two()?;
    for (spin_us, has_targets) in [(0, true), (50, false)] {
        let harness = Harness::start_with(plan.cpus, &format!("[wait]\nspin_us = {spin_us}\n"))?;
        report.progress(format_args!("spin_us = {spin_us}, attaching"));
        let mut tenants = attach(&harness)?;
        settle(&mut tenants)?;
        let sink = sink(&harness)?;
        let name = format!("spin_us = {spin_us}");
        let (mut idle, mut ours, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        let [_] = turns_of(plan, report, &name, |_, round| {
            let before = harness.dispatcher_cpu_time()?;
            let began = now();
            std::thread::sleep(quiet);
            let spent = harness.dispatcher_cpu_time()?.since(before);
            idle.push(100.0 * spent.as_secs_f64() / now().since(began).as_secs_f64());
            let seed = SEED ^ u64::from(round);
            let sent = on_cpu(client, || send(&harness, &mut tenants, &sink, packets, seed));
            // Ctrl-C ends the daemon too.
            ours.push(sent.or_else(|error| unless_interrupted().and(Err(error)))?);
            bare.push(eventfd_and_epoll(plan.cpus, packets)?);
            Ok(())
        })?;
        let of = |rounds: &[Round], which: fn(&Round) -> f64| -> Vec<f64> {
            rounds.iter().map(which).collect()
        };
        let judged =
            |figure: Figure, target| if has_targets { figure.target(target) } else { figure };
        let queues = APPS * WORKERS;
        let figure =
            Figure::new(format!("{name}: {queues} queues, idle: the loop"), "% of a core", &idle);
        report.figure(judged(figure, Target::AtMost(1.0)))?;
        let (cpu, bare_cpu) = (of(&ours, |round| round.cpu), of(&bare, |round| round.cpu));
        let figure = Figure::new(format!("{name}: {GAP} gaps: the loop"), "% of a core", &cpu);
        let figure = figure.against("bare eventfd+epoll", &cpu, &bare_cpu);
        report.figure(judged(figure, Target::AtMost(30.0)))?;
        let (p50, bare_p50) = (of(&ours, |round| round.p50_us), of(&bare, |round| round.p50_us));
        let figure = Figure::new(format!("{name}: {GAP} gaps: p50"), "us", &p50);
        let figure = figure.against("bare eventfd+epoll", &p50, &bare_p50);
        report.figure(judged(figure, Target::RatioAtMost(1.3)))?;
        let lost = of(&ours, |round| round.lost);
        report.figure(Figure::new(format!("{name}: packets lost"), "a round", &lost))?;
    }
    Ok(())
}

fn attach(harness: &Harness) -> Result<Vec<Tenant>, Error> {
    (0..APPS)
        .map(|number| {
            unless_interrupted()?;
            let port = FIRST_PORT + number;
            let options = AttachOptions::new(format!("idle-{number}"))
                .socket(harness.socket())
                .listen(harness.listener(port))
                .workers(u32::from(WORKERS))
                .frames(64);
            let (app, workers) = App::attach(&options).or_needs("attachment")?;
            let mac = app.ports().first().and_then(|port| port.mac).unwrap_or_default();
            Ok(Tenant { _app: app, workers, mac, address: harness.address(port) })
        })
        .collect()
}

/// Every worker does its part of its application's first table, for as long as that takes.
fn settle(tenants: &mut [Tenant]) -> Result<(), Error> {
    let mut batch = Batch::new();
    for _ in 0..SETTLING {
        unless_interrupted()?;
        for worker in tenants.iter_mut().flat_map(|tenant| &mut tenant.workers) {
            worker.receive(&mut batch).or_needs("attachment")?;
            worker.done(&mut batch).or_needs("attachment")?;
            worker.flush();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A socket of the client that gets what the applications send.
fn sink(harness: &Harness) -> Result<UdpSocket, Error> {
    let local = SocketAddr::from((harness.bed.client().ipv4(), SINK_PORT));
    let socket = harness.bed.client().enter(|| {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    });
    socket.or_needs("thread in a namespace")?.or_needs("client socket")
}

/// Sends at a steady pace and receives in between.
fn send(
    harness: &Harness,
    tenants: &mut [Tenant],
    sink: &UdpSocket,
    packets: usize,
    seed: u64,
) -> Result<Round, Error> {
    let mut random = SplitMix(seed);
    let destination = sink.local_addr().or_needs("client socket")?;
    let destination_mac = harness.bed.client().mac();
    let mut took = Vec::with_capacity(packets);
    let mut batch = Batch::new();
    let mut bytes = [0; 128];
    let cpu_before = harness.dispatcher_cpu_time()?;
    let began = now();
    let mut due = began;
    for _ in 0..packets {
        while now() < due {
            receive(sink, &mut took);
        }
        due = due.max(now()) + GAP;
        let bits = random.next();
        let tenant = &mut tenants[(bits % u64::from(APPS)) as usize];
        let worker = &mut tenant.workers[((bits >> 32) % u64::from(WORKERS)) as usize];
        let Some(mut frame) = worker.take() else { continue };
        let packet = UdpPacket {
            source_mac: tenant.mac,
            destination_mac,
            source: tenant.address,
            destination,
            payload: &now().0.to_le_bytes(),
            vlan: None,
        };
        let Some(packet) = packet.write(&mut bytes).map(|_| &bytes[..packet.len()]) else {
            continue;
        };
        let fits = frame.fill(packet);
        frame.meta_mut().port = PortId(0);
        batch.push(frame);
        if fits {
            worker.send(&mut batch).or_needs("attachment")?;
        }
        worker.flush();
        // Into a full ring it does not go: its worker is given it back.
        worker.done(&mut batch).or_needs("attachment")?;
    }
    let wall = now().since(began).as_secs_f64();
    let cpu = harness.dispatcher_cpu_time()?.since(cpu_before).as_secs_f64();
    let end = now() + GRACE;
    while took.len() < packets && now() < end {
        receive(sink, &mut took);
    }
    took.sort_by(f64::total_cmp);
    let lost = packets - took.len().min(packets);
    Ok(Round { p50_us: quantile(&took, 0.5), cpu: 100.0 * cpu / wall, lost: lost as f64 })
}

#[inline]
fn receive(sink: &UdpSocket, took: &mut Vec<f64>) {
    let mut stamp = [0; 8];
    if let Ok(8) = sink.recv(&mut stamp) {
        let sent = Nanos(u64::from_le_bytes(stamp));
        took.push(now().since(sent).0 as f64 / 1e3);
    }
}

/// The same pace over a ring and an eventfd, with nothing else in between.
fn eventfd_and_epoll(cpus: Cpus, packets: usize) -> Result<Round, Error> {
    let (mut producer, mut consumer) = ring::<Nanos>(1024);
    let doorbell = EventFd::new().or_needs("eventfd")?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let consuming = scope.spawn(|| {
            sys::thread::pin(cpus.server).or_needs("place on that CPU")?;
            let doorbells = epoll::create(CreateFlags::CLOEXEC).or_needs("epoll")?;
            epoll::add(&doorbells, doorbell.as_fd(), EventData::new_u64(0), EventFlags::IN)
                .or_needs("epoll")?;
            let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 1];
            let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let mut took = Vec::with_capacity(packets);
            let (began, cpu_before) = (now(), cpu_time());
            while !is_over.load(Ordering::Acquire) {
                // It may have been a signal.
                let _ = epoll::wait(&doorbells, &mut events[..], Some(&timeout));
                doorbell.drain();
                while let Some(sent) = consumer.pop() {
                    took.push(now().since(sent).0 as f64 / 1e3);
                }
            }
            let wall = now().since(began).as_secs_f64();
            let cpu = 100.0 * cpu_time().since(cpu_before).as_secs_f64() / wall;
            took.sort_by(f64::total_cmp);
            let lost = packets - took.len().min(packets);
            Ok(Round { p50_us: quantile(&took, 0.5), cpu, lost: lost as f64 })
        });
        let producing = scope.spawn(|| {
            let placed = sys::thread::pin(cpus.client).or_needs("place on that CPU");
            let mut due = now();
            for _ in 0..packets {
                while now() < due {
                    std::hint::spin_loop();
                }
                due = due.max(now()) + GAP;
                // A full ring is one whose consumer was away.
                let _ = producer.push(now());
                doorbell.ring();
            }
            is_over.store(true, Ordering::Release);
            doorbell.ring();
            placed
        });
        let round = joined(consuming);
        joined(producing)?;
        round
    })
}

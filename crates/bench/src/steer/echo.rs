//! UDP echo over a veth pair: what the dispatcher and its rings cost against a bare loop.
//!
//! Server and client are in namespaces of their own. The client is a kernel socket that never
//! sleeps, so that no wake-up is measured.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Nanos, PortId, QueueId};
use datapath::Echo;
use port::Port;
use port::xdp::{AttachMode, Destination, Protocol, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use shm::{Batch, FramePool, PoolConfig};
use sys::clock::now;
use testbed::{Side, Testbed, TestbedConfig};

use super::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target, median};
use crate::flows::{SERVER, listeners};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::rig::{RigConfig, dispatcher, spawn};

/// A request that has not been answered for this long is sent again.
const TIMEOUT: Nanos = Nanos::from_millis(20);

const PAYLOAD_BYTES: usize = 18;

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

/// What one run of the client gives.
pub(crate) struct Answers {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) resent: u64,
}

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
    let BareEcho { bed, interface } = BareEcho::new()?;
    let length = plan.pick(Nanos::from_millis(500), Nanos::from_millis(100));
    for (outstanding, targets) in [
        (1, [None, Some(Target::RatioAtLeast(0.85)), Some(Target::RatioAtLeast(0.5))]),
        (16, [None, Some(Target::RatioAtLeast(0.85)), Some(Target::RatioAtLeast(0.9))]),
    ] {
        let mut answers: [Vec<Answers>; 3] = Default::default();
        for round in 0..plan.rounds {
            crate::error::unless_interrupted()?;
            report.progress(format_args!(
                "{outstanding} outstanding, round {} of {}",
                round + 1,
                plan.rounds
            ));
            for ((server, _), answers) in SERVERS.into_iter().zip(&mut answers) {
                answers.push(measure(plan, &bed, &interface, server, outstanding, length)?);
            }
        }
        let of = |index: usize, value: fn(&Answers) -> f64| {
            answers[index].iter().map(value).collect::<Vec<f64>>()
        };
        let (bare_rate, bare_p50) = (of(0, |run| run.per_second), of(0, |run| run.p50_us));
        for (index, (server, name)) in SERVERS.into_iter().enumerate() {
            let (rate, p50) = (of(index, |run| run.per_second), of(index, |run| run.p50_us));
            let name = format!("{name}, {outstanding} outstanding");
            let mut rates = Figure::new(&name, "requests/s", &rate);
            let mut delays = Figure::new(format!("{name}, p50"), "us", &p50);
            if server != Server::Bare {
                rates = rates.against("bare loop", &rate, &bare_rate);
                delays = delays.against("bare loop", &p50, &bare_p50);
            }
            if let Some(target) = targets[index] {
                rates = rates.target(target);
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

/// A wire with the means for a bare loop at its server's end.
pub(crate) struct BareEcho {
    bed: Testbed,
    interface: Arc<XdpInterface>,
}

impl BareEcho {
    /// A wire, and the program that gives us what is sent to [`SERVER`].
    pub(crate) fn new() -> Result<Self, Error> {
        let config = TestbedConfig::default();
        let bed = Testbed::new(config).or_needs("pair of namespaces")?;
        let interface = bed
            .server()
            .enter(|| XdpInterface::attach(bed.server().interface(), AttachMode::Probe, Take::Ours))
            .or_needs("thread in a namespace")?
            .or_needs("XDP program on the veth")?;
        let (address, port) = (Some(IpAddr::V4(SERVER.0)), Some(SERVER.1));
        let echo = Destination { protocol: Protocol::Udp, address, port };
        interface.ours().add(echo).or_needs("entry in the map of what is ours")?;
        Ok(Self { bed, interface: Arc::new(interface) })
    }

    /// What a client gets of the bare loop in `length`.
    pub(crate) fn measure(
        &self,
        plan: &Plan,
        outstanding: usize,
        length: Nanos,
    ) -> Result<Answers, Error> {
        measure(plan, &self.bed, &self.interface, Server::Bare, outstanding, length)
    }
}

/// One server, one client, for `length`.
fn measure(
    plan: &Plan,
    bed: &Testbed,
    interface: &Arc<XdpInterface>,
    server: Server,
    outstanding: usize,
    length: Nanos,
) -> Result<Answers, Error> {
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    let (stop, ready) = (&stop, &ready);
    let cpus = plan.cpus;
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            on_cpu(cpus.server, || {
                let result = serve(server, interface, cpus, stop, ready);
                ready.store(true, Ordering::Release);
                result
            })
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let asking = on_cpu(cpus.client, || {
            let socket = socket(bed.client())?;
            // What comes first finds everything cold.
            ask(&socket, outstanding, Nanos(length.0 / 5))?;
            ask(&socket, outstanding, length)
        });
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        asking
    })
}

pub(crate) fn socket(client: &Side) -> Result<UdpSocket, Error> {
    let address = client.ipv4();
    let socket = client.enter(|| {
        let socket = UdpSocket::bind((address, 0))?;
        socket.connect(SERVER)?;
        socket.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(socket)
    });
    socket.or_needs("thread in a namespace")?.or_needs("client socket")
}

/// Keeps `outstanding` requests under way for `length`.
pub(crate) fn ask(socket: &UdpSocket, outstanding: usize, length: Nanos) -> Result<Answers, Error> {
    let mut sent_at = vec![Nanos::ZERO; outstanding];
    let mut number = vec![0_u32; outstanding];
    let mut request = [0; PAYLOAD_BYTES];
    let mut send = |slot: usize, number: u32| {
        request[0] = slot as u8;
        request[1..5].copy_from_slice(&number.to_be_bytes());
        match socket.send(&request) {
            Ok(_) => Ok(()),
            // A full queue is a loss like others: patience sends it again.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    };
    let (mut delays, mut resent) = (Vec::with_capacity(1 << 18), 0);
    let start = now();
    for (slot, sent_at) in sent_at.iter_mut().enumerate() {
        *sent_at = now();
        send(slot, 0).or_needs("way to send")?;
    }
    let mut answer = [0; 64];
    let mut idle = 0_u32;
    let mut time = start;
    while time.since(start) < length {
        match socket.recv(&mut answer) {
            Ok(PAYLOAD_BYTES) => {
                let slot = usize::from(answer[0]);
                let [_, a, b, c, d, ..] = answer;
                time = now();
                // An answer to a request that was sent again is old.
                if number.get(slot) != Some(&u32::from_be_bytes([a, b, c, d])) {
                    continue;
                }
                delays.push(time.since(sent_at[slot]).as_micros_f64());
                number[slot] += 1;
                sent_at[slot] = time;
                send(slot, number[slot]).or_needs("way to send")?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                idle = idle.wrapping_add(1);
                if !idle.is_multiple_of(64) {
                    continue;
                }
                time = now();
                for slot in 0..outstanding {
                    if time.since(sent_at[slot]) > TIMEOUT {
                        resent += 1;
                        number[slot] += 1;
                        sent_at[slot] = time;
                        send(slot, number[slot]).or_needs("way to send")?;
                    }
                }
            }
            Err(error) => return Err(error).or_needs("way to receive"),
        }
    }
    let per_second = delays.len() as f64 / time.since(start).as_secs_f64();
    Ok(Answers { per_second, p50_us: median(&delays).unwrap_or(f64::NAN), resent })
}

/// Answers until it is told to stop. `ready` is set once the port is open.
fn serve(
    server: Server,
    interface: &Arc<XdpInterface>,
    cpus: Cpus,
    stop: &AtomicBool,
    ready: &AtomicBool,
) -> Result<(), Error> {
    let pool = FramePool::new(PoolConfig { frames: 4096, chunk_bytes: 2048, numa_node: None });
    let mut pool = pool.or_needs("pool of frames")?;
    let umem = Umem::new(&pool);
    let options = XdpOptions::default();
    let opened = XdpPort::open(interface, PortId(0), QueueId(0), &umem, &mut pool, &options);
    let port = opened.or_needs("AF_XDP socket")?;
    if server == Server::Bare {
        ready.store(true, Ordering::Release);
        bare(port, pool, stop);
        return Ok(());
    }
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
fn bare(mut port: XdpPort, mut pool: FramePool, stop: &AtomicBool) {
    let mut batch = Batch::new();
    while !stop.load(Ordering::Relaxed) {
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
}

//! Connections a second that are opened and closed on one core, and Linux's over loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use base::{BURST, Nanos};
use sys::clock::now;
use tcp::{Config, Event};
use testbed::{Testbed, TestbedConfig};
use wire::Toeplitz;

use super::end::{End, EndConfig};
use super::peers::address;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{SERVER, hash_key};
use crate::place::on_cpu;
use crate::report::Report;

/// From one side's turn to the other's.
const STEP: Nanos = Nanos::from_micros(50);

/// From one batch to the next: so that about as many are in TIME-WAIT as Linux keeps at most.
const PAUSE: Nanos = Nanos::from_millis(60);

/// Connections in TIME-WAIT, and room for those being opened.
const CLIENT_FLOWS: u32 = 1 << 17;

const SERVER_FLOWS: u32 = 1 << 10;

/// Names that clients have.
const CLIENTS: u32 = 1 << 20;

/// More turns than any connection needs.
const TURNS_MAX: u32 = 16;

const RING_LOG2: u8 = 8;

/// Addresses of loopback that Linux's clients connect to, so that ports do not run out.
const LOOPBACKS: u32 = 200;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    report.begin(
        "connections",
        &format!(
            "one connection is opened by the client, accepted, closed by the client and then by \
             the server; no data. Client and server share one thread on CPU {cpu}, so that a \
             core's figure is that of both sides. Ours: two engines, {BURST} connections at a \
             time, their packets' flow hashes computed on the way, some 64,000 in TIME-WAIT. \
             Linux: blocking connect, accept, close, close over loopback in a namespace of its \
             own, {LOOPBACKS} addresses. By the wall clock, since not all of Linux's work is the \
             thread's."
        ),
    )?;
    let (ours_count, linux_count) = plan.pick((200_000, 20_000), (10_000, 500));
    let bed = Testbed::new(TestbedConfig::default()).or_needs("namespace for Linux's connections");
    let mut pair = Pair::new()?;
    report.progress(format_args!("filling TIME-WAIT"));
    on_cpu(cpu, || pair.measure(plan.pick(70_000, 1_000)))?;
    let (mut ours, mut linux) = (Vec::new(), Vec::new());
    let [_] = turns_of(plan, report, "", |_, _| {
        ours.push(on_cpu(cpu, || pair.measure(ours_count))?);
        if let Ok(bed) = &bed {
            let within = bed.client().enter(|| on_cpu(cpu, || kernel(linux_count)));
            linux.push(within.or_needs("thread in a namespace")??);
        }
        Ok(())
    })?;
    let mut figure = Figure::new("engine, two sides on one core", "connections/s", &ours);
    if bed.is_ok() {
        figure = figure.against("Linux loopback", &ours, &linux);
    }
    report.figure(figure.target(Target::RatioAtLeast(10.0)))?;
    let waiting = pair.client.engine.flows_in_use() as f64;
    report.figure(Figure::new("in TIME-WAIT at the end", "flows", &[waiting]))?;
    match bed {
        Ok(_) => report.figure(Figure::new("Linux loopback", "connections/s", &linux)),
        Err(error) => report.not_measured(&error),
    }
}

/// Two engines back to back.
struct Pair {
    client: End,
    server: End,
    hasher: Toeplitz,
    now: Nanos,
    opened: u32,
}

impl Pair {
    fn new() -> Result<Self, Error> {
        let now = Nanos::from_secs(1);
        let end = |flows_max, secret| {
            let engine = Config { flows_max, ..Config::default() };
            let packets = 2 * BURST;
            End::new(
                &EndConfig { engine, ring_log2: RING_LOG2, packets, has_ipv4: false },
                secret,
                now,
            )
        };
        let (client, mut server) = (end(CLIENT_FLOWS, 1), end(SERVER_FLOWS, 2));
        let options = server.options();
        server
            .engine
            .listen(SERVER.into(), SERVER_FLOWS, options)
            .or_needs("listener in memory")?;
        Ok(Self { client, server, hasher: Toeplitz::new(hash_key()), now, opened: 0 })
    }

    /// Connections a second.
    fn measure(&mut self, connections: usize) -> Result<f64, Error> {
        let batches = connections.div_ceil(BURST);
        let began = now();
        for _ in 0..batches {
            self.open_and_close(BURST)?;
        }
        Ok((batches * BURST) as f64 / now().since(began).as_secs_f64())
    }

    /// `count` connections from SYN to the last acknowledgement.
    fn open_and_close(&mut self, count: usize) -> Result<(), Error> {
        self.now += PAUSE;
        for _ in 0..count {
            self.opened = (self.opened + 1) % CLIENTS;
            let opened = self.client.connect(self.now, address(self.opened), SERVER.into());
            opened.or_needs("connection in memory")?;
        }
        let (mut at_client, mut at_server) = (0, 0);
        for _ in 0..TURNS_MAX {
            at_client += self.turn(Side::Client);
            at_server += self.turn(Side::Server);
            if at_client == count && at_server == count && self.client.out.packets().is_empty() {
                return Ok(());
            }
        }
        Err(format!("{at_client} of {count} ended at the client, {at_server} at the server"))
            .or_needs("end of every connection")
    }

    /// One side acts on what it was told and sends; the other takes it. How many connections of the
    /// side have ended.
    fn turn(&mut self, side: Side) -> usize {
        self.now += STEP;
        let Self { client, server, hasher, now, .. } = self;
        let (own, other) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        own.engine.expire(*now, &mut own.out);
        let mut ended = 0;
        while let Some(event) = own.out.events.pop() {
            match (event, side) {
                (Event::Connected { flow, .. }, Side::Client)
                | (Event::PeerClosed { flow }, Side::Server) => {
                    let closed = own.engine.close(flow, &mut own.out);
                    debug_assert_eq!(closed, Ok(()), "nobody has closed it before");
                }
                (Event::Closed { .. }, _) => ended += 1,
                _ => {}
            }
        }
        own.transmit(*now);
        own.out.hash(hasher);
        other.receive(*now, own.out.packets());
        own.out.clear();
        ended
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// The same with the kernel's sockets, one connection after another.
fn kernel(connections: u32) -> Result<f64, Error> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, SERVER.1)).or_needs("listener")?;
    let began = now();
    for number in 0..connections {
        let loopback = Ipv4Addr::new(127, 0, 1, (number % LOOPBACKS) as u8 + 1);
        let client = TcpStream::connect(SocketAddr::from((loopback, SERVER.1)));
        let client = client.or_needs("connection over loopback")?;
        let (server, _) = listener.accept().or_needs("connection over loopback")?;
        drop(client);
        drop(server);
    }
    Ok(f64::from(connections) / now().since(began).as_secs_f64())
}

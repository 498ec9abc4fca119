//! The loop over a run's events.

use std::net::SocketAddr;

use base::Nanos;
use load::Random;
use sim::EventQueue;
use stack::{RingLimits, ServiceKind, SocketJobConfig};
use tcp::{Config, FlowOptions};
use wire::Toeplitz;

use super::client::{Asking, Client};
use super::frames;
use super::outcome::WholeOutcome;
use super::plan::WholePlan;
use super::server::{Server, ServerPlan, Work};
use crate::Refused;
use crate::link::{FRAMING_BYTES, Fate, Link, LinkCounts};

/// Time begins here: zero means "at once" to an engine.
const ORIGIN: Nanos = Nanos::from_secs(1);
/// Clients begin so long after the workers: the first table is made by then.
const WARM_UP: Nanos = Nanos::from_millis(20);
/// A client's connections begin so far apart.
const OPEN_EVERY: Nanos = Nanos::from_micros(1);

const ETHERNET_BYTES: u32 = 14;

/// Where a packet is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    ToSwitch,
    ToServer,
    BackToSwitch,
    ToClient,
}

#[derive(Debug)]
struct Packet {
    bytes: Vec<u8>,
    client: u32,
    leg: Leg,
}

#[derive(Debug)]
enum What {
    /// A packet is at the end of a link.
    Arrive(Packet),
    /// A client opens a connection.
    Open(u32),
    /// A client has something to do.
    Client(u32),
    /// The data path's loop turns.
    Turn,
    /// Workers come or go.
    WorkerStep(u16),
}

/// A run.
pub(super) struct Simulation {
    events: EventQueue<What>,
    clients: Vec<Client>,
    asking: Asking,
    server: Server,
    /// The loop is busy until then.
    free_at: Nanos,
    /// When its next turn is put down for.
    turn_at: Nanos,
    turn: Nanos,
    packet: Nanos,
    /// Up and down of each client, then up (to it) and down of the server.
    links: Vec<[Link; 2]>,
    random: Random,
    end: Nanos,
    unopened: u32,
    requests: u64,
    port_full: u64,
    workers_missing: u16,
    turns: u64,
    digest: u64,
}

impl Simulation {
    pub(super) fn new(plan: &WholePlan, seed: u64) -> Result<Self, Refused> {
        let mut random = Random::new(seed);
        let address: SocketAddr = ([10, 0, 0, 2], 7).into();
        let options = FlowOptions {
            receive_ring_log2: 17,
            receive_limit_log2: 17,
            send_ring_log2: 17,
            congestion: plan.congestion,
            no_delay: true,
            ..FlowOptions::default()
        };
        let data_path_seed = random.bits();
        let hash_key = Toeplitz::key_from_seed(data_path_seed);
        let flows = plan.clients.saturating_mul(plan.connections);
        let work = SocketJobConfig {
            engine: Config { flows_max: 2 * flows + 8, hash_key, ..Config::default() },
            secret: [5; 16],
            service: ServiceKind::Echo,
            listeners: vec![address],
            backlog: 4096,
            flow: options,
            rings: RingLimits { receive_log2: 17, send_log2: 17, bytes_max: 1 << 30 },
            joins: false,
            command_queue: None,
        };
        let server_plan = ServerPlan {
            policy: &plan.policy,
            groups: plan.groups,
            seed: data_path_seed,
            listen: "tcp:10.0.0.2:7",
        };
        let server = Server::new(&server_plan, Work::Streams(Box::new(work)))?;
        let client = |number| Client::new(number, plan.connections, &options, hash_key, seed);
        let mut links = vec![[plan.client_link; 2].map(Link::new); plan.clients as usize];
        links.push([plan.server_link; 2].map(Link::new));
        let mut events = EventQueue::default();
        for worker_step in &plan.worker_steps {
            // All but the first count from when the clients begin.
            let after = if worker_step.at == Nanos::ZERO { Nanos::ZERO } else { WARM_UP };
            events.put(ORIGIN + after + worker_step.at, What::WorkerStep(worker_step.workers));
        }
        for client in 0..plan.clients {
            for connection in 0..plan.connections {
                let at = ORIGIN + WARM_UP + Nanos(OPEN_EVERY.0 * u64::from(connection));
                events.put(at, What::Open(client));
            }
        }
        Ok(Self {
            events,
            clients: (0..plan.clients).map(client).collect(),
            asking: Asking {
                requests: plan.requests,
                request_bytes: plan.request_bytes,
                options,
                server: address,
                toeplitz: Toeplitz::new(hash_key),
                latencies: Vec::new(),
                wrong_bytes: 0,
                open: 0,
            },
            server,
            free_at: ORIGIN,
            turn_at: Nanos::FAR_FUTURE,
            turn: plan.turn,
            packet: plan.packet,
            links,
            random,
            end: ORIGIN + plan.time_limit,
            unopened: flows,
            requests: u64::from(flows) * u64::from(plan.requests),
            port_full: 0,
            workers_missing: 0,
            turns: 0,
            digest: 0,
        })
    }

    pub(super) fn run(mut self) -> WholeOutcome {
        while (self.unopened > 0 || self.asking.open > 0)
            && self.events.next_at().is_some_and(|at| at < self.end)
            && let Some(what) = self.events.take()
        {
            self.happen(what);
        }
        let ended_at = self.events.now().since(ORIGIN + WARM_UP);
        // What the workers count is shown a little later.
        let mut now = self.events.now();
        for _ in 0..40 {
            now += Nanos::from_micros(100);
            self.server.turn(now);
            self.server.take(now, |_| ());
        }
        self.outcome(ended_at)
    }

    fn happen(&mut self, what: What) {
        let now = self.events.now();
        match what {
            What::Arrive(packet) => self.arrive(now, packet),
            What::Open(client) => {
                self.unopened -= 1;
                let of = &mut self.clients[client as usize];
                of.open(now, &mut self.asking);
                of.turn(now, &mut self.asking);
                self.settle(now, client);
            }
            What::Client(client) => {
                let of = &mut self.clients[client as usize];
                if of.look_at <= now {
                    of.look_at = Nanos::FAR_FUTURE;
                    of.turn(now, &mut self.asking);
                    self.settle(now, client);
                }
            }
            What::Turn => {
                if self.turn_at <= now {
                    self.turn_at = Nanos::FAR_FUTURE;
                    self.turn(now);
                }
            }
            What::WorkerStep(workers) => {
                let missing = self.server.resize(workers, now);
                self.workers_missing = self.workers_missing.max(missing);
                self.turn_soon(now);
            }
        }
    }

    fn arrive(&mut self, now: Nanos, packet: Packet) {
        match packet.leg {
            Leg::ToSwitch => self.forward(now, Packet { leg: Leg::ToServer, ..packet }),
            Leg::BackToSwitch => self.forward(now, Packet { leg: Leg::ToClient, ..packet }),
            Leg::ToServer => {
                self.port_full += u64::from(!self.server.put(&packet.bytes, now));
                self.turn_soon(now);
            }
            Leg::ToClient => {
                self.digest = digest(self.digest, now, &packet.bytes);
                let client = &mut self.clients[packet.client as usize];
                client.receive(now, &packet.bytes, &mut self.asking);
                self.settle(now, packet.client);
            }
        }
    }

    /// A packet comes to the queue of its next link.
    fn forward(&mut self, now: Nanos, mut packet: Packet) {
        let server = self.links.len() - 1;
        let link = match packet.leg {
            Leg::ToSwitch => &mut self.links[packet.client as usize][0],
            Leg::ToClient => &mut self.links[packet.client as usize][1],
            Leg::ToServer => &mut self.links[server][0],
            Leg::BackToSwitch => &mut self.links[server][1],
        };
        let bytes = packet.bytes.len() as u32 - ETHERNET_BYTES + FRAMING_BYTES;
        let may_mark = frames::ecn(&packet.bytes) != 0;
        if let Fate::Arrives { at, is_marked } = link.offer(now, bytes, may_mark, &mut self.random)
        {
            if is_marked {
                frames::mark(&mut packet.bytes);
            }
            self.events.put(at, What::Arrive(packet));
        }
    }

    /// What a client has sent is on its way, and its next look is put down.
    fn settle(&mut self, now: Nanos, client: u32) {
        let frames: Vec<Vec<u8>> = self.clients[client as usize].take_frames().collect();
        for bytes in frames {
            self.forward(now, Packet { bytes, client, leg: Leg::ToSwitch });
        }
        let of = &mut self.clients[client as usize];
        if let Some(at) = of.next_look()
            && at < of.look_at
        {
            of.look_at = at;
            self.events.put(at, What::Client(client));
        }
    }

    fn turn_soon(&mut self, at: Nanos) {
        let at = at.max(self.free_at);
        if at < self.turn_at {
            self.turn_at = at;
            self.events.put(at, What::Turn);
        }
    }

    /// A turn of the data path's loop: what it sends leaves when the turn is over.
    fn turn(&mut self, now: Nanos) {
        self.turns += 1;
        let packets = self.server.turn(now);
        self.free_at = now + self.turn + Nanos(self.packet.0 * packets as u64);
        let mut frames = Vec::new();
        self.server.take(now, |bytes| frames.push(bytes.to_vec()));
        for bytes in frames {
            // Whose it is, its link address says.
            let client = bytes.get(2..6).and_then(|mac| mac.first_chunk());
            let client = client.map_or(u32::MAX, |mac| u32::from_be_bytes(*mac));
            if (client as usize) < self.clients.len() {
                self.forward(self.free_at, Packet { bytes, client, leg: Leg::BackToSwitch });
            }
        }
        let next = self.server.next_turn(now);
        if next != Nanos::FAR_FUTURE {
            self.turn_soon(next);
        }
    }

    fn outcome(self, ended_at: Nanos) -> WholeOutcome {
        let Self { clients, asking, server, links, .. } = self;
        let stream = server.stream_counts();
        let count =
            |name| stream.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
        let of_clients: u64 = clients.iter().map(Client::retransmitted).sum();
        let mut latencies = asking.latencies;
        latencies.sort_unstable();
        let counters = server.dispatcher.counters();
        let dispatcher = datapath::counters::DispatchEvent::ALL.iter();
        let dispatcher = dispatcher.map(|&event| (event.name(), counters.get(event)));
        WholeOutcome {
            latencies,
            requests: self.requests,
            wrong_bytes: asking.wrong_bytes,
            links: links
                .iter()
                .flatten()
                .fold(LinkCounts::default(), |sum, link| sum.plus(link.counts())),
            port_full: self.port_full,
            workers_missing: self.workers_missing,
            retransmitted: of_clients + count("retransmitted"),
            flows_moved: count("attached"),
            dispatcher: dispatcher.filter(|(_, count)| *count > 0).collect(),
            server: stream,
            ended_at,
            turns: self.turns,
            digest: self.digest,
        }
    }
}

/// Adds a frame to the sum over all.
fn digest(sum: u64, now: Nanos, bytes: &[u8]) -> u64 {
    let mut sum = sum ^ now.0;
    for byte in bytes {
        // FNV-1a's step over 64 bits.
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    sum.rotate_left(7)
}

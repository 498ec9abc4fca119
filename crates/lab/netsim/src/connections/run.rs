//! The loop over a run's events.

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::Nanos;
use sim::EventQueue;
use tcp::{
    Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece, ReadPiece,
    Segment,
};
use wire::{FlowKey, Toeplitz};

use super::{ConnectionsOutcome, ConnectionsPlan};
use crate::quantile;

/// Time begins here: zero means "at once" to an engine.
const ORIGIN: Nanos = Nanos::from_secs(1);
/// Segments that a core takes at a time, as the data path does.
const BATCH: usize = 64;
/// Connections are opened in bunches of this many, one round trip apart, so that no backlog
/// overflows.
const BUNCH: u32 = 1024;
/// Bytes of every ring. Contents do not matter here, so all connections share one.
const RING: usize = 256;
const RING_LOG2: u8 = 8;

/// A segment on its way.
#[derive(Debug)]
struct Packet {
    key: FlowKey,
    connection: u32,
    bytes: Vec<u8>,
    has_payload: bool,
}

/// One ring for everything that nobody looks at.
struct Scratch([u8; RING]);

impl Buffers for Scratch {
    fn receive_ring(&mut self, _: FlowId) -> Piece<'_> {
        (&mut self.0).into()
    }

    fn send_ring(&self, _: FlowId) -> ReadPiece<'_> {
        (&self.0).into()
    }
}

#[derive(Default)]
struct Said {
    events: Vec<Event>,
    packets: Vec<Packet>,
}

impl Output for Said {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let mut bytes = vec![0; segment.len()];
        let has_payload = segment.payload_bytes() > 0;
        let written = segment.write_partial(&mut bytes);
        debug_assert!(written.is_some(), "it was made as long as the segment");
        self.packets.push(Packet {
            key: segment.key,
            connection: segment.route,
            bytes,
            has_payload,
        });
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// An engine with what it says.
struct Side {
    engine: Engine,
    said: Said,
    scratch: Scratch,
}

impl Side {
    fn new(flows: u32, key: u8) -> Self {
        let config = Config {
            flows_max: flows + 8,
            sent_max: 4 * flows + 64,
            ranges_max: 64,
            ..Config::default()
        };
        Self {
            engine: Engine::new(config, [key; 16], ORIGIN),
            said: Said::default(),
            scratch: Scratch([0; RING]),
        }
    }

    fn receive(&mut self, now: Nanos, packets: &[Packet], toeplitz: &Toeplitz) {
        let incoming: Vec<Incoming<'_>> = packets
            .iter()
            .map(|packet| Incoming {
                key: packet.key,
                hash: toeplitz.hash(&packet.key),
                segment: &packet.bytes,
                ecn: 0,
                is_verified: true,
                route: packet.connection,
            })
            .collect();
        self.engine.receive(now, &incoming, &mut self.scratch, &mut self.said);
    }

    fn transmit(&mut self, now: Nanos) {
        self.engine.expire(now, &mut self.said);
        while self.engine.next_deadline() == Some(Nanos::ZERO) {
            self.engine.transmit(now, &mut self.scratch, &mut self.said);
        }
    }

    /// Reads everything; whether a whole request or answer has come with it.
    fn read(&mut self, flow: FlowId, whole: u32) -> bool {
        let bytes = self.engine.readable(flow).bytes;
        bytes >= whole && self.engine.consume(flow, bytes).is_ok()
    }

    fn write(&mut self, flow: FlowId, bytes: u32) {
        let sent = self.engine.send(flow, bytes);
        debug_assert!(
            sent.is_ok(),
            "the ring holds two requests, and one is outstanding: {sent:?}"
        );
    }
}

struct Core {
    side: Side,
    queue: VecDeque<Packet>,
    is_busy: bool,
}

enum What {
    /// Clients open more connections.
    Open,
    ToServer(Packet),
    ToClient(Packet),
    /// A core has done its batch.
    Free(u16),
}

/// A run.
pub(super) struct Simulation {
    plan: ConnectionsPlan,
    events: EventQueue<What>,
    clients: Side,
    cores: Vec<Core>,
    toeplitz: Toeplitz,
    options: FlowOptions,
    opened: u32,
    /// Connections that have had an answer.
    warm: u32,
    /// By the client's flow: when its request left; how many were answered, the first not counted.
    asked: Vec<(Nanos, Option<u32>)>,
    begun_at: Nanos,
    ended_at: Nanos,
    done: u32,
    latencies: Vec<Nanos>,
    request_time: f64,
    /// Segments and fast ones of the server when it was begun to measure.
    before: [u64; 3],
}

impl Simulation {
    pub(super) fn new(plan: &ConnectionsPlan) -> Self {
        let options = FlowOptions {
            receive_ring_log2: RING_LOG2,
            receive_limit_log2: RING_LOG2,
            send_ring_log2: RING_LOG2,
            no_delay: true,
            ..FlowOptions::default()
        };
        // A hash spreads them evenly, but not quite.
        let at_core = plan.connections / u32::from(plan.cores) * 3 / 2 + 1024;
        let core = |number| {
            let mut side = Side::new(at_core, number);
            let listening = side.engine.listen(([10, 0, 0, 2], 7).into(), 2 * BUNCH, options);
            debug_assert!(listening.is_ok(), "a fresh engine listens nowhere");
            Core { side, queue: VecDeque::new(), is_busy: false }
        };
        let mut events = EventQueue::default();
        events.put(ORIGIN, What::Open);
        Self {
            plan: *plan,
            events,
            clients: Side::new(plan.connections, 255),
            cores: (0..plan.cores).map(|number| core(number as u8)).collect(),
            toeplitz: Toeplitz::new(Toeplitz::MICROSOFT_KEY),
            options,
            opened: 0,
            warm: 0,
            asked: vec![(Nanos::ZERO, None); plan.connections as usize + 8],
            begun_at: Nanos::ZERO,
            ended_at: Nanos::ZERO,
            done: 0,
            latencies: Vec::new(),
            request_time: plan.cycles() * 1e9 / plan.cache.hertz as f64,
            before: [0; 3],
        }
    }

    pub(super) fn run(mut self) -> ConnectionsOutcome {
        while self.done < self.plan.connections
            && let Some(what) = self.events.take()
        {
            let now = self.events.now();
            match what {
                What::Open => self.open(now),
                What::ToServer(packet) => {
                    let core =
                        (self.toeplitz.hash(&packet.key).0 >> 8) % u32::from(self.plan.cores);
                    self.cores[core as usize].queue.push_back(packet);
                    self.work(now, core as u16);
                }
                What::ToClient(packet) => self.hear(now, packet),
                What::Free(core) => {
                    self.cores[usize::from(core)].is_busy = false;
                    self.work(now, core);
                }
            }
        }
        self.outcome()
    }

    fn open(&mut self, now: Nanos) {
        let until = self.plan.connections.min(self.opened + BUNCH);
        for connection in self.opened..until {
            let [_, high, middle, low] = connection.to_be_bytes();
            let local: SocketAddr = ([10, 1, high, middle], 1024 + u16::from(low)).into();
            let server = ([10, 0, 0, 2], 7).into();
            let opened = self.clients.engine.connect(now, local, server, self.options, connection);
            debug_assert!(opened.is_ok(), "all names differ: {opened:?}");
        }
        self.opened = until;
        if self.opened < self.plan.connections {
            self.events.put(now + Nanos(self.plan.round_trip.0 * 2), What::Open);
        }
        self.say(now);
    }

    /// What clients have to say leaves.
    fn say(&mut self, now: Nanos) {
        self.clients.transmit(now);
        let half = Nanos(self.plan.round_trip.0 / 2);
        for packet in self.clients.said.packets.drain(..) {
            self.events.put(now + half, What::ToServer(packet));
        }
    }

    /// A core takes what has come, unless it is at something.
    fn work(&mut self, now: Nanos, number: u16) {
        let core = &mut self.cores[usize::from(number)];
        if core.is_busy || core.queue.is_empty() {
            return;
        }
        let count = core.queue.len().min(BATCH);
        let batch: Vec<Packet> = core.queue.drain(..count).collect();
        core.side.receive(now, &batch, &self.toeplitz);
        let events = std::mem::take(&mut core.side.said.events);
        for event in &events {
            if let Event::Readable { flow } = *event
                && core.side.read(flow, self.plan.request_bytes)
            {
                core.side.write(flow, self.plan.request_bytes);
            }
        }
        core.side.transmit(now);
        // Connections are made at no cost: they are not what is measured.
        let requests = batch.iter().filter(|packet| packet.has_payload).count();
        let takes = Nanos((self.request_time * requests as f64).round() as u64);
        core.is_busy = true;
        let half = Nanos(self.plan.round_trip.0 / 2);
        for packet in core.side.said.packets.drain(..) {
            self.events.put(now + takes + half, What::ToClient(packet));
        }
        core.side.said.events = events;
        core.side.said.events.clear();
        self.events.put(now + takes, What::Free(number));
    }

    /// Clients take a segment in.
    fn hear(&mut self, now: Nanos, packet: Packet) {
        self.clients.receive(now, &[packet], &self.toeplitz);
        let events = std::mem::take(&mut self.clients.said.events);
        for event in &events {
            match *event {
                Event::Connected { flow, .. } => {
                    self.asked[flow.index()] = (now, None);
                    self.clients.write(flow, self.plan.request_bytes);
                }
                Event::Readable { flow } if self.clients.read(flow, self.plan.request_bytes) => {
                    self.answered(now, flow);
                }
                _ => {}
            }
        }
        self.clients.said.events = events;
        self.clients.said.events.clear();
        self.say(now);
    }

    /// Every connection has had an answer: from now on it is measured.
    fn begin(&mut self, now: Nanos) {
        self.begun_at = now;
        self.before = self.server_counts();
    }

    fn answered(&mut self, now: Nanos, flow: FlowId) {
        let is_measured = self.warm == self.plan.connections;
        let (asked_at, answers) = &mut self.asked[flow.index()];
        let took = now.since(std::mem::replace(asked_at, now));
        match answers {
            Some(answers) if is_measured => {
                self.latencies.push(took);
                self.ended_at = now;
                *answers += 1;
                self.done += u32::from(*answers == self.plan.requests);
            }
            Some(_) => {}
            None => {
                *answers = Some(0);
                self.warm += 1;
                if self.warm == self.plan.connections {
                    self.begin(now);
                }
            }
        }
        // Who has had all of its own goes on, so that the others meet the same load to the end.
        self.clients.write(flow, self.plan.request_bytes);
    }

    /// Segments sent and received by the server, and those received that took the fast path.
    fn server_counts(&self) -> [u64; 3] {
        self.cores.iter().fold([0; 3], |[sent, received, fast], core| {
            let counters = core.side.engine.counters();
            [sent + counters.transmitted, received + counters.received, fast + counters.fast]
        })
    }

    fn outcome(mut self) -> ConnectionsOutcome {
        let now = self.server_counts();
        let [sent, received, fast] = [0, 1, 2].map(|at| (now[at] - self.before[at]) as f64);
        self.latencies.sort_unstable();
        let requests = self.latencies.len() as u64;
        let span = self.ended_at.since(self.begun_at).as_secs_f64();
        let at = |share| quantile(&self.latencies, share).unwrap_or(Nanos::ZERO);
        ConnectionsOutcome {
            requests,
            throughput: requests as f64 / span,
            p50: at(0.5),
            p99: at(0.99),
            segments_per_request: sent / requests.max(1) as f64,
            fast_share: fast / received.max(1.0),
            cycles: self.plan.cycles(),
            misses: self.plan.misses(),
        }
    }
}

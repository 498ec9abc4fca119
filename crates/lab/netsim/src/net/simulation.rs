//! The loop over a run's events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use base::Nanos;
use load::Random;
use sim::EventQueue;
use tcp::{FlowOptions, Segment};
use wire::Toeplitz;

use super::flow::{Flow, flows};
use super::host::Host;
use super::outcome::{FlowOutcome, Look, NetOutcome};
use super::packets::Packets;
use super::plan::{NetPlan, Traffic};
use super::topology::Links;
use crate::link::Fate;

/// Time begins here: zero means "at once" to an engine.
const ORIGIN: Nanos = Nanos::from_secs(1);

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A flow begins.
    Begin(u32),
    /// A packet is at the end of a link.
    Arrive(u32),
    /// A host has something to do.
    Turn(u32),
    /// The queues are looked at.
    Look,
}

/// What hosts have in common.
pub(super) struct Shared {
    pub(super) flows: Vec<Flow>,
    pub(super) packets: Packets,
    pub(super) links: Links,
    /// Flows by their client's address.
    pub(super) names: BTreeMap<SocketAddr, u32>,
    random: Random,
    /// Packets that have left a host, with the time at which they are at the end of its link.
    leaving: Vec<(Nanos, u32)>,
    /// What is received counts from here to there.
    measured: [Nanos; 2],
    /// Flows that are to end and have not.
    open: usize,
}

impl Shared {
    /// A segment leaves a host.
    #[inline]
    pub(super) fn send(&mut self, now: Nanos, host: u32, segment: &Segment<'_>) {
        let number = self.packets.take();
        let packet = self.packets.at(number);
        let is_whole = packet.fill(segment);
        debug_assert!(is_whole, "it was made as long as the segment");
        packet.is_to_server = self.flows[packet.flow as usize].client == host;
        let bytes = packet.wire_bytes();
        match self.links.all[host as usize].offer(now, bytes, false, &mut self.random) {
            Fate::Arrives { at, .. } => self.leaving.push((at, number)),
            Fate::Gone => self.packets.give(number),
        }
    }

    /// A flow's receiver has read so much.
    pub(super) fn arrived(&mut self, now: Nanos, number: u32, bytes: u32) {
        let flow = &mut self.flows[number as usize];
        flow.received += u64::from(bytes);
        if now >= self.measured[0] && now < self.measured[1] {
            flow.measured += u64::from(bytes);
        }
        if flow.bytes == Some(flow.received) && flow.ended.is_none() {
            flow.ended = Some(now);
            self.open -= usize::from(!flow.is_over);
        }
    }

    /// A flow's connection is over; if that was before its end, it will never have one.
    pub(super) fn give_up(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.id = None;
        let was_over = std::mem::replace(&mut flow.is_over, true);
        if flow.bytes.is_some() && flow.ended.is_none() && !was_over {
            self.open -= 1;
        }
    }
}

/// A run.
pub(super) struct Simulation {
    events: EventQueue<What>,
    hosts: Vec<Host>,
    shared: Shared,
    options: FlowOptions,
    look_every: Nanos,
    end: Nanos,
    over_time: Vec<Look>,
    segments: u64,
    digest: u64,
}

impl Simulation {
    /// Everything at rest; the plan has been checked.
    pub(super) fn new(plan: &NetPlan, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let links = Links::new(&plan.topology);
        let toeplitz = Toeplitz::new(Toeplitz::MICROSOFT_KEY);
        let mut flows = flows(plan, &links, &toeplitz, &mut random);
        let mut events = EventQueue::default();
        let mut at_host = vec![0_u32; plan.topology.hosts() as usize];
        let mut names = BTreeMap::new();
        for (number, flow) in flows.iter_mut().enumerate() {
            flow.begins += ORIGIN;
            events.put(flow.begins, What::Begin(number as u32));
            at_host[flow.client as usize] += 1;
            at_host[flow.server as usize] += 1;
            names.insert(flow.client_address(), number as u32);
        }
        events.put(ORIGIN, What::Look);
        let pattern: Rc<[u8]> =
            (0..1_usize << plan.tcp.ring_log2).map(|_| random.bits() as u8 | 1).collect();
        let options = plan.tcp.options();
        let host = |(number, flows): (usize, &u32)| {
            Host::new(number as u32, plan.tcp.config(*flows), options, Rc::clone(&pattern), seed)
        };
        let (measured, end) = match plan.traffic {
            Traffic::Lasting { from, until, .. } => {
                ([ORIGIN + from, ORIGIN + until], ORIGIN + until)
            }
            _ => ([Nanos::ZERO, Nanos::FAR_FUTURE], ORIGIN + plan.time_limit),
        };
        Self {
            hosts: at_host.iter().enumerate().map(host).collect(),
            shared: Shared {
                open: flows.iter().filter(|flow| flow.bytes.is_some()).count(),
                flows,
                packets: Packets::default(),
                links,
                names,
                random,
                leaving: Vec::new(),
                measured,
            },
            events,
            options,
            look_every: plan.look_every,
            end,
            over_time: Vec::new(),
            segments: 0,
            digest: 0,
        }
    }

    pub(super) fn run(mut self) -> NetOutcome {
        let has_end = self.shared.open > 0;
        while self.events.next_at().is_some_and(|at| at < self.end)
            && (self.shared.open > 0 || !has_end)
            && let Some(what) = self.events.take()
        {
            self.happen(what);
        }
        self.outcome(has_end)
    }

    fn happen(&mut self, what: What) {
        let now = self.events.now();
        match what {
            What::Begin(flow) => {
                let host = self.shared.flows[flow as usize].client;
                self.hosts[host as usize].begin(now, flow, self.options, &mut self.shared);
                self.settle(host);
            }
            What::Arrive(packet) => self.arrive(now, packet),
            What::Turn(host) => {
                let of = &mut self.hosts[host as usize];
                if of.look_at <= now {
                    of.look_at = Nanos::FAR_FUTURE;
                    of.turn(now, &mut self.shared);
                    self.settle(host);
                }
            }
            What::Look => self.look(now),
        }
    }

    /// A packet is at the end of a link: the next one takes it, or its host.
    fn arrive(&mut self, now: Nanos, number: u32) {
        let Shared { packets, flows, links, random, .. } = &mut self.shared;
        let packet = packets.at(number);
        packet.hop += 1;
        let flow = &flows[packet.flow as usize];
        let Some(link) = flow.way(packet.is_to_server).path.link(packet.hop) else {
            let host = if packet.is_to_server { flow.server } else { flow.client };
            let header = packet.bytes.first_chunk().unwrap_or(&[0; 20]);
            self.digest = digest(self.digest, now, packet.flow, header);
            self.segments += 1;
            self.hosts[host as usize].receive(now, number, &mut self.shared);
            self.settle(host);
            return;
        };
        let waiting = links.all[link as usize].waiting(now);
        links.note(link, waiting);
        let may_mark = packet.ecn != 0;
        match links.all[link as usize].offer(now, packet.wire_bytes(), may_mark, random) {
            Fate::Arrives { at, is_marked } => {
                if is_marked {
                    packet.ecn = tcp::CE;
                }
                self.events.put(at, What::Arrive(number));
            }
            Fate::Gone => packets.give(number),
        }
    }

    /// What a host has sent is on its way, and its next look is put down.
    fn settle(&mut self, host: u32) {
        for (at, packet) in self.shared.leaving.drain(..) {
            self.events.put(at, What::Arrive(packet));
        }
        let of = &mut self.hosts[host as usize];
        if let Some(at) = of.next_look(&self.shared)
            && at < of.look_at
        {
            of.look_at = at;
            self.events.put(at, What::Turn(host));
        }
    }

    fn look(&mut self, now: Nanos) {
        let waiting = self.shared.links.of_switches().iter().map(|link| link.waiting(now));
        let (deepest, all) = waiting.fold((0, 0), |(deepest, all), waiting| {
            (waiting.max(deepest), all + u64::from(waiting))
        });
        self.over_time.push(Look { at: now.since(ORIGIN), deepest, all });
        self.events.put(now + self.look_every, What::Look);
    }

    fn outcome(self, has_end: bool) -> NetOutcome {
        let Self { shared, hosts, events, .. } = self;
        let flow = |flow: &Flow| FlowOutcome {
            begins: flow.begins.since(ORIGIN),
            bytes: flow.bytes,
            received: flow.received,
            measured: flow.measured,
            took: flow.ended.map(|at| at.since(flow.begins)),
        };
        let sum = |of: fn(&tcp::Counters) -> u64| {
            hosts.iter().map(|host| of(host.engine().counters())).sum()
        };
        let ended_at = if has_end { events.now() } else { self.end };
        NetOutcome {
            flows: shared.flows.iter().map(flow).collect(),
            links: shared.links.counts(),
            over_time: self.over_time,
            segments: sum(|counters| counters.transmitted),
            segments_received: self.segments,
            retransmitted: sum(|counters| counters.retransmitted),
            timeouts: sum(|counters| counters.timeouts),
            recoveries: sum(|counters| counters.recoveries),
            marks_heeded: sum(|counters| counters.marks_heeded),
            fast: sum(|counters| counters.fast),
            wrong_bytes: hosts.iter().map(|host| host.wrong_bytes).sum(),
            on_their_way: shared.packets.on_their_way() as u64,
            ended_at: ended_at.since(ORIGIN),
            events: events.put_count(),
            digest: self.digest,
            edge: shared.links.edge,
            inside: shared.links.inside,
        }
    }
}

/// Adds an arrival to the sum over all.
#[inline]
fn digest(sum: u64, now: Nanos, flow: u32, header: &[u8; 20]) -> u64 {
    let mut sum = mix(sum ^ now.0) ^ u64::from(flow);
    for word in header.chunks_exact(4) {
        sum = mix(sum ^ u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]])));
    }
    sum
}

#[inline]
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ (word >> 29)
}

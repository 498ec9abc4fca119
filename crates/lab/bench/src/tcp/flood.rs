//! Spoofed SYNs at half of what the server can take: established flows must not notice.
//!
//! Time is virtual and moves by what the server's own work was measured to take: while it works
//! packets come and wait in a queue, which overflows as a port's does. So neither the traffic's
//! making nor other programs disturb it.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use base::{BURST, Nanos};
use tcp::Config;
use wire::Toeplitz;
use wire::tcp::SYN;

use super::end::{End, EndConfig, Packet, REQUEST_BYTES};
use super::peers::{Peers, Written, key_to};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{SEED, SERVER, SplitMix, hash_key};
use crate::place::{cpu_time, on_cpu};
use crate::report::Report;
use crate::steer::resident_bytes;

/// Established flows.
const FLOWS: u32 = 256;

/// Connections that may be half open.
const BACKLOG: u32 = 1024;

/// Packets that wait at the port; others are dropped.
const QUEUE: usize = 1024;

const RING_LOG2: u8 = 10;

/// Virtual time between packets while capacities are measured.
const STEP: Nanos = Nanos(500);

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    let syns: u64 = plan.pick(1_000_000, 20_000);
    report.begin(
        "flood",
        &format!(
            "memory port, one thread on CPU {cpu}; {FLOWS} established flows ask for \
             {REQUEST_BYTES} bytes at a tenth of the server's capacity for requests, but not \
             before the last answer has come; {syns} SYNs of random sources at half its capacity for \
             SYNs, to a listener with a backlog of {BACKLOG}. Virtual time moves by what the \
             server's work was measured to take; {QUEUE} packets wait for it, others are lost."
        ),
    )?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut capacities, mut growth) = (Vec::new(), Vec::new());
    let mut worst = Outcome::default();
    let [_] = turns_of(plan, report, "", |_, round| {
        let seed = SEED + u64::from(round);
        let (quiet, flooded, grown) = on_cpu(cpu, || {
            let capacity = Capacity::measure(seed, plan.pick(200_000, 10_000))?;
            capacities.push(capacity.syns_per_second);
            let length = Nanos((syns as f64 / capacity.syns_per_second * 2.0 * 1e9) as u64);
            let quiet = Scene::new(seed)?.play(&capacity, length, None)?;
            let mut scene = Scene::new(seed)?;
            let before = resident_bytes()?;
            let flooded = scene.play(&capacity, length, Some(capacity.syns_per_second / 2.0))?;
            Ok((quiet, flooded, resident_bytes()?.saturating_sub(before)))
        })?;
        with.push(flooded.answers_per_second);
        without.push(quiet.answers_per_second);
        growth.push(grown as f64 / (1024.0 * 1024.0));
        worst = worst.worse_of(&flooded);
        Ok(())
    })?;
    let mega: Vec<f64> = capacities.iter().map(|rate| rate / 1e6).collect();
    report.figure(Figure::new("capacity for SYNs alone", "Mpps", &mega))?;
    let goodput = Figure::new("requests answered during the flood", "1/s", &with)
        .against("without", &with, &without)
        .target(Target::RatioAtLeast(0.9));
    report.figure(goodput)?;
    report.figure(Figure::new("requests answered without", "1/s", &without))?;
    let most = f64::from(FLOWS + BACKLOG);
    let flows = Figure::new("flows in use at most", "", &[worst.flows as f64]);
    report.figure(flows.target(Target::AtMost(most)))?;
    // Of each established flow its last response; half-open connections have none.
    let records = Figure::new("records of segments at most", "", &[f64::from(worst.records)]);
    report.figure(records.target(Target::AtMost(f64::from(FLOWS))))?;
    let resident = Figure::new("resident memory, growth in the flood", "MiB", &growth);
    report.figure(resident.target(Target::AtMost(2.0)))?;
    report.figure(Figure::new("SYNs taken in", "", &[worst.syns as f64]))?;
    report.figure(Figure::new("SYNs answered with cookies", "", &[worst.cookies as f64]))?;
    report.figure(Figure::new("packets that the queue had no room for", "", &[worst.lost as f64]))
}

/// What the server can take, of one kind of packet alone.
struct Capacity {
    syns_per_second: f64,
    requests_per_second: f64,
}

impl Capacity {
    fn measure(seed: u64, packets: usize) -> Result<Self, Error> {
        let mut scene = Scene::new(seed)?;
        let mut spent = [Nanos::ZERO; 2];
        let batches = packets / BURST;
        for _ in 0..batches {
            for _ in 0..BURST {
                scene.inbox.push(scene.spoofer.syn()?);
            }
            spent[0] += scene.work();
            scene.now += Nanos(STEP.0 * BURST as u64);
        }
        for _ in 0..batches {
            for flow in 0..BURST {
                scene.inbox.push(scene.peers.request(flow % FLOWS as usize, scene.now)?);
            }
            spent[1] += scene.work();
            scene.now += Nanos(STEP.0 * BURST as u64);
        }
        let per_second = |spent: Nanos| (batches * BURST) as f64 / spent.as_secs_f64().max(1e-9);
        Ok(Self {
            syns_per_second: per_second(spent[0]),
            requests_per_second: per_second(spent[1]),
        })
    }
}

/// What came of a scene.
#[derive(Clone, Copy, Default)]
struct Outcome {
    answers_per_second: f64,
    flows: usize,
    records: u32,
    syns: u64,
    cookies: u64,
    lost: u64,
}

impl Outcome {
    /// The larger of each count; the rate is of no use any more.
    fn worse_of(self, other: &Self) -> Self {
        Self {
            answers_per_second: 0.0,
            flows: self.flows.max(other.flows),
            records: self.records.max(other.records),
            syns: self.syns.max(other.syns),
            cookies: self.cookies.max(other.cookies),
            lost: self.lost.max(other.lost),
        }
    }
}

/// A server, its clients, and whoever floods it.
struct Scene {
    end: End,
    peers: Peers,
    spoofer: Spoofer,
    now: Nanos,
    queue: VecDeque<Packet>,
    inbox: Vec<Packet>,
}

impl Scene {
    fn new(seed: u64) -> Result<Self, Error> {
        let config = EndConfig {
            engine: Config::default(),
            ring_log2: RING_LOG2,
            packets: 2 * BACKLOG as usize,
            has_ipv4: false,
        };
        let mut now = Nanos::from_secs(1);
        let mut end = End::new(&config, 2, now);
        let options = end.options();
        end.engine.listen(SERVER.into(), BACKLOG, options).or_needs("listener in memory")?;
        let peers = Peers::connected(FLOWS, &mut end, &mut now)?;
        let (queue, inbox) = (VecDeque::with_capacity(QUEUE), Vec::with_capacity(BURST));
        Ok(Self { end, peers, spoofer: Spoofer::new(seed), now, queue, inbox })
    }

    /// The server's turn with what is in its inbox; what it took of the thread's time.
    fn work(&mut self) -> Nanos {
        let Self { end, now, inbox, .. } = self;
        end.out.clear();
        let start = cpu_time();
        end.engine.expire(*now, &mut end.out);
        end.receive(*now, inbox);
        end.echo_all();
        end.transmit(*now);
        let spent = cpu_time().since(start);
        inbox.clear();
        spent
    }

    /// Whether the port had room.
    fn arrive(&mut self, packet: Packet) -> bool {
        let has_room = self.queue.len() < QUEUE;
        if has_room {
            self.queue.push_back(packet);
        }
        has_room
    }

    /// Requests for `length`, and SYNs at that rate.
    fn play(
        &mut self,
        capacity: &Capacity,
        length: Nanos,
        syns_per_second: Option<f64>,
    ) -> Result<Outcome, Error> {
        let flows = FLOWS as usize;
        let every = Nanos((10e9 * flows as f64 / capacity.requests_per_second) as u64);
        let syn_every = syns_per_second.map(|rate| Nanos((1e9 / rate).max(1.0) as u64));
        let began = self.now;
        let spread = |flow: usize| began + Nanos(every.0 * flow as u64 / flows as u64);
        let mut asks_at: Vec<Nanos> = (0..flows).map(spread).collect();
        let mut is_waiting = vec![false; flows];
        let mut syn_at = if syn_every.is_some() { began } else { Nanos::FAR_FUTURE };
        let (mut outcome, mut answers) = (Outcome::default(), 0_u64);
        while self.now.since(began) < length {
            while syn_at <= self.now {
                let syn = self.spoofer.syn()?;
                let has_room = self.arrive(syn);
                (outcome.syns, outcome.lost) =
                    (outcome.syns + u64::from(has_room), outcome.lost + u64::from(!has_room));
                syn_at += syn_every.unwrap_or(Nanos::FAR_FUTURE);
            }
            for flow in 0..flows {
                if asks_at[flow] > self.now {
                    continue;
                }
                asks_at[flow] += every;
                if !is_waiting[flow] {
                    let request = self.peers.request(flow, self.now)?;
                    is_waiting[flow] = self.arrive(request);
                    if !is_waiting[flow] {
                        outcome.lost += 1;
                        self.peers.take_back(flow);
                    }
                }
            }
            let deadline = self.end.engine.next_deadline().unwrap_or(Nanos::FAR_FUTURE);
            if self.queue.is_empty() && deadline > self.now {
                let next = asks_at.iter().copied().fold(syn_at.min(deadline), Nanos::min);
                self.now = next;
                continue;
            }
            let count = self.queue.len().min(BURST);
            self.inbox.extend(self.queue.drain(..count));
            let spent = self.work();
            self.now += spent;
            for packet in self.end.out.packets() {
                let waiting = is_waiting.get_mut(packet.route as usize);
                if let Some(waiting) = waiting
                    && packet.segment().len() > REQUEST_BYTES
                {
                    answers += u64::from(std::mem::take(waiting));
                }
            }
            let (sent, ranges) = self.end.engine.records_in_use();
            outcome.records = outcome.records.max(sent + ranges);
            outcome.flows = outcome.flows.max(self.end.engine.flows_in_use());
        }
        outcome.answers_per_second = answers as f64 / self.now.since(began).as_secs_f64();
        outcome.cookies = self.end.engine.counters().cookies_sent;
        Ok(outcome)
    }
}

/// Makes SYNs of sources that do not answer.
struct Spoofer {
    random: SplitMix,
    hasher: Toeplitz,
}

impl Spoofer {
    fn new(seed: u64) -> Self {
        Self { random: SplitMix(seed), hasher: Toeplitz::new(hash_key()) }
    }

    fn syn(&mut self) -> Result<Packet, Error> {
        let [a, b, c, high, low, ..] = self.random.next().to_be_bytes();
        // Of a network that no client is in.
        let source = Ipv4Addr::new(172, a, b, c.clamp(1, 254));
        let port = u16::from_be_bytes([high, low]).max(1024);
        let key = key_to(SERVER.into(), SocketAddr::from((source, port)));
        let sequence = self.random.next() as u32;
        let segment = Written {
            sequence,
            acknowledgement: 0,
            flags: SYN,
            stamps: [sequence, 0],
            payload: &[],
        };
        let packet = key.and_then(|key| Packet::new(key, u32::MAX, |out| segment.write(&key, out)));
        let mut packet = packet.ok_or("it is too long").or_needs("SYN")?;
        packet.hash = self.hasher.hash(&packet.key);
        Ok(packet)
    }
}

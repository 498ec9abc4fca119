//! Cycles for a request when flows are many: what cold state costs, and what batches make up for.

use base::{BURST, Nanos};
use sys::clock::TscRate;
use tcp::{Config, Counters};

use super::end::{End, EndConfig, Packet, REQUEST_BYTES};
use super::lean::{Lean, RING_LOG2};
use super::peers::Peers;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{SEED, SERVER, SplitMix};
use crate::place::{cpu_time, on_cpu};
use crate::report::Report;

const FEW: u32 = 100;
const MANY: u32 = 100_000;
const BATCHES: [usize; 3] = [1, 32, 64];

/// The batch in which instructions are counted.
pub(super) const BATCH_COUNTED: usize = 32;

/// Two million requests a second: what a flow's timers see of the load.
const EVERY: Nanos = Nanos(500);

/// Requests that are written before the clock starts: what stays in a second-level cache.
const CHUNK: usize = 8 * BURST;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let many = plan.pick(MANY, MANY / 10);
    let requests = plan.pick(2 * many as usize, 20_000);
    let cpu = plan.cpus.server;
    let rate = TscRate::calibrate(Nanos::from_millis(20)).ticks_per_second() / 1e9;
    report.begin(
        "flows",
        &format!(
            "memory port, one thread on CPU {cpu}; echo server, requests of {REQUEST_BYTES} bytes \
             written beforehand, of established flows in random order: each once in every turn \
             and none twice in a batch, {EVERY} of virtual time apart; rings of {} bytes. Thread \
             CPU time of expire, receive, the application's copy and transmit, in cycles of the \
             time-stamp counter, {rate:.2} a nanosecond.",
            1 << RING_LOG2
        ),
    )?;
    report.progress(format_args!("{FEW} and {many} handshakes"));
    let mut stages = [Stage::new(FEW)?, Stage::new(many)?];
    let mut samples: [[Vec<f64>; 2]; BATCHES.len()] = Default::default();
    // Rings and records are touched for the first time.
    on_cpu(cpu, || {
        for stage in &mut stages {
            stage.measure(BURST, stage.peers.len())?;
        }
        Ok(())
    })?;
    let _: [_; BATCHES.len()] = turns_of(plan, report, "", |which, _| {
        for (stage, samples) in stages.iter_mut().zip(&mut samples[which]) {
            crate::error::unless_interrupted()?;
            let nanos = on_cpu(cpu, || stage.measure(BATCHES[which], requests))?;
            samples.push(nanos * rate);
        }
        Ok(())
    })?;
    for (batch, [few, cold]) in BATCHES.into_iter().zip(&samples) {
        let unit = "cycles (tsc)";
        let name = format!("{FEW} flows");
        report.figure(Figure::new(format!("{name}, batch {batch}"), unit, few))?;
        let mut figure = Figure::new(format!("{many} flows, batch {batch}"), unit, cold)
            .against(&name, cold, few);
        if batch >= 32 {
            figure = figure.target(Target::RatioAtMost(1.5));
        }
        report.figure(figure)?;
    }
    for stage in &stages {
        let (before, after) = (&stage.before, stage.server.engine().counters());
        let received = (after.received - before.received) as f64;
        let fast = 100.0 * (after.fast - before.fast) as f64 / received.max(1.0);
        let metric = format!("{} flows, segments on the fast path", stage.peers.len());
        let figure = Figure::new(metric, "%", &[fast]).target(Target::AtLeast(99.0));
        let again = after.retransmitted;
        report.figure(if again > 0 {
            figure.note(format!("{again} sent again"))
        } else {
            figure
        })?;
    }
    Ok(())
}

/// Requests in batches, to as few flows as a cache holds: to count instructions.
pub(super) fn converse(requests: u64) -> Result<(), Error> {
    let mut stage = Stage::new(BURST as u32)?;
    // No clock is read: callgrind has no vDSO.
    for _ in 0..(requests as usize).div_ceil(CHUNK) {
        stage.prepare(BATCH_COUNTED)?;
        stage.answer(BATCH_COUNTED);
    }
    Ok(())
}

/// A server with its clients.
struct Stage {
    server: Lean,
    peers: Peers,
    order: Order,
    now: Nanos,
    /// What was counted when all connections stood.
    before: Counters,
    packets: Vec<Packet>,
}

impl Stage {
    fn new(flows: u32) -> Result<Self, Error> {
        let engine = Config { flows_max: flows, ..Config::default() };
        let config = EndConfig { engine, ring_log2: RING_LOG2, packets: BURST, has_ipv4: false };
        let mut now = Nanos::from_secs(1);
        let mut end = End::new(&config, 2, now);
        let options = end.options();
        end.engine.listen(SERVER.into(), flows, options).or_needs("listener in memory")?;
        let peers = Peers::connected(flows, &mut end, &mut now)?;
        let order = Order::new(flows);
        let before = *end.engine.counters();
        let server = Lean::over(end.engine, flows);
        Ok(Self { server, peers, order, now, before, packets: Vec::with_capacity(CHUNK) })
    }

    /// Nanoseconds per request.
    fn measure(&mut self, batch: usize, requests: usize) -> Result<f64, Error> {
        let (mut spent, mut answers) = (Nanos::ZERO, 0);
        let chunks = requests.div_ceil(CHUNK);
        for _ in 0..chunks {
            self.prepare(batch)?;
            let start = cpu_time();
            answers += self.answer(batch);
            spent += cpu_time().since(start);
        }
        let asked = chunks * CHUNK;
        if answers != asked {
            return Err(format!("{answers} segments to {asked} requests"))
                .or_needs("one segment for a request");
        }
        Ok(spent.0 as f64 / asked as f64)
    }

    /// Answers what [`Self::prepare`] has written; how many segments that took.
    fn answer(&mut self, batch: usize) -> usize {
        let mut answers = 0;
        for packets in self.packets.chunks(batch) {
            self.now += Nanos(EVERY.0 * packets.len() as u64);
            answers += self.server.serve(self.now, packets);
        }
        answers
    }

    /// Writes the requests of a chunk.
    fn prepare(&mut self, batch: usize) -> Result<(), Error> {
        self.packets.clear();
        for position in 0..CHUNK {
            if position % batch == 0 {
                self.order.begin_batch();
            }
            let at = self.now + Nanos(EVERY.0 * position as u64);
            self.packets.push(self.peers.request(self.order.next(), at)?);
        }
        Ok(())
    }
}

/// Flows in random order, each once in a turn and none twice in a batch.
struct Order {
    flows: Vec<u32>,
    at: usize,
    random: SplitMix,
    /// The batch in which each flow was last.
    last: Vec<u64>,
    batch: u64,
}

impl Order {
    fn new(flows: u32) -> Self {
        let (count, random) = (flows as usize, SplitMix(SEED));
        Self { flows: (0..flows).collect(), at: count, random, last: vec![0; count], batch: 0 }
    }

    fn begin_batch(&mut self) {
        self.batch += 1;
    }

    fn next(&mut self) -> usize {
        let count = self.flows.len();
        if self.at == count {
            self.at = 0;
            for position in (1..count).rev() {
                let other = self.random.next() as usize % (position + 1);
                self.flows.swap(position, other);
            }
        }
        // A batch can hold flows of two turns: whoever was in it waits for a later place.
        for other in self.at..count {
            if self.last[self.flows[other] as usize] != self.batch {
                self.flows.swap(self.at, other);
                break;
            }
        }
        let flow = self.flows[self.at] as usize;
        self.last[flow] = self.batch;
        self.at += 1;
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_has_its_turn_and_none_is_twice_in_a_batch() {
        let mut order = Order::new(100);
        let mut counts = vec![0; 100];
        for _ in 0..300 {
            order.begin_batch();
            let mut batch: Vec<usize> = (0..64).map(|_| order.next()).collect();
            for &flow in &batch {
                counts[flow] += 1;
            }
            batch.sort_unstable();
            batch.dedup();
            assert_eq!(batch.len(), 64);
        }
        assert!(counts.iter().all(|&count| count == 192), "{counts:?}");
    }
}

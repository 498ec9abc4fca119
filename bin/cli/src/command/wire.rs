//! `calisto wire`: joins two ports by a wire that is as bad as one wants it.

mod bridge;
mod open_checksum;
mod report;

use std::io::{IsTerminal, Write};

use base::{Nanos, PortId};
use clap::Args;
use port::faulty::{EcnThreshold, Faulty, Impairments};
use port::{AnyPort, Opener, PortSpec};
use shm::{FramePool, PoolConfig};
use sys::clock;

use self::bridge::Bridge;
use self::report::Report;
use crate::failure::Failure;
use crate::table::grouped;
use crate::{output, units};

/// Join two interfaces by a wire with delay, loss, a bottleneck, marks: until Ctrl-C.
///
/// Both directions are impaired alike. The interfaces should have no addresses of their own here:
/// what arrives at one leaves at the other, and nothing else.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto wire eth1 eth2 --delay 1ms --loss 1%\n      \
        a millisecond each way, every hundredth packet lost\n  \
    calisto wire tap:a,up tap:b,up --rate 10Mbit --queue 100 --ecn 20 --seconds 60\n      \
        a bottleneck with a queue of 100 packets that marks from 20 on\n  \
    calisto wire xdp:eth1,take=all af_packet:eth2 --reorder 0.1% -j")]
pub(crate) struct Wire {
    /// One end: a port as `calisto up` takes it, or the name of an interface that is there
    /// (af_packet).
    #[arg(value_name = "A", value_parser = end)]
    a: PortSpec,
    /// The other end.
    #[arg(value_name = "B", value_parser = end)]
    b: PortSpec,
    /// One-way delay, such as 1ms.
    #[arg(long, default_value = "0s", value_parser = units::duration)]
    delay: Nanos,
    /// Further delay up to this, at random; it does not reorder.
    #[arg(long, default_value = "0s", value_parser = units::duration)]
    jitter: Nanos,
    /// Share of packets that are lost, such as 1%.
    #[arg(long, default_value = "0%", value_parser = units::probability)]
    loss: f64,
    /// Share of packets that are late, so that others overtake them.
    #[arg(long, default_value = "0%", value_parser = units::probability)]
    reorder: f64,
    /// How late those are.
    #[arg(long, default_value = "1ms", value_parser = units::duration)]
    reorder_delay: Nanos,
    /// Share of packets that come twice.
    #[arg(long, default_value = "0%", value_parser = units::probability)]
    duplicate: f64,
    /// Share of packets of which one bit is flipped.
    #[arg(long, default_value = "0%", value_parser = units::probability)]
    corrupt: f64,
    /// Bits per second of the bottleneck, such as 1Gbit.
    #[arg(long, value_parser = units::bit_rate)]
    rate: Option<u64>,
    /// What waits before the bottleneck, at most: packets such as 100, or bytes such as 64KiB.
    #[arg(long, requires = "rate", value_parser = amount)]
    queue: Option<Amount>,
    /// From how long a queue on packets are marked "congestion experienced" (RFC 3168).
    #[arg(long, requires = "rate", value_parser = amount)]
    ecn: Option<Amount>,
    /// Packets under way in each direction, at most.
    #[arg(long, default_value_t = 8192)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    held: u32,
    /// Start of all chance: the same traffic meets the same fate.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End after this many seconds instead of at Ctrl-C.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: Option<u64>,
}

/// An amount of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Packets(u32),
    Bytes(u64),
}

/// Frames for what the ports themselves hold: rings, batches between two calls.
const PORT_FRAMES: u32 = 8192;

/// Between two looks at the clock of people: Ctrl-C, faults, progress.
const GLANCE: Nanos = Nanos::from_millis(100);

impl Wire {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        sys::signal::install_stop_handler().map_err(Failure::new)?;
        let mut pool = FramePool::new(PoolConfig {
            frames: 2 * self.held + PORT_FRAMES,
            chunk_bytes: 4096,
            numa_node: None,
        })
        .map_err(Failure::new)?;
        let mut opener = Opener::new(&pool);
        // Each direction has chance of its own, or both would lose the same packets.
        let a = self.open(&self.a, 0, &mut opener, &mut pool)?;
        let b = self.open(&self.b, 1, &mut opener, &mut pool)?;
        let mut bridge = Bridge::new(a, b);
        let begun = clock::now();
        let ended = self.drive(&mut bridge, &mut pool, json);
        let seconds = clock::now().since(begun).as_secs_f64();
        bridge.close(&mut pool);
        let report = Report::of([&self.a, &self.b], &bridge, seconds);
        if json {
            output::json(&report.json())?;
        } else {
            output::text(&report.text())?;
        }
        ended
    }

    fn open(
        &self,
        spec: &PortSpec,
        number: u16,
        opener: &mut Opener,
        pool: &mut FramePool,
    ) -> Result<Faulty<AnyPort>, Failure> {
        let port = opener.open(spec, PortId(number), pool).map_err(Failure::new)?;
        let perfect = Impairments { held_max: self.held, ..Impairments::default() };
        let bad = self.impairments(u64::from(number));
        Faulty::new(port, perfect, bad).map_err(Failure::usage)
    }

    /// What is wrong with the direction that leaves by port `number`.
    fn impairments(&self, number: u64) -> Impairments {
        let (mut queue_packets, mut queue_bytes) = (None, None);
        match self.queue {
            Some(Amount::Packets(packets)) => queue_packets = Some(packets),
            Some(Amount::Bytes(bytes)) => queue_bytes = Some(bytes),
            None => {}
        }
        Impairments {
            loss: self.loss,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            reorder_delay: self.reorder_delay,
            delay: self.delay,
            jitter: self.jitter,
            rate_bits_per_second: self.rate,
            queue_packets,
            queue_bytes,
            ecn: self.ecn.map(|threshold| match threshold {
                Amount::Packets(packets) => EcnThreshold::Packets(packets),
                Amount::Bytes(bytes) => EcnThreshold::Bytes(bytes),
            }),
            held_max: self.held,
            seed: self.seed.wrapping_mul(2).wrapping_add(number),
        }
    }

    /// Moves packets until told to stop.
    fn drive(
        &self,
        bridge: &mut Bridge<AnyPort>,
        pool: &mut FramePool,
        json: bool,
    ) -> Result<(), Failure> {
        let begun = clock::now();
        let end = self.seconds.map_or(Nanos::FAR_FUTURE, |n| begun + Nanos::from_secs(n));
        let mut progress = (!json && std::io::stderr().is_terminal()).then(|| Progress::new(begun));
        let mut next_glance = begun;
        loop {
            let now = clock::now();
            if now >= next_glance {
                next_glance = now + GLANCE;
                if now >= end || sys::signal::stop_requested() {
                    break;
                }
                if bridge.is_over().map_err(Failure::new)? {
                    break;
                }
                if let Some(progress) = &mut progress {
                    progress.show(bridge, now);
                }
            }
            if !bridge.step(pool, now) {
                bridge.wait(pool, now, next_glance.min(end));
            }
        }
        if progress.is_some() {
            eprintln!();
        }
        Ok(())
    }
}

/// The line that shows how it goes, once a second.
struct Progress {
    begun: Nanos,
    next: Nanos,
    packets: [u64; 2],
}

impl Progress {
    fn new(begun: Nanos) -> Self {
        Self { begun, next: begun + Nanos::from_secs(1), packets: [0; 2] }
    }

    fn show(&mut self, bridge: &Bridge<AnyPort>, now: Nanos) {
        if now < self.next {
            return;
        }
        self.next = now + Nanos::from_secs(1);
        let lines = bridge.lines();
        let packets = lines.map(|line| line.delivered);
        let [ab, ba] = [0, 1].map(|way| grouped(packets[way].saturating_sub(self.packets[way])));
        let dropped = lines.map(|line| line.lost + line.queue_dropped + line.held_dropped);
        self.packets = packets;
        let seconds = now.since(self.begun).as_secs_f64();
        eprint!(
            "\r\x1b[K{seconds:.0} s: A -> B {ab} packets/s, B -> A {ba} packets/s, dropped {}",
            grouped(dropped.iter().sum())
        );
        // Progress that cannot be shown is not worth an error.
        let _ = std::io::stderr().flush();
    }
}

/// A port as people write it, or the name of an interface that is there: one that is misspelt makes
/// no new one.
fn end(text: &str) -> Result<PortSpec, String> {
    let spec = if text.contains(':') { text.to_owned() } else { format!("af_packet:{text}") };
    spec.parse().map_err(|error: port::SpecError| error.to_string())
}

/// `100` packets, or bytes with their unit.
fn amount(text: &str) -> Result<Amount, String> {
    if text.bytes().all(|letter| letter.is_ascii_digit()) {
        return match text.parse() {
            Ok(packets) if packets > 0 => Ok(Amount::Packets(packets)),
            _ => Err("from 1 to 4294967295 packets".to_owned()),
        };
    }
    match units::bytes(text) {
        Ok(0) | Err(_) => Err("write packets, such as 100, or bytes, such as 64KiB".to_owned()),
        Ok(bytes) => Ok(Amount::Bytes(bytes)),
    }
}

#[cfg(test)]
mod tests;

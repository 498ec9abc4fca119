//! Packets that programs forward over some CPUs: by slices, by a raw socket, and by the kernel
//! itself, as NetSlices compares them.
//!
//! A packet is received by the CPU that its NIC queue interrupts, in the kernel, which goes before
//! any program there. Then the kernel forwards it itself; or a program does that belongs to this
//! CPU (a slice: nobody else touches its queues); or it goes into one socket for all, under a lock,
//! from which one program reads. Each stage is a queue of bounded length, first come first served.
//! What a CPU has spent on receiving a packet that is then thrown away is lost: where that takes
//! all of its time nothing is forwarded (receive livelock: Mogul and Ramakrishnan, 1997).

mod stages;
#[cfg(test)]
mod tests;

use load::Random;

use crate::Level;
use crate::scan::FineRange;
use stages::Stage;

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// The kernel, where it received the packet.
    Kernel,
    /// A program on the other CPU of a pair: one of the two receives, one forwards (NetSlices).
    Pairs,
    /// A program on the same CPU, in the time that receiving leaves.
    Same,
    /// One program that reads all packets from one socket.
    RawSocket,
}

impl Design {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kernel, Self::Pairs, Self::Same, Self::RawSocket];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Pairs => "pairs",
            Self::Same => "same_cpu",
            Self::RawSocket => "raw_socket",
        }
    }
}

/// What a packet costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceCosts {
    /// The kernel's part, up to the ring of a slice.
    pub receive: FineRange,
    /// The program's part of a slice, sending included.
    pub forward: FineRange,
    /// Both parts where the kernel forwards by itself.
    pub kernel: FineRange,
    /// The program's part where it reads a raw socket, sending included.
    pub raw: FineRange,
    /// The lock of a socket that several CPUs fill: a line from core to core.
    pub lock: FineRange,
}

impl Default for SliceCosts {
    /// From docs/figures/slices.md, packets of 1514 B over a veth: a slice 0.74 Mpps (0.68 to
    /// 0.83), half of it the receiver's softirq; the kernel's `ip_forward` 0.84 Mpps; `TPACKET_V3`
    /// 0.54, whose other half is the same softirq. The ranges of the last two are those of the
    /// first in proportion; a line from core to core is as in [`crate::scan::ScanCosts`].
    fn default() -> Self {
        Self {
            receive: FineRange::new(602.0, 676.0, 735.0),
            forward: FineRange::new(602.0, 676.0, 735.0),
            kernel: FineRange::new(1_060.0, 1_190.0, 1_295.0),
            raw: FineRange::new(1_048.0, 1_176.0, 1_280.0),
            lock: FineRange::new(60.0, 126.0, 197.0),
        }
    }
}

/// CPUs and their load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// CPUs.
    pub cpus: u32,
    /// Who forwards.
    pub design: Design,
    /// All packets come into one queue of the NIC; else each CPU that receives has one.
    pub one_queue: bool,
    /// Packets a second (Poisson).
    pub rate: f64,
    /// Flows: a flow's packets are in one queue.
    pub flows: u32,
    /// What is done with a packet besides, such as its encryption, in nanoseconds.
    pub work: f64,
    /// Packets that a queue holds.
    pub ring: u32,
    /// What a packet costs.
    pub costs: SliceCosts,
    /// Which end of their ranges.
    pub level: Level,
    /// Packets that arrive.
    pub packets: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Packets that arrived.
    pub offered: u64,
    /// Packets forwarded while packets arrived.
    pub forwarded: u64,
    /// Packets that found a queue full.
    pub dropped: u64,
    /// How long packets arrived, in nanoseconds.
    pub elapsed_ns: f64,
}

impl Outcome {
    /// Packets forwarded a second.
    pub fn throughput(&self) -> f64 {
        self.forwarded as f64 / self.elapsed_ns.max(1.0) * 1e9
    }
}

/// Runs a plan. Numbers that make no sense are taken to the nearest that do.
pub fn run(plan: &Plan, seed: u64) -> Outcome {
    let Plan { design, one_queue, flows, work, costs, level, .. } = *plan;
    let ring = plan.ring.max(1) as usize;
    let receivers = match design {
        _ if one_queue => 1,
        // A pair is two CPUs; the one reader has a CPU of its own.
        Design::Pairs => (plan.cpus / 2).max(1),
        Design::RawSocket => plan.cpus.saturating_sub(1).max(1),
        Design::Kernel | Design::Same => plan.cpus.max(1),
    };
    let mut random = Random::new(seed);
    let queue_of: Vec<usize> =
        (0..flows.max(1)).map(|_| random.below(receivers) as usize).collect();
    let mut arrivals = vec![Vec::new(); receivers as usize];
    let mut now = 0.0;
    for _ in 0..plan.packets {
        now += 1e9 / plan.rate.max(1e-3) * random.exponential();
        let flow = random.below(queue_of.len() as u32) as usize;
        arrivals[queue_of[flow]].push(now);
    }
    let receive = Stage { nanos: costs.receive.at(level), ring };
    let program = |each: f64| Stage { nanos: each + work, ring };
    let ends: Vec<Vec<f64>> = match design {
        Design::Kernel => {
            arrivals.iter().map(|all| program(costs.kernel.at(level)).serve(all)).collect()
        }
        Design::Pairs => {
            let forward = program(costs.forward.at(level));
            arrivals.iter().map(|all| forward.serve(&receive.serve(all))).collect()
        }
        Design::Same => {
            let forward = program(costs.forward.at(level));
            arrivals.iter().map(|all| forward.in_the_gaps_of(receive, all)).collect()
        }
        Design::RawSocket => {
            let received = arrivals.iter().flat_map(|all| receive.serve(all));
            let mut received: Vec<f64> = received.collect();
            received.sort_by(f64::total_cmp);
            // Who waits for the lock waits in its turn, and loses nothing.
            let lock = Stage { nanos: costs.lock.at(level), ring: usize::MAX };
            vec![program(costs.raw.at(level)).serve(&lock.serve(&received))]
        }
    };
    let done: usize = ends.iter().map(Vec::len).sum();
    let forwarded = ends.iter().flatten().filter(|end| **end <= now).count();
    Outcome {
        offered: u64::from(plan.packets),
        forwarded: forwarded as u64,
        dropped: u64::from(plan.packets) - done as u64,
        elapsed_ns: now,
    }
}

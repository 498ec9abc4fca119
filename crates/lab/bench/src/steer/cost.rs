//! What steering costs per packet: our owner table, librte_hash as the paper uses it, hashbrown.
//!
//! All three steer the same 32-bit hashes in the same order. The first packet of a flow and later
//! ones are apart, because that is where a table per flow pays.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use base::{FlowHash, Nanos, WorkerId};
use policy::{OwnerTable, Placement};
use sys::clock::TscRate;

use super::rte_hash::RteHash;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{FLOWS, SEED, SplitMix};
use crate::place::{cpu_time, on_cpu};
use crate::report::Report;
use crate::rig::control;

const WORKERS: u16 = 4;

/// The packets: every flow once, then flows by lot.
struct Sequence {
    first: Vec<u32>,
    later: Vec<u32>,
}

impl Sequence {
    /// `rte_hash.c` draws the same numbers.
    fn new(seed: u64, flows: usize, later: usize) -> Self {
        let mut random = SplitMix(seed);
        let first: Vec<u32> = (0..flows).map(|_| random.next() as u32).collect();
        let drawn = |_| first[((random.next() >> 32) % flows as u64) as usize];
        let later = (0..later).map(drawn).collect();
        Self { first, later }
    }
}

/// Nanoseconds per packet, one sample a round.
#[derive(Default)]
struct Samples {
    first: Vec<f64>,
    later: Vec<f64>,
}

impl Samples {
    fn push(&mut self, (first, later): (f64, f64)) {
        self.first.push(first);
        self.later.push(later);
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let flows = plan.pick(FLOWS, FLOWS / 10);
    let later = flows * 4;
    let groups: u32 = plan.pick(1 << 20, 1 << 17);
    let cpu = plan.cpus.server;
    report.begin(
        "cost",
        &format!(
            "one thread on CPU {cpu}; {flows} flows of random 32-bit hashes, each once in turn \
             (first), then {later} packets of flows by lot (later); thread CPU time per packet, \
             every table in memory before the clock starts. Owner table: {groups} groups, policy \
             sticky, Control::place on a miss. rte_hash: rte_hash_lookup, on a miss \
             rte_hash_add_key_data, capacity {flows}, CRC hash. hashbrown: \
             HashMap<u32, worker>, one multiplication as its hash."
        ),
    )?;
    let rate = TscRate::calibrate(Nanos::from_millis(20)).ticks_per_second() / 1e9;
    let rte_hash = RteHash::compile();
    let (mut ours, mut map, mut paper) =
        (Samples::default(), Samples::default(), Samples::default());
    let mut absent = rte_hash.as_ref().err().cloned();
    let [_] = turns_of(plan, report, "", |_, round| {
        let seed = SEED + u64::from(round);
        let sequence = Sequence::new(seed, flows, later);
        ours.push(on_cpu(cpu, || owner_table(&sequence, groups))?);
        if let Ok(rte_hash) = &rte_hash {
            match rte_hash.run(cpu, seed, flows, later) {
                Ok(sample) => paper.push(sample),
                Err(why) => absent = Some(why),
            }
        }
        map.push(on_cpu(cpu, || Ok(hash_map(&sequence)))?);
        Ok(())
    })?;
    let mut print = |name: &str, samples: &Samples, targets: Option<[Target; 2]>| {
        let kinds =
            [("first", &samples.first, &paper.first), ("later", &samples.later, &paper.later)];
        for (index, (kind, own, baseline)) in kinds.into_iter().enumerate() {
            if own.is_empty() {
                continue;
            }
            let metric = format!("{name} {kind} packet");
            let cycles: Vec<f64> = own.iter().map(|nanos| nanos * rate).collect();
            let mut figure = Figure::new(&metric, "ns", own).against("rte_hash", own, baseline);
            if let Some(targets) = targets {
                figure = figure.target(targets[index]);
            }
            report.figure(figure)?;
            report.figure(Figure::new(metric, "cycles (tsc)", &cycles))?;
        }
        Ok(())
    };
    // Five times faster: a fifth of the time. "No slower": as long.
    print("owner table", &ours, Some([Target::RatioAtMost(1.0), Target::RatioAtMost(0.2)]))?;
    print("hashbrown", &map, None)?;
    print("rte_hash", &paper, None)?;
    match absent {
        Some(why) => report.figure(Figure::missing("rte_hash", why)),
        None => Ok(()),
    }
}

/// Nanoseconds of the thread's CPU time per item of `hashes`.
fn timed(hashes: &[u32], mut steer: impl FnMut(u32) -> u16) -> f64 {
    let start = cpu_time();
    let mut sum = 0_u64;
    for &hash in hashes {
        sum += u64::from(steer(hash));
    }
    black_box(sum);
    cpu_time().since(start).0 as f64 / hashes.len().max(1) as f64
}

fn owner_table(sequence: &Sequence, groups: u32) -> Result<(f64, f64), Error> {
    let mut live = OwnerTable::new(groups, 0).or_needs("owner table")?;
    let mut shadow = live.clone();
    let mut control = control("sticky", live.len())?;
    let workers: Vec<WorkerId> = (0..WORKERS).map(WorkerId).collect();
    control.set_workers(&workers);
    policy::quality::settle(&mut control, &mut live, &mut shadow, Nanos::ZERO);
    let first = timed(&sequence.first, |hash| {
        let group = live.group_of(FlowHash(hash));
        match live.entry(group).plain() {
            Some(worker) => worker.0,
            None => match control.place(group, &mut live, &mut shadow, Nanos::ZERO) {
                Some(Placement::Now(worker)) => worker.0,
                _ => 0,
            },
        }
    });
    let later = timed(&sequence.later, |hash| {
        let group = live.group_of(FlowHash(hash));
        live.entry(group).plain().map_or(0, |worker| worker.0)
    });
    Ok((first, later))
}

/// One multiplication: the keys are random already.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = (self.0 ^ u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn hash_map(sequence: &Sequence) -> (f64, f64) {
    let mut map: HashMap<u32, u16, BuildHasherDefault<Multiply>> =
        HashMap::with_capacity_and_hasher(sequence.first.len(), BuildHasherDefault::default());
    let mut next = 0;
    let mut steer = |map: &mut HashMap<_, _, _>, hash| match map.get(&hash) {
        Some(&worker) => worker,
        None => {
            next = (next + 1) % WORKERS;
            map.insert(hash, next);
            next
        }
    };
    // Once unmeasured, so that no page fault is counted.
    timed(&sequence.first, |hash| steer(&mut map, hash));
    map.clear();
    let first = timed(&sequence.first, |hash| steer(&mut map, hash));
    let later = timed(&sequence.later, |hash| steer(&mut map, hash));
    (first, later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_one_that_the_c_program_draws() {
        let sequence = Sequence::new(1, 3, 2);
        let mut random = SplitMix(1);
        let first: Vec<u32> = (0..3).map(|_| random.next() as u32).collect();
        assert_eq!(sequence.first, first);
        for hash in sequence.later {
            assert_eq!(hash, first[((random.next() >> 32) % 3) as usize]);
        }
    }
}

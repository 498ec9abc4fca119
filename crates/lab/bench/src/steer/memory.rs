//! Resident memory of a data path at its largest, and what it allocates in steady state.

use std::io::Write;
use std::process::{Command, Stdio};

use base::{BURST, Nanos};
use datapath::Sink;
use sys::clock::now;
use sys::counting_alloc::{process_allocations, thread_allocations};

use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::{FLOWS, Packets, SEED};
use crate::helper::Kind;
use crate::programs;
use crate::report::Report;
use crate::rig::{Rig, RigConfig, policy, spawn};

const WORKERS: usize = 4;
const FRAMES: u32 = 4096;
const GROUPS: u32 = 1 << 20;
const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    report.begin(
        "memory",
        &format!(
            "this program started afresh, with a dispatcher of {GROUPS} groups, {FRAMES} frames \
             of 4096 bytes and {WORKERS} workers over a wire in memory, after a packet of every \
             group, a whole-table change (both tables and every frame touched): resident bytes \
             from /proc/self/statm, and before anything was made"
        ),
    )?;
    match resident_of_child() {
        Ok((empty, full)) => {
            let figure = Figure::new("resident, all pages touched", "MiB", &[full])
                .against("empty program", &[full], &[empty])
                .target(Target::AtMost(64.0));
            report.figure(figure)?;
        }
        Err(error) => report.not_measured(&error)?,
    }
    let packets = plan.pick(1_000_000, 100_000);
    let metric = format!("allocations during {packets} packets in steady state");
    report.figure(match steady_state_allocations(packets)? {
        Some(count) => Figure::new(metric, "", &[count as f64]).target(Target::AtMost(0.0)),
        None => Figure::missing(
            metric,
            "this program does not count its allocations; `cargo test -p bench` does",
        ),
    })
}

/// Starts this program once more, which prints two numbers.
fn resident_of_child() -> Result<(f64, f64), Error> {
    let mut child = Command::new(programs::ourselves()?);
    child.args(Kind::Resident.words()).stdin(Stdio::null());
    let output = child.output().or_needs("second process of this program")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers = text.lines().find_map(|line| {
        let (empty, full) = line.strip_prefix("resident_bytes ")?.split_once(' ')?;
        Some((empty.parse::<f64>().ok()?, full.parse::<f64>().ok()?))
    });
    let (empty, full) = numbers
        .ok_or_else(|| format!("it printed {text:?} and ended with {}", output.status))
        .or_needs("answer of the second process")?;
    Ok((empty / MIB, full / MIB))
}

/// Makes everything in this process and prints what was and is resident.
///
/// # Errors
/// The data path could not be made, or the numbers not printed.
pub fn print_resident(out: &mut dyn Write) -> Result<(), Error> {
    let empty = resident_bytes()?;
    let mut rig = Rig::new(&RigConfig { chunk_bytes: 4096, ..largest() })?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(spawn(&mut rig.dispatcher, Sink)?);
    }
    // Made anew for each batch: a table of packets would be resident too.
    for batch in 0..(2 * FLOWS / BURST) as u64 {
        let packets = Packets::new(BURST, SEED + batch, &[0; 16]);
        let (time, mut flow) = (now(), 0);
        rig.offer(BURST, time, |frame| {
            // From end to end, as packets of the largest size would write it.
            let room = frame.room();
            if frame.set_len(room) {
                frame.bytes_mut().fill(0);
            }
            packets.write(flow, frame);
            flow += 1;
        });
        rig.dispatcher.step(time);
        for worker in &mut workers {
            worker.step(time);
        }
    }
    let groups = rig.dispatcher.steering().table().len();
    rig.dispatcher.steering_mut().control_mut().0.set_policy(policy("modulo", groups)?);
    let end = now() + Nanos::from_secs(10);
    while !rig.dispatcher.steering().is_settled() && now() < end {
        rig.dispatcher.step(now());
        for worker in &mut workers {
            worker.step(now());
        }
    }
    let full = resident_bytes()?;
    writeln!(out, "resident_bytes {empty} {full}").map_err(Error::Output)
}

fn largest() -> RigConfig {
    RigConfig { groups: GROUPS, frames: FRAMES, ..RigConfig::default() }
}

/// proc_pid_statm(5): the second number is resident pages.
pub(crate) fn resident_bytes() -> Result<u64, Error> {
    let statm = std::fs::read_to_string("/proc/self/statm").or_needs("/proc/self/statm")?;
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or("it has no second number").or_needs("/proc/self/statm")?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Allocations of dispatcher and worker while `packets` packets pass; `None` when the program does
/// not count them.
///
/// # Errors
/// The data path could not be made.
pub fn steady_state_allocations(packets: usize) -> Result<Option<u64>, Error> {
    let before = process_allocations();
    drop(std::hint::black_box(Box::new(0_u64)));
    if process_allocations() == before {
        return Ok(None);
    }
    let mut rig = Rig::new(&RigConfig { groups: 1 << 16, ..RigConfig::default() })?;
    let mut worker = spawn(&mut rig.dispatcher, Sink)?;
    let flows = Packets::new(10_000, SEED, &[0; 16]);
    let mut next = 0;
    let mut pass = |count: usize| {
        let end = next + count;
        while next < end {
            let time = now();
            let mut flow = next;
            next += rig.offer(BURST, time, |frame| {
                flows.write(flow % flows.len(), frame);
                flow += 1;
            });
            rig.dispatcher.step(time);
            worker.step(time);
        }
    };
    pass(20_000);
    let before = thread_allocations();
    pass(packets);
    Ok(Some(thread_allocations() - before))
}

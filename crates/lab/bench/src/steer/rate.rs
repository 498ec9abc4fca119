//! Packets a second through classify, dispatch and ring push, held against testpmd, which only
//! moves pointers.

use base::{BURST, Nanos};
use datapath::{Sink, Worker};
use sys::clock::{TscRate, now, tsc};

use super::testpmd;
use crate::cases::{Plan, turns_of};
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::flows::{FLOWS, Packets, SEED, SplitMix};
use crate::place::on_cpu;
use crate::report::Report;
use crate::rig::{Rig, RigConfig, spawn};

/// A turn of 64 packets takes about 10 us; in one this long the CPU was somebody else's.
const TURN_MAX: Nanos = Nanos::from_micros(100);

/// What testpmd prints as the rate of a port. Its thread serves two of them.
const ONE_WAY: &str = "testpmd io, each port";

/// Ticks of the time-stamp counter by step of a turn, and the packets that they were spent on.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    generate: u64,
    receive: u64,
    worker: u64,
    give_back: u64,
    packets: u64,
    turns: u64,
    turns_left_out: u64,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let count = plan.pick(FLOWS, FLOWS / 10);
    let cpu = plan.cpus.server;
    report.begin(
        "rate",
        &format!(
            "all on one thread on CPU {cpu}; the generator (its own cost apart) writes 58-byte \
             UDP packets of {count} flows in random order, checksums and all, into pooled frames \
             and puts them on a wire in memory; the dispatcher receives, classifies (IP and UDP \
             checksum verified), hashes, looks up its 1 Mi groups and pushes into the ring of \
             one worker, whose job swallows them. Turns over {TURN_MAX} are left out: the CPU \
             was taken away. testpmd: io forwarding between two net_null, its lcore on CPU {cpu}, \
             packets per second of that thread's CPU time, of each port (what it prints itself) \
             and of both together; it touches no packet."
        ),
    )?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    let length = plan.pick(Nanos::from_millis(700), Nanos::from_millis(100));
    let packets = Packets::new(count, SEED, &[0; 16]);
    let (mut push, mut path, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps: [Vec<f64>; 4] = Default::default();
    let (mut pmd, mut absent) = (Vec::new(), None);
    let mut left_out = Vec::new();
    let [_] = turns_of(plan, report, "", |_, round| {
        let spent = on_cpu(cpu, || forward(&packets, length, rate, u64::from(round)))?;
        let Spent { generate, receive, worker, give_back, packets, turns, turns_left_out } = spent;
        let mpps = |ticks: u64| packets as f64 * rate.ticks_per_second() / ticks as f64 / 1e6;
        push.push(mpps(receive));
        path.push(mpps(receive + worker + give_back));
        whole.push(mpps(generate + receive + worker + give_back));
        for (step, ticks) in steps.iter_mut().zip([generate, receive, worker, give_back]) {
            step.push(ticks as f64 / packets.max(1) as f64);
        }
        left_out.push(100.0 * turns_left_out as f64 / (turns + turns_left_out).max(1) as f64);
        if absent.is_none() {
            match testpmd::run(plan.cpus, length.max(Nanos::from_millis(300)).into()) {
                Ok(rate) => pmd.push(rate / 1e6),
                Err(why) => absent = Some(why),
            }
        }
        Ok(())
    })?;
    let one_way: Vec<f64> = pmd.iter().map(|both| both / 2.0).collect();
    let figure = |metric: &str, own: &[f64]| {
        Figure::new(metric, "Mpps", own).against(ONE_WAY, own, &one_way)
    };
    let target = Target::RatioAtLeast(0.4);
    report.figure(figure("classify + dispatch + ring push", &push).target(target))?;
    let both = Figure::new("classify + dispatch + ring push", "Mpps", &push);
    // No target on this row: the figure that the target was set against is what testpmd prints of
    // one port.
    report.figure(both.against("testpmd io, both ports together", &push, &pmd))?;
    report.figure(figure("the same + worker + frames home", &path))?;
    report.figure(figure("the same + generator", &whole))?;
    if !pmd.is_empty() {
        report.figure(Figure::new(ONE_WAY, "Mpps", &one_way))?;
    }
    if let Some(why) = absent {
        report.figure(Figure::missing("testpmd io", why))?;
    }
    let names = ["generator", "receive to ring push", "worker (sink)", "frames home"];
    for (name, cycles) in names.into_iter().zip(&steps) {
        report.figure(Figure::new(format!("{name} per packet"), "cycles (tsc)", cycles))?;
    }
    report.figure(Figure::new("turns left out", "%", &left_out))
}

/// Full batches through everything, for `length`.
fn forward(packets: &Packets, length: Nanos, rate: TscRate, round: u64) -> Result<Spent, Error> {
    let mut rig = Rig::new(&RigConfig::default())?;
    let mut worker = spawn(&mut rig.dispatcher, Sink)?;
    let mut random = SplitMix(SEED ^ round);
    let turn_max = (TURN_MAX.as_secs_f64() * rate.ticks_per_second()) as u64;
    // Every flow has sent a packet before the clock starts.
    let mut flow = 0;
    let mut discard = Spent::default();
    while flow < packets.len() {
        turn(&mut rig, &mut worker, packets, u64::MAX, &mut discard, || {
            flow += 1;
            (flow - 1) % packets.len()
        });
    }
    let mut spent = Spent::default();
    let end = now() + length;
    while now() < end {
        for _ in 0..64 {
            turn(&mut rig, &mut worker, packets, turn_max, &mut spent, || {
                (((random.next() >> 32) * packets.len() as u64) >> 32) as usize
            });
        }
    }
    debug_assert_eq!(rig.dropped(), 0);
    Ok(spent)
}

/// One batch from the generator to its frames' return.
#[inline]
fn turn(
    rig: &mut Rig,
    worker: &mut Worker<Sink>,
    packets: &Packets,
    turn_max: u64,
    spent: &mut Spent,
    mut flow: impl FnMut() -> usize,
) {
    let time = now();
    let start = tsc();
    rig.offer(BURST, time, |frame| packets.write(flow(), frame));
    let offered = tsc();
    let received = rig.dispatcher.receive(time);
    let pushed = tsc();
    worker.step(time);
    let worked = tsc();
    rig.dispatcher.transmit(time);
    let end = tsc();
    rig.dispatcher.control(time);
    if end.wrapping_sub(start) > turn_max {
        spent.turns_left_out += 1;
        return;
    }
    spent.turns += 1;
    spent.generate += offered.wrapping_sub(start);
    spent.receive += pushed.wrapping_sub(offered);
    spent.worker += worked.wrapping_sub(pushed);
    spent.give_back += end.wrapping_sub(worked);
    spent.packets += received as u64;
}

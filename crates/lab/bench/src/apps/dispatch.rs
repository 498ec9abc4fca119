//! What it costs that packets belong to many applications and not to one, and what the copy into
//! an application's memory costs against a frame for a worker of the dispatcher's own.

use base::{BURST, Nanos};
use sys::clock::{TscRate, now, tsc};

use super::tenants::{Answer, DESTINATIONS, Servers, Tenants, WORKERS, destination};
use crate::cases::{Plan, turns_of};
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::flows::{FLOWS, Packets, SEED, SplitMix};
use crate::place::on_cpu;
use crate::report::Report;

/// A turn of 64 packets takes about 20 us; in one this long the CPU was somebody else's.
const TURN_MAX: Nanos = Nanos::from_micros(150);

/// With headers and the four bytes that the wire adds: a 64-byte packet.
const PAYLOAD: [u8; 18] = [0; 18];

/// Who serves, whether packets are answered, and what that is called. The second of each pair of
/// applications is the baseline of the first.
const KINDS: [(Servers, Answer, &str); 5] = [
    (Servers::Apps(16), Answer::None, "16 apps x 4 workers"),
    (Servers::Apps(1), Answer::None, "1 app x 64 workers"),
    (Servers::Own, Answer::None, "64 own workers"),
    (Servers::Apps(16), Answer::Echo, "16 apps x 4 workers, answered"),
    (Servers::Apps(1), Answer::Echo, "1 app x 64 workers, answered"),
];

/// Ticks of the time-stamp counter by step of a turn, and the packets that they were spent on.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    receive: u64,
    serve: u64,
    transmit: u64,
    control: u64,
    packets: u64,
    /// In all turns: packets that were offered, that the workers had, and that came back.
    offered: u64,
    served: u64,
    back: u64,
    turns: u64,
    turns_left_out: u64,
}

impl Spent {
    /// Packets that did not come out where they had to, or not yet.
    fn lost(&self, answer: Answer) -> u64 {
        let last = if answer == Answer::Echo { self.back } else { self.served };
        self.offered.saturating_sub(last)
    }
}

/// One sample a round.
#[derive(Default)]
struct Samples {
    /// Millions a second: receive to ring push, and all that the dispatcher does.
    push: Vec<f64>,
    whole: Vec<f64>,
    /// Ticks a packet.
    steps: [Vec<f64>; 4],
    left_out: Vec<f64>,
    lost: Vec<f64>,
}

impl Samples {
    fn push(&mut self, spent: &Spent, answer: Answer, ticks_per_second: f64) {
        let Spent { receive, serve, transmit, control, packets, turns, turns_left_out, .. } =
            *spent;
        let mpps = |ticks: u64| packets as f64 * ticks_per_second / ticks.max(1) as f64 / 1e6;
        self.push.push(mpps(receive));
        self.whole.push(mpps(receive + transmit + control));
        for (step, ticks) in self.steps.iter_mut().zip([receive, transmit, control, serve]) {
            step.push(ticks as f64 / packets.max(1) as f64);
        }
        self.left_out.push(100.0 * turns_left_out as f64 / (turns + turns_left_out).max(1) as f64);
        self.lost.push(spent.lost(answer) as f64);
    }
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let count = plan.pick(FLOWS, FLOWS / 10);
    let cpu = plan.cpus.server;
    report.begin(
        "dispatch",
        &format!(
            "all on one thread on CPU {cpu}; 64-byte UDP packets (checksums right) of {count} flows \
             to {DESTINATIONS} ports by lot on a wire in memory. 16 applications listen on one port each with \
             4 workers, or one on all with {WORKERS}; 512 receive buffers a port, 4096 groups an \
             application, policy sticky, as calistod gives. Counted: receive (classify, look up, copy, ring push), \
             transmit (buffers or answers back: copy, egress check), control. The generator and the \
             applications' own work, on the same thread, are apart. Turns over {TURN_MAX} are \
             left out: the CPU was taken away."
        ),
    )?;
    let rate = TscRate::calibrate(Nanos::from_millis(20));
    let length = plan.pick(Nanos::from_millis(700), Nanos::from_millis(60));
    let share = count / usize::from(DESTINATIONS);
    let packets: Vec<Packets> = (0..DESTINATIONS)
        .map(|port| Packets::to(destination(port), share, SEED + u64::from(port), &PAYLOAD))
        .collect();
    let mut samples: [Samples; KINDS.len()] = Default::default();
    let _: [_; KINDS.len()] = turns_of(plan, report, "", |kind, round| {
        let (servers, answer, _) = KINDS[kind];
        let seed = SEED ^ u64::from(round);
        let spent = on_cpu(cpu, || dispatch((servers, answer), &packets, length, rate, seed))?;
        samples[kind].push(&spent, answer, rate.ticks_per_second());
        Ok(())
    })?;
    print(&samples, report)
}

fn print(samples: &[Samples; KINDS.len()], report: &mut Report<'_>) -> Result<(), Error> {
    let target = Target::RatioAtLeast(0.8);
    for (kind, baseline, wanted) in
        [(0, 1, Some(target)), (1, 2, None), (0, 2, None), (3, 4, Some(target))]
    {
        let (own, other) = (&samples[kind], &samples[baseline]);
        let (name, other_name) = (KINDS[kind].2, KINDS[baseline].2);
        for (what, own, other) in [
            ("receive to ring push", &own.push, &other.push),
            ("all of the dispatcher", &own.whole, &other.whole),
        ] {
            let figure = Figure::new(format!("{name}: {what}"), "Mpps", own);
            report.figure(figure.against(other_name, own, other).target(wanted))?;
        }
    }
    let mut lost = Vec::new();
    let mut left_out = Vec::new();
    for (samples, (.., name)) in samples.iter().zip(KINDS) {
        let names = ["receive", "transmit", "control", "the workers themselves"];
        for (step, cycles) in names.into_iter().zip(&samples.steps) {
            let metric = format!("{name}: {step}, per packet");
            report.figure(Figure::new(metric, "cycles (tsc)", cycles))?;
        }
        lost.extend_from_slice(&samples.lost);
        left_out.extend_from_slice(&samples.left_out);
    }
    report.figure(Figure::new("turns left out", "%", &left_out))?;
    let all: f64 = lost.iter().sum();
    let lost = Figure::new("packets lost, all rounds", "", &[all]);
    report.figure(lost.target(Target::AtMost(0.0)))
}

/// Full batches to everybody, for `length`.
fn dispatch(
    (servers, answer): (Servers, Answer),
    packets: &[Packets],
    length: Nanos,
    rate: TscRate,
    seed: u64,
) -> Result<Spent, Error> {
    let mut tenants = Tenants::new(servers, answer)?;
    let mut random = SplitMix(seed);
    let turn_max = (TURN_MAX.as_secs_f64() * rate.ticks_per_second()) as u64;
    // Every flow has sent a packet before the clock starts.
    let all: usize = packets.iter().map(Packets::len).sum();
    let (mut next, mut warming) = (0, Spent::default());
    while next < all {
        turn(&mut tenants, packets, BURST, u64::MAX, &mut warming, || {
            next += 1;
            (next % packets.len(), next / packets.len() % packets[0].len())
        })?;
    }
    let Spent { offered, served, back, .. } = warming;
    let mut spent = Spent { offered, served, back, ..Spent::default() };
    let end = now() + length;
    while now() < end {
        for _ in 0..64 {
            turn(&mut tenants, packets, BURST, turn_max, &mut spent, || {
                let bits = random.next();
                let part = |bits: u64, of: usize| ((bits * of as u64) >> 32) as usize;
                let to = part(bits & 0xffff_ffff, packets.len());
                (to, part(bits >> 32, packets[to].len()))
            })?;
        }
    }
    // What waits for a hand-over arrives, or is lost.
    let (mut rest, end) = (spent, now() + Nanos::from_millis(100));
    while rest.lost(answer) > 0 && now() < end {
        turn(&mut tenants, packets, 0, u64::MAX, &mut rest, || (0, 0))?;
    }
    let Spent { offered, served, back, .. } = rest;
    Ok(Spent { offered, served, back, ..spent })
}

/// One batch from the generator to the return of its buffers or answers.
#[inline]
fn turn(
    tenants: &mut Tenants,
    packets: &[Packets],
    count: usize,
    turn_max: u64,
    spent: &mut Spent,
    mut flow: impl FnMut() -> (usize, usize),
) -> Result<(), Error> {
    let time = now();
    let begun = tsc();
    let offered = tenants.rig.offer(count, time, |frame| {
        let (to, flow) = flow();
        packets[to].write(flow, frame);
    });
    let start = tsc();
    let received = tenants.rig.dispatcher.receive(time);
    let pushed = tsc();
    let served = tenants.serve(time)?;
    let answered = tsc();
    tenants.rig.dispatcher.transmit(time);
    let sent = tsc();
    tenants.rig.dispatcher.control(time);
    let end = tsc();
    let back = tenants.rig.take_answers(time);
    spent.offered += offered as u64;
    spent.served += served as u64;
    spent.back += back as u64;
    if end.wrapping_sub(begun) > turn_max {
        spent.turns_left_out += 1;
        return Ok(());
    }
    spent.turns += 1;
    spent.receive += pushed.wrapping_sub(start);
    spent.serve += answered.wrapping_sub(pushed);
    spent.transmit += sent.wrapping_sub(answered);
    spent.control += end.wrapping_sub(sent);
    spent.packets += received as u64;
    Ok(())
}

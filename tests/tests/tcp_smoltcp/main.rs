//! The TCP engine against smoltcp's, over a link that loses, repeats, delays, reorders and
//! corrupts, in virtual time.
//!
//! Two stacks that share no line must agree: both streams arrive whole and in order, and both sides
//! come to the end of the closing handshake. Each run is a seed. A failure prints it; `SEED=n` runs
//! that one alone, `SEEDS=n` runs that many, from `SEED` on if that is given too.

mod ours;
mod plan;
mod theirs;

use std::collections::BTreeMap;

use base::Nanos;
use ours::Ours;
use plan::Plan;
use tcp::Counters;
use theirs::Theirs;
use whole::Random;

/// Runs when nobody says how many: a few seconds.
const SEEDS: u64 = 2000;
/// What has to be met in this many.
const MET: &[&str] = &[
    "bad_checksum",
    "cookies_accepted",
    "duplicate_bytes",
    "fast",
    "out_of_order",
    "recoveries",
    "retransmitted",
    "tail_probes",
    "timeouts",
    "window_probes",
];
/// Turns of the loop after which a run counts as stuck.
const TURNS_MAX: u32 = 100_000;

/// What an application sends, and what it has got; the same on both sides.
struct Application {
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// At most this many bytes are written or read at a time.
    chunk: usize,
    /// It closes only after this many have come.
    waits_for: usize,
    has_shut: bool,
    /// The peer's end of stream was read.
    is_at_end: bool,
}

impl Application {
    fn new(plan: &Plan, number: usize) -> Self {
        let mut random = Random::new(plan.seed ^ (number as u64 + 1));
        let to_send = (0..plan.bytes[number]).map(|_| random.any() as u8).collect();
        Self {
            to_send,
            sent: 0,
            received: Vec::new(),
            chunk: plan.chunk,
            waits_for: if plan.is_patient[number] { plan.bytes[1 - number] } else { 0 },
            has_shut: false,
            is_at_end: false,
        }
    }

    /// What is to be written next.
    fn next(&self) -> &[u8] {
        &self.to_send[self.sent..self.to_send.len().min(self.sent + self.chunk)]
    }

    /// Whether it is to close its side now.
    fn may_shut(&self) -> bool {
        self.has_sent_all() && self.received.len() >= self.waits_for && !self.has_shut
    }

    fn has_sent_all(&self) -> bool {
        self.sent == self.to_send.len()
    }
}

/// Packets on their way, by time of arrival, then in the order in which they were sent.
#[derive(Default)]
struct Link {
    packets: BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl Link {
    /// Sends a packet to side `to`; what happens to it is the plan's and chance's.
    fn send(&mut self, plan: &Plan, random: &mut Random, now: Nanos, to: usize, packet: &[u8]) {
        if random.per_mille(plan.lost) {
            return;
        }
        let copies = 1 + usize::from(random.per_mille(plan.repeated));
        for _ in 0..copies {
            let mut packet = packet.to_vec();
            if random.per_mille(plan.corrupted) {
                // A router would drop what is wrong in an IP header.
                let bit = plan.ip_bytes() * 8 + random.below((packet.len() - plan.ip_bytes()) * 8);
                packet[bit / 8] ^= 1 << (bit % 8);
            }
            self.count += 1;
            let delay = plan.delay + Nanos(random.any() % (plan.jitter.0 + 1));
            self.packets.insert((now + delay, self.count), (to, packet));
        }
    }
}

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Both sides are through.
    Whole,
    /// smoltcp did not get over one of two things: its fast retransmit has sent beyond our window,
    /// so that whatever it says from then on lies behind that; or a closed window has opened, and
    /// it has lost its timer over that.
    Abandoned,
}

/// Runs a plan to its end.
fn run(plan: &Plan) -> (Ours, Theirs, End) {
    let mut random = Random::new(plan.seed.wrapping_mul(3));
    let mut link = Link::default();
    let mut now = Nanos::from_secs(1);
    let mut ours = Ours::new(plan, now);
    let mut theirs = Theirs::new(plan, now);
    let mut next_read = now;
    for _ in 0..TURNS_MAX {
        let may_read = now >= next_read;
        if may_read {
            next_read = now + plan.pause;
        }
        ours.turn(now, may_read);
        for packet in ours.sent() {
            link.send(plan, &mut random, now, 1, &packet);
        }
        theirs.turn(now, may_read);
        for packet in theirs.sent() {
            ours.watch(&packet);
            link.send(plan, &mut random, now, 0, &packet);
        }
        if ours.is_over() && theirs.is_over() && link.packets.is_empty() {
            let end = if ours.is_finished() { End::Whole } else { End::Abandoned };
            assert!(end == End::Whole || ours.has_excuse(), "at {now}: {ours:?}\n{theirs:?}");
            return (ours, theirs, end);
        }
        let eager =
            (ours.can_act() || theirs.can_act()).then_some(next_read.max(now + Nanos(1000)));
        let arrival = link.packets.keys().next().map(|(at, _)| *at);
        let deadlines = [ours.next_deadline(), theirs.next_deadline(now), arrival, eager];
        let Some(next) = deadlines.into_iter().flatten().min() else {
            assert!(ours.has_excuse(), "stuck at {now}: {ours:?}\n{theirs:?}");
            return (ours, theirs, End::Abandoned);
        };
        // smoltcp counts microseconds: what is due within this one is due in the next.
        now = now.max(next).max(now + Nanos(1000));
        while let Some(entry) = link.packets.first_entry()
            && entry.key().0 <= now
        {
            let (to, packet) = entry.remove();
            match to {
                0 => ours.receive(now, &packet),
                _ => theirs.receive(packet),
            }
        }
    }
    assert!(ours.has_excuse(), "no end at {now}: {ours:?}\n{theirs:?}");
    (ours, theirs, End::Abandoned)
}

/// What must hold after every run. Returns what our engine has counted, and how it has ended.
fn check(plan: &Plan) -> (Counters, End) {
    let (ours, theirs, end) = run(plan);
    let (us, them) = (&ours.application, &theirs.application);
    for (from, to) in [(us, them), (them, us)] {
        let (sent, received) = (&from.to_send, &to.received);
        let first_wrong = received.iter().zip(sent).position(|(one, other)| one != other);
        let is_right = first_wrong.is_none()
            && received.len() <= sent.len()
            && (end == End::Abandoned || received.len() == sent.len());
        let counts = (sent.len(), received.len(), first_wrong);
        assert!(is_right, "{counts:?}: every byte arrives once and in order: {ours:?}");
    }
    if end == End::Whole {
        assert!(us.is_at_end && them.is_at_end, "both have heard the other's end");
        ours.check_end();
    }
    (ours.counters(), end)
}

#[test]
fn whatever_the_link_does_both_stacks_get_every_byte_and_both_connections_end() {
    let number = |name: &str| -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let (seed, seeds) = (number("SEED"), number("SEEDS"));
    if let (Some(seed), None) = (seed, seeds) {
        let plan = Plan::from_seed(seed);
        println!("{plan:?}");
        println!("{:?}", check(&plan));
        return;
    }
    let (first, seeds) = (seed.unwrap_or(0), seeds.unwrap_or(SEEDS));
    let (mut met, mut abandoned) = (BTreeMap::new(), 0);
    for seed in first..first + seeds {
        let outcome = std::panic::catch_unwind(|| check(&Plan::from_seed(seed)));
        let Ok((counters, end)) = outcome else {
            panic!("seed {seed} fails: SEED={seed} runs it alone");
        };
        abandoned += u64::from(end == End::Abandoned);
        for (name, count) in counters.iter() {
            *met.entry(name).or_insert(0) += count;
        }
        let done = seed - first + 1;
        if done % 1000 == 0 {
            println!("{done} of {seeds} runs");
        }
    }
    println!("{abandoned} of {seeds} runs abandoned by smoltcp; {met:?}");
    assert!(abandoned * 100 <= seeds, "{abandoned} of {seeds} runs abandoned");
    // The runs must have met what they are for.
    for name in MET.iter().filter(|_| seeds >= SEEDS) {
        assert!(met.get(name).is_some_and(|count| *count > 0), "no run has met {name}");
    }
}

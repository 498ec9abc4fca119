//! What a run found, as data; `report/text.rs` makes a table and CSV of it.

use std::time::{SystemTime, UNIX_EPOCH};

use base::Nanos;
use serde::Serialize;

use crate::open_loop::{PartSent, SendCounts};
use crate::{
    Check, Distribution, FlowOrder, Latencies, Options, Pace, Percentiles, Plan, Stats,
    TransportCounters,
};

mod step;
mod text;

pub use step::Step;

/// What a run found. Counts and latencies leave the warm-up out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Counts changes of these fields that are more than additions.
    pub schema_version: u32,
    /// What became of the requests.
    #[serde(flatten)]
    pub requests: Requests,
    /// What was wrong with replies.
    #[serde(flatten)]
    pub replies: Replies,
    /// What the transport counted.
    #[serde(flatten)]
    pub transport: TransportCounters,
    /// How long was measured, and how much a second that makes.
    #[serde(flatten)]
    pub rates: Rates,
    /// How long things took.
    #[serde(flatten)]
    pub times: Times,
    /// Time that the hypervisor took during the run, by CPU.
    pub stolen: Vec<StolenTime>,
    /// What was run.
    #[serde(flatten)]
    pub run: Run,
    /// The steps of a sweep, each for itself.
    pub steps: Vec<Step>,
    /// The thresholds that it missed, and the histogram log that could not be written, a sentence
    /// each.
    pub failed_checks: Vec<String>,
}

/// What became of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Those that were sent.
    pub sent: u64,
    /// Those that were answered.
    pub received: u64,
    /// Those that were sent and not answered when the grace was over.
    pub lost: u64,
    /// Those that left more than 5 us after their intended time.
    pub late: u64,
    /// Those that were still waiting to be sent when time was over.
    pub never_sent: u64,
}

/// What was wrong with replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Replies {
    /// Second and further replies to a request.
    pub duplicates: u64,
    /// Replies that came after one to a younger request of the same flow.
    pub reordered: u64,
    /// Replies that are not what was sent, not to what was sent, or on another flow.
    pub corrupted: u64,
    /// Replies to requests that had been given up.
    pub expired: u64,
    /// Answers that are errors of the server; they are among the received.
    pub errors: u64,
}

/// How long was measured, and how much a second that makes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// How long was measured.
    pub seconds: f64,
    /// Requests a second that were wanted; none in a closed loop.
    pub target_rate: Option<f64>,
    /// Requests a second that were sent.
    pub sent_rate: f64,
    /// Requests a second that were answered.
    pub achieved_rate: f64,
}

/// How long things took.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// Time to the reply from the intended time of each request: what a user would have waited. The
    /// lost ones count as waiting for ever, here and from the moment of sending.
    pub latency: Percentiles,
    /// Time to the reply from the moment each request left: what the server and the way did.
    pub latency_from_send: Percentiles,
    /// Time from intention to departure: the generator's own error.
    pub send_delay: Percentiles,
    /// All latencies from the intended time.
    #[serde(skip)]
    pub latencies: Latencies,
    /// All latencies from the moment of sending.
    #[serde(skip)]
    pub latencies_from_send: Latencies,
}

/// What was run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What generated the load.
    pub generator: String,
    /// Where it ran.
    pub placement: String,
    /// The distribution of work.
    pub distribution: Distribution,
    /// Its mean, in iterations.
    pub iterations: u64,
    /// How many flows.
    pub flows: u32,
    /// The seed that repeats the run.
    pub seed: u64,
    /// When it started, in seconds since 1970.
    pub start: u64,
    /// Whether it was ended early.
    pub interrupted: bool,
}

/// Time that the hypervisor took from a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StolenTime {
    /// Which one.
    pub cpu: usize,
    /// How much.
    pub millis: f64,
}

/// Sums over all shards.
#[derive(Default)]
pub(crate) struct Totals {
    send: SendCounts,
    received: u64,
    duplicates: u64,
    reordered: u64,
    corrupted: u64,
    expired: u64,
    errors: u64,
    from_intended: Latencies,
    from_sent: Latencies,
    parts: Vec<Latencies>,
    counters: TransportCounters,
    pub(crate) transport: String,
}

impl Totals {
    pub(crate) fn add(
        &mut self,
        send: &SendCounts,
        stats: Option<&Stats>,
        counters: TransportCounters,
    ) {
        let SendCounts { sent, sent_ever, late, never_sent, delay, parts } = send;
        self.send.sent += sent;
        self.send.sent_ever += sent_ever;
        self.send.late += late;
        self.send.never_sent += never_sent;
        self.send.delay.add(delay);
        self.send.parts.resize(self.send.parts.len().max(parts.len()), PartSent::default());
        for (sum, part) in self.send.parts.iter_mut().zip(parts) {
            *sum = sum.plus(*part);
        }
        self.counters = self.counters.plus(counters);
        if let Some(stats) = stats {
            let counts = stats.counts();
            self.received += counts.received;
            self.duplicates += counts.duplicates;
            self.reordered += counts.reordered;
            self.corrupted += counts.corrupted;
            self.expired += counts.expired;
            self.from_intended.add(stats.from_intended());
            self.errors += counts.errors;
            self.from_sent.add(stats.from_sent());
            let parts = stats.of_parts();
            self.parts.resize(self.parts.len().max(parts.len()), Latencies::default());
            self.parts.iter_mut().zip(parts).for_each(|(sum, part)| sum.add(part));
        }
    }
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        options: &Options,
        totals: Totals,
        length: Nanos,
        interrupted: bool,
        stolen: impl Iterator<Item = (usize, Nanos)>,
        started_at: SystemTime,
    ) -> Self {
        let Totals { send, received, counters, parts, .. } = &totals;
        let seconds = length.as_secs_f64();
        let lost = send.sent.saturating_sub(*received);
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let target_rate = match plan.pace {
            Pace::Open { rate, .. } => Some(rate),
            Pace::Closed { .. } => None,
        };
        let start = started_at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let pieces = plan.profile.measured();
        // When each began, counted from the first, and how much of it was measured: of the one in
        // which a run was ended early, less than all.
        let spans = pieces.iter().scan(Nanos::ZERO, |end, piece| {
            let begin = *end;
            *end += piece.length;
            Some((begin, (*end).min(length).since(begin)))
        });
        // A run that was ended early has no figures of the steps that it did not reach.
        let steps = pieces.iter().zip(spans).zip(&send.parts).zip(parts);
        let steps = steps
            .filter(|((_, sent), _)| sent.sent + sent.never_sent > 0)
            .map(|(((piece, (begin, measured)), sent), latencies)| {
                let begin = start + (plan.warmup + begin).0 / 1_000_000_000;
                Step::new(piece, begin, measured, sent, latencies)
            })
            .collect();
        Self {
            schema_version: 2,
            requests: Requests {
                sent: send.sent,
                received: *received,
                lost,
                late: send.late,
                never_sent: send.never_sent,
            },
            replies: Replies {
                duplicates: totals.duplicates,
                reordered: totals.reordered,
                corrupted: totals.corrupted,
                expired: totals.expired,
                errors: totals.errors,
            },
            transport: *counters,
            rates: Rates {
                seconds,
                target_rate,
                sent_rate: rate(send.sent),
                achieved_rate: rate(*received),
            },
            stolen: stolen
                .map(|(cpu, time)| StolenTime { cpu, millis: time.as_micros_f64() / 1e3 })
                .collect(),
            run: Run {
                generator: generator(plan, &totals.transport),
                placement: placement(plan, options),
                distribution: plan.distribution,
                iterations: plan.iterations,
                flows: plan.flows,
                seed: plan.seed,
                start,
                interrupted,
            },
            steps,
            failed_checks: Vec::new(),
            times: Times {
                latency: totals.from_intended.percentiles_with_missing(lost),
                latency_from_send: totals.from_sent.percentiles_with_missing(lost),
                send_delay: send.delay.percentiles(),
                latencies: totals.from_intended,
                latencies_from_send: totals.from_sent,
            },
        }
    }

    /// The sentence of a run that nobody has answered, with what to look at; nothing when something
    /// came back, or nothing was to be sent.
    pub(crate) fn silence(&self) -> Option<String> {
        let Requests { sent, received, never_sent, .. } = &self.requests;
        let TransportCounters { refused, strangers, send_errors, closed, .. } = &self.transport;
        if *received > 0 || sent + never_sent == 0 {
            return None;
        }
        let hint = match (refused, send_errors, strangers, closed) {
            (1.., ..) => "nobody listens at the target: see what the server listens on",
            (_, 1.., ..) => {
                "requests could not be sent: see the route to the target (`ip route get`)"
            }
            (_, _, 1.., _) => "what came was no answer: see whether the target is the right server",
            (.., 1..) => "connections ended too soon: see what the server says",
            _ => {
                "see whether the target is there (`ping`), and at its daemon what `calisto status` \
                 says of ports and dropped packets"
            }
        };
        Some(format!("nothing was answered of {sent} requests: {hint}"))
    }

    /// Notes which of `checks` the run missed; whether it met all.
    pub fn apply(&mut self, checks: &[Check]) -> bool {
        self.failed_checks = checks.iter().filter_map(|check| check.missed_by(self)).collect();
        self.failed_checks.is_empty()
    }
}

fn generator(plan: &Plan, transport: &str) -> String {
    let changes = match plan.profile.measured() {
        [] => String::new(),
        [only] if only.from == only.to => String::new(),
        [first, .., last] | [first @ last] => format!(
            " on average, {} to {} in {} part(s)",
            first.from,
            last.to,
            plan.profile.measured().len()
        ),
    };
    let pace = match plan.pace {
        Pace::Open { arrival, rate } => {
            format!("open loop, {arrival}, {rate} requests/s{changes}")
        }
        Pace::Closed { outstanding } => format!("closed loop, {outstanding} in flight"),
    };
    let Plan { flows, flow_order, .. } = plan;
    let exponent = match flow_order {
        FlowOrder::Zipf => format!(" ({})", plan.zipf_exponent),
        _ => String::new(),
    };
    format!("{pace}, {flows} flow(s) in {flow_order}{exponent} order, {transport}")
}

fn placement(plan: &Plan, options: &Options) -> String {
    let Options { threads, cpus, split, spin, .. } = options;
    let split = *split && matches!(plan.pace, Pace::Open { .. });
    let role = if split { "sending and as many receiving" } else { "sending and receiving" };
    let place = match cpus.len() {
        0 => "not pinned".to_owned(),
        _ => {
            let list: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            format!("on CPU {} in turn", list.join(","))
        }
    };
    format!("{threads} thread(s) {role}, {place}, sleeping after {spin} without work")
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) fn sample() -> Report {
    let mut totals = Totals { transport: "a test".to_owned(), ..Totals::default() };
    for micros in 1..=100 {
        totals.from_intended.record(Nanos::from_micros(micros));
        totals.from_sent.record(Nanos::from_micros(micros / 2));
    }
    totals.received = 100;
    totals.send.sent = 101;
    let (plan, options) = (Plan::default(), Options::default());
    let stolen = [(0, Nanos::from_millis(20))].into_iter();
    let length = Nanos::from_secs(1);
    Report::new(&plan, &options, totals, length, false, stolen, UNIX_EPOCH)
}

//! A load of one's own: requests as they came, on every policy and on more and more cores, and the
//! fewest cores that keep a latency.
//!
//! Each run after the first has the same requests in another order: the trace is cut into blocks of
//! time, and a run takes as many of them by lot, some twice and some not at all (block bootstrap).
//! So what is said of the latency is not true of one night alone, as far as one night can tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Nanos;
use report::{
    Axis, FigureLine, Kind, Line, Origin, Parameter, PointLine, SCHEMA_VERSION, Scale, SeriesHead,
};
use sim::Range;
use sim::model::{AppPlan, Costs as MachineCosts, Machine, MachinePlan, Step, System};

use crate::confidence;
use crate::own_costs::Costs;
use crate::points::rounded;

mod arrivals;
mod record;

pub use arrivals::Poisson;
pub use record::{RecordError, from_record};
pub use sim::model::{Trace, Traced};

/// The name of the figure and of its file.
pub const NAME: &str = "own-load";
/// Blocks that a trace is cut into.
const BLOCKS: usize = 20;
/// Requests of a load, at most: some gigabytes and minutes otherwise.
pub const REQUESTS_MAX: usize = 5_000_000;
/// Cores that are tried, at most.
pub const CORES_MAX: u16 = 256;
/// What is left to be served after the last request: a queue that is longer is none.
const AFTER: Nanos = Nanos::from_millis(10);

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum Requests {
    /// They were seen.
    Seen(Arc<Trace>),
    /// They are made.
    Made(Poisson),
}

/// A load, and on what it is tried.
#[derive(Clone, Debug)]
pub struct OwnLoad {
    /// The requests.
    pub requests: Requests,
    /// What is told of them on the page: a name, a value, and where it comes from.
    pub told: Vec<Parameter>,
    /// Cores, at most.
    pub cores_max: u16,
    /// Runs of each point.
    pub runs: u32,
    /// Where everything random comes from.
    pub seed: u64,
    /// What things cost on the reader's machine.
    pub costs: Costs,
    /// Runs at a time.
    pub threads: usize,
}

/// A way to use cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    label: &'static str,
    steering: &'static str,
    cores: &'static str,
}

const fn way(
    name: &'static str,
    label: &'static str,
    steering: &'static str,
    cores: &'static str,
) -> Way {
    Way { name, label, steering, cores }
}

/// Every policy that keeps the packets of a flow in order, and one queue for all, which does not.
const WAYS: &[Way] = &[
    way("sticky", "sticky (the default)", "sticky", "queue_delay"),
    way("packing", "sticky, packed on few cores", "sticky", "packing"),
    way("static", "sticky, cores of its own", "sticky", "static_set"),
    way("modulo", "modulo, with hand-overs", "modulo", "queue_delay"),
    way("balanced", "balanced", "balanced", "queue_delay"),
    way("hybrid", "hybrid", "hybrid", "queue_delay"),
    way("prefilled", "prefilled", "prefilled", "queue_delay"),
    way("calisto", "calisto: where its first packet came", "calisto", "queue_delay"),
    way("least-loaded", "least loaded of two", "least_loaded", "queue_delay"),
    way("shenango", "Shenango's rule", "shenango", "queue_delay"),
    way("shared", "shared: the shortest ring, no order", "shared", "queue_delay"),
];

/// What one run has shown.
#[derive(Clone, Debug, Default)]
struct Shown {
    values: BTreeMap<&'static str, f64>,
    is_saturated: bool,
}

/// One way on that many cores.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Its name.
    pub way: &'static str,
    /// What it is.
    pub label: &'static str,
    /// Cores that it may use.
    pub cores: u16,
    runs: Vec<Shown>,
}

impl OwnLoad {
    /// Tries every way on one to `cores_max` cores.
    ///
    /// # Errors
    /// There are no requests, or too many; a cost cannot be.
    pub fn run(&self) -> Result<Vec<Tried>, String> {
        let mut costs = MachineCosts::default();
        for (name, time) in self.costs.times()? {
            costs.set(name, Range::exactly(time));
        }
        let traces: Vec<Arc<Trace>> =
            (0..self.runs.max(1)).map(|run| self.trace(run)).collect::<Result<_, _>>()?;
        // Fewer cores than there is work cannot serve it, whoever gives it out.
        let work = traces.iter().map(|trace| busy(trace)).fold(f64::INFINITY, f64::min);
        let least = (work.floor() as u16).clamp(1, self.cores_max);
        let jobs: Vec<(&Way, u16)> = (least..=self.cores_max)
            .flat_map(|cores| WAYS.iter().map(move |way| (way, cores)))
            .collect();
        let next = AtomicUsize::new(0);
        let mut done: Vec<(usize, Result<Tried, String>)> = std::thread::scope(|scope| {
            let work = || {
                let mut done = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((way, cores)) = jobs.get(number) else { return done };
                    done.push((number, self.tried(way, *cores, &traces, costs)));
                }
            };
            let threads: Vec<_> =
                (0..self.threads.clamp(1, 1024)).map(|_| scope.spawn(work)).collect();
            // A thread that broke off has left a hole, which is told below.
            threads.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
        });
        done.sort_by_key(|(number, _)| *number);
        if done.len() < jobs.len() {
            return Err("a simulation has broken off".to_owned());
        }
        done.into_iter().map(|(_, tried)| tried).collect()
    }

    /// The requests of a run.
    fn trace(&self, run: u32) -> Result<Arc<Trace>, String> {
        let seed = self.seed ^ u64::from(run) << 32;
        let trace = match &self.requests {
            Requests::Seen(trace) if run == 0 => Arc::clone(trace),
            Requests::Seen(trace) => Arc::new(resampled(trace, seed)),
            Requests::Made(poisson) => Arc::new(poisson.trace(seed)),
        };
        match trace.packets().len() {
            0 => Err("there is no request in it".to_owned()),
            count if count > REQUESTS_MAX => Err(format!(
                "it has {count} requests, and {REQUESTS_MAX} are tried at most: take a part of it"
            )),
            _ => Ok(trace),
        }
    }

    fn tried(
        &self,
        way: &Way,
        cores: u16,
        traces: &[Arc<Trace>],
        costs: MachineCosts,
    ) -> Result<Tried, String> {
        let run = |(number, trace): (usize, &Arc<Trace>)| {
            let app = AppPlan {
                system: System::by_name(way.steering, 1 << 16)
                    .map_err(|error| error.to_string())?,
                workers: cores,
                flows: trace.flows(),
                trace: Some(Arc::clone(trace)),
                ..AppPlan::default()
            };
            let app = if way.cores == "static_set" { app.with_cores_of_its_own() } else { app };
            let length = trace.length() + AFTER;
            let plan = MachinePlan {
                cores,
                cores_policy: way.cores.to_owned(),
                apps: vec![app],
                costs,
                steps: vec![Step::new(length, [1.0])],
                ..MachinePlan::default()
            };
            let seed = self.seed.wrapping_add(number as u64);
            let outcome = Machine::simulate(plan, seed).map_err(|error| error.to_string())?;
            let app = &outcome.steps[0].apps[0];
            let percentiles = app.latency.percentiles();
            let values = BTreeMap::from([
                ("p50_us", percentiles.p50_us),
                ("p90_us", percentiles.p90_us),
                ("p99_us", percentiles.p99_us),
                ("p99_9_us", percentiles.p99_9_us),
                ("mean_us", percentiles.mean_us),
                ("cores", app.cores(length)),
                ("dropped_packets", app.dropped as f64),
                ("reordered_packets", app.reordered as f64),
                ("moved_flows", app.moved_flows as f64),
            ]);
            Ok(Shown { values, is_saturated: app.is_saturated() })
        };
        let runs = traces.iter().enumerate().map(run).collect::<Result<Vec<_>, String>>()?;
        Ok(Tried { way: way.name, label: way.label, cores, runs })
    }

    /// The lines of a result file.
    pub fn lines(&self, tried: &[Tried], command: &str) -> Vec<Line> {
        let axis = |label: &str, unit: &str, scale| Axis {
            label: label.to_owned(),
            unit: unit.to_owned(),
            scale,
        };
        let count = |way: &Way| tried.iter().filter(|one| one.way == way.name).count();
        let series = WAYS.iter().map(|way| SeriesHead {
            name: way.name.to_owned(),
            label: way.label.to_owned(),
            origin: Origin::Simulated,
            points: count(way),
        });
        let head = FigureLine {
            schema_version: SCHEMA_VERSION,
            figure: NAME.to_owned(),
            order: 1000,
            title: "Your own load on more and more cores".to_owned(),
            source: "calisto sim, calisto plan".to_owned(),
            text:
                "Requests as they came, on every policy. Each run after the first takes blocks of \
                   the trace by lot; a load that is made is made anew."
                    .to_owned(),
            kind: Kind::Lines,
            x: axis("Cores", "", Scale::Linear),
            y: axis("p99 latency", "us", Scale::Log),
            value: None,
            panels: vec![String::new()],
            series: series.collect(),
            parameters: self.told.clone(),
            seed: self.seed,
            command: command.to_owned(),
        };
        std::iter::once(Line::Figure(head))
            .chain(tried.iter().map(|one| Line::Point(one.point())))
            .collect()
    }
}

/// The cores that a trace keeps busy.
fn busy(trace: &Trace) -> f64 {
    trace.work().as_secs_f64() / trace.length().as_secs_f64().max(1e-9)
}

/// As many blocks of a trace as it has, by lot.
fn resampled(trace: &Trace, seed: u64) -> Trace {
    let mut random = load::Random::new(seed);
    let packets = trace.packets();
    let length = trace.length().0 / BLOCKS as u64 + 1;
    let block = |number: u64| {
        let at = |number: u64| {
            packets.partition_point(|packet| packet.at.0 < number.saturating_mul(length))
        };
        &packets[at(number)..at(number + 1)]
    };
    let mut all = Vec::with_capacity(packets.len());
    for place in 0..BLOCKS as u64 {
        let drawn = u64::from(random.below(BLOCKS as u32));
        let moved = |packet: &Traced| Traced {
            at: Nanos(packet.at.0 - drawn * length + place * length),
            ..*packet
        };
        all.extend(block(drawn).iter().map(moved));
    }
    // By lot there may be nothing but silence.
    if all.is_empty() { trace.clone() } else { Trace::new(all) }
}

impl Tried {
    /// Of the runs that served everything.
    fn mean(&self, name: &str) -> Option<f64> {
        let served = self.runs.iter().filter(|run| !run.is_saturated);
        let values: Vec<f64> = served.filter_map(|run| run.values.get(name).copied()).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Cores that it held on average.
    pub fn cores_held(&self) -> Option<f64> {
        self.mean("cores")
    }

    /// A latency, averaged over runs; nothing where it is too much in each of them.
    pub fn latency_us(&self, percentile: &str) -> Option<f64> {
        self.mean(percentile)
    }

    /// In how many runs this latency is kept, and of how many.
    pub fn kept(&self, percentile: &str, target: Nanos) -> (u32, u32) {
        let is_kept = |run: &&Shown| {
            !run.is_saturated
                && run.values.get(percentile).is_some_and(|us| *us <= target.as_micros_f64())
        };
        (self.runs.iter().filter(is_kept).count() as u32, self.runs.len() as u32)
    }

    /// Whether it is kept in most runs, beyond chance: nothing where runs say now this and now
    /// that.
    pub fn keeps(&self, percentile: &str, target: Nanos) -> Option<bool> {
        let (kept, of) = self.kept(percentile, target);
        confidence::decided(kept, of)
    }

    fn point(&self) -> PointLine {
        let full = self.runs.iter().filter(|run| run.is_saturated).count();
        let saturated = 2 * full > self.runs.len();
        let values = |name: &str| -> Vec<f64> {
            self.runs.iter().map(|run| rounded(run.values[name])).collect()
        };
        let names = self.runs[0].values.keys().filter(|name| **name != "p99_us");
        let more = names.filter_map(|name| Some(((*name).to_owned(), rounded(self.mean(name)?))));
        let p99 = values("p99_us");
        let low = p99.iter().copied().fold(f64::INFINITY, f64::min);
        let high = p99.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut runs = BTreeMap::new();
        if self.runs.len() > 1 {
            runs.insert("p99_us".to_owned(), p99);
        }
        PointLine {
            figure: NAME.to_owned(),
            panel: String::new(),
            series: self.way.to_owned(),
            x: f64::from(self.cores),
            y: rounded(self.mean("p99_us").unwrap_or(0.0)),
            band: (full == 0 && self.runs.len() > 1).then_some((low, high)),
            saturated,
            more: more.collect(),
            runs,
            tie: false,
        }
    }
}

/// The fewest cores on which a way keeps a latency, and on every larger number that was tried.
pub fn fewest<'a>(
    tried: &'a [Tried],
    way: &str,
    percentile: &str,
    target: Nanos,
) -> Option<&'a Tried> {
    let mut own: Vec<&Tried> = tried.iter().filter(|one| one.way == way).collect();
    own.sort_by_key(|one| one.cores);
    let keeps = |one: &&&Tried| one.keeps(percentile, target) == Some(true);
    own.iter().rev().take_while(keeps).last().copied()
}

/// The names of all ways, the default first.
pub fn ways() -> impl Iterator<Item = &'static str> {
    WAYS.iter().map(|way| way.name)
}

#[cfg(test)]
mod tests;

//! The demo's first act, predicted and live: which flows move, and how long half of the requests
//! take.
//!
//! The live side is what `calisto demo steer` does: an open loop of many flows from kernel sockets,
//! a worker that comes and goes, two policies. The prediction has the daemon's own decisions for
//! the flows, and for the time three kinds of round trips and a rate, each measured where it is
//! alone: nobody asleep, one worker of many asleep, everybody asleep, and as many requests as fit.

use std::net::SocketAddr;
use std::time::Duration;

use base::Nanos;
use load::transport::kernel::{KernelConfig, KernelUdp};
use load::transport::sources::FIRST_PORT;
use load::{Arrival, FlowOrder, Options, Pace};
use netsim::demo::{DemoAct, DemoCosts, DemoOutcome, DemoPlan, RoundTrips};
use sim::model::Range;
use wire::{FlowKey, Protocol, Toeplitz};

use crate::apps::harness::Harness;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::report::Report;

const FLOWS: u16 = 4000;
const WORKERS: u16 = 4;
/// Enough that a request seldom finds one that was busy within the time of a spin.
const MANY_WORKERS: u16 = 60;
const GROUPS: u32 = 65_536;
const SEED: u64 = 7;
/// Of fake work: about a microsecond.
const ITERATIONS: u64 = 100;
const RATE: f64 = 20e3;
/// So few that everybody sleeps in between, and no longer than in the act: its gaps are 50 us in
/// the mean, and those that outlast a spin (50 us) are 100 us. After a longer sleep a halted CPU
/// takes longer to wake.
const RARE: f64 = 10e3;
/// Fuller, and a p50 is that of a queue.
const FULL: f64 = 0.8;
const POLICIES: [&str; 2] = ["modulo", "sticky"];
const UDP_PORT: u16 = 7;

/// A daemon has come to rest by then.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Who owned each flow.
type Owners = Vec<Option<u16>>;

/// A round.
struct Round {
    costs: DemoCosts,
    /// By policy: the owners with four workers, with five, with four again, and the p50 in
    /// microseconds.
    acts: Vec<([Owners; 3], f64)>,
    lost: u64,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let (client, server) = (plan.cpus.client, plan.cpus.server);
    report.begin(
        "demo",
        &format!(
            "{FLOWS} flows from kernel sockets on CPU {client} to calistod over AF_XDP on a veth, on CPU {server}: job \
             synthetic ({ITERATIONS} iterations), arrangement threads, {WORKERS} workers, one comes and goes; {RATE} \
             requests a second, open loop, Poisson. Predicted: owners by the daemon's own code in virtual time; \
             p50 from round trips of the same round, one request outstanding on {WORKERS} workers (nobody asleep) and \
             on {MANY_WORKERS} (the worker asleep), {RARE} requests a second (all asleep), and 32 outstanding."
        ),
    )?;
    let [rounds] = turns_of(plan, report, "", |_, _| self::round(plan))?;
    let predictions: Vec<Vec<DemoOutcome>> =
        rounds.iter().map(|round| predict(plan, round.costs.clone())).collect::<Result<_, _>>()?;
    for (number, policy) in POLICIES.iter().enumerate() {
        let each = || {
            rounds.iter().zip(&predictions).map(|(round, all)| (&round.acts[number], &all[number]))
        };
        let moved = |from: usize, to: usize| -> (Vec<f64>, Vec<f64>) {
            each()
                .map(|((live, _), predicted)| {
                    let predicted = &predicted.moves.owners;
                    (changed(&live[from], &live[to]), changed(&predicted[from], &predicted[to]))
                })
                .unzip()
        };
        for (from, to, workers) in [(0, 1, "4 -> 5"), (1, 2, "5 -> 4")] {
            let (live, predicted) = moved(from, to);
            let figure =
                Figure::new(format!("{policy}: flows moved {workers}, live"), "flows", &live);
            report.figure(figure.against("predicted", &live, &predicted))?;
        }
        let wrong: Vec<f64> = each()
            .map(|((live, _), predicted)| {
                live.iter()
                    .zip(&predicted.moves.owners)
                    .map(|(live, other)| changed(live, other))
                    .sum()
            })
            .collect();
        let figure = Figure::new(
            format!("{policy}: owners other than predicted"),
            "of three times all flows",
            &wrong,
        );
        report.figure(figure.target(Target::AtMost(0.0)))?;
        let load = predictions.iter().map(|all| all[number].latency.load).fold(0.0, f64::max);
        if load > FULL {
            let why = format!("the server's CPU is {:.0} % full: others use it, too", 100.0 * load);
            report.figure(Figure::missing(format!("{policy}: p50"), why))?;
            continue;
        }
        let live: Vec<f64> = each().map(|((_, p50_us), _)| *p50_us).collect();
        let predicted: Vec<f64> =
            each().map(|(_, predicted)| predicted.latency.p50.as_micros_f64()).collect();
        let figure = Figure::new(format!("{policy}: p50, predicted"), "us", &predicted);
        report.figure(figure.against("live", &predicted, &live))?;
        let ratios: Vec<f64> =
            predicted.iter().zip(&live).map(|(ours, live)| ours / live).collect();
        let figure = Figure::new(format!("{policy}: p50, predicted over live"), "x", &ratios);
        report.figure(figure.target(Target::Near(1.0, 0.25)))?;
    }
    let cost = |name: &str, of: fn(&DemoCosts) -> Range| {
        let samples: Vec<f64> =
            rounds.iter().map(|round| of(&round.costs).median.as_micros_f64()).collect();
        Figure::new(name, "us", &samples)
    };
    report.figure(cost("cost: a round trip, nobody asleep", |costs| costs.awake.median()))?;
    report.figure(cost("cost: ... the worker asleep", |costs| costs.worker_asleep.median()))?;
    report.figure(cost("cost: ... everybody asleep", |costs| costs.both_asleep.median()))?;
    report.figure(cost("cost: the server's CPU, a request", |costs| costs.server))?;
    let lost: Vec<f64> = rounds.iter().map(|round| round.lost as f64).collect();
    report.figure(Figure::new("requests lost", "a round", &lost).target(Target::AtMost(0.0)))
}

fn changed(before: &Owners, after: &Owners) -> f64 {
    before.iter().zip(after).filter(|(before, after)| before != after).count() as f64
}

/// Everything live, once.
fn round(plan: &Plan) -> Result<Round, Error> {
    let length = Nanos::from_millis(plan.pick(1500, 300));
    let sections = format!(
        "listen = [\"udp:10.77.0.2:{UDP_PORT}\"]\n[workers]\ncount = {WORKERS}\njob = \"synthetic\"\n\
         arrangement = \"threads\"\n[steer]\npolicy = {:?}\nseed = {SEED}\n[handover]\ndeadline_ms = 200\n",
        POLICIES[0]
    );
    let harness = Harness::start_with(plan.cpus, &sections)?;
    let stage = Stage { plan, harness: &harness };
    let awake = stage.introduce(length)?;
    let mut lost = awake.requests.lost;
    let mut acts = Vec::new();
    for (number, policy) in POLICIES.iter().enumerate() {
        if number > 0 {
            stage.harness.ask(&["steer", "set", policy])?;
        }
        let (owners, report) = stage.act()?;
        lost += report.requests.lost;
        acts.push((owners, report.times.latency.p50_us));
    }
    let full = stage.load(Pace::Closed { outstanding: 32 }, FlowOrder::Random, length)?;
    let rare = Pace::Open { arrival: Arrival::Constant, rate: RARE };
    let rare = stage.load(rare, FlowOrder::Random, length)?;
    stage.resize(MANY_WORKERS)?;
    let many = stage.load(Pace::Closed { outstanding: 1 }, FlowOrder::Random, length)?;
    lost += full.requests.lost + rare.requests.lost + many.requests.lost;
    let server = Nanos((1e9 / full.rates.achieved_rate.max(1.0)) as u64);
    let costs = DemoCosts {
        awake: round_trips(&awake),
        worker_asleep: round_trips(&many),
        both_asleep: round_trips(&rare),
        server: Range::exactly(server),
        ..DemoCosts::default()
    };
    Ok(Round { costs, acts, lost })
}

/// The middles of twenty equal shares of the requests.
fn round_trips(report: &load::Report) -> RoundTrips {
    let middles = (0..20).map(|share| (f64::from(share) + 0.5) / 20.0);
    let at = |share| Range::exactly(report.times.latencies.quantile(share));
    RoundTrips::of(middles.map(at).collect())
}

fn predict(plan: &Plan, costs: DemoCosts) -> Result<Vec<DemoOutcome>, Error> {
    let flow =
        |number| (([10, 77, 0, 1], FIRST_PORT + number).into(), ([10, 77, 0, 2], UDP_PORT).into());
    let flows: Vec<(SocketAddr, SocketAddr)> = (0..FLOWS).map(flow).collect();
    let act = |policy: &&str| DemoAct { policy: (*policy).to_owned(), flows: flows.clone() };
    let plan = DemoPlan {
        acts: POLICIES.iter().map(act).collect(),
        groups: GROUPS,
        seed: SEED,
        workers: WORKERS,
        rate: RATE,
        length: Nanos::from_millis(plan.pick(8000, 1000)),
        costs,
        ..DemoPlan::default()
    };
    netsim::demo::run(&plan).or_needs("prediction")
}

/// A running daemon and how it is asked.
struct Stage<'a> {
    plan: &'a Plan,
    harness: &'a Harness,
}

impl Stage<'_> {
    fn load(
        &self,
        pace: Pace,
        flow_order: FlowOrder,
        length: Nanos,
    ) -> Result<load::Report, Error> {
        let wanted = load::Plan {
            pace,
            flows: FLOWS.into(),
            flow_order,
            iterations: ITERATIONS,
            warmup: Nanos::from_millis(300),
            length,
            ..load::Plan::default()
        };
        let options = Options { cpus: vec![self.plan.cpus.client], ..Options::default() };
        let open = |plan: &load::Plan, _| {
            let config = KernelConfig {
                target: self.harness.address(UDP_PORT),
                sources: None,
                flows: plan.flows,
                payload_bytes: plan.payload_bytes,
                first_port: FIRST_PORT,
            };
            let opened = self.harness.bed.client().enter(|| KernelUdp::open(&config));
            opened.map_err(|error| load::Error::Failed(error.to_string()))?
        };
        load::run(&wanted, &options, open, None).or_needs("load")
    }

    /// Every flow is heard of before anything else, in their order; for that time or as long as
    /// that takes.
    fn introduce(&self, length: Nanos) -> Result<load::Report, Error> {
        let mut length = length;
        loop {
            unless_interrupted()?;
            let pace = Pace::Closed { outstanding: 1 };
            let report = self.load(pace, FlowOrder::RoundRobin, length)?;
            if report.requests.received >= u64::from(FLOWS) {
                return Ok(report);
            }
            length = Nanos(length.0 * 4);
        }
    }

    /// A policy under load while a worker comes and goes.
    fn act(&self) -> Result<([Owners; 3], load::Report), Error> {
        let length = Nanos::from_millis(self.plan.pick(4000, 1500));
        let span = Duration::from(Nanos(length.0 / 4));
        std::thread::scope(|scope| {
            let pace = Pace::Open { arrival: Arrival::Poisson, rate: RATE };
            let load = scope.spawn(move || self.load(pace, FlowOrder::Random, length));
            let stage = |workers| {
                self.resize(workers)?;
                let owners = self.owners()?;
                std::thread::sleep(span);
                Ok(owners)
            };
            let owners = [stage(WORKERS), stage(WORKERS + 1), stage(WORKERS)];
            let report = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let [first, more, last] = owners;
            Ok(([first?, more?, last?], report))
        })
    }

    /// That many workers, and nothing on its way.
    fn resize(&self, workers: u16) -> Result<(), Error> {
        self.harness.ask(&["workers", &workers.to_string()])?;
        let began = std::time::Instant::now();
        loop {
            let text = self.harness.ask(&["-j", "steer", "show"])?;
            let status: serde_json::Value =
                serde_json::from_str(&text).or_needs("steering's state")?;
            let owned = status["owned"].as_array().map_or(0, Vec::len);
            if status["settled"] == true && owned == usize::from(workers) {
                return Ok(());
            }
            if began.elapsed() > TIMEOUT {
                return Err(text).or_needs("rest after a change of workers");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Who owns each flow's group.
    fn owners(&self) -> Result<Owners, Error> {
        let table = self.harness.ask(&["steer", "export"])?;
        let entries = policy::table_text::import(&table).or_needs("owner table")?;
        let toeplitz = Toeplitz::new(Toeplitz::key_from_seed(SEED));
        let owner = |number: u16| {
            let client = (self.harness.bed.client().ipv4(), FIRST_PORT + number).into();
            let key = FlowKey::new(Protocol::Udp, client, self.harness.address(UDP_PORT))?;
            let group = toeplitz.hash(&key).0 & (GROUPS - 1);
            entries.get(group as usize)?.owner().map(|worker| worker.0)
        };
        Ok((0..FLOWS).map(owner).collect())
    }
}

//! `calisto plan`: the fewest cores that keep a latency.

use std::path::PathBuf;

use base::Nanos;
use clap::{ArgGroup, Args};
use cli::failure::Failure;
use cli::output;
use cli::table::{Cell, Table};
use experiments::RUNS_MAX;
use experiments::own_load::{OwnLoad, Tried, fewest, ways};
use serde::Serialize;

use super::own_load::{How, Made, Source};
use super::sim::costs_of;

/// Of the JSON.
const SCHEMA_VERSION: u32 = 1;
/// The policy that the daemon has if nothing is configured.
const DEFAULT: &str = "sticky";

/// Say how many cores a load needs to keep a latency, by every policy.
///
/// The load is a capture's, a recording's, or a rate. Every policy runs it on one core, two, and so
/// on, ten times each with other requests; a number of cores is enough where at least nine of ten
/// runs keep the latency (exact binomial test, 95 %), and so on every larger number tried.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("target").required(true).args(["p50", "p90", "p99", "p99_9", "mean"]),
    after_help = "Examples:\n  \
    calisto plan --p99 500us --from-pcap trace.pcap --service 5us\n  \
    calisto plan --p99 500us --from-pcap trace.pcap          service times out of the replies\n  \
    calisto record --seconds 60 night.rec\n  \
    calisto plan --p99 200us --from-record night.rec --service 8us --cores 16\n  \
    calisto plan --p99.9 1ms --rate 400k --service 10us --distribution bimodal2\n  \
    calisto plan --p99 500us --rate 400k --service 10us --watts 4.5\n\n\
    Cores are those of workers; the dispatcher has one besides. What is told is true of the model: \
    its costs are those of `calisto bench` on this project's machine, or yours by --costs."
)]
pub(crate) struct Plan {
    /// The latency that half of the requests are to keep.
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    p50: Option<Nanos>,
    /// ... nine of ten.
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    p90: Option<Nanos>,
    /// ... 99 of 100.
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    p99: Option<Nanos>,
    /// ... 999 of 1000.
    #[arg(long = "p99.9", value_name = "TIME", value_parser = load::parse_duration)]
    p99_9: Option<Nanos>,
    /// The mean latency that they are to keep.
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    mean: Option<Nanos>,
    #[command(flatten)]
    source: Source,
    /// Requests a second, independent of each other, where there is no capture: such as 200k.
    #[arg(long, value_name = "RATE", group = "source", value_parser = load::parse_rate)]
    rate: Option<f64>,
    /// Flows that these are of.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        requires = "rate",
        value_parser = clap::value_parser!(u32).range(1..=1 << 22),
    )]
    flows: u32,
    /// How unlike their shares are: the k-th has one as 1/k to this power. 0: all alike.
    #[arg(long, value_name = "S", default_value_t = 0.0, requires = "rate", value_parser = zipf)]
    zipf: f64,
    /// Where everything random comes from. [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of each policy on each number of cores: fewer than six decide nothing. [default: 10]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RUNS_MAX)),
    )]
    runs: Option<u32>,
    /// Runs at a time. [default: one for each CPU]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// What a core takes while a worker has it, in watts: the answer then says what each policy's
    /// cores take. A core that is given back is taken to need nothing.
    #[arg(long, value_name = "W", value_parser = watts)]
    watts: Option<f64>,
    /// What things cost on your machine, as `calisto sim --costs` takes it.
    #[arg(long, value_name = "FILE.toml")]
    costs: Option<PathBuf>,
}

fn zipf(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=4.0).contains(number));
    number.ok_or_else(|| format!("{text:?} is not from 0 to 4"))
}

fn watts(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.001..=1000.0).contains(number));
    number.ok_or_else(|| format!("{text:?} is not from 0.001 to 1000"))
}

/// What was found, for `-j`.
#[derive(Serialize)]
struct Found<'a> {
    schema_version: u32,
    percentile: &'a str,
    target_us: f64,
    runs: u32,
    policies: Vec<FoundWay>,
}

/// By one policy.
#[derive(Clone, Serialize)]
struct FoundWay {
    policy: &'static str,
    /// Nothing: as many as were tried are not enough.
    cores: Option<u16>,
    kept_in_runs: Option<u32>,
    latency_us: Option<f64>,
    cores_held: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    watts: Option<f64>,
    /// In how many runs one core less keeps it.
    one_less_kept_in_runs: Option<u32>,
}

impl Plan {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let (percentile, called, target) = self.target()?;
        let Self { source, rate, flows, zipf, .. } = self;
        let made = rate.map(|rate| Made { rate, flows: *flows, zipf: *zipf });
        let how = How {
            seed: self.seed,
            runs: self.runs,
            threads: self.threads,
            costs: self.costs.as_deref().map(costs_of).transpose()?.unwrap_or_default(),
            quick: false,
        };
        let load = source.load(made, how)?;
        let tried = load.run().map_err(Failure::new)?;
        let policies: Vec<FoundWay> =
            ways().map(|way| found(&tried, way, percentile, target, self.watts)).collect();
        if json {
            return output::json(&Found {
                schema_version: SCHEMA_VERSION,
                percentile,
                target_us: target.as_micros_f64(),
                runs: load.runs,
                policies,
            });
        }
        output::text(&text(&load, &policies, called, target, source.cores))
    }

    /// The statistic's name in the results, its name for people, and the target.
    fn target(&self) -> Result<(&'static str, &'static str, Nanos), Failure> {
        let all = [
            ("p50_us", "p50", self.p50),
            ("p90_us", "p90", self.p90),
            ("p99_us", "p99", self.p99),
            ("p99_9_us", "p99.9", self.p99_9),
            ("mean_us", "the mean", self.mean),
        ];
        let given = all.into_iter().find_map(|(name, called, at)| Some((name, called, at?)));
        given.ok_or_else(|| Failure::usage("say which latency is to be kept: such as --p99 500us"))
    }
}

fn found(
    tried: &[Tried],
    way: &'static str,
    percentile: &str,
    target: Nanos,
    watts: Option<f64>,
) -> FoundWay {
    let few = fewest(tried, way, percentile, target);
    let before = few.and_then(|few| {
        tried.iter().find(|one| one.way == way && Some(one.cores) == few.cores.checked_sub(1))
    });
    FoundWay {
        policy: way,
        cores: few.map(|few| few.cores),
        kept_in_runs: few.map(|few| few.kept(percentile, target).0),
        latency_us: few.and_then(|few| few.latency_us(percentile)),
        cores_held: few.and_then(Tried::cores_held),
        watts: few.and_then(Tried::cores_held).zip(watts).map(|(cores, each)| cores * each),
        one_less_kept_in_runs: before.map(|before| before.kept(percentile, target).0),
    }
}

fn cores(count: u16) -> String {
    if count == 1 { "1 core".to_owned() } else { format!("{count} cores") }
}

/// The answer in a sentence, and then policy by policy.
fn text(load: &OwnLoad, all: &[FoundWay], called: &str, target: Nanos, tried: u16) -> String {
    let OwnLoad { runs, told, .. } = load;
    let mut text = String::new();
    for one in told {
        text += &format!("{}: {} ({})\n", one.name, one.value, one.source);
    }
    text.push('\n');
    let own = all.iter().find(|one| one.policy == DEFAULT).and_then(|one| one.cores);
    let best = all.iter().filter(|one| one.cores.is_some()).min_by_key(|one| one.cores);
    let keep = format!("{called} within {target}");
    let sentence = match (own, best) {
        (None, None) => format!("{} are not enough for {keep}", cores(tried)),
        (Some(own), Some(best)) if best.cores < Some(own) => format!(
            "{} for {keep}, {} if you choose {}",
            cores(own),
            best.cores.unwrap_or(own),
            best.policy
        ),
        (Some(own), _) => format!("{} for {keep}", cores(own)),
        (None, Some(best)) => format!(
            "{} are not enough for {keep} with the default policy; {} if you choose {}",
            cores(tried),
            cores(best.cores.unwrap_or(tried)),
            best.policy
        ),
    };
    text += &format!("{sentence}: in most runs of {runs}, with 95 % confidence\n\n");
    let late = format!("{called} (us)");
    let has_watts = all.iter().any(|one| one.watts.is_some());
    let heads = ["policy", "cores", "kept in runs", &late, "cores held", "one core less: in runs"];
    let heads = heads.into_iter().chain(has_watts.then_some("watts")).map(str::to_owned);
    let mut table = Table::with_heads(heads.collect());
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for one in all {
        let count = |count: Option<u32>| count.map_or("-".to_owned(), |count| count.to_string());
        let cells: [Cell; 6] = [
            one.policy.into(),
            one.cores.map_or(format!("more than {tried}"), |cores| cores.to_string()).into(),
            count(one.kept_in_runs).into(),
            number(one.latency_us).into(),
            number(one.cores_held).into(),
            count(one.one_less_kept_in_runs).into(),
        ];
        let watts: Option<Cell> = has_watts.then(|| number(one.watts).into());
        table.cells(cells.into_iter().chain(watts).collect());
    }
    text + &table.render()
}

#[cfg(test)]
mod tests;

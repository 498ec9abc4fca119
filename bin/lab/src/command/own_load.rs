//! A load of one's own, as `calisto sim` and `calisto plan` take it: out of a capture, out of a
//! recording of the daemon, or as a rate.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Nanos, printable};
use clap::Args;
use cli::failure::Failure;
use experiments::own_load::{
    CORES_MAX, OwnLoad, Poisson, REQUESTS_MAX, Requests, Trace, Traced, from_record,
};
use experiments::{Costs, RUNS};
use load::Distribution;
use report::Parameter;

/// Characters of words out of a file that are shown.
const SHOWN_MAX: usize = 1000;
/// Requests of a load that is made: this many make a 99th percentile of some hundreds.
const MADE: u32 = 40_000;

/// Where requests come from, and what is tried.
#[derive(Args, Clone, Debug)]
pub(crate) struct Source {
    /// Requests as a capture (pcap or pcapng) has them: when they came, and of which flows. A
    /// flow's first packet says who the client is.
    #[arg(long, value_name = "FILE", group = "source")]
    pub(crate) from_pcap: Option<PathBuf>,
    /// Packets as `calisto record` has counted them: how many each group of flows had, and when. It
    /// does not know what they take: say it by --service.
    #[arg(long, value_name = "FILE", group = "source")]
    pub(crate) from_record: Option<PathBuf>,
    /// What a request takes on a core, besides the data path: such as 5us. Without it, what the
    /// replies of the capture say, which is at most so much: it has the wait, the wire and the
    /// kernel of that server, too.
    #[arg(long, value_name = "TIME", value_parser = load::parse_duration)]
    pub(crate) service: Option<Nanos>,
    /// How that differs from request to request: zero, constant, exponential, bimodal1 (one in ten
    /// eleven times as long), bimodal2 (one in a thousand a thousand times), lognormal.
    #[arg(long, value_name = "WORD", default_value = "exponential", value_parser = distribution)]
    pub(crate) distribution: Distribution,
    /// Cores that are tried: one to this many.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(CORES_MAX)),
    )]
    pub(crate) cores: u16,
}

/// A load that nobody has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) rate: f64,
    pub(crate) flows: u32,
    pub(crate) zipf: f64,
}

/// How it is run.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    pub(crate) seed: Option<u64>,
    pub(crate) runs: Option<u32>,
    pub(crate) threads: Option<u16>,
    pub(crate) costs: Costs,
    pub(crate) quick: bool,
}

fn distribution(word: &str) -> Result<Distribution, String> {
    let found = Distribution::ALL.into_iter().find(|one| one.name() == word);
    found.ok_or_else(|| {
        let names: Vec<&str> = Distribution::ALL.iter().map(|one| one.name()).collect();
        format!("there is no distribution {word:?}: there are {}", names.join(", "))
    })
}

impl Source {
    /// Whether a load of one's own is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.from_pcap.is_some() || self.from_record.is_some()
    }

    /// The load, read.
    pub(crate) fn load(&self, made: Option<Made>, how: How) -> Result<OwnLoad, Failure> {
        let seed = how.seed.unwrap_or(1);
        let (requests, told) = if let Some(path) = &self.from_pcap {
            self.of_capture(path, seed)?
        } else if let Some(path) = &self.from_record {
            self.of_recording(path, seed)?
        } else if let Some(made) = made {
            self.of_rate(made, how.quick)?
        } else {
            return Err(Failure::usage(
                "no load: say --from-pcap FILE, --from-record FILE, or --rate and --service",
            ));
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(OwnLoad {
            requests,
            told,
            cores_max: self.cores,
            runs: how.runs.unwrap_or(if how.quick { 1 } else { RUNS }),
            seed,
            costs: how.costs,
            threads: how.threads.map_or(cpus, usize::from),
        })
    }

    fn of_capture(&self, path: &Path, seed: u64) -> Result<(Requests, Vec<Parameter>), Failure> {
        let failed = |what: String| in_file(path, &what);
        let file = open(path)?;
        let seen =
            replay::requests(BufReader::new(file)).map_err(|error| failed(error.to_string()))?;
        let mut random = load::Random::new(seed);
        let mut replies: Vec<Nanos> = seen.iter().filter_map(|one| one.reply_after).collect();
        replies.sort_unstable();
        let median = replies.get(replies.len() / 2).copied();
        let packets = seen.iter().map(|one| {
            let work = match (self.service, median) {
                (Some(mean), _) => Nanos(self.distribution.sample(mean.0, &mut random)),
                (None, Some(median)) => one.reply_after.unwrap_or(median),
                (None, None) => {
                    return Err(failed(
                        "it has no replies, so nobody knows what a request takes: say it, such as \
                         --service 5us"
                            .to_owned(),
                    ));
                }
            };
            Ok(Traced { at: one.at, flow: one.flow, work })
        });
        let trace = Trace::new(packets.collect::<Result<_, _>>()?);
        let source = match self.service {
            Some(mean) => format!("given: {mean}, {}", self.distribution.name()),
            None => format!(
                "measured: from request to reply, of {} of {} requests; at most so much",
                replies.len(),
                seen.len()
            ),
        };
        Ok(seen_as(path, trace, &source))
    }

    fn of_recording(&self, path: &Path, seed: u64) -> Result<(Requests, Vec<Parameter>), Failure> {
        let Some(mean) = self.service else {
            return Err(Failure::usage(
                "a recording has no service times: say what a packet takes, such as --service 5us",
            ));
        };
        let file = open(path)?;
        let trace = from_record(BufReader::new(file), mean, self.distribution, seed)
            .map_err(|error| in_file(path, &error.to_string()))?;
        let source = format!("given: {mean}, {}", self.distribution.name());
        Ok(seen_as(path, trace, &source))
    }

    fn of_rate(&self, made: Made, quick: bool) -> Result<(Requests, Vec<Parameter>), Failure> {
        let Made { rate, flows, zipf } = made;
        let Some(service) = self.service else {
            return Err(Failure::usage(
                "--rate needs what a request takes, too: such as --service 5us",
            ));
        };
        let distribution = self.distribution;
        let requests = if quick { MADE / 10 } else { MADE };
        let told = [
            ("requests", format!("{rate} a second, independent of each other")),
            ("service", format!("{service}, {}", distribution.name())),
            ("flows", format!("{flows}, Zipf {zipf}")),
            ("requests of a run", requests.to_string()),
        ];
        let told = told.map(|(name, value)| parameter(name, value, "given"));
        let poisson = Poisson { rate, service, distribution, flows, zipf, requests };
        Ok((Requests::Made(poisson), told.into()))
    }
}

/// What is told of requests that were seen.
fn seen_as(path: &Path, trace: Trace, service: &str) -> (Requests, Vec<Parameter>) {
    let count = trace.packets().len();
    let seconds = trace.length().as_secs_f64();
    let mean = Nanos(trace.work().0 / count.max(1) as u64);
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let file = printable(&file, SHOWN_MAX).to_string();
    let told = vec![
        parameter("requests", format!("{count} in {seconds:.3} s"), &file),
        parameter("flows", trace.flows().to_string(), &file),
        parameter("service", format!("{mean} on average"), service),
    ];
    (Requests::Seen(Arc::new(trace)), told)
}

fn parameter(name: &str, value: String, source: &str) -> Parameter {
    Parameter { name: name.to_owned(), value, source: source.to_owned() }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| in_file(path, &format!("cannot open it: {error}")))
}

fn in_file(path: &Path, what: &str) -> Failure {
    Failure::new(format!("{}: {}", path.display(), printable(what, SHOWN_MAX)))
}

const _: () = assert!(MADE as usize <= REQUESTS_MAX, "a load that is made can be tried");

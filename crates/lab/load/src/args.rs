//! Settings that every kind of load has. Names and meanings are those of Shenango's `synthetic`
//! where it has the same.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use base::Nanos;

use crate::barrier::{BARRIER_PORT, CLIENTS_MAX};
use crate::hdr_log::HdrLog;
use crate::parts::PARTS_MAX;
use crate::{
    Arrival, Barrier, Check, Error, FlowOrder, Options, Pace, Piece, Plan, Profile, Report,
    parse_duration, parse_rate,
};

/// Requests a second when nothing else is asked for: those of Shenango's `synthetic`.
const RATE: f64 = 20e3;

/// Options that change the rate while a run lasts: a closed loop has none.
const CHANGES: [&str; 5] = ["start", "samples", "ramp", "shift", "rampup"];

/// Settings that every kind of load has.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Requests a second, open loop; suffixes k and M. [default: 20k]
    #[arg(short, long, value_parser = parse_rate, conflicts_with_all = ["mpps", "outstanding"])]
    pub rate: Option<f64>,
    /// The same in millions a second.
    #[arg(long, conflicts_with = "outstanding")]
    pub mpps: Option<f64>,
    /// Closed loop: this many requests in flight, each reply releases the next.
    #[arg(short, long, value_name = "N", conflicts_with_all = CHANGES)]
    pub outstanding: Option<u32>,
    /// A sweep: this many steps from --start (left out) to --rate, each --seconds long and measured
    /// for itself.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=PARTS_MAX as i64))]
    pub samples: Option<u32>,
    /// Where the steps of --samples begin. [default: 0]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "samples")]
    pub start: Option<f64>,
    /// The same in millions a second.
    #[arg(
        long,
        alias = "start_mpps",
        value_name = "MILLIONS",
        requires = "samples",
        conflicts_with = "start"
    )]
    pub start_mpps: Option<f64>,
    /// The rate rises (or falls) evenly from this one to --rate while it is measured.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with_all = ["samples", "shift"])]
    pub ramp: Option<f64>,
    /// Rates one after the other, each for a time, as in 10k:1s,50k:500ms; a time without unit is
    /// in microseconds.
    #[arg(long, alias = "loadshift", value_name = "RATE:TIME,...", value_delimiter = ',',
          value_parser = parse_shift, conflicts_with_all = ["rate", "mpps", "samples"])]
    pub shift: Vec<Piece>,
    /// Before anything is measured, the rate rises from zero for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub rampup: f64,
    /// Flows that requests belong to: 1 to 700000; each is a socket of its own with TCP. [default:
    /// as many as --threads]
    ///
    /// UDP from kernel sockets: 50,000 with one source address, and all with a --source-prefix of
    /// local addresses (`ip route add local PREFIX dev lo`). From a port all, with addresses that
    /// nobody has.
    #[arg(short, long)]
    pub flows: Option<u32>,
    /// Which flow is next.
    #[arg(long, value_enum, default_value_t)]
    pub flow_order: FlowOrder,
    /// Exponent of Zipf's law, where flows or keys are drawn by it.
    #[arg(long, default_value_t = 0.99, value_name = "EXPONENT")]
    pub zipf: f64,
    /// How long is measured; with --samples each step.
    #[arg(short, long, alias = "runtime", default_value_t = 10.0)]
    pub seconds: f64,
    /// How long is sent before, in seconds, without being measured.
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    pub warmup: f64,
    /// How long replies are waited for at the end; in a closed loop, for each request.
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = parse_duration)]
    pub grace: Nanos,
    /// When requests are due in an open loop.
    #[arg(long, value_enum, default_value_t)]
    pub arrival: Arrival,
    /// Decides times, flows and work: the same seed repeats them.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Threads that send and receive; flows and rate are divided among them.
    #[arg(short, long, default_value_t = 1)]
    pub threads: u32,
    /// CPUs for these threads, in turn; with --split the receiving ones come after the sending.
    #[arg(long, value_delimiter = ',', value_name = "CPU,...")]
    pub cpu: Vec<usize>,
    /// Look for work so long before sleeping. 0 sleeps at once: kind to what shares the CPU, and
    /// late by the 20 to 40 us that a halted CPU takes to wake.
    #[arg(long, default_value = "50us", value_name = "TIME", value_parser = parse_duration)]
    pub spin: Nanos,
    /// Begin together with other load generators: this one leads this many in all. Each has the
    /// rate and the flows that it is told itself.
    #[arg(long, visible_alias = "clients", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX as i64))]
    pub barrier_peers: Option<u32>,
    /// Begin when the leader says so: its address, with a port if that is not 23232.
    #[arg(long, visible_alias = "leader", value_name = "IP[:PORT]", value_parser = parse_leader,
          conflicts_with = "barrier_peers")]
    pub barrier_leader: Option<SocketAddr>,
    /// Where a leader waits for the others.
    #[arg(long, value_name = "IP:PORT", requires = "barrier_peers",
          default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), BARRIER_PORT))]
    pub barrier_listen: SocketAddr,
    /// How long all wait for one another.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_duration)]
    pub barrier_wait: Nanos,
    /// Thresholds, as in p95=100us,lost=0: a run that misses one fails.
    #[arg(long, value_delimiter = ',', value_name = "FIGURE=LIMIT,...")]
    pub check: Vec<Check>,
    /// Write all latencies to this file as an HdrHistogram log.
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Print the CSV of Shenango's `synthetic` instead of a table: a line, or one for each step.
    #[arg(long)]
    pub csv: bool,
    /// Print progress each second.
    #[arg(long)]
    pub live: bool,
}

impl Default for Common {
    /// The settings that an empty command line gives.
    fn default() -> Self {
        Self {
            rate: None,
            mpps: None,
            outstanding: None,
            samples: None,
            start: None,
            start_mpps: None,
            ramp: None,
            shift: Vec::new(),
            rampup: 0.0,
            flows: None,
            flow_order: FlowOrder::default(),
            zipf: 0.99,
            seconds: 10.0,
            warmup: 0.0,
            grace: Nanos::from_millis(500),
            arrival: Arrival::default(),
            seed: 1,
            threads: 1,
            cpu: Vec::new(),
            spin: Nanos::from_micros(50),
            barrier_peers: None,
            barrier_leader: None,
            barrier_listen: (Ipv4Addr::UNSPECIFIED, BARRIER_PORT).into(),
            barrier_wait: Nanos::from_secs(60),
            check: Vec::new(),
            hdr: None,
            csv: false,
            live: false,
        }
    }
}

impl Common {
    /// The plan that they make, for requests without work to this target.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn plan(&self, target: SocketAddr) -> Result<Plan, Error> {
        if target.port() == 0 {
            return Err(Error::Setting(format!(
                "{target} has port 0, where nobody can listen: name the server's port"
            )));
        }
        let rate = self.rate.or(self.mpps.map(|millions| millions * 1e6)).unwrap_or(RATE);
        let pace = match self.outstanding {
            Some(outstanding) => Pace::Closed { outstanding },
            None => Pace::Open { arrival: self.arrival, rate },
        };
        let plan = Plan {
            pace,
            by_piece: self.samples.is_some(),
            flows: self.flows.unwrap_or(self.threads.max(1)),
            flow_order: self.flow_order,
            zipf_exponent: self.zipf,
            warmup: seconds("--warmup", self.warmup)?,
            length: seconds("--seconds", self.seconds)?,
            grace: self.grace,
            seed: self.seed,
            ..Plan::default()
        };
        Ok(match self.profile(rate)? {
            Some(profile) => plan.with_profile(profile),
            None => plan,
        })
    }

    /// How the rate changes, if it does.
    fn profile(&self, rate: f64) -> Result<Option<Profile>, Error> {
        let length = seconds("--seconds", self.seconds)?;
        let (rampup, warmup) =
            (seconds("--rampup", self.rampup)?, seconds("--warmup", self.warmup)?);
        let pieces = if let Some(samples) = self.samples {
            let millions = self.start_mpps.map(|millions| millions * 1e6);
            let start = self.start.or(millions).unwrap_or(0.0);
            let step = (rate - start) / f64::from(samples);
            let level = |number| Piece::level(start + step * f64::from(number), length);
            (1..=samples).map(level).collect()
        } else if let Some(from) = self.ramp {
            vec![Piece { length, from, to: rate }]
        } else if !self.shift.is_empty() {
            self.shift.clone()
        } else if rampup > Nanos::ZERO {
            vec![Piece::level(rate, length)]
        } else {
            return Ok(None);
        };
        let first = pieces.first().map_or(rate, |piece: &Piece| piece.from);
        let before =
            vec![Piece { length: rampup, from: 0.0, to: first }, Piece::level(first, warmup)];
        Ok(Some(Profile::new(pieces)?.after(before)))
    }

    /// How the plan is to be carried out. `json`: the form of progress lines.
    pub fn options(&self, json: bool) -> Options {
        let timeout = self.barrier_wait;
        let barrier = match (self.barrier_peers, self.barrier_leader) {
            (Some(clients), _) => {
                Some(Barrier::Lead { listen: self.barrier_listen, clients, timeout })
            }
            (None, Some(leader)) => Some(Barrier::Follow { leader, timeout }),
            (None, None) => None,
        };
        Options {
            threads: self.threads,
            cpus: self.cpu.clone(),
            split: false,
            spin: self.spin,
            live: self.live,
            json,
            barrier,
        }
    }

    /// Opens the histogram log, if there is to be one. Done before the first request: a run whose
    /// results have nowhere to go need not begin.
    pub(crate) fn hdr_log(&self) -> Result<Option<HdrLog>, Error> {
        self.hdr.as_deref().map(HdrLog::create).transpose()
    }

    /// What is done with a report: thresholds are applied, the histogram log is written. Where that
    /// fails the report says so: it is not lost with the log.
    pub(crate) fn finish(&self, mut report: Report, hdr_log: Option<HdrLog>) -> Report {
        report.apply(&self.check);
        report.failed_checks.extend(report.silence());
        if let Some(Err(error)) = hdr_log.map(|log| log.write(&report)) {
            report.failed_checks.push(error.to_string());
        }
        report
    }
}

fn seconds(option: &str, value: f64) -> Result<Nanos, Error> {
    // A year; the clock and the arithmetic last far longer.
    if (0.0..=31_536_000.0).contains(&value) {
        Ok(Nanos((value * 1e9) as u64))
    } else {
        Err(Error::Setting(format!("{option} {value}: choose a number of seconds from 0 on")))
    }
}

fn parse_shift(text: &str) -> Result<Piece, String> {
    let (rate, length) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is no rate for a time: write it like 10k:500ms"))?;
    // A pause is no rate elsewhere.
    let rate = if rate == "0" { 0.0 } else { parse_rate(rate)? };
    Ok(Piece::level(rate, parse_duration(length)?))
}

fn parse_leader(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>().ok();
    with_port
        .or_else(|| text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, BARRIER_PORT)))
        .ok_or_else(|| format!("{text:?} is no address: write it like 10.0.0.1 or 10.0.0.1:23232"))
}

#[cfg(test)]
mod tests;

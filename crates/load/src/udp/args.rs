//! The command line of `load udp`. Names and meanings are those of Shenango's `synthetic` where it
//! has the same.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use base::Nanos;
use port::PortSpec;

use crate::run::Options;
use crate::transport::sources::{FIRST_PORT, Prefix};
use crate::{
    Arrival, Check, Distribution, Error, FlowOrder, Pace, Plan, parse_duration, parse_rate,
};

/// Requests a second when nothing else is asked for: those of Shenango's `synthetic`.
const RATE: f64 = 20e3;

/// Settings of `load udp`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where requests go: IP:PORT, or [IP]:PORT for IPv6.
    #[arg(value_name = "TARGET")]
    pub target: SocketAddr,
    /// Requests a second, open loop; suffixes k and M. [default: 20k]
    #[arg(short, long, value_parser = parse_rate, conflicts_with_all = ["mpps", "outstanding"])]
    pub rate: Option<f64>,
    /// The same in millions a second.
    #[arg(long, conflicts_with = "outstanding")]
    pub mpps: Option<f64>,
    /// Closed loop: so many requests in flight, each reply releases the next.
    #[arg(short, long, value_name = "N")]
    pub outstanding: Option<u32>,
    /// Flows that requests belong to: 1 to 700000.
    ///
    /// From kernel sockets 50,000 with one source address, and all with a --source-prefix of local
    /// addresses (`ip route add local PREFIX dev lo`). From a port all, with addresses that nobody
    /// has.
    #[arg(short, long, default_value_t = 1)]
    pub flows: u32,
    /// Which flow is next.
    #[arg(long, value_enum, default_value_t)]
    pub flow_order: FlowOrder,
    /// How long is measured.
    #[arg(short, long, default_value_t = 10.0)]
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
    /// Mean of the fake work that requests ask the server for (`synthetic`), in iterations.
    #[arg(short, long, alias = "mean", default_value_t = 0)]
    pub iterations: u64,
    /// Distribution of that work.
    #[arg(short, long, value_enum, default_value_t)]
    pub distribution: Distribution,
    /// Bytes of a request: 16 and a pattern.
    #[arg(long, default_value_t = crate::REQUEST_BYTES, value_name = "BYTES")]
    pub payload: usize,
    /// Decides times, flows and work: the same seed repeats them.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How packets travel: `kernel` sockets, or a port such as xdp:veth0 or af_packet:veth0.
    #[arg(long, default_value = "kernel", value_name = "kernel|PORT")]
    pub transport: TransportKind,
    /// The address that requests come from.
    #[arg(long, value_name = "IP", conflicts_with = "source_prefix")]
    pub source_ip: Option<IpAddr>,
    /// Many addresses that requests come from, such as 10.78.0.0/16.
    #[arg(long, value_name = "PREFIX")]
    pub source_prefix: Option<Prefix>,
    /// The first port that requests come from; kernel sockets skip those in use.
    #[arg(long, default_value_t = FIRST_PORT, value_name = "PORT")]
    pub source_port: u16,
    /// Link address of the target, or of the router to it, for a port. [default: ask the kernel]
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub next_hop: Option<[u8; 6]>,
    /// Threads that send and receive; flows and rate are divided among them.
    #[arg(short, long, default_value_t = 1)]
    pub threads: u32,
    /// Receive on threads of their own (kernel sockets, open loop).
    #[arg(long)]
    pub split: bool,
    /// CPUs for these threads, in turn; with --split the receiving ones come after the sending.
    #[arg(long, value_delimiter = ',', value_name = "CPU,...")]
    pub cpu: Vec<usize>,
    /// Look for work so long before sleeping. 0 sleeps at once: kind to what shares the CPU, and
    /// late by the 20 to 40 us that a halted CPU takes to wake.
    #[arg(long, default_value = "50us", value_name = "TIME", value_parser = parse_duration)]
    pub spin: Nanos,
    /// Thresholds, as in p95=100us,lost=0: a run that misses one fails.
    #[arg(long, value_delimiter = ',', value_name = "FIGURE=LIMIT,...")]
    pub check: Vec<Check>,
    /// Write all latencies to this file as an HdrHistogram log.
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Print the CSV line of Shenango's `synthetic` instead of a table.
    #[arg(long)]
    pub csv: bool,
    /// Print progress each second.
    #[arg(long)]
    pub live: bool,
}

/// How packets travel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TransportKind {
    /// UDP sockets of this kernel.
    #[default]
    Kernel,
    /// A port of ours.
    Port(PortSpec),
}

impl FromStr for TransportKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "kernel" => Ok(Self::Kernel),
            _ => text.parse().map(Self::Port).map_err(|error: port::SpecError| {
                format!("{error}; or write kernel for the kernel's sockets")
            }),
        }
    }
}

impl Args {
    /// The settings that the command line gives when only the target is named.
    pub fn new(target: SocketAddr) -> Self {
        Self {
            target,
            rate: None,
            mpps: None,
            outstanding: None,
            flows: 1,
            flow_order: FlowOrder::default(),
            seconds: 10.0,
            warmup: 0.0,
            grace: Nanos::from_millis(500),
            arrival: Arrival::default(),
            iterations: 0,
            distribution: Distribution::default(),
            payload: crate::REQUEST_BYTES,
            seed: 1,
            transport: TransportKind::Kernel,
            source_ip: None,
            source_prefix: None,
            source_port: FIRST_PORT,
            next_hop: None,
            threads: 1,
            split: false,
            cpu: Vec::new(),
            spin: Nanos::from_micros(50),
            check: Vec::new(),
            hdr: None,
            csv: false,
            live: false,
        }
    }

    /// The plan that they make.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn plan(&self) -> Result<Plan, Error> {
        if self.target.port() == 0 {
            return Err(Error::Setting(format!(
                "{} has port 0, where nobody can listen: name the server's port",
                self.target
            )));
        }
        let rate = self.rate.or(self.mpps.map(|millions| millions * 1e6)).unwrap_or(RATE);
        let pace = match self.outstanding {
            Some(outstanding) => Pace::Closed { outstanding },
            None => Pace::Open { arrival: self.arrival, rate },
        };
        let plan = Plan {
            pace,
            flows: self.flows,
            flow_order: self.flow_order,
            distribution: self.distribution,
            iterations: self.iterations,
            payload_bytes: self.payload,
            warmup: seconds("--warmup", self.warmup)?,
            length: seconds("--seconds", self.seconds)?,
            grace: self.grace,
            seed: self.seed,
        };
        plan.check(self.threads)?;
        Ok(plan)
    }

    /// How the plan is to be carried out.
    pub fn options(&self, json: bool) -> Options {
        Options {
            threads: self.threads,
            cpus: self.cpu.clone(),
            split: self.split,
            spin: self.spin,
            live: self.live,
            json,
        }
    }

    pub(super) fn sources(&self) -> Option<Prefix> {
        self.source_prefix.or(self.source_ip.map(Prefix::host))
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

pub(super) fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("{text:?} is no link address: write it like 02:00:00:00:00:01");
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() { Err(wrong()) } else { Ok(mac) }
}

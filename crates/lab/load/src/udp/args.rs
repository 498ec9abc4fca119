//! The command line of `load udp`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use port::PortSpec;

use crate::run::Options;
use crate::transport::sources::{FIRST_PORT, Prefix};
use crate::{Common, Error, Plan, Work};

/// Settings of `load udp`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where requests go: IP:PORT, or [IP]:PORT for IPv6.
    #[arg(value_name = "TARGET")]
    pub target: SocketAddr,
    /// Rate, flows, time and output.
    #[command(flatten)]
    pub common: Common,
    /// What requests ask for.
    #[command(flatten)]
    pub work: Work,
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
    /// Receive on threads of their own (kernel sockets, open loop).
    #[arg(long)]
    pub split: bool,
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
            common: Common::default(),
            work: Work::default(),
            transport: TransportKind::Kernel,
            source_ip: None,
            source_prefix: None,
            source_port: FIRST_PORT,
            next_hop: None,
            split: false,
        }
    }

    /// The plan that they make.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn plan(&self) -> Result<Plan, Error> {
        let plan = self.work.of(self.common.plan(self.target)?);
        plan.check(self.common.threads)?;
        Ok(plan)
    }

    /// How the plan is to be carried out.
    pub fn options(&self, json: bool) -> Options {
        Options { split: self.split, ..self.common.options(json) }
    }

    pub(super) fn sources(&self) -> Option<Prefix> {
        self.source_prefix.or(self.source_ip.map(Prefix::host))
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

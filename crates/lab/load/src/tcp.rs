//! `load tcp`: requests of a fixed size on TCP connections to a server that copies them back; and
//! what every load on connections shares.

use std::net::{IpAddr, SocketAddr};

use crate::protocol::Protocol;
use crate::transport::streams::kernel::Kernel;
use crate::transport::streams::ours::{self, Calisto};
use crate::transport::streams::{CONNECTIONS_MAX, Streams};
use crate::{Common, Error, Plan, Report, ShardCount, Work};

/// Settings of `load tcp`.
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
    /// Whose connections they are.
    #[command(flatten)]
    pub link: Link,
}

/// Whose connections requests travel on.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Link {
    /// Whose TCP carries them: the kernel's, or that of the daemon of Calisto on this machine
    /// (CALISTO_APPS says where it listens).
    #[arg(long, value_enum, default_value_t)]
    pub transport: By,
    /// The address that connections come from (the kernel's).
    #[arg(long, value_name = "IP")]
    pub source_ip: Option<IpAddr>,
}

/// Whose TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// This kernel's.
    #[default]
    Kernel,
    /// A daemon's of Calisto.
    Calisto,
}

/// Generates the load that `args` asks for, and reports; see [`crate::udp::run`].
///
/// # Errors
/// As [`crate::udp::run`].
pub fn run(args: &Args, json: bool) -> Result<Report, Error> {
    let plan = args.work.of(args.common.plan(args.target)?);
    let payload_bytes = plan.payload_bytes;
    let protocol = move |_: u64| Protocol::Echo { payload_bytes };
    run_streams(&args.common, &args.link, &plan, args.target, protocol, || Ok(()), json)
}

/// Requests on connections. `protocol` is given a seed for each shard; `prepare` is called when the
/// settings are known to make sense, before anything else is sent.
pub(crate) fn run_streams(
    common: &Common,
    link: &Link,
    plan: &Plan,
    target: SocketAddr,
    protocol: impl Fn(u64) -> Protocol + Sync,
    prepare: impl FnOnce() -> Result<(), Error>,
    json: bool,
) -> Result<Report, Error> {
    plan.check(common.threads)?;
    let connections = plan.flows.div_ceil(common.threads.max(1));
    if connections > CONNECTIONS_MAX {
        return Err(Error::Setting(format!(
            "{} flows would be as many connections, and a thread can have {CONNECTIONS_MAX}: use \
             fewer flows or more threads",
            plan.flows
        )));
    }
    let source = link.source_ip;
    if source.is_some_and(|source| source.is_ipv4() != target.is_ipv4()) {
        return Err(Error::Setting(format!(
            "the source address and {target} are of different IP versions: use one of both"
        )));
    }
    if link.transport == By::Calisto && source.is_some() {
        return Err(Error::Setting(
            "the daemon chooses the address of its connections: leave out --source-ip".to_owned(),
        ));
    }
    let hdr_log = common.hdr_log()?;
    prepare()?;
    let options = common.options(json);
    let protocol = |plan: &Plan, shard: ShardCount| protocol(shard.seed(plan.seed));
    let report = match link.transport {
        By::Kernel => {
            let open = |own: &Plan, shard: ShardCount| {
                let network = Kernel::new(plan.flows, source)?;
                Streams::open(network, protocol(own, shard), target, own.flows)
            };
            crate::run(plan, &options, open, None)?
        }
        By::Calisto => {
            let session = ours::attach()?;
            let open = |own: &Plan, shard: ShardCount| {
                let network = Calisto::new(session.clone())?;
                Streams::open(network, protocol(own, shard), target, own.flows)
            };
            crate::run(plan, &options, open, None)?
        }
    };
    Ok(common.finish(report, hdr_log))
}

#[cfg(test)]
mod tests;

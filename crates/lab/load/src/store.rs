//! `load memcached` and `load redis`: gets and sets of values that follow from their keys.

use std::net::SocketAddr;

use crate::protocol::{Cache, CacheConfig, Protocol};
use crate::tcp::{Link, run_streams};
use crate::{Common, Error, FlowOrder, Report};

mod fill;

/// Which protocol a store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// memcached's text protocol.
    Memcached,
    /// RESP2.
    Redis,
}

/// Settings of `load memcached` and `load redis`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where requests go: IP:PORT, or [IP]:PORT for IPv6.
    #[arg(value_name = "TARGET")]
    pub target: SocketAddr,
    /// Rate, flows, time and output.
    #[command(flatten)]
    pub common: Common,
    /// Different keys: 1 to 1000000. They are c and digits, the same in every run.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub keys: u32,
    /// Which key is next.
    #[arg(long, value_enum, default_value_t)]
    pub key_order: FlowOrder,
    /// Bytes of a key: 8 to 250.
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    pub key_bytes: usize,
    /// Bytes of a value, or a range of which all sizes are as frequent, as in 64-1024.
    #[arg(long, default_value = "64", value_name = "BYTES[-BYTES]", value_parser = parse_range)]
    pub value_bytes: (usize, usize),
    /// Which share of the requests sets a value, 0 to 1; the others get one.
    #[arg(long, default_value_t = 0.1, value_name = "SHARE")]
    pub sets: f64,
    /// Do not set every key once before the load begins. A value longer than --value-bytes that is
    /// there already is then taken for no answer, and ends its connection.
    #[arg(long)]
    pub no_fill: bool,
    /// Whose connections they are.
    #[command(flatten)]
    pub link: Link,
}

impl Args {
    fn config(&self) -> Result<CacheConfig, Error> {
        let config = CacheConfig {
            keys: self.keys,
            key_order: self.key_order,
            zipf_exponent: self.common.zipf,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            set_share: self.sets,
        };
        config.check()?;
        Ok(config)
    }
}

/// Generates the load that `args` asks for, and reports; see [`crate::udp::run`].
///
/// # Errors
/// As [`crate::udp::run`]; or the store could not be filled.
pub fn run(kind: Kind, args: &Args, json: bool) -> Result<Report, Error> {
    let plan = args.common.plan(args.target)?;
    plan.check(args.common.threads)?;
    let config = args.config()?;
    let protocol = move |seed| {
        let cache = Cache::new(config, seed);
        match kind {
            Kind::Memcached => Protocol::Memcached(cache),
            Kind::Redis => Protocol::Redis(cache),
        }
    };
    // Only one of several that begin together fills, and the others wait for it.
    let fills = !args.no_fill && args.common.barrier_leader.is_none();
    let fill = || if fills { fill::fill(&protocol(plan.seed), args.target) } else { Ok(()) };
    run_streams(&args.common, &args.link, &plan, args.target, protocol, fill, json)
}

fn parse_range(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("{text:?} is no size: write bytes like 64, or a range like 64-1024");
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| wrong());
    Ok((number(least)?, number(most)?))
}

#[cfg(test)]
mod tests;

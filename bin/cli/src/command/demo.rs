//! `calisto demo`: shows what keeping flows on their cores is worth; no NIC, no configuration.

mod act;
mod load_process;
mod ownership;
mod placement;
mod server;

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use testbed::{Testbed, TestbedConfig};

use self::act::Figures;
use self::placement::Placement;
use self::server::Server;
use crate::failure::Failure;
use crate::output;
use crate::table::{Cell, Table, grouped};

/// Show what keeping flows on their cores is worth; needs root, but no NIC and no configuration.
///
/// Two network namespaces are joined by a veth. In the one the daemon serves on AF_XDP, in the
/// other the Linux kernel sends open-loop requests of thousands of flows. Meanwhile a worker comes
/// and goes, first under the policy `modulo`, then, switched live, under `sticky`. Nothing is left
/// behind.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    calisto demo\n  \
    calisto demo --policies modulo,calisto,sticky --workers 8 --flows 10000\n  \
    calisto demo --port af_packet -j")]
pub(crate) struct Demo {
    /// Requests a second.
    #[arg(long, default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    rate: u32,
    /// Flows that send them.
    #[arg(long, default_value_t = 4000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    flows: u32,
    /// Workers; one more comes and goes during the load.
    #[arg(long, default_value_t = 4, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=63))]
    workers: u16,
    /// Policies to show, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "modulo,sticky", value_name = "NAMES")]
    policies: Vec<String>,
    /// Seconds of load for each policy.
    #[arg(long, default_value_t = 8, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(4..=600))]
    seconds: u32,
    /// fused: one loop does everything; threads: dispatcher and workers have one each.
    #[arg(long, default_value = "threads")]
    #[arg(value_parser = ["fused", "threads"])]
    arrangement: String,
    /// How the daemon gets its packets: xdp, af_packet, or auto (xdp unless it is refused).
    #[arg(long, default_value = "auto")]
    #[arg(value_parser = ["auto", "xdp", "af_packet"])]
    port: String,
}

impl Demo {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        testbed::on_interrupt().map_err(Failure::new)?;
        let tell = Progress::new();
        let placement = Placement::of(&sys::thread::allowed_cpus());
        tell.say("making two namespaces and a wire between them");
        let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
        check_stop()?;
        let server = Server::start(self, &bed, &placement, &tell)?;
        tell.say(&format!(
            "the daemon serves on {}, {} workers, {}",
            server.port(),
            self.workers,
            placement.sentence()
        ));
        let mut rows = Vec::new();
        for policy in &self.policies {
            let figures = act::play(self, policy, &bed, &server, &placement, &tell)?;
            rows.push((policy.as_str(), figures));
        }
        server.stop()?;
        drop(bed);
        if json {
            for (policy, figures) in &rows {
                output::json(&Row { policy, port: server_kind(&rows, self), figures })?;
            }
            return Ok(());
        }
        output::text(&self.report(&rows, &placement))
    }
}

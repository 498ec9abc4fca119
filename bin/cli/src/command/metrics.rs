//! `calisto metrics`: what the daemon counts, for monitoring systems.

mod ask;
mod server;

use std::net::SocketAddr;

use clap::Args;
use metrics::Format;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;
use crate::units;

/// Print what the daemon counts as metrics, or serve them over HTTP to Prometheus and its like.
///
/// With --listen it serves until Ctrl-C: /metrics (OpenMetrics, or the older text format for who
/// asks for that), /healthz (whether the daemon answers), /readyz (whether it serves; if not, why).
/// Everything can be read by whoever reaches the address, and nothing changed: without TLS and
/// passwords of its own, it belongs on the loopback address or behind a proxy.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto metrics --listen 127.0.0.1:9464\n      \
        then: curl http://127.0.0.1:9464/metrics\n  \
    calisto metrics > /var/lib/prometheus/node-exporter/calisto.prom\n      \
        once, for a collector that reads files\n  \
    calisto metrics -j | jq '.families[].name'\n      \
        the names that there are")]
pub(crate) struct Metrics {
    /// Serve over HTTP at this address.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = units::socket_address)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    admin: Admin,
}

impl Metrics {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        if let Some(address) = self.listen {
            return server::serve(address, daemon, json);
        }
        let families = metrics::families(&ask::scrape(&daemon)?);
        match json {
            true => output::json(&ask::as_json(&families)),
            false => output::text(&metrics::render(families, Format::Text)),
        }
    }
}

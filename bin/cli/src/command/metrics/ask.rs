//! Asks the daemon everything that becomes a metric.

use std::time::Instant;

use admin::{Command, ReplyBody, SOCKET_ROWS_MAX};
use metrics::{AppSockets, Family, Kind, Scrape, Value};
use serde_json::json;

use crate::daemon::Daemon;
use crate::failure::Failure;

/// Pages of sockets that are counted for one scrape: a million of them would keep the daemon busy.
const SOCKET_PAGES_MAX: usize = 4;

/// All that the daemon counts at this moment.
pub(super) fn scrape(daemon: &Daemon) -> Result<Scrape, Failure> {
    let began = Instant::now();
    let status = daemon.status()?;
    let threads = daemon.counters()?;
    let cores = daemon.cores()?;
    // Only a daemon that serves the sockets of programs answers these.
    let (fallbacks, sockets) = match status.job == config::Job::Sockets.name() {
        true => (daemon.fallbacks()?, sockets(daemon)?),
        false => Default::default(),
    };
    let took_s = began.elapsed().as_secs_f64();
    Ok(Scrape { status, threads, cores, fallbacks, sockets, took_s })
}

fn sockets(daemon: &Daemon) -> Result<AppSockets, Failure> {
    let mut counted = AppSockets::default();
    let mut from = 0;
    for _ in 0..SOCKET_PAGES_MAX {
        match daemon.ask(Command::Sockets { from, count: SOCKET_ROWS_MAX })? {
            ReplyBody::Sockets { sockets, next } => {
                counted.add(&sockets);
                let Some(next) = next else { return Ok(counted) };
                from = next;
            }
            other => return Err(daemon.unexpected(&other)),
        }
    }
    counted.is_cut_off = true;
    Ok(counted)
}

/// The metrics for a script.
pub(super) fn as_json(families: &[Family]) -> serde_json::Value {
    let family = |family: &Family| {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let sample = |sample: &metrics::Sample| {
            let labels: serde_json::Map<String, serde_json::Value> =
                sample.labels.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
            let value = match sample.value {
                Value::Count(count) => json!(count),
                Value::Real(real) => json!(real),
            };
            json!({ "labels": labels, "value": value })
        };
        let samples: Vec<_> = family.samples.iter().map(sample).collect();
        json!({ "name": family.name, "type": kind, "help": family.help, "samples": samples })
    };
    let families: Vec<_> = families.iter().map(family).collect();
    json!({ "schema_version": 1, "families": families })
}

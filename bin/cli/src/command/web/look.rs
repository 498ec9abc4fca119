//! What the page shows: the daemon's answers at one moment, as one JSON object.

use std::time::{Duration, Instant};

use metrics::Scrape;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::failure::Failure;

/// Flows that the page shows, at most.
const FLOWS_MAX: u32 = 1000;

/// What does not change between two looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// When `at_ms` is zero.
    pub(super) began: Instant,
    /// Between two looks.
    pub(super) every: Duration,
    /// Whether the page may offer to change anything.
    pub(super) may_change: bool,
}

/// Asks the daemon everything.
pub(super) fn look(daemon: &Daemon, setting: Setting) -> Result<Value, Failure> {
    let asked = Instant::now();
    let status = daemon.status()?;
    // Only a daemon that serves the sockets of programs answers this.
    let fallbacks = match status.job == config::Job::Sockets.name() {
        true => daemon.fallbacks()?,
        false => Vec::new(),
    };
    let scrape = Scrape {
        threads: daemon.counters()?,
        cores: daemon.cores()?,
        fallbacks,
        // Sockets are not counted for a page: a million of them would keep the daemon busy.
        sockets: Default::default(),
        took_s: asked.elapsed().as_secs_f64(),
        status,
    };
    Ok(json!({
        "at_ms": setting.began.elapsed().as_secs_f64() * 1e3,
        "every_ms": setting.every.as_millis(),
        "may_change": setting.may_change,
        "obstacles": metrics::obstacles(&scrape),
        "apps": daemon.apps()?,
        "flows": daemon.flows(FLOWS_MAX)?,
        "steer": daemon.steering()?,
        "status": scrape.status,
        "threads": scrape.threads,
        "cores": scrape.cores,
        "fallbacks": scrape.fallbacks,
    }))
}

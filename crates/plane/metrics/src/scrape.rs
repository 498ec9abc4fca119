//! What the daemon has answered at one moment.

use std::collections::BTreeMap;

use admin::{CoresStatus, FallbackTotal, SocketRow, Status, ThreadCounters};

/// What the daemon has answered at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scrape {
    /// To `status`.
    pub status: Status,
    /// To `stats`.
    pub threads: Vec<ThreadCounters>,
    /// To `cores`.
    pub cores: CoresStatus,
    /// To `fallbacks`: how many sockets the kernel has kept, by reason.
    pub fallbacks: Vec<FallbackTotal>,
    /// To `sockets`, counted.
    pub sockets: AppSockets,
    /// How long the answers took, in seconds.
    pub took_s: f64,
}

/// How many sockets each program has, by protocol and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppSockets {
    /// By application, protocol and state.
    pub counts: BTreeMap<(String, String, &'static str), u64>,
    /// Whether there were more than were asked for.
    pub is_cut_off: bool,
}

impl AppSockets {
    /// Counts some more.
    pub fn add(&mut self, rows: &[SocketRow]) {
        for row in rows {
            let key = (row.app_name.clone(), row.protocol.clone(), row.state.as_str());
            *self.counts.entry(key).or_default() += 1;
        }
    }
}

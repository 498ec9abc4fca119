//! A server's throughput against its connections, in modelled time.
//!
//! Every connection has one request outstanding, always. The server's cores each have a real
//! [`tcp::Engine`] with the connections that are theirs by hash; which segments there are, and how
//! many for a request, is theirs to say. What a request takes of a core is measured
//! ([`RequestCosts`]): so much when the connection's state is in the cache, so much more when it is
//! not, and how often that is follows from how much of all state the cache holds.

mod costs;
mod run;
#[cfg(test)]
mod tests;

use base::Nanos;
pub use costs::{Cache, Cycles, RequestCosts};
use sim::model::Level;

use crate::Refused;
use crate::refused::check;

/// Requests of all connections, at most: their times are 400 MB.
pub(crate) const REQUESTS_MAX: u64 = 50_000_000;

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionsPlan {
    /// Connections, a request outstanding on each.
    pub connections: u32,
    /// Cores of the server.
    pub cores: u16,
    /// Requests of each connection that are measured.
    pub requests: u32,
    /// Bytes of a request, and of its answer.
    pub request_bytes: u32,
    /// What a request takes.
    pub costs: RequestCosts,
    /// What the cores' caches hold.
    pub cache: Cache,
    /// Which end of the measured ranges.
    pub level: Level,
    /// From the server's NIC to a client and back.
    pub round_trip: Nanos,
}

impl Default for ConnectionsPlan {
    /// The TAS authors' experiment: echo of 64 bytes on 20 cores, at 1000 connections.
    fn default() -> Self {
        Self {
            connections: 1000,
            cores: 20,
            requests: 3,
            request_bytes: 64,
            costs: RequestCosts::CALISTO_ENGINE,
            cache: Cache::default(),
            level: Level::Median,
            round_trip: Nanos::from_micros(10),
        }
    }
}

impl ConnectionsPlan {
    /// Whether it makes sense; the field that does not.
    ///
    /// # Errors
    /// A number is outside of what it may be.
    pub fn check(&self) -> Result<(), Refused> {
        let connections = (1..=200_000).contains(&self.connections);
        check(connections, "connections", self.connections, "from 1 to 200000")?;
        check((1..=256).contains(&self.cores), "cores", self.cores, "from 1 to 256")?;
        let requests = u64::from(self.connections) * u64::from(self.requests);
        let few = (1..=REQUESTS_MAX).contains(&requests);
        check(few, "requests", self.requests, "at least 1, of all connections at most 50 million")?;
        let bytes = (1..=128).contains(&self.request_bytes);
        check(bytes, "request_bytes", self.request_bytes, "from 1 to 128")?;
        let hertz = (1_000_000..=10_000_000_000).contains(&self.cache.hertz);
        check(hertz, "hertz", self.cache.hertz, "from 1 MHz to 10 GHz")?;
        let round_trip = (Nanos(1)..=Nanos::from_secs(1)).contains(&self.round_trip);
        check(round_trip, "round_trip", self.round_trip, "from 1 ns to 1 s")
    }

    /// The share of requests that find their connection's state out of the cache.
    pub fn misses(&self) -> f64 {
        let of_core = f64::from(self.connections) / f64::from(self.cores);
        let state = of_core * self.costs.state_bytes.at(self.level);
        (1.0 - self.cache.bytes_per_core as f64 / state).max(0.0)
    }

    /// Cycles of a core that a request takes.
    pub fn cycles(&self) -> f64 {
        let RequestCosts { warm, cold, .. } = self.costs;
        warm.at(self.level) + self.misses() * cold.at(self.level)
    }
}

/// A run's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionsOutcome {
    /// Requests answered while it was measured.
    pub requests: u64,
    /// Requests a second.
    pub throughput: f64,
    /// Half of the requests were answered sooner, from the client on.
    pub p50: Nanos,
    /// 99 of 100 were.
    pub p99: Nanos,
    /// Segments that the server has sent for each request.
    pub segments_per_request: f64,
    /// The share of its segments that took the engine's fast path.
    pub fast_share: f64,
    /// Cycles of a core that a request took.
    pub cycles: f64,
    /// The share of requests that found their state out of the cache.
    pub misses: f64,
}

/// Runs a plan.
///
/// # Errors
/// The plan makes no sense; nothing was run.
pub fn run(plan: &ConnectionsPlan) -> Result<ConnectionsOutcome, Refused> {
    plan.check()?;
    Ok(run::Simulation::new(plan).run())
}

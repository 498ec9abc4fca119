//! What is simulated: clients, links, a data path whose workers come and go.

use base::Nanos;
use tcp::Algorithm;

use crate::Refused;
use crate::connections::REQUESTS_MAX;
use crate::link::LinkPlan;
use crate::refused::check;

/// Connections of all clients, at most: the rings of both ends are 512 KiB each.
const CONNECTIONS_MAX: u64 = 4000;

/// This many workers from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerStep {
    /// Counted from the beginning.
    pub at: Nanos,
    /// How many.
    pub workers: u16,
}

/// A run: clients ask, the data path's echo service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholePlan {
    /// Clients, each an engine behind a link.
    pub clients: u32,
    /// Connections of each.
    pub connections: u32,
    /// Requests of each connection, one after the other.
    pub requests: u32,
    /// Bytes of a request, and of its answer.
    pub request_bytes: u32,
    /// Between each client and the switch, each way.
    pub client_link: LinkPlan,
    /// Between the switch and the data path, each way.
    pub server_link: LinkPlan,
    /// Congestion control of both sides.
    pub congestion: Algorithm,
    /// The steering policy, by name.
    pub policy: String,
    /// Flow groups.
    pub groups: u32,
    /// Workers, first at time zero.
    pub worker_steps: Vec<WorkerStep>,
    /// What a turn of the data path's loop takes ...
    pub turn: Nanos,
    /// ... and, for each packet in it, more.
    pub packet: Nanos,
    /// A run that is not over by then is cut off.
    pub time_limit: Nanos,
}

impl Default for WholePlan {
    /// 8 clients with 8 connections each ask 4 KiB a hundred times; a worker comes and goes. A turn
    /// takes what a turn of the daemon's loop takes with nothing to do, a packet the 1.2 us in
    /// which the sockets benchmark's server does one.
    fn default() -> Self {
        let link = LinkPlan::default();
        Self {
            clients: 8,
            connections: 8,
            requests: 100,
            request_bytes: 4096,
            client_link: link,
            server_link: LinkPlan { rate: 40_000_000_000, ..link },
            congestion: Algorithm::default(),
            policy: "sticky".to_owned(),
            groups: 4096,
            worker_steps: vec![
                WorkerStep { at: Nanos::ZERO, workers: 2 },
                WorkerStep { at: Nanos::from_millis(2), workers: 3 },
                WorkerStep { at: Nanos::from_millis(5), workers: 2 },
            ],
            turn: Nanos(150),
            packet: Nanos(1200),
            time_limit: Nanos::from_secs(60),
        }
    }
}

impl WholePlan {
    /// Whether it makes sense; the field that does not.
    ///
    /// # Errors
    /// A number is outside of what it may be, or there is no such policy.
    pub fn check(&self) -> Result<(), Refused> {
        check((1..=1000).contains(&self.clients), "clients", self.clients, "from 1 to 1000")?;
        let connections = (1..=10_000).contains(&self.connections);
        check(connections, "connections", self.connections, "from 1 to 10000")?;
        let all = u64::from(self.clients) * u64::from(self.connections);
        let few = all <= CONNECTIONS_MAX;
        check(few, "connections", self.connections, "of all clients together at most 4000")?;
        let few = (1..=REQUESTS_MAX).contains(&(all * u64::from(self.requests)));
        check(few, "requests", self.requests, "at least 1, of all connections at most 50 million")?;
        let bytes = (1..=65_536).contains(&self.request_bytes);
        check(bytes, "request_bytes", self.request_bytes, "from 1 to 65536")?;
        self.client_link.check()?;
        self.server_link.check()?;
        let groups = self.groups.is_power_of_two() && (128..=1 << 20).contains(&self.groups);
        check(groups, "groups", self.groups, "a power of two from 128 to 1048576")?;
        let begins =
            self.worker_steps.first().is_some_and(|worker_step| worker_step.at == Nanos::ZERO);
        check(begins, "crews", format!("{:?}", self.worker_steps), "a list that begins at 0")?;
        let workers =
            self.worker_steps.iter().all(|worker_step| (1..=63).contains(&worker_step.workers));
        check(
            workers,
            "crews",
            format!("{:?}", self.worker_steps),
            "such that there are 1 to 63 workers",
        )?;
        let turn = self.turn > Nanos::ZERO;
        check(turn, "turn", self.turn, "longer than nothing")?;
        let limit = self.time_limit <= Nanos::from_secs(3600);
        check(limit, "time_limit", self.time_limit, "at most an hour")
    }
}

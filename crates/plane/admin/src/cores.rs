//! Cores on demand: which worker holds which core, and how often cores change hands.

use serde::{Deserialize, Serialize};

use crate::reply::Counter;

/// The cores that the daemon gives out. Without any, `enabled` is false and the rest is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoresStatus {
    /// Whether the daemon gives out any cores.
    pub enabled: bool,
    /// The core policy in force.
    pub policy: String,
    /// Nanoseconds between two ticks of the core control, as in force: it grows with the tick's
    /// cost.
    pub interval_ns: u64,
    /// Nanoseconds that a tick takes, smoothed.
    pub tick_cost_ns: u64,
    /// Microseconds after which a worker that does not give its core back is moved off it.
    pub yield_bound_us: u64,
    /// The cores, by ascending number.
    pub cores: Vec<CoreRow>,
    /// Who may have cores: the daemon's own workers, then the applications that asked for some.
    pub apps: Vec<CoreApp>,
    /// Cores given so far.
    pub grants: u64,
    /// Cores given back so far because there was nothing to do.
    pub parks: u64,
    /// Cores asked back so far.
    pub revokes: u64,
    /// Cores taken so far from workers that did not give them back in time.
    pub takes: u64,
    /// Ticks of the core control so far.
    pub ticks: u64,
    /// What else is counted, by name: also what went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreRow {
    /// The CPU's number, as the kernel has it.
    pub core: u16,
    /// "idle", "held", or "leaving": asked back and not given back yet.
    pub state: String,
    /// Who holds it, by number; 0 is the daemon itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<u32>,
    /// The same by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_name: Option<String>,
    /// Which worker of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// Who gets it when it has left, if that is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_app: Option<u32>,
    /// Milliseconds for which it has been so.
    pub since_ms: f64,
}

/// An application that may have cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreApp {
    /// The application's number; 0 is the daemon with its own workers.
    pub app: u32,
    /// Its name.
    pub name: String,
    /// "latency" or "batch".
    pub class: String,
    /// Cores that it gets whenever it wants them.
    pub guaranteed: u16,
    /// Cores that it may have while nobody is worse off.
    pub burst: u16,
    /// Cores that it has.
    pub held: u16,
    /// Workers that wait without one.
    pub parked: u16,
    /// Microseconds that its oldest item may wait before it asks for a core more.
    pub queue_delay_us: u64,
    /// Microseconds that its oldest item has waited, at the last tick.
    pub oldest_us: f64,
    /// Cores that it was given so far.
    pub grants: u64,
    /// Cores that it gave back so far because there was nothing to do.
    pub parks: u64,
    /// Cores asked back from it so far.
    pub revokes: u64,
    /// Cores taken from it so far.
    pub takes: u64,
    /// Ticks so far in which it asked for a core more.
    pub asked: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reply, ReplyBody};

    #[test]
    fn a_daemon_that_gives_out_no_cores_says_so() {
        let reply = Reply::new(ReplyBody::Cores(CoresStatus::default()));
        let line = crate::encode(&reply).expect("plain data");
        assert!(line.contains(r#""enabled":false"#), "{line}");
        assert_eq!(crate::decode(&line), Ok(reply));
    }

    #[test]
    fn an_idle_core_names_nobody() {
        let idle = CoreRow {
            core: 3,
            state: "idle".to_owned(),
            app: None,
            app_name: None,
            worker: None,
            next_app: None,
            since_ms: 0.5,
        };
        let line = crate::encode(&idle).expect("plain data");
        assert_eq!(line.trim(), r#"{"core":3,"state":"idle","since_ms":0.5}"#);
        assert_eq!(crate::decode(&line), Ok(idle));
    }
}

//! `[sockets]`: programs whose TCP and UDP sockets the daemon serves (`calisto run`).

use serde::{Deserialize, Serialize};

/// `[sockets]`: the job `sockets`. What each user may do is said in `[[tenant]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sockets {
    /// Whether sockets are served although nftables has rules, which they bypass. Default: false.
    pub ignore_firewall: bool,
    /// After a stop was asked for, connections get so many milliseconds to end. Default: 2000.
    pub drain_ms: u32,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { ignore_firewall: false, drain_ms: 2000 }
    }
}

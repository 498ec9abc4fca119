//! An application: its identity, resources, limits, and why it was detached.

use serde::{Deserialize, Serialize};

use crate::reply::Counter;

/// An application that is attached, or was: the daemon remembers the last 64 that are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatus {
    /// As it calls itself; several may have the same.
    pub name: String,
    /// Its number, never used again.
    pub id: u32,
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// "attached", "leaving" or "gone".
    pub state: String,
    /// Why it is gone: a word, and a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What it serves.
    pub listen: Vec<String>,
    /// Its workers.
    pub workers: Vec<AppWorker>,
    /// Bytes of the memory that it shares with the daemon.
    pub region_bytes: u64,
    /// Frames in its region.
    pub frames: u32,
    /// Of these: frames that the application holds.
    pub frames_with_app: u32,
    /// What it may use.
    pub limits: AppLimits,
    /// What the daemon serves of its sockets; absent: it is given packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<ServedSockets>,
    /// What it has done; `apps` leaves them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,
}

/// What the daemon serves of an application's sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedSockets {
    /// Sockets: listeners, connections, UDP sockets.
    pub sockets: u32,
    /// Its processes: the first, and those that it forked.
    pub pids: Vec<u32>,
    /// How it waits for the daemon and shares its CPU.
    pub profile: String,
}

/// Why an application was detached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// For programs: "left", "died", "lied", "protocol", "stalled", "operator", "daemon_ends" and
    /// others to come.
    pub name: String,
    /// For people: what happened, and what to do if it should not.
    pub message: String,
}

/// A worker of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppWorker {
    /// Its id.
    pub id: u16,
    /// "active", "resting" (parked for long: its groups are with others), "leaving" or "retiring".
    pub state: String,
    /// Packets in its ring.
    pub queued: u32,
    /// Groups that it owns.
    pub groups: u32,
    /// Packets processed.
    pub packets: u64,
    /// Whether it waits for its doorbell.
    pub asleep: bool,
}

/// What an application may use; absent: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppLimits {
    /// Packets sent a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets_per_s: Option<u64>,
    /// Wake-ups that it may cause a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_per_s: Option<u64>,
    /// Bytes of shared memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

//! What `calisto top` shows: everything worked out, nothing cut to the size of a screen yet.

use serde::Serialize;

use super::rate::History;

/// The version of the JSON lines; fields are only ever added.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// The daemon between two looks. A rate that is not known is `None`: the daemon, or what is
/// counted, is new.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct View {
    pub(super) schema_version: u32,
    /// Seconds that the rates are of.
    pub(super) seconds: f64,
    /// Times that another daemon has answered at the socket since the first look.
    pub(super) restarts: u32,
    pub(super) version: String,
    pub(super) pid: u32,
    pub(super) uptime_s: f64,
    pub(super) arrangement: String,
    pub(super) job: String,
    /// The steering policy.
    pub(super) policy: String,
    pub(super) frames: u32,
    pub(super) frames_free: u32,
    /// Packets received from all ports.
    pub(super) received_per_s: Option<f64>,
    /// Packets that ports accepted.
    pub(super) sent_per_s: Option<f64>,
    /// The cores that are given out; `None`: there are none.
    pub(super) cores: Option<Cores>,
    /// The daemon with its own workers first, then the applications by number.
    pub(super) apps: Vec<App>,
    /// The dispatcher, then the daemon's own workers.
    pub(super) threads: Vec<Thread>,
    /// What was dropped, punted or went wrong since the last look; the most first.
    pub(super) losses: Vec<Loss>,
    /// Packets received a second, lately.
    #[serde(skip)]
    pub(super) received_history: History,
    /// Cores in use, lately.
    #[serde(skip)]
    pub(super) cores_history: History,
}

/// Cores on demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Cores {
    /// The core policy.
    pub(super) policy: String,
    pub(super) interval_ns: u64,
    pub(super) tick_cost_ns: u64,
    /// Cores that somebody holds.
    pub(super) used: usize,
    pub(super) rows: Vec<Core>,
    pub(super) grants_per_s: Option<f64>,
    pub(super) parks_per_s: Option<f64>,
    pub(super) revokes_per_s: Option<f64>,
    pub(super) takes_per_s: Option<f64>,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Core {
    pub(super) core: u16,
    /// "idle", "held" or "leaving".
    pub(super) state: String,
    /// Who holds it.
    pub(super) app: Option<u32>,
    pub(super) app_name: Option<String>,
    pub(super) worker: Option<u16>,
    /// Who is to have it next, by name.
    pub(super) next: Option<String>,
}

/// An application, or the daemon with its own workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct App {
    /// 0 is the daemon.
    pub(super) number: u32,
    pub(super) name: String,
    /// What it does: "runs", "wants more" (cores), "parked", "asleep", "leaving".
    pub(super) state: String,
    /// Its sockets that the daemon serves; `None`: it is given packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sockets: Option<u32>,
    pub(super) packets_per_s: Option<f64>,
    /// Packets that wait in its rings.
    pub(super) queued: u64,
    pub(super) workers: usize,
    /// Of these: workers that wait for their doorbell.
    pub(super) asleep: usize,
    /// What it has of the cores that are given out; `None`: it does not take part.
    pub(super) cores: Option<AppCores>,
}

/// What an application has of the cores that are given out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AppCores {
    pub(super) class: String,
    pub(super) held: u16,
    pub(super) guaranteed: u16,
    pub(super) burst: u16,
    pub(super) parked: u16,
    /// Microseconds that its oldest item has waited.
    pub(super) oldest_us: f64,
    pub(super) grants_per_s: Option<f64>,
    pub(super) parks_per_s: Option<f64>,
    pub(super) revokes_per_s: Option<f64>,
    pub(super) takes_per_s: Option<f64>,
}

/// A loop of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) turns_per_s: Option<f64>,
    /// Share of the turns that found nothing to do.
    pub(super) spin_share: Option<f64>,
    /// How it waits: "busy", "polls" or "sleeps".
    pub(super) waiting: Option<&'static str>,
}

/// Something that was dropped, punted or went wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Loss {
    /// Who counts it: a thread, an application or a port.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) per_s: f64,
    /// Since the daemon's start.
    pub(super) total: u64,
}

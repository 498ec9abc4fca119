//! What the daemon answers.

use serde::{Deserialize, Serialize};

use crate::app::AppStatus;
use crate::cores::CoresStatus;
use crate::sample::Sample;
use crate::socket::{FallbackRow, FallbackTotal, PutOutRow, SocketRow};
use crate::traced::TracedRequest;

/// One line from the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// [`crate::VERSION`].
    pub v: u32,
    /// The answer.
    #[serde(flatten)]
    pub body: ReplyBody,
}

impl Reply {
    /// An answer in the version that this crate speaks.
    pub fn new(body: ReplyBody) -> Self {
        Self { v: crate::VERSION, body }
    }
}

/// The least severe events of a target that are logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevel {
    /// What the events are about.
    pub target: String,
    /// `off`, `error`, `warn`, `info` or `debug`.
    pub level: String,
}

/// The answer: `{"v":1,"reply":"done"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum ReplyBody {
    /// It is done, or will be at the next control tick.
    Done,
    /// To `reload`.
    Reloaded {
        /// The keys that have changed, `tenant` for all of `[[tenant]]`; none: the file says what
        /// is in force.
        changed: Vec<String>,
    },
    /// To `log`.
    Log {
        /// `text`, `json` or `journald`.
        format: String,
        /// How urgent an event of each target has to be.
        levels: Vec<LogLevel>,
    },
    /// It is not done, and why.
    Error {
        /// One sentence: what was wrong and what to do.
        message: String,
    },
    /// To `status`.
    Status(Status),
    /// To `stats`.
    Stats {
        /// The dispatcher, then the workers.
        threads: Vec<ThreadCounters>,
    },
    /// To `flows`.
    Flows {
        /// The heaviest first.
        flows: Vec<FlowRow>,
    },
    /// To `steer_show`.
    Steer(SteerStatus),
    /// To `watch`, again and again.
    Sample(Sample),
    /// To `apps`.
    Apps {
        /// Those that are there, then those that are gone, the latest first.
        apps: Vec<AppStatus>,
    },
    /// To `explain`.
    Explain {
        /// With every counter.
        app: AppStatus,
    },
    /// To `cores`.
    Cores(CoresStatus),
    /// To `steer_export`.
    Table {
        /// `groups N`, then runs `FIRST-LAST WORKER`.
        table: String,
    },
    /// To `sockets`.
    Sockets {
        /// By application, then by slot.
        sockets: Vec<SocketRow>,
        /// `from` of the question for the next ones; absent: these were the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    },
    /// To `fallbacks`.
    Fallbacks {
        /// Sockets that are open, the latest first.
        sockets: Vec<FallbackRow>,
        /// All that there ever were, by reason, the most frequent first.
        totals: Vec<FallbackTotal>,
        /// Programs that were put out, the latest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        put_out: Vec<PutOutRow>,
    },
    /// To `trace`, again and again: what has come since the line before.
    Traced {
        /// Programs that are traced now.
        programs: u32,
        /// Samples, in no order.
        requests: Vec<TracedRequest>,
        /// Samples that found no room on their way, so far.
        lost: u64,
        /// Those that were not answered before their connection ended, or before many others came,
        /// so far; those under way are counted as well.
        unanswered: u64,
        /// Those whose moments cannot be, so far: the program's clock is another one.
        strange: u64,
    },
    /// To `capture`: what follows on this connection is a capture file.
    Capturing {
        /// Bytes kept of each packet, at most.
        snaplen: u32,
        /// The ports that packets are taken from.
        ports: Vec<String>,
    },
}

/// The daemon as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// "fused" (one loop) or "threads".
    pub arrangement: String,
    /// The job of its workers.
    pub job: String,
    /// What it serves.
    pub listen: Vec<String>,
    /// Its ports.
    pub ports: Vec<PortStatus>,
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
    /// Workers that there are to be. 0: an older daemon.
    #[serde(default)]
    pub workers_wanted: u16,
    /// Workers that an operator or the configuration wants: more where some could not be started.
    /// 0: an older daemon.
    #[serde(default)]
    pub workers_asked: u16,
    /// The policy in force.
    pub policy: String,
    /// Flow groups.
    pub groups: u32,
    /// Frames in the pool, and how many of them are at home.
    pub frames: u32,
    /// Frames at home.
    pub frames_free: u32,
    /// NUMA node of the frames, where known.
    pub numa_node: Option<u16>,
    /// Applications that are attached: `apps` says more.
    #[serde(default)]
    pub apps: u32,
    /// Of these: programs whose sockets are served.
    #[serde(default)]
    pub programs: u32,
    /// What its threads gave up once everything was open: "whole" (capabilities, system calls and
    /// paths), "without_paths" (the kernel has no landlock), "off". Empty: an older daemon.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confinement: String,
    /// Whether a process waits that has the kernel go on with the connections of programs if the
    /// daemon dies: "well", "ended" (and another one is about to be started), "given_up" (it has
    /// ended too often), "off". Empty: an older daemon.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guardian: String,
    /// The memory of programs' rings. Absent: no sockets are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_memory: Option<RingMemoryStatus>,
    /// The descriptors that the daemon has for programs. Absent: no sockets are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<DescriptorStatus>,
    /// It is ending: milliseconds that sockets of programs still have to close, at most. Absent: it
    /// is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining_ms: Option<u64>,
}

/// The memory of programs' rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingMemoryStatus {
    /// Bytes that are in memory.
    pub bytes: u64,
    /// Bytes that may be.
    pub limit_bytes: u64,
    /// Rings that were refused because of the limit, since the start.
    pub refused: u64,
    /// Bytes that were given back because memory was short, since the start.
    pub discarded_bytes: u64,
    /// Connections that were reset because nobody read from them and memory was short, since the
    /// start.
    #[serde(default)]
    pub evicted: u64,
}

/// The descriptors that the daemon has for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorStatus {
    /// How many it has.
    pub taken: u64,
    /// How many it may have.
    pub limit: u64,
    /// Ports of ended connections that were given up early because there were none left, since the
    /// start.
    pub given_early: u64,
    /// Requests that were refused because of a share or the limit, since the start.
    pub refused: u64,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortStatus {
    /// As it was configured.
    pub port: String,
    /// How it works here: native or generic, copy or zero-copy.
    pub mode: String,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Received checksums are not verified: a warning.
    pub trust_link: bool,
    /// Why it moves nothing, if so.
    pub fault: Option<String>,
    /// Its counters.
    pub counters: Vec<Counter>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its id.
    pub id: u16,
    /// "active", "leaving" or "retiring".
    pub state: String,
    /// The CPU it is pinned to; `None`: any, or the dispatcher's loop.
    pub cpu: Option<u16>,
    /// NUMA node of that CPU, where known.
    #[serde(default)]
    pub numa_node: Option<u16>,
    /// Groups that it owns.
    pub groups: u32,
    /// Packets in its ring.
    pub queued: u32,
    /// Packets processed.
    pub packets: u64,
}

/// The counters of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounters {
    /// "dispatcher" or "worker N".
    pub thread: String,
    /// What it counts.
    pub counters: Vec<Counter>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// The value.
    pub value: u64,
}

/// A flow, by sampling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRow {
    /// Its 5-tuple.
    pub flow: String,
    /// Its hash.
    pub hash: u32,
    /// Its group.
    pub group: u32,
    /// The group's owner.
    pub worker: Option<u16>,
    /// Packets, estimated.
    pub packets: u64,
    /// Bytes, estimated.
    pub bytes: u64,
}

/// The steering as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteerStatus {
    /// The policy in force.
    pub policy: String,
    /// Every policy: name and a sentence.
    pub policies: Vec<(String, String)>,
    /// Flow groups.
    pub groups: u32,
    /// Groups that nobody owns.
    pub unowned: u32,
    /// Tables published so far.
    pub epoch: u32,
    /// Whether anything is on its way.
    pub settled: bool,
    /// Packets held by hand-overs at this moment.
    pub held: u32,
    /// Groups of each worker.
    pub owned: Vec<(u16, u32)>,
    /// Pins: group and worker.
    pub pins: Vec<(u32, u16)>,
    /// Flows pinned one by one.
    pub pinned_flows: u32,
    /// Of these, flow and worker of those that have been pinned by name, some hundred at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<(String, u16)>,
    /// Pins of the configuration that are still to be set or let go: what is pinned is not yet what
    /// is wanted.
    #[serde(default)]
    pub pins_pending: u32,
}

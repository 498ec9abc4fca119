//! `[workers]`: how many, where, and what they do.

use serde::{Deserialize, Serialize};

/// `[workers]`: who processes packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workers {
    /// Workers at the start. Default: 1.
    pub count: u16,
    /// Workers at any time, at most. Default: 64.
    pub max: u16,
    /// What they do. Default: auto.
    pub job: Job,
    /// Bytes of state that `synthetic` keeps and touches for each flow. Default: 0.
    pub state_bytes: u32,
    /// Flows that have room for their state, at most. Default: 1 000 000.
    pub state_flows: u32,
    /// How dispatcher and workers share threads. Default: fused.
    pub arrangement: Arrangement,
    /// Worker n runs on `cpus[n % len]`; empty: wherever the kernel puts it. Default: empty.
    pub cpus: Vec<u16>,
    /// The CPU of the dispatcher; absent: any. Default: absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatcher_cpu: Option<u16>,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            count: 1,
            max: 64,
            job: Job::Auto,
            state_bytes: 0,
            state_flows: 1_000_000,
            arrangement: Arrangement::Fused,
            cpus: Vec::new(),
            dispatcher_cpu: None,
        }
    }
}

/// What the built-in workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Job {
    /// Serve sockets when nothing is listened on, else echo.
    Auto,
    /// Serve the TCP and UDP sockets of programs (`calisto run`).
    Sockets,
    /// Send every UDP packet back.
    Echo,
    /// Swallow every packet.
    Sink,
    /// Do the work that a request asks for, and answer it.
    Synthetic,
    /// Serve echo over TCP (RFC 862).
    #[serde(rename = "tcp-echo")]
    TcpEcho,
    /// Serve discard over TCP (RFC 863).
    #[serde(rename = "tcp-discard")]
    TcpDiscard,
    /// Serve the character generator over TCP (RFC 864).
    #[serde(rename = "tcp-chargen")]
    TcpChargen,
}

impl Job {
    /// The word that stands for it in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sockets => "sockets",
            Self::Echo => "echo",
            Self::Sink => "sink",
            Self::Synthetic => "synthetic",
            Self::TcpEcho => "tcp-echo",
            Self::TcpDiscard => "tcp-discard",
            Self::TcpChargen => "tcp-chargen",
        }
    }
}

/// How dispatcher and workers share threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrangement {
    /// One loop does everything: the fastest on one core.
    Fused,
    /// The dispatcher and each worker have a thread of their own.
    Threads,
}

impl Arrangement {
    /// The word that stands for it in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Threads => "threads",
        }
    }
}

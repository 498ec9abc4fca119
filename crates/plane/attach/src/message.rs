//! The messages of the attach protocol.

use serde::{Deserialize, Serialize};

use crate::DESCRIPTORS_MAX;
use crate::reason::DetachReason;
use crate::sockets::{Call, JoinRequest, Reply, SocketsRequest, Streaming};

/// Bytes of an application's name, at most.
const NAME_BYTES_MAX: usize = 32;

/// Addresses that an application listens on, at most.
const LISTEN_MAX: usize = 64;

/// Bytes of one of them, at most.
const LISTEN_BYTES_MAX: usize = 128;

/// Application to daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToDaemon {
    /// The first and only message of an application in packet mode.
    Attach(AttachRequest),
    /// The first message of an application in sockets mode.
    Stream(SocketsRequest),
    /// The first message of a further process of such an application.
    Join(JoinRequest),
    /// Any later message of an application in sockets mode.
    Call {
        /// Comes back with the answer.
        id: u64,
        /// What it wants.
        call: Call,
    },
}

impl ToDaemon {
    /// Checks that its fields keep their limits.
    ///
    /// # Errors
    /// A sentence about the first thing that does not.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Attach(request) => request.check(),
            Self::Stream(request) => check_name(&request.name),
            Self::Join(request) => request.check(),
            Self::Call { .. } => Ok(()),
        }
    }
}

/// What an application wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    /// What people call it: 1 to 32 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Whose packets it wants, such as `udp:10.0.0.2:53`; the daemon knows the forms.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Workers: threads that each own a share of the flows; 1 to 64.
    pub workers: u32,
    /// Buffers for received packets, all workers together; the daemon's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Bytes of a buffer, 2048 or 4096; the daemon's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u32>,
    /// The cores that it wants to run on, given and taken as load moves; absent: it runs wherever
    /// Linux lets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoresRequest>,
    /// Bits of optional features that it asks for; none are defined.
    #[serde(default)]
    pub features: u64,
}

/// The cores that an application wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoresRequest {
    /// Cores that it gets whenever it has something to do.
    #[serde(default)]
    pub guaranteed: u16,
    /// Cores that it may have while none with a better right asks; as many as it has workers if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u16>,
    /// Whom it gives way to.
    #[serde(default)]
    pub class: CoresClass,
    /// Microseconds: it gets another core when a packet or task waits for longer. Zero: when one
    /// waits from one look to the next.
    #[serde(default)]
    pub queue_delay_us: u32,
}

/// Which applications give way to which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoresClass {
    /// Its cores beyond the guarantee go back only to somebody's guarantee.
    #[default]
    Latency,
    /// It gets what is left, listens on nothing, and loses a core to whoever else asks. Its threads
    /// are of the class SCHED_IDLE.
    Batch,
}

impl AttachRequest {
    /// Checks that name, addresses and workers keep their limits: what comes from outside is
    /// printed and kept.
    ///
    /// # Errors
    /// A sentence about the first that does not.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.listen.len() > LISTEN_MAX {
            return Err(format!("an application listens on {LISTEN_MAX} addresses at most"));
        }
        let is_address = |text: &String| {
            text.len() <= LISTEN_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !self.listen.iter().all(is_address) {
            return Err(format!(
                "an address to listen on has {LISTEN_BYTES_MAX} printable ASCII bytes at most, such \
                 as udp:10.0.0.2:53"
            ));
        }
        let workers_max = DESCRIPTORS_MAX as u32 - 2;
        if !(1..=workers_max).contains(&self.workers) {
            return Err(format!("{} workers cannot be: use 1 to {workers_max}", self.workers));
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "a name has 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.': choose another"
    ))
}

/// Daemon to application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToApp {
    /// Welcome. Beside it: the memfd of the region, an eventfd that wakes the daemon, and the read
    /// end of a pipe for each worker, which has a byte in it when the daemon has woken that worker.
    Attached(Attached),
    /// Welcome to sockets mode. Beside it: the memfd of the region, and an eventfd that wakes the
    /// daemon.
    Streaming(Streaming),
    /// The answer to a call, with the descriptors that belong to it.
    Reply {
        /// The call's.
        id: u64,
        /// What became of it.
        reply: Reply,
    },
    /// A connection is the kernel's from now on. Beside it: its socket there, which belongs at
    /// every number that the program has for the one with this cookie (SO_COOKIE of socket(7)). It
    /// comes unasked, also between a call and its answer.
    Given {
        /// Of the socket that the program has had so far.
        cookie: u64,
    },
    /// No, and why; the daemon closes.
    Refused {
        /// What was wrong and what to do.
        message: String,
    },
    /// The daemon has let go of the application and closes.
    Detached(Detached),
}

/// What an attached application gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The daemon's number for it.
    pub id: u32,
    /// Workers; as many as were asked for.
    pub workers: u32,
    /// The ports, by their number: the first is the one whose packets say port 0.
    pub ports: Vec<PortInfo>,
    /// Its workers run only on cores that they are granted: each has a word about that in the
    /// shared memory.
    #[serde(default)]
    pub on_granted_cores: bool,
    /// Bits of the features that it got.
    #[serde(default)]
    pub features: u64,
}

/// A port through which packets come and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortInfo {
    /// Its name, such as `xdp:eth1`.
    pub port: String,
    /// Its Ethernet address, as `02:00:00:00:00:01` in the message; a port may have none.
    #[serde(default, with = "crate::text::mac")]
    pub mac: Option<[u8; 6]>,
    /// Bytes of the largest IP packet that it takes.
    pub mtu: u32,
}

/// The end of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// Why, for programs.
    pub reason: DetachReason,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

impl std::fmt::Display for Detached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.message.is_empty() {
            write!(f, "detached: {}", self.reason)
        } else {
            write!(f, "detached: {}", self.message)
        }
    }
}

impl std::error::Error for Detached {}

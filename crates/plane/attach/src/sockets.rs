//! The messages of sockets mode: what an application whose sockets the daemon serves can ask for.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fallback::FallbackReason;

/// Hexadecimal digits of a token and of a ticket: 128 bits.
const TOKEN_DIGITS: usize = 32;

/// What an application in sockets mode wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketsRequest {
    /// What people call it: 1 to 32 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How it waits, and how it is waited for.
    #[serde(default)]
    pub profile: Profile,
    /// Bits of optional features that it asks for; none are defined.
    #[serde(default)]
    pub features: u64,
    /// The token that it had from a daemon before this one, which is gone. All processes of the
    /// application knew it, and nobody else: by it they become one application again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_before: Option<String>,
}

/// How long threads of the program and the daemon spin for each other before they sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The daemon spins a little, the program gives its CPU away a little, before they sleep.
    #[default]
    Latency,
    /// The program sleeps at once.
    Throughput,
    /// Nobody spins.
    Safe,
}

impl Profile {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Safe => "safe",
        }
    }

    /// Microseconds for which the daemon looks for work before it sleeps. A halted CPU needs 25 us
    /// and more to answer: less would be given away.
    pub const fn spin_us(self) -> u32 {
        match self {
            Self::Latency | Self::Throughput => 50,
            Self::Safe => 0,
        }
    }

    /// Microseconds for which a waiting program yields its CPU and looks before it sleeps.
    pub const fn yield_us(self) -> u32 {
        match self {
            Self::Latency => 10,
            Self::Throughput | Self::Safe => 0,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Latency, Self::Throughput, Self::Safe];
        all.into_iter().find(|profile| profile.word() == text).ok_or_else(|| {
            let shown = base::printable(text, 40);
            format!("\"{shown}\" is no profile: there are latency, throughput and safe")
        })
    }
}

/// The way of a further process into an application that is there already: of a forked child, by
/// [`Streaming::token`], or of a program that a process of it has become, by [`Streaming::ticket`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The daemon's number for the application.
    pub app: u32,
    /// What the daemon gave the application to prove this with: the token or the ticket.
    pub token: String,
}

impl JoinRequest {
    /// Checks that the token can be one.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let is_hex = self.token.bytes().all(|digit| digit.is_ascii_hexdigit());
        if self.token.len() == TOKEN_DIGITS && is_hex {
            return Ok(());
        }
        Err(format!("a token has {TOKEN_DIGITS} hexadecimal digits"))
    }
}

/// One question of an application in sockets mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Another poller: a pipe that has a byte in it when one of its sockets has news.
    #[serde(rename = "ear")]
    Poller,
    /// A poller is of no more use.
    #[serde(rename = "drop_ear")]
    DropPoller {
        /// Its number.
        #[serde(rename = "ear")]
        poller: u32,
    },
    /// Beside it: a bound kernel socket on which `listen` was or will be called. The daemon serves
    /// the same port on its interfaces.
    Listen {
        /// Connections that may wait to be accepted.
        backlog: u32,
    },
    /// A listener takes no more connections.
    Unlisten {
        /// The region of its slot.
        region: u32,
        /// Its slot.
        slot: u32,
    },
    /// Beside it: a kernel socket, bound or not, that is to be connected.
    Connect {
        /// Where to.
        remote: SocketAddr,
    },
    /// Beside it: a bound kernel socket for datagrams.
    Udp {
        /// The only address that it talks to, if it was connected.
        remote: Option<SocketAddr>,
    },
    /// Beside it: a kernel socket that came from elsewhere; which slot is it?
    Adopt,
    /// The memory of a region.
    Region {
        /// Its number.
        region: u32,
    },
    /// Beside it: a kernel socket that the application has left to the kernel by itself.
    Fallback {
        /// Why.
        reason: FallbackReason,
    },
}

impl Call {
    /// Whether a descriptor belongs to it.
    pub const fn has_descriptor(&self) -> bool {
        match self {
            Self::Poller
            | Self::DropPoller { .. }
            | Self::Unlisten { .. }
            | Self::Region { .. } => false,
            Self::Listen { .. }
            | Self::Connect { .. }
            | Self::Udp { .. }
            | Self::Adopt
            | Self::Fallback { .. } => true,
        }
    }
}

/// What an application in sockets mode got. Beside it: the memfd of its region, and an eventfd that
/// wakes the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streaming {
    /// The daemon's number for it.
    pub app: u32,
    /// The number of its region.
    pub region: u32,
    /// With this its forked children join: 32 hexadecimal digits that nobody else knows. It never
    /// leaves the memory of its processes, so that whoever knows it has the region mapped already,
    /// and whose rights that process has by then does not matter.
    pub token: String,
    /// With this a new program joins, one that a process of it has become by exec: 32 other digits.
    /// An environment carries it, and environments get about, so the daemon takes it only from a
    /// process of the application's own user and group.
    #[serde(default)]
    pub ticket: String,
    /// Pollers that it may have at once.
    #[serde(rename = "ears")]
    pub pollers: u32,
    /// The name of a socket without a file (see `JoinListener`) by which its further processes
    /// reach the daemon, whatever files they see by then; none if there is no such socket.
    #[serde(default)]
    #[serde(rename = "side_door")]
    pub join_listener: Option<String>,
    /// Bits of the features that it got.
    #[serde(default)]
    pub features: u64,
}

/// The answer to a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// A poller. Beside it: the reading end of its pipe.
    #[serde(rename = "ear")]
    Poller {
        /// Its number.
        #[serde(rename = "ear")]
        poller: u32,
    },
    /// It has been done.
    Done,
    /// The socket is served in this slot. Beside it, when the region is a local pair that this
    /// process has not been given yet: what [`Reply::Region`] has.
    Slot {
        /// The region.
        region: u32,
        /// The slot in it.
        slot: u32,
    },
    /// The kernel is to do it.
    Kernel {
        /// Why.
        reason: FallbackReason,
    },
    /// It fails, as the kernel's own call would.
    Errno {
        /// The number, such as 13 for EACCES.
        errno: i32,
    },
    /// A region. Beside it: its memfd; of an application's region then the eventfd that wakes the
    /// daemon; of a local pair the eventfd that wakes the other side, then the own one.
    Region {
        /// Of which kind.
        kind: RegionKind,
        /// Which side of a local pair the application is: 0 connected, 1 accepted.
        side: u8,
    },
}

/// What a region is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// An application's own, shared with the daemon.
    App,
    /// Between two applications on this host.
    #[serde(rename = "junction")]
    LocalPair,
}

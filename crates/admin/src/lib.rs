//! Messages between the daemon and those who ask it: one JSON object a line, over a UNIX socket.
//!
//! A line from the client is a [`Request`], the daemon answers each with one line, a [`Reply`].
//! `v` is the version of the protocol; a daemon refuses a version that it does not speak with a
//! sentence, never by guessing. Fields are only ever added.
#![forbid(unsafe_code)]

mod line;
mod reply;
mod request;

pub use line::{LINE_BYTES_MAX, LineError, decode, encode};
pub use reply::{
    Counter, FlowRow, PortStatus, Reply, ReplyBody, Status, SteerStatus, ThreadCounters,
    WorkerStatus,
};
pub use request::{Command, Request, Target};

/// The version of the protocol that this crate speaks.
pub const VERSION: u32 = 1;

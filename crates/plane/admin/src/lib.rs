//! Messages between the daemon and its clients: one JSON object a line, over a UNIX socket.
//!
//! A line from the client is a [`Request`], the daemon answers each with one line, a [`Reply`];
//! only `watch`, `trace` and `record` are answered with many, and `capture` with a capture file
//! after the first. `docs/reference/admin-protocol.md` tells all of it.
//! `v` is the version of the protocol; a daemon refuses a version that it does not speak with a
//! sentence, never by guessing. Fields are only ever added.
#![forbid(unsafe_code)]

mod app;
mod capture;
mod check;
mod cores;
mod line;
mod reply;
mod request;
mod sample;
mod socket;
mod traced;

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod document;

pub use app::{AppLimits, AppStatus, AppWorker, Reason, ServedSockets};
pub use capture::{CAPTURE_SNAPLEN, CaptureRequest, CaptureWriter, Captured, Direction};
pub use check::{APP_NAME_BYTES_MAX, RequestError};
pub use cores::{CoreApp, CoreRow, CoresStatus};
pub use line::{LINE_BYTES_MAX, LineError, decode, encode};
pub use reply::{
    Counter, DescriptorStatus, FlowRow, LogLevel, PortStatus, Reply, ReplyBody, RingMemoryStatus,
    Status, SteerStatus, ThreadCounters, WorkerStatus,
};
pub use request::{Command, GroupMove, GroupPlace, Request, Target};
pub use sample::{LoadRun, LoadSlice, Sample, WorkerLoad};
pub use socket::{
    FallbackRow, FallbackTotal, PutOutRow, SOCKET_ROWS_MAX, SocketRow, SocketState, SocketTimer,
    TcpRow,
};
pub use traced::TracedRequest;

/// The version of the protocol that this crate speaks.
pub const VERSION: u32 = 1;

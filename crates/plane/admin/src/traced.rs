//! A request and its answer, as `trace` tells of it.

use serde::{Deserialize, Serialize};

/// Where the time of one request went, in nanoseconds: from the moment when its last packet was
/// taken from a port to the one when the first segments of its answer were given to a port. How
/// long a packet waited in the NIC before that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedRequest {
    /// The application's number, never used again.
    pub app: u32,
    /// As it calls itself.
    pub app_name: String,
    /// From the port to the worker that serves the connection.
    pub dispatch_ns: u64,
    /// In that worker, until the program was told.
    pub receive_ns: u64,
    /// Until the program began to read.
    pub wake_up_ns: u64,
    /// Until its first answer was written.
    pub application_ns: u64,
    /// Until the worker saw that.
    pub notice_ns: u64,
    /// In the worker, until the first segments were given to the port.
    pub transmit_ns: u64,
}

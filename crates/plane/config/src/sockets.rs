//! `[sockets]`: programs whose TCP and UDP sockets the daemon serves (`calisto run`).

use serde::{Deserialize, Serialize};

/// `[sockets]`: the job `sockets`. What each user may do is said in `[[tenant]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sockets {
    /// Whether sockets are served although nftables has rules, which they bypass. Default: false.
    pub ignore_firewall: bool,
    /// After a stop was asked for, connections that the kernel cannot go on with get this many
    /// milliseconds to end. Default: 2000.
    pub drain_ms: u32,
    /// Mebibytes of memory that the rings of all programs may take together; zero: half of what
    /// the machine has available at the start, and no more than three quarters of what is left to
    /// the daemon's control group. A user other than root gets three quarters of it at most, a
    /// program half. Default: 0.
    pub memory_mib: u32,
    /// Descriptors that the daemon may have for programs: of ports, memory, connections; zero: as
    /// many as the process may have (LimitNOFILE, `ulimit -Hn`), without its own. A user other than
    /// root gets a quarter of them at most, a program three quarters of what its user may have.
    /// Default: 0.
    pub descriptors: u32,
    /// Whether a process of its own waits for the daemon's sudden end, by a signal, a panic or for
    /// want of memory, and has the kernel go on with the programs' connections then. Default: true.
    pub guardian: bool,
    /// The guardian ends a daemon whose event loop has not turned for this many milliseconds, and
    /// the kernel goes on. What the guardian itself did not see pass does not count, nor does
    /// anything while a debugger has the daemon. Zero: nobody looks. Default: 30000.
    pub hang_ms: u32,
}

impl Default for Sockets {
    fn default() -> Self {
        Self {
            ignore_firewall: false,
            drain_ms: 2000,
            memory_mib: 0,
            descriptors: 0,
            guardian: true,
            hang_ms: 30_000,
        }
    }
}

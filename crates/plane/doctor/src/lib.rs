//! Looks at a machine and says whether the data plane will run well there: what is fine, what is
//! missing, what that costs, and the command that mends it.
//!
//! One file a subject, each with facts (plain data), `gather` (reads /proc, /sys, netlink and
//! ethtool, or measures; changes nothing) and `judge` (facts in, findings out, nothing read). So
//! machines that nobody here has are judged in tests. Read `run.rs` first.
#![forbid(unsafe_code)]

mod args;
mod clock;
mod cpus;
mod daemon;
mod error;
mod finding;
mod firewall;
mod kernel;
mod machine;
mod memory;
mod nic;
mod power;
mod program;
mod report;
mod rights;
mod run;
mod sockets;
mod spin;
mod stolen;
mod sysctl;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod wake;

pub use args::Args;
pub use error::Error;
pub use finding::{Finding, Level};
pub use program::look_for_program;
pub use report::Report;
pub use run::run;

//! Two network namespaces joined by a veth pair, for demo, benches and tests; attackers, and honest
//! clients beside them; a daemon under test, and Linux's own server to compare with.
//!
//! A [`Testbed`] exists in the kernel exactly as long as its value does: dropping it, also while
//! a panic unwinds, ends what still runs inside and removes both namespaces. What no destructor
//! can catch (SIGKILL, power loss) is removed by the next [`Testbed::new`], which knows from the
//! names which process made a bed and whether that process is dead.
//!
//! A signal ends a process without running destructors, so a program that owns a bed in the
//! foreground calls [`on_interrupt`] first, looks at `sys::signal::stop_requested()` in its loop,
//! and returns. SIGINT and SIGTERM are then only a flag.
//!
//! Everything happens through ip(8), in namespaces of our own; no interface of the host is
//! touched. Read `bed.rs` first.
#![forbid(unsafe_code)]

mod attack;
mod bed;
mod bystanders;
mod daemon;
mod error;
mod forged;
mod ip;
mod linux_server;
mod memory_group;
mod name;
mod scratch;
mod setup;
mod side;
mod watch;

#[cfg(test)]
mod tests;

pub use attack::{Abuse, Attack, AttackCounts, AttackPlan, Conduct, TINY_MSS, USUAL_MSS};
pub use bed::{Testbed, TestbedConfig};
pub use bystanders::{Bystanders, Exchange, Seen};
pub use daemon::{Daemon, DaemonFolder};
pub use error::TestbedError;
pub use forged::Forged;
pub use linux_server::{Idle, LinuxServer, Service, linux_listeners};
pub use memory_group::MemoryGroup;
pub use name::remove_stale;
pub use scratch::ScratchDir;
pub use side::Side;
pub use watch::Watch;

/// From now on Ctrl-C and SIGTERM set `sys::signal::stop_requested()` instead of ending the
/// process, so that the destructors of its beds run.
///
/// # Errors
/// The kernel refuses the handler.
pub fn on_interrupt() -> Result<(), TestbedError> {
    sys::signal::install_stop_handler().map_err(TestbedError::Sys)
}

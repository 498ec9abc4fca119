//! A chain with `nat`, `balancer`, `firewall` and `router`, given packets one after the other and
//! time in between: honest conversations, and strangers who send whatever they like.
//!
//! An input is a program: which functions there are and how much room they have, then steps.
//! Whatever came before, no function has more connections than it has room for; what leaves has
//! right checksums where what came had; nobody outside reaches a host inside who was not spoken to;
//! what went out translated comes back translated; and in the end nothing is kept. Read
//! `schedule.rs` first.

mod chain;
mod packet;
mod schedule;
mod talk;

/// Runs a program.
pub fn run(input: &[u8]) {
    schedule::Schedule::new(input).run();
}

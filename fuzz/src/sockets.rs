//! Programs with sockets, TCP peers and the daemon's workers in one schedule, which an input
//! chooses: connections, bytes, ends and resets of either side, loss, time, workers that come and
//! go.
//!
//! An honest program does what the library does and must never be taken for a hostile one, whatever
//! its peers do and whenever. A hostile one writes anything into the memory that it shares, and the
//! honest one beside it must not notice. Read `schedule.rs` first.

mod data_path;
mod hostile;
mod peers;
mod program;
mod schedule;

/// An honest program, its peers and the workers.
pub fn honest(input: &[u8]) {
    schedule::Schedule::new(input, false).run();
}

/// The same, beside a program that writes anything into the memory that it shares.
pub fn beside_a_hostile_one(input: &[u8]) {
    schedule::Schedule::new(input, true).run();
}

//! Replay: a capture file through the real data path, and what became of its packets.
//!
//! The dispatcher and the workers are those of the daemon, over a wire in memory, on one thread.
//! The capture's own time is the data path's clock, so the same file and the same settings give the
//! same report, at any pace. Read `player.rs` first: it is the loop.
//!
//! Frames, bytes, flows and conversations are those that tshark counts (`tests/tshark.rs`), but for
//! what differs by definition: packets to groups and fragments are no flow's here, since a data
//! path gives them to no worker, and a TCP port used again is the same flow.
#![forbid(unsafe_code)]

mod args;
mod checksum;
mod clock;
mod error;
mod feeder;
mod fit;
mod flows;
mod input;
mod job;
mod link;
mod options;
mod packet_tracker;
mod player;
mod progress;
mod report;
mod requests;
mod rig;
mod run;
mod worker_set;

pub use args::Args;
pub use error::Error;
pub use options::{Options, Pace};
pub use player::{Seen, play};
pub use report::{
    Checksums, Counter, Faults, Flows, LinkRecords, Played, ProtocolRow, Records, Report, Setup,
    TopFlow, WorkerRow,
};
pub use requests::{Request, requests};
pub use run::run;

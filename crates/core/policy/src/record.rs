//! Recordings of the control loop: every input in order with the loop's answer, written while it
//! runs and replayed later, where every answer must be the same.
//!
//! In the data loop a [`Recorder`](crate::record::Recorder) only copies small values into memory
//! that it has already; when that is full, the rest is lost, counted, and a replay ends there with
//! a sentence. Another thread takes full buffers and writes them as lines of JSON with a
//! [`Writer`](crate::record::Writer). The first line is a [`Snapshot`](crate::record::Snapshot) of
//! everything that the loop remembers, so that a recording can begin at any moment; the last one
//! says that nothing is missing.
//!
//! ```text
//! {"calisto_recording":1,"policy":{"sticky":3},"live":[64,0,64,1], ...}
//! {"idle":{"ticks":412,"last":918273645}}
//! {"place":{"group":17,"found":16383,"now":918291000,"placed":{"now":2}}}
//! {"tick":{"now":918300000,"sampled":[{"id":0,"queued":3,"delay":1200}]}}
//! {"end":{"lost":0}}
//! ```
//!
//! A tick that can change nothing (nothing wanted, nothing measured anew) is only counted; all
//! others are written one by one, and workers whose figures did not change are left out of them.

mod again;
mod buffers;
mod event;
mod line;
mod recorded;
mod recorder;
mod replay;
mod report;
mod runs;
mod snapshot;
mod write;

use std::io::BufRead;

pub use again::Counts;
pub use event::Event;
pub(crate) use event::What;
pub(crate) use recorded::{Recorded, Step};
pub use recorder::Recorder;
pub(crate) use replay::replay as replay_of;
pub use report::{Difference, Ending, ReplayError, ReplayReport};
pub use snapshot::{Snapshot, Unrecordable};
pub use write::Writer;

/// The version of the form that this crate writes and reads.
pub const VERSION: u32 = 1;

/// Bytes of a line, at most: a snapshot of a million groups in which no two neighbours are alike.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Runs the control loop again from the lines of its recording. It stops at the first answer that
/// differs, which is a report and no error, and where the recording ends.
///
/// # Errors
/// The first line that is not of a recording or says what is not possible, and why.
pub fn replay(lines: impl BufRead) -> Result<ReplayReport, ReplayError> {
    replay_of::<Snapshot>(lines)
}

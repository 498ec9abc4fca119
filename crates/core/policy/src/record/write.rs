//! Writes a recording as lines of JSON.

use std::io::{self, Write};

use super::recorded::Recorded;
use super::snapshot::Snapshot;

/// Writes the lines of one recording, on whatever thread has the time. `S` is the snapshot that the
/// recording begins with.
#[derive(Debug)]
pub struct Writer<W, S: Recorded = Snapshot> {
    to: W,
    assembly: S::Assembly,
}

impl<W: Write, S: Recorded> Writer<W, S> {
    /// Begins with the line of the snapshot.
    ///
    /// # Errors
    /// `to` does not take it.
    pub fn begin(mut to: W, snapshot: &S) -> io::Result<Self> {
        line(&mut to, snapshot)?;
        Ok(Self { to, assembly: S::Assembly::default() })
    }

    /// Writes the events of a buffer; buffers come in their order.
    ///
    /// # Errors
    /// `to` does not take them.
    pub fn write(&mut self, events: &[S::Event]) -> io::Result<()> {
        for event in events {
            if let Some(call) = S::add(&mut self.assembly, event) {
                line(&mut self.to, &call)?;
            }
        }
        Ok(())
    }

    /// Shows what was written.
    ///
    /// # Errors
    /// `to` does not take it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Writes the last line: `lost` events found no room ([`super::Recorder::lost`]).
    ///
    /// # Errors
    /// `to` does not take it.
    pub fn end(mut self, lost: u64) -> io::Result<W> {
        line(&mut self.to, &S::end(lost))?;
        self.to.flush()?;
        Ok(self.to)
    }
}

fn line(to: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, what)?;
    to.write_all(b"\n")
}

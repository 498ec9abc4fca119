//! Writes a recording as lines of JSON.

use std::io::{self, Write};

use super::event::Event;
use super::line::{Assembly, Line};
use super::snapshot::Snapshot;

/// Writes the lines of one recording, on whatever thread has the time.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    assembly: Assembly,
}

impl<W: Write> Writer<W> {
    /// Begins with the line of the snapshot.
    ///
    /// # Errors
    /// `to` does not take it.
    pub fn begin(mut to: W, snapshot: &Snapshot) -> io::Result<Self> {
        line(&mut to, snapshot)?;
        Ok(Self { to, assembly: Assembly::default() })
    }

    /// Writes the events of a buffer; buffers come in their order.
    ///
    /// # Errors
    /// `to` does not take them.
    pub fn write(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            if let Some(call) = self.assembly.add(event) {
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
        line(&mut self.to, &Line::End { lost })?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Writes one line.
pub(crate) fn line(to: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, what)?;
    to.write_all(b"\n")
}

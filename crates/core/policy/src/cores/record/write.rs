//! Writes a recording of the core control as lines of JSON.

use std::io::{self, Write};

use super::CoresSnapshot;
use super::event::CoresEvent;
use super::line::{Assembly, Line};
use crate::record::line;

/// Writes the lines of one recording, on whatever thread has the time.
#[derive(Debug)]
pub struct CoresWriter<W> {
    to: W,
    assembly: Assembly,
}

impl<W: Write> CoresWriter<W> {
    /// Begins with the line of the snapshot.
    ///
    /// # Errors
    /// `to` does not take it.
    pub fn begin(mut to: W, snapshot: &CoresSnapshot) -> io::Result<Self> {
        line(&mut to, snapshot)?;
        Ok(Self { to, assembly: Assembly::default() })
    }

    /// Writes the events of a buffer; buffers come in their order.
    ///
    /// # Errors
    /// `to` does not take them.
    pub fn write(&mut self, events: &[CoresEvent]) -> io::Result<()> {
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

    /// Writes the last line: `lost` events found no room ([`super::CoresRecorder::lost`]).
    ///
    /// # Errors
    /// `to` does not take it.
    pub fn end(mut self, lost: u64) -> io::Result<W> {
        line(&mut self.to, &Line::End { lost })?;
        self.to.flush()?;
        Ok(self.to)
    }
}

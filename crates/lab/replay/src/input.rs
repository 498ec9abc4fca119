//! Bytes that are counted as they are read, so that "the middle of the file" can be told.

use std::io::{self, Read};

/// A reader that knows how much was read of it. Put it above the buffer: what waits in a buffer
/// has not been played.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    inner: R,
    position: u64,
}

impl<R> Counted<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, position: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}

impl<R: Read> Read for Counted<R> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    #[inline]
    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(buffer)?;
        self.position += buffer.len() as u64;
        Ok(())
    }
}

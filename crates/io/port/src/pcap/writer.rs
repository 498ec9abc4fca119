//! Writes packets to a classic pcap file with nanoseconds, which every reader knows.

use std::io::{self, Write};

use base::Nanos;

use super::reader::{LINKTYPE_ETHERNET, RECORD_BYTES_MAX};

/// A capture file under construction.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    output: W,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file's header. `output` should be buffered.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut output: W) -> io::Result<Self> {
        let mut header = Vec::with_capacity(24);
        header.extend_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        header.extend_from_slice(&2u16.to_le_bytes());
        header.extend_from_slice(&4u16.to_le_bytes());
        header.extend_from_slice(&[0; 8]);
        header.extend_from_slice(&RECORD_BYTES_MAX.to_le_bytes());
        header.extend_from_slice(&u32::from(LINKTYPE_ETHERNET).to_le_bytes());
        output.write_all(&header)?;
        Ok(Self { output })
    }

    /// Appends a packet captured at `time` since 1970.
    ///
    /// # Errors
    /// It cannot be written; what follows would not be readable either.
    pub fn write(&mut self, time: Nanos, packet: &[u8]) -> io::Result<()> {
        // A file of this format lasts until 2106.
        let seconds = u32::try_from(time.0 / 1_000_000_000).unwrap_or(u32::MAX);
        let nanos = (time.0 % 1_000_000_000) as u32;
        let len = u32::try_from(packet.len())
            .ok()
            .filter(|&len| len <= RECORD_BYTES_MAX)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut header = [0; 16];
        for (to, word) in header.chunks_exact_mut(4).zip([seconds, nanos, len, len]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.output.write_all(&header)?;
        self.output.write_all(packet)
    }

    /// Brings everything to the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

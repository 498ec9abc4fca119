//! Reads packets from a capture file: classic pcap in both byte orders and resolutions, pcapng.
//!
//! Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Memory is bounded whatever the
//! file says: a record goes straight into the caller's buffer, everything else is skipped.

use std::fmt;
use std::io::{self, Read};

use base::Nanos;

use super::ng::Ng;

/// Longer records are no packets of any link: the largest snapshot length that tcpdump knows.
pub(super) const RECORD_BYTES_MAX: u32 = 256 << 10;
/// `LINKTYPE_ETHERNET`.
pub(super) const LINKTYPE_ETHERNET: u16 = 1;

/// One packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, since 1970; zero where the file does not tell.
    pub time: Nanos,
    /// Bytes of it that were put into the buffer; `None`: it does not fit and was skipped.
    pub len: Option<usize>,
    /// Bytes that it had on the wire.
    pub wire_bytes: u32,
}

/// One packet of a file whose packets may be of any kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedRecord {
    /// The packet, its link header first.
    pub record: Record,
    /// A number of the registry of link types (draft-ietf-opsawg-pcaplinktype); `None`: the file
    /// describes no such interface.
    pub link_type: Option<u16>,
}

/// Why a file cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// No capture file at all.
    Magic(u32),
    /// Packets of another kind of link than Ethernet.
    LinkType(u16),
    /// It ends in the middle of something.
    Truncated,
    /// A length that cannot be.
    Absurd {
        /// What is so long.
        what: &'static str,
        /// How long.
        bytes: u32,
    },
    /// It cannot be read.
    Io(io::ErrorKind),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(magic) => write!(
                f,
                "not a capture file (it starts with {magic:08x}): give a pcap or pcapng file"
            ),
            Self::LinkType(kind) => {
                write!(f, "its packets are of link type {kind}: only Ethernet (1) can be played")
            }
            Self::Truncated => f.write_str("it ends in the middle of a record: capture it again"),
            Self::Absurd { what, bytes } => {
                write!(f, "it is damaged: a {what} claims {bytes} bytes")
            }
            Self::Io(kind) => write!(f, "cannot read it: {kind}"),
        }
    }
}

impl std::error::Error for Damage {}

/// A capture file, read packet by packet.
#[derive(Debug)]
pub struct PcapReader<R> {
    input: R,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Classic { big_endian: bool, nanos_per_unit: u64, link_type: u16 },
    Ng(Ng),
}

impl<R: Read> PcapReader<R> {
    /// Reads the header of a file of Ethernet packets. `input` should be buffered.
    ///
    /// # Errors
    /// It is no capture file, not of Ethernet, or too short for a header.
    pub fn new(input: R) -> Result<Self, Damage> {
        let reader = Self::of_any_link(input)?;
        match reader.link_type() {
            None | Some(LINKTYPE_ETHERNET) => Ok(reader),
            Some(other) => Err(Damage::LinkType(other)),
        }
    }

    /// The same for packets of any kind of link: [`Self::next_linked`] says which.
    ///
    /// # Errors
    /// It is no capture file, or too short for a header.
    pub fn of_any_link(mut input: R) -> Result<Self, Damage> {
        let mut magic = [0; 4];
        whole(&mut input, &mut magic)?;
        let (big_endian, nanos_per_unit) = match u32::from_le_bytes(magic) {
            0xa1b2_c3d4 => (false, 1_000),
            0xa1b2_3c4d => (false, 1),
            0xd4c3_b2a1 => (true, 1_000),
            0x4d3c_b2a1 => (true, 1),
            Ng::SECTION_HEADER => {
                let format = Format::Ng(Ng::start(&mut input)?);
                return Ok(Self { input, format });
            }
            other => return Err(Damage::Magic(other)),
        };
        // Version, two unused words, snapshot length, link type.
        let mut rest = [0; 20];
        whole(&mut input, &mut rest)?;
        // The upper bits of the last word are about frame check sequences.
        let link_type = word(&rest, 16, big_endian) as u16;
        Ok(Self { input, format: Format::Classic { big_endian, nanos_per_unit, link_type } })
    }

    /// The kind of link of every packet; `None` in a pcapng file, where each interface has its own.
    pub fn link_type(&self) -> Option<u16> {
        match self.format {
            Format::Classic { link_type, .. } => Some(link_type),
            Format::Ng(_) => None,
        }
    }

    /// What is read, to ask how far it is.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// The next packet of an Ethernet link, put into `buffer`; `None` at the end.
    ///
    /// # Errors
    /// The file is damaged here; nothing after it can be read.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Option<Record>, Damage> {
        while let Some(LinkedRecord { record, link_type }) = self.next_linked(buffer)? {
            if link_type == Some(LINKTYPE_ETHERNET) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The next packet of any link, put into `buffer`; `None` at the end.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_linked(&mut self, buffer: &mut [u8]) -> Result<Option<LinkedRecord>, Damage> {
        match &mut self.format {
            Format::Ng(ng) => ng.next(&mut self.input, buffer),
            &mut Format::Classic { big_endian, nanos_per_unit, link_type } => {
                let mut header = [0; 16];
                if !whole_or_end(&mut self.input, &mut header)? {
                    return Ok(None);
                }
                let word = |at| word(&header, at, big_endian);
                let time = u64::from(word(0)) * 1_000_000_000
                    + u64::from(word(4)).saturating_mul(nanos_per_unit);
                let (captured, wire_bytes) = (word(8), word(12));
                let len = packet(&mut self.input, captured, buffer)?;
                let record = Record { time: Nanos(time), len, wire_bytes };
                Ok(Some(LinkedRecord { record, link_type: Some(link_type) }))
            }
        }
    }
}

/// Reads `captured` bytes of packet into `buffer`, or skips them when they do not fit.
pub(super) fn packet(
    input: &mut impl Read,
    captured: u32,
    buffer: &mut [u8],
) -> Result<Option<usize>, Damage> {
    if captured > RECORD_BYTES_MAX {
        return Err(Damage::Absurd { what: "packet", bytes: captured });
    }
    let len = captured as usize;
    match buffer.get_mut(..len) {
        Some(buffer) => whole(input, buffer).map(|()| Some(len)),
        None => skip(input, u64::from(captured)).map(|()| None),
    }
}

/// Fills `bytes`; an end of file before that is damage.
pub(super) fn whole(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), Damage> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Damage::Truncated,
        kind => Damage::Io(kind),
    })
}

/// Fills `bytes`, or finds the end of the file before the first: false.
pub(super) fn whole_or_end(input: &mut impl Read, bytes: &mut [u8]) -> Result<bool, Damage> {
    let (first, rest) = bytes.split_at_mut(1);
    loop {
        match input.read(first) {
            Ok(0) => return Ok(false),
            Ok(_) => return whole(input, rest).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Damage::Io(error.kind())),
        }
    }
}

/// Steps over `bytes`.
pub(super) fn skip(input: &mut impl Read, bytes: u64) -> Result<(), Damage> {
    // What follows every block of pcapng: a length, and padding before it.
    if let Some(few) = [0; 8].get_mut(..usize::try_from(bytes).unwrap_or(usize::MAX)) {
        return whole(input, few);
    }
    let skipped = io::copy(&mut input.take(bytes), &mut io::sink())
        .map_err(|error| Damage::Io(error.kind()))?;
    if skipped == bytes { Ok(()) } else { Err(Damage::Truncated) }
}

/// The word at `at` of `bytes`.
pub(super) fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes are four bytes");
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

#[cfg(test)]
mod tests;

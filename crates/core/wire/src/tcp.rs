//! TCP: the header and a bounded walk over its options (RFC 9293 section 3.1).

use crate::Malformed;
use crate::bytes::array;

/// Bytes of a header without options.
pub const MIN_HEADER_BYTES: u16 = 20;
/// The sender has no more data.
pub const FIN: u8 = 0x01;
/// First segment of a connection.
pub const SYN: u8 = 0x02;
/// The connection is refused or gone.
pub const RST: u8 = 0x04;
/// Hand the data to the program now.
pub const PSH: u8 = 0x08;
/// The acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// The urgent pointer counts.
pub const URG: u8 = 0x20;
/// The network marked congestion (RFC 3168).
pub const ECE: u8 = 0x40;
/// The sender has slowed down for it.
pub const CWR: u8 = 0x80;

/// A header whose data offset fits the bytes that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// Number of the first byte of payload, or of the SYN.
    pub sequence: u32,
    /// The next number the sender expects.
    pub acknowledgement: u32,
    /// Bytes of header and options.
    pub header_bytes: u16,
    /// [`FIN`] to [`CWR`].
    pub flags: u8,
    /// Unscaled receive window.
    pub window: u16,
    /// As received.
    pub checksum: u16,
    /// Counts only with [`URG`].
    pub urgent: u16,
}

impl Header {
    /// Reads the header at the start of `segment`, all that IP carries.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Self, Malformed> {
        let Some(h) = segment.first_chunk::<20>() else {
            return Err(Malformed::TcpTruncated);
        };
        let header_bytes = u16::from(h[12] >> 4) * 4;
        if header_bytes < MIN_HEADER_BYTES || usize::from(header_bytes) > segment.len() {
            return Err(Malformed::TcpDataOffset);
        }
        Ok(Self {
            source_port: u16::from_be_bytes([h[0], h[1]]),
            destination_port: u16::from_be_bytes([h[2], h[3]]),
            sequence: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
            acknowledgement: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            header_bytes,
            flags: h[13],
            window: u16::from_be_bytes([h[14], h[15]]),
            checksum: u16::from_be_bytes([h[16], h[17]]),
            urgent: u16::from_be_bytes([h[18], h[19]]),
        })
    }

    /// The options of the `segment` that this header was read from.
    #[inline]
    pub fn options<'a>(&self, segment: &'a [u8]) -> Options<'a> {
        Options { rest: segment.get(20..usize::from(self.header_bytes)).unwrap_or_default() }
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment the sender takes (RFC 9293 section 3.7.1).
    MaximumSegment(u16),
    /// Shift of its windows (RFC 7323 section 2).
    WindowScale(u8),
    /// It understands selective acknowledgements (RFC 2018).
    SackPermitted,
    /// Up to four ranges, eight bytes each: first number, number behind the last.
    Sack(&'a [u8]),
    /// Its clock, and the last of ours it saw (RFC 7323 section 3).
    Timestamps {
        /// TSval.
        value: u32,
        /// TSecr.
        echo: u32,
    },
    /// Any other kind, or a known one of the wrong length: to be ignored.
    Other {
        /// Its number.
        kind: u8,
        /// What follows the length.
        data: &'a [u8],
    },
    /// A length that stands still or reaches beyond the header; always the last item.
    Broken,
}

/// Iterates over the options of one header, at most 40 bytes.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options in `bytes`, without a header around them.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    #[inline]
    fn next(&mut self) -> Option<TcpOption<'a>> {
        const END: u8 = 0;
        const NOP: u8 = 1;
        while let [NOP, rest @ ..] = self.rest {
            self.rest = rest;
        }
        // Whatever ends the walk early leaves nothing for a next call to find.
        let rest = std::mem::take(&mut self.rest);
        let (kind, behind_kind) = rest.split_first()?;
        if *kind == END {
            return None;
        }
        // The length counts kind and length, so one below two would never get anywhere.
        let bytes = behind_kind.first().copied().map_or(0, usize::from);
        let (Some(data), Some(behind)) = (rest.get(2..bytes), rest.get(bytes..)) else {
            return Some(TcpOption::Broken);
        };
        self.rest = behind;
        Some(match (*kind, data) {
            (2, &[high, low]) => TcpOption::MaximumSegment(u16::from_be_bytes([high, low])),
            (3, &[shift]) => TcpOption::WindowScale(shift),
            (4, []) => TcpOption::SackPermitted,
            (5, ranges) if matches!(ranges.len(), 8 | 16 | 24 | 32) => TcpOption::Sack(ranges),
            (8, stamps) if stamps.len() == 8 => TcpOption::Timestamps {
                value: array(stamps, 0).map_or(0, u32::from_be_bytes),
                echo: array(stamps, 4).map_or(0, u32::from_be_bytes),
            },
            (kind, data) => TcpOption::Other { kind, data },
        })
    }
}

#[cfg(test)]
mod tests;

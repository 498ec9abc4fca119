//! UDP: two ports, a length, a checksum (RFC 768).

use crate::Malformed;

/// Bytes of the header.
pub const HEADER_BYTES: u16 = 8;

/// A header whose length fits the bytes that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// From which port.
    pub source_port: u16,
    /// To which port.
    pub destination_port: u16,
    /// Bytes of header and payload; IP may carry more, which is ignored.
    pub length: u16,
    /// As received; zero: the sender computed none.
    pub checksum: u16,
}

impl Header {
    /// Reads the header at the start of `segment`, all that IP carries.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Self, Malformed> {
        let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = segment.first_chunk::<8>() else {
            return Err(Malformed::UdpTruncated);
        };
        let length = u16::from_be_bytes([l0, l1]);
        if length < HEADER_BYTES || usize::from(length) > segment.len() {
            return Err(Malformed::UdpLength);
        }
        Ok(Self {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            length,
            checksum: u16::from_be_bytes([c0, c1]),
        })
    }

    /// Bytes behind the header.
    #[inline]
    pub const fn payload_bytes(&self) -> u16 {
        self.length.saturating_sub(HEADER_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_must_cover_the_header_and_end_within_the_packet() {
        for (length, expected) in [
            (0, Err(Malformed::UdpLength)),
            (7, Err(Malformed::UdpLength)),
            (8, Ok(0)),
            (12, Ok(4)),
            (13, Err(Malformed::UdpLength)),
        ] {
            let segment = [0, 1, 0, 2, 0, length, 0, 0, 9, 9, 9, 9];
            assert_eq!(Header::parse(&segment).map(|h| h.payload_bytes()), expected, "{length}");
        }
    }

    #[test]
    fn truncated_header_is_malformed_and_names_the_layer() {
        for len in 0..8 {
            assert_eq!(Header::parse(&[0; 8][..len]), Err(Malformed::UdpTruncated));
        }
    }
}

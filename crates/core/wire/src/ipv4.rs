//! IPv4: the header, its options and what they mean for us (RFC 791, RFC 1122 section 3.2.1).

use crate::{Malformed, NotOurs, Reject};

/// Bytes of a header without options.
pub const MIN_HEADER_BYTES: u16 = 20;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP; IPv6 uses it too.
pub const TCP: u8 = 6;
/// Protocol number of UDP; IPv6 uses it too.
pub const UDP: u8 = 17;
/// Protocol number of ESP; IPv6 uses it too.
pub const ESP: u8 = 50;

/// More-fragments flag and fragment offset: not all zero in any fragment.
const FRAGMENT_MASK: u16 = 0x3fff;
/// Where in the whole a fragment begins, in units of eight bytes.
const OFFSET_MASK: u16 = 0x1fff;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_LOOSE_SOURCE_ROUTE: u8 = 131;
const OPTION_STRICT_SOURCE_ROUTE: u8 = 137;

/// A header that agrees with the bytes that hold it.
///
/// `20 <= header_bytes <= total_bytes <=` the bytes it was read from, and where it is a fragment
/// the whole with this header has 65,535 bytes or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of header and options.
    pub header_bytes: u16,
    /// Bytes of header, options and payload; what lies behind is padding of the link.
    pub total_bytes: u16,
    /// What follows.
    pub protocol: u8,
    /// Whether more or earlier pieces of this packet exist.
    pub is_fragment: bool,
    /// From whom.
    pub source: [u8; 4],
    /// To whom.
    pub destination: [u8; 4],
}

impl Header {
    /// Reads the header at the start of `packet`. The header checksum is not looked at:
    /// see [`crate::checksum::verify`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Reject> {
        let Some(fixed) = packet.first_chunk::<20>() else {
            return Err(Malformed::Ipv4Truncated.into());
        };
        if fixed[0] >> 4 != 4 {
            return Err(Malformed::Ipv4Version.into());
        }
        let header_bytes = u16::from(fixed[0] & 0x0f) * 4;
        let total_bytes = u16::from_be_bytes([fixed[2], fixed[3]]);
        if header_bytes < MIN_HEADER_BYTES {
            return Err(Malformed::Ipv4HeaderLength.into());
        }
        if total_bytes < header_bytes {
            return Err(Malformed::Ipv4TotalLength.into());
        }
        if usize::from(total_bytes) > packet.len() {
            let is_header_whole = usize::from(header_bytes) <= packet.len();
            return Err(if is_header_whole {
                Malformed::Ipv4BeyondFrame.into()
            } else {
                Malformed::Ipv4Truncated.into()
            });
        }
        let pieces = u16::from_be_bytes([fixed[6], fixed[7]]) & FRAGMENT_MASK;
        // RFC 791 section 3.1: no total length says that much. Whoever cuts it again would wrap its
        // offset, and what nobody has judged as a first fragment would be one.
        if u32::from(pieces & OFFSET_MASK) * 8 + u32::from(total_bytes) > u32::from(u16::MAX) {
            return Err(Malformed::Ipv4FragmentEnd.into());
        }
        if header_bytes > MIN_HEADER_BYTES {
            check_options(packet.get(20..usize::from(header_bytes)).unwrap_or_default())?;
        }
        Ok(Self {
            header_bytes,
            total_bytes,
            protocol: fixed[9],
            is_fragment: pieces != 0,
            source: [fixed[12], fixed[13], fixed[14], fixed[15]],
            destination: [fixed[16], fixed[17], fixed[18], fixed[19]],
        })
    }

    /// Checks that both addresses are of single hosts; the reason says what they are if not.
    #[inline]
    pub fn check_addresses(&self) -> Result<(), Reject> {
        if !is_host(self.destination) {
            return Err(match self.destination {
                [224..=239, ..] => NotOurs::Multicast.into(),
                [255, 255, 255, 255] => NotOurs::Broadcast.into(),
                _ => Malformed::Ipv4Destination.into(),
            });
        }
        if !is_host(self.source) {
            return Err(Malformed::Ipv4Source.into());
        }
        Ok(())
    }
}

/// Whether a packet on a link may come from `address` (RFC 1122 section 3.2.1.3): not from "this
/// network", loopback, a multicast group or everybody.
#[inline]
pub const fn is_host(address: [u8; 4]) -> bool {
    !matches!(address, [0 | 127 | 224..=239, ..] | [255, 255, 255, 255])
}

/// Walks at most 40 bytes of options.
fn check_options(mut options: &[u8]) -> Result<(), Reject> {
    while let [kind, rest @ ..] = options {
        match *kind {
            OPTION_END => return Ok(()),
            OPTION_NOP => options = rest,
            // RFC 7126 sections 4.3 and 4.4: not followed unless somebody asked for it.
            OPTION_LOOSE_SOURCE_ROUTE | OPTION_STRICT_SOURCE_ROUTE => {
                return Err(NotOurs::SourceRoute.into());
            }
            _ => {
                // The length counts kind and length: with less than two the walk would stand still.
                let bytes = rest.first().copied().map_or(0, usize::from);
                match options.get(bytes..) {
                    Some(behind) if bytes >= 2 => options = behind,
                    _ => return Err(Malformed::Ipv4Option.into()),
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

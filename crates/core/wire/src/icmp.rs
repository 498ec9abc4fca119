//! ICMP and ICMPv6: what a message is (RFC 792, RFC 4443).

mod error;
mod neighbour;

pub use error::{ErrorKind, ErrorMessage};
pub use neighbour::{Solicitation, answer_solicitation};

use crate::{Malformed, NotOurs, Reject, ipv6};

/// Bytes of type, code, checksum and the word that depends on the type.
pub const HEADER_BYTES: u16 = 8;
/// ICMPv6 type of a neighbour solicitation (RFC 4861 section 4.3).
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement (RFC 4861 section 4.4).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// The start of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type; ICMP and ICMPv6 number them differently.
    pub kind: u8,
    /// What the type leaves open.
    pub code: u8,
}

impl Header {
    /// Reads the header at the start of `message`.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        match message.first_chunk::<8>() {
            Some(&[kind, code, ..]) => Ok(Self { kind, code }),
            None => Err(Malformed::IcmpTruncated),
        }
    }
}

/// Whether an ICMP message of this type reports an error and quotes its cause: unreachable, source
/// quench, redirect, time exceeded, parameter problem.
pub const fn is_error_ipv4(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// Whether an ICMPv6 message of this type reports an error (RFC 4443 section 2.1).
pub const fn is_error_ipv6(kind: u8) -> bool {
    kind < 128
}

/// Why an IPv4 packet that carries the ICMP `message` is no flow.
pub(crate) fn reject_ipv4(message: &[u8]) -> Reject {
    match Header::parse(message) {
        Ok(header) if is_error_ipv4(header.kind) => NotOurs::IcmpError.into(),
        Ok(_) => NotOurs::Icmp.into(),
        Err(reason) => reason.into(),
    }
}

/// Why the IPv6 packet of `network` that carries the ICMPv6 `message` is no flow.
pub(crate) fn reject_ipv6(message: &[u8], network: &ipv6::Header) -> Reject {
    match Header::parse(message) {
        Ok(header) if header.kind == NEIGHBOUR_SOLICITATION => {
            match Solicitation::parse(message, network) {
                Ok(_) => NotOurs::NeighbourSolicitation.into(),
                Err(reason) => reason.into(),
            }
        }
        Ok(header) if is_error_ipv6(header.kind) => NotOurs::IcmpError.into(),
        Ok(_) => NotOurs::Icmp.into(),
        Err(reason) => reason.into(),
    }
}

#[cfg(test)]
mod tests;

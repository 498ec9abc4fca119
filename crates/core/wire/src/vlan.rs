//! VLAN tags: IEEE 802.1Q, and 802.1ad (QinQ) for two of them.

use crate::bytes::{array, be16};
use crate::{Malformed, NotOurs, Reject, ethernet};

/// Bytes one tag puts in front of the type.
pub const TAG_BYTES: u16 = 4;
/// Tag of a customer VLAN (IEEE 802.1Q).
pub const CUSTOMER: u16 = 0x8100;
/// Tag of a service VLAN (IEEE 802.1ad), outside a customer's.
pub const SERVICE: u16 = 0x88a8;
/// What switches wrote for QinQ before 802.1ad had a number.
pub const LEGACY_SERVICE: u16 = 0x9100;
/// A service tag and a customer tag; nobody stacks more to a host.
pub const MAX_TAGS: u16 = 2;

/// What the frame carries behind its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The type behind the last tag.
    pub ether_type: u16,
    /// Bytes from the frame's start to what that type names.
    pub offset: u16,
}

/// Skips the tags of `frame`, whose Ethernet header holds `ether_type`.
#[inline]
pub fn skip_tags(frame: &[u8], ether_type: u16) -> Result<Payload, Reject> {
    if !is_tag(ether_type) {
        return Ok(Payload { ether_type, offset: ethernet::HEADER_BYTES });
    }
    skip_present_tags(frame)
}

fn skip_present_tags(frame: &[u8]) -> Result<Payload, Reject> {
    let mut offset = ethernet::HEADER_BYTES;
    for _ in 0..MAX_TAGS {
        // Behind the tag's identifier: two bytes of control information, then the next type.
        let Some(ether_type) = be16(frame, usize::from(offset) + 2) else {
            return Err(Malformed::VlanTruncated.into());
        };
        offset += TAG_BYTES;
        if !is_tag(ether_type) {
            return Ok(Payload { ether_type, offset });
        }
    }
    Err(NotOurs::TooManyTags.into())
}

/// Control information (priority and VLAN number) of the outermost tag, if there is one.
pub fn outer_tci(frame: &[u8]) -> Option<u16> {
    let [i0, i1, c0, c1] = array(frame, 12)?;
    is_tag(u16::from_be_bytes([i0, i1])).then(|| u16::from_be_bytes([c0, c1]))
}

/// Where the network header of `frame` is, and which one.
pub(crate) fn network(frame: &[u8]) -> Option<Payload> {
    skip_tags(frame, ethernet::Header::parse(frame).ok()?.ether_type).ok()
}

#[inline]
const fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, CUSTOMER | SERVICE | LEGACY_SERVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(types: &[u16]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for (position, ether_type) in types.iter().enumerate() {
            if position > 0 {
                frame.extend([0x20, position as u8]);
            }
            frame.extend(ether_type.to_be_bytes());
        }
        frame
    }

    #[test]
    fn type_is_found_behind_none_one_and_two_tags() {
        for (types, offset) in [
            (vec![0x0800], 14),
            (vec![CUSTOMER, 0x0800], 18),
            (vec![SERVICE, CUSTOMER, 0x0800], 22),
            (vec![LEGACY_SERVICE, CUSTOMER, 0x0800], 22),
        ] {
            let found = skip_tags(&frame(&types), types[0]);
            assert_eq!(found, Ok(Payload { ether_type: 0x0800, offset }), "{types:04x?}");
        }
    }

    #[test]
    fn third_tag_is_somebody_elses() {
        let types = [SERVICE, CUSTOMER, CUSTOMER, 0x0800];
        assert_eq!(skip_tags(&frame(&types), SERVICE), Err(NotOurs::TooManyTags.into()));
    }

    #[test]
    fn frame_that_ends_within_a_tag_is_truncated() {
        let whole = frame(&[SERVICE, CUSTOMER, 0x0800]);
        for len in 14..whole.len() {
            assert_eq!(
                skip_tags(&whole[..len], SERVICE),
                Err(Malformed::VlanTruncated.into()),
                "{len}"
            );
        }
    }

    #[test]
    fn outermost_tag_gives_priority_and_number() {
        assert_eq!(outer_tci(&frame(&[SERVICE, CUSTOMER, 0x0800])), Some(0x2001));
        assert_eq!(outer_tci(&frame(&[0x0800])), None);
    }
}

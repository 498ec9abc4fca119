//! "Congestion experienced" on an Ethernet frame (RFC 3168), checksum included.

use crate::checksum;

/// What became of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The packet says so now, or said so before.
    Marked,
    /// Its sender does not take marks, or it is no IP packet.
    NotCapable,
}

/// The two ECN bits: 00 not capable, 01 and 10 capable, 11 congestion experienced.
const ECN_BITS: u8 = 0b11;

/// Marks the packet in `frame` if its sender takes marks.
pub(super) fn mark(frame: &mut [u8]) -> Mark {
    let Some((kind, header)) = ip_header(frame) else {
        return Mark::NotCapable;
    };
    match kind {
        0x0800 if header.len() >= 20 && header[0] >> 4 == 4 => {
            if header[1] & ECN_BITS == 0 {
                return Mark::NotCapable;
            }
            let before = u16::from_be_bytes([header[0], header[1]]);
            header[1] |= ECN_BITS;
            let after = u16::from_be_bytes([header[0], header[1]]);
            let sum = u16::from_be_bytes([header[10], header[11]]);
            let sum = checksum::update(sum, before, after);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            Mark::Marked
        }
        // RFC 8200 3: version, traffic class, flow label; no header checksum.
        0x86dd if header.len() >= 40 && header[0] >> 4 == 6 => {
            if header[1] >> 4 & ECN_BITS == 0 {
                return Mark::NotCapable;
            }
            header[1] |= ECN_BITS << 4;
            Mark::Marked
        }
        _ => Mark::NotCapable,
    }
}

/// Type and bytes of what follows the Ethernet header and up to two tags.
fn ip_header(frame: &mut [u8]) -> Option<(u16, &mut [u8])> {
    let mut at = 12;
    for _ in 0..3 {
        let kind = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
        if !matches!(kind, 0x8100 | 0x88a8) {
            return Some((kind, frame.get_mut(at + 2..)?));
        }
        at += 4;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(tags: usize, ecn: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for _ in 0..tags {
            frame.extend_from_slice(&[0x81, 0, 0, 5]);
        }
        frame.extend_from_slice(&[8, 0]);
        let mut header =
            [0x45, 0x28 | ecn, 0, 20, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = !checksum::sum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend_from_slice(&header);
        frame
    }

    #[test]
    fn a_capable_ipv4_packet_is_marked_and_its_checksum_stays_right() {
        for tags in 0..=2 {
            for ecn in 1..=3 {
                let mut frame = ipv4(tags, ecn);
                assert_eq!(mark(&mut frame), Mark::Marked);
                let header = &frame[14 + 4 * tags..];
                assert_eq!(header[1], 0x2b);
                assert_eq!(checksum::sum(header), 0xffff);
            }
        }
    }

    #[test]
    fn a_capable_ipv6_packet_is_marked() {
        let mut frame = vec![0; 12];
        // Class 0x0c: DSCP 3, not capable; the flow label starts with 0xa.
        frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0xca]);
        frame.resize(14 + 40, 0);
        assert_eq!(mark(&mut frame), Mark::NotCapable);
        frame[15] = 0xea;
        assert_eq!(mark(&mut frame), Mark::Marked);
        assert_eq!(frame[14..16], [0x60, 0xfa]);
    }

    #[test]
    fn what_cannot_be_marked_is_not_changed() {
        for frame in [ipv4(0, 0), ipv4(3, 1), ipv4(0, 1)[..33].to_vec(), vec![], vec![8; 13]] {
            let mut marked = frame.clone();
            assert_eq!(mark(&mut marked), Mark::NotCapable, "{frame:?}");
            assert_eq!(marked, frame);
        }
    }
}

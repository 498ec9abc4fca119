//! What a frame still needs before it leaves: its checksum, its VLAN tag, a length that fits.

use base::{NO_FRAGMENT, TxChecksum};
use shm::Frame;

use crate::{PortCounters, checksum};

/// Bytes of the two addresses before an Ethernet type, where a VLAN tag goes.
const ADDRESS_BYTES: usize = 12;
/// Bytes of an 802.1Q tag.
const TAG_BYTES: usize = 4;

/// Makes `frame` ready to leave over a link that takes `frame_bytes_max` bytes. False: it can
/// never leave, and the counter that says why has moved.
#[inline]
#[must_use]
pub(crate) fn finish(frame: &mut Frame, frame_bytes_max: u32, counters: &mut PortCounters) -> bool {
    let meta = *frame.meta();
    if meta.next_fragment != NO_FRAGMENT {
        counters.tx_refused += 1;
        return false;
    }
    // A tag that travels in the meta is not part of the length that an MTU allows, but this
    // link's limit is of bytes on the wire.
    let tag_bytes = if meta.vlan_tci == 0 { 0 } else { TAG_BYTES };
    if frame.len() + tag_bytes > frame_bytes_max as usize || frame.is_empty() {
        // A segmentation request does not help: whoever asked for it reads `frame_bytes_max`.
        counters.tx_oversize += 1;
        return false;
    }
    if meta.tx_checksum == TxChecksum::Partial {
        let (start, offset) = (meta.tx_checksum_start.into(), meta.tx_checksum_offset.into());
        if !checksum::complete(frame.bytes_mut(), start, offset) {
            counters.tx_refused += 1;
            return false;
        }
        frame.meta_mut().tx_checksum = TxChecksum::Complete;
    }
    if meta.vlan_tci != 0 {
        if !insert_tag(frame, 0x8100, meta.vlan_tci) {
            counters.tx_refused += 1;
            return false;
        }
        frame.meta_mut().vlan_tci = 0;
    }
    true
}

/// Puts a VLAN tag after the addresses; false when the frame has no room, or has no addresses.
#[must_use]
pub(crate) fn insert_tag(frame: &mut Frame, tag_protocol: u16, tag_control: u16) -> bool {
    let len = frame.len();
    if len < ADDRESS_BYTES || !frame.set_len(len + TAG_BYTES) {
        return false;
    }
    let bytes = frame.bytes_mut();
    bytes.copy_within(ADDRESS_BYTES..len, ADDRESS_BYTES + TAG_BYTES);
    bytes[12..14].copy_from_slice(&tag_protocol.to_be_bytes());
    bytes[14..16].copy_from_slice(&tag_control.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use shm::{FramePool, PoolConfig};

    use super::*;

    fn with_frame(test: impl FnOnce(&mut Frame, &mut PortCounters)) {
        let config = PoolConfig { frames: 1, chunk_bytes: 2048, ..PoolConfig::default() };
        let mut pool = FramePool::new(config).expect("a small pool");
        let mut frame = pool.take().expect("it has one frame");
        assert!(frame.fill(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0xaa, 0xbb, 0xcc, 0xdd]));
        test(&mut frame, &mut PortCounters::default());
        pool.give(frame);
    }

    #[test]
    fn a_plain_frame_leaves_as_it_is() {
        with_frame(|frame, counters| {
            let before = frame.bytes().to_vec();
            assert!(finish(frame, 18, counters));
            assert_eq!(frame.bytes(), before);
            assert_eq!(*counters, PortCounters::default());
        });
    }

    #[test]
    fn a_frame_too_long_by_its_tag_is_counted() {
        with_frame(|frame, counters| {
            frame.meta_mut().vlan_tci = 5;
            assert!(!finish(frame, 21, counters));
            assert_eq!(counters.tx_oversize, 1);
        });
    }

    #[test]
    fn the_tag_of_the_meta_goes_between_addresses_and_type() {
        with_frame(|frame, counters| {
            frame.meta_mut().vlan_tci = 0x6005;
            assert!(finish(frame, 1514, counters));
            assert_eq!(frame.bytes()[10..], [2, 2, 0x81, 0, 0x60, 5, 8, 0, 0xaa, 0xbb, 0xcc, 0xdd]);
            assert_eq!(frame.meta().vlan_tci, 0);
        });
    }

    #[test]
    fn an_open_checksum_is_closed_before_the_tag_shifts_it() {
        with_frame(|frame, counters| {
            let meta = frame.meta_mut();
            meta.tx_checksum = TxChecksum::Partial;
            (meta.tx_checksum_start, meta.tx_checksum_offset) = (14, 2);
            meta.vlan_tci = 1;
            assert!(finish(frame, 1514, counters));
            // 0xaabb + 0xccdd = 0x17798, folded 0x7799, inverted 0x8866.
            assert_eq!(frame.bytes()[16..], [8, 0, 0xaa, 0xbb, 0x88, 0x66]);
        });
    }

    #[test]
    fn a_checksum_outside_the_frame_and_a_chain_are_refused() {
        with_frame(|frame, counters| {
            frame.meta_mut().tx_checksum = TxChecksum::Partial;
            frame.meta_mut().tx_checksum_start = 17;
            assert!(!finish(frame, 1514, counters));
            *frame.meta_mut() = base::FrameMeta { next_fragment: 3, ..base::FrameMeta::UNKNOWN };
            assert!(!finish(frame, 1514, counters));
            assert_eq!(counters.tx_refused, 2);
        });
    }
}

//! Tags of IEEE 802.1Q that functions have to look behind.

use shm::Frame;
use wire::vlan;

/// Takes off a tag that names no VLAN, only a priority (IEEE 802.1Q section 6.9): the packet is
/// that of the link itself, as it is to Linux, whichever of the two types the tag has. One behind
/// it stays, and makes the packet that of a VLAN.
#[inline]
pub(crate) fn strip_priority_tag(frame: &mut Frame) {
    const VLAN: u16 = 0x0fff;
    if frame.meta().vlan_tci & VLAN == 0 {
        frame.meta_mut().vlan_tci = 0;
    }
    let &[k0, k1, i0, i1] = frame.bytes().get(12..16).and_then(<[u8]>::as_array).unwrap_or(&[0; 4]);
    let is_tag = matches!(u16::from_be_bytes([k0, k1]), vlan::CUSTOMER | vlan::SERVICE);
    if is_tag && u16::from_be_bytes([i0, i1]) & VLAN == 0 {
        strip(frame);
    }
}

#[cold]
fn strip(frame: &mut Frame) {
    const TAG: usize = 4;
    // What the port would sum is said by places in the frame, which move.
    crate::checksum::complete_here(frame);
    frame.bytes_mut().copy_within(..12, TAG);
    let is_cut = frame.pull_front(TAG);
    debug_assert!(is_cut, "the tag is in the frame");
}

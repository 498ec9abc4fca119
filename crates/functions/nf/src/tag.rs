//! Tags of IEEE 802.1Q that functions have to look behind.

use shm::Frame;

/// Takes off a tag that names no VLAN, only a priority (IEEE 802.1Q section 6.9): the packet is
/// that of the link itself.
#[inline]
pub(crate) fn strip_priority_tag(frame: &mut Frame) {
    const VLAN: u16 = 0x0fff;
    if frame.meta().vlan_tci & VLAN == 0 {
        frame.meta_mut().vlan_tci = 0;
    }
    let [t0, t1] = wire::vlan::CUSTOMER.to_be_bytes();
    let tci = match frame.bytes().get(12..16) {
        Some(&[k0, k1, i0, i1]) if [k0, k1] == [t0, t1] => u16::from_be_bytes([i0, i1]),
        _ => return,
    };
    if tci & VLAN == 0 {
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

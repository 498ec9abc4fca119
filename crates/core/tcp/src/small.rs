//! When a segment that is not full may leave: the sender's side of silly windows, CORK and Nagle.

use crate::cold::Cold;
use crate::flow::{Flags, Flow};
use crate::handshake::MSS_MIN;
use crate::options::DEFAULT_MSS_V4;

/// Whether Nagle's algorithm, as Minshall refined it, holds a small segment (RFC 9293 section
/// 3.7.4).
#[inline]
pub(crate) fn is_nagled(flow: &Flow) -> bool {
    !flow.flags.has(Flags::NO_DELAY)
        && !flow.sent.is_empty()
        && flow.snd_small.is_after(flow.snd_una)
}

/// Whether a segment that is not full may leave: sender's side of silly windows, CORK, and Nagle
/// (RFC 9293 section 3.8.6.2.1 and 3.7.4).
#[inline]
pub(crate) fn may_leave_small(flow: &Flow, cold: &Cold, bytes: u32, is_last: bool) -> bool {
    if flow.flags.has(Flags::FORCE) {
        return true;
    }
    if !is_last {
        // The window ends here. Half of the largest one is worth a segment, of a small one all of
        // it (as in Linux), and a few bytes never are: they wait for the persist timer.
        let most = cold.snd_wnd_max;
        let worth = if most > u32::from(DEFAULT_MSS_V4) { most / 2 } else { most };
        return bytes >= worth.max(u32::from(MSS_MIN.get()));
    }
    if flow.flags.has(Flags::FIN_QUEUED) {
        return true;
    }
    if flow.flags.has(Flags::CORK) || flow.flags.has(Flags::HELD) {
        return false;
    }
    !is_nagled(flow)
}

//! The path's MTU: what routers say about it (RFC 1191, RFC 8201), as far as they can be believed.

use wire::tcp;

use crate::cold::Cold;
use crate::flow::{Flags, Flow};
use crate::options::TIMESTAMPS_BYTES;
use crate::shared::Shared;
use crate::{Seq, fast};

/// Whoever says that an IPv4 path carries less is not believed (Linux's min_pmtu): a liar could
/// make us send next to nothing a packet.
const MTU_MIN_V4: u32 = 552;
/// Every IPv6 path carries as much (RFC 8200 section 5).
const MTU_MIN_V6: u32 = 1280;

/// A router could not forward the segment at `sequence`, and carries `mtu` bytes. Whether it is
/// believed, and changes anything: only what names something on its way is (RFC 5927 section 7.2).
pub(crate) fn too_big(
    flow: &mut Flow,
    cold: &mut Cold,
    shared: &mut Shared,
    sequence: Seq,
    mtu: u32,
) -> bool {
    let is_ours = !sequence.is_before(flow.snd_una) && sequence.is_before(flow.snd_nxt);
    let (ip_bytes, mtu_min) = match flow.key.is_ipv6() {
        true => (wire::ipv6::HEADER_BYTES, MTU_MIN_V6),
        false => (wire::ipv4::MIN_HEADER_BYTES, MTU_MIN_V4),
    };
    let stamps = if flow.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_BYTES } else { 0 };
    let headers = u32::from(ip_bytes + tcp::MIN_HEADER_BYTES + stamps);
    let Ok(mss) = u16::try_from(mtu.max(mtu_min) - headers) else { return false };
    if !is_ours || !flow.state.is_synchronized() || mss >= flow.mss {
        return false;
    }
    flow.mss = mss;
    let board = &mut cold.board;
    if board.mark_longer_lost(&mut shared.sent, &flow.sent, u32::from(mss)) > 0 {
        cold.recovery.recut(&mut flow.window, flow.snd_nxt);
    }
    let is_slow = fast::is_slow(flow, cold);
    flow.flags.put(Flags::SLOW, is_slow);
    true
}

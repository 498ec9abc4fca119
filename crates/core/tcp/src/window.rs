//! The receive window: what to announce, and when it is worth a segment (RFC 9293 section 3.8.6).

use crate::Seq;
use crate::cold::Cold;
use crate::flow::Flow;
use crate::options::SHIFT_MAX;

/// A window to announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// As it stands in the header.
    pub(crate) field: u16,
    /// The right edge that it promises.
    pub(crate) edge: Seq,
}

/// The smallest shift with which a ring of that many bytes can be announced, but for one unit: a
/// finer scale is worth more than the last 1/65536.
pub(crate) fn shift_for(ring_bytes: u32) -> u8 {
    (0..=SHIFT_MAX).find(|shift| ring_bytes >> shift <= 0x1_0000).unwrap_or(SHIFT_MAX)
}

/// Growth of the edge that is worth announcing (RFC 9293 section 3.8.6.2.2).
#[inline]
fn worthwhile(cold: &Cold) -> u32 {
    (cold.receive_ring() / 2).min(u32::from(cold.rcv_mss))
}

/// Where the window may end at most: with the ring's room, or with what a header can say.
#[inline]
fn limit(flow: &Flow, cold: &Cold) -> Seq {
    // What came out of order lies inside the window already, so only unread bytes take room.
    let room = flow.rcv_read + cold.receive_ring();
    room.earlier(flow.rcv_nxt + (0xffff << flow.rcv_shift()))
}

/// The window for a segment that leaves now.
#[inline]
pub(crate) fn announce(flow: &Flow, cold: &Cold) -> Announcement {
    let limit = limit(flow, cold);
    let grows = !limit.is_before(flow.rcv_adv) && limit.since(flow.rcv_adv) >= worthwhile(cold);
    let edge = if grows { limit } else { flow.rcv_adv };
    // Nothing is announced once the peer's FIN is in, which may lie one behind the edge.
    let window = if edge.is_before(flow.rcv_nxt) { 0 } else { edge.since(flow.rcv_nxt) };
    let shift = flow.rcv_shift();
    if shift == 0 {
        // Nothing to round.
        let field = u16::try_from(window).unwrap_or(u16::MAX);
        return Announcement { field, edge: (flow.rcv_nxt + u32::from(field)).later(flow.rcv_adv) };
    }
    // Rounding up where there is room: an edge that was promised does not move back.
    let up = (window + ((1_u32 << shift) - 1)) >> shift;
    let fits = !(flow.rcv_nxt + (up << shift)).is_after(limit);
    let units = if fits { up } else { window >> shift };
    let field = u16::try_from(units).unwrap_or(u16::MAX);
    let edge = flow.rcv_nxt + (u32::from(field) << shift);
    Announcement { field, edge: edge.later(flow.rcv_adv) }
}

/// The window of a SYN, which is never scaled (RFC 7323 section 2.2).
pub(crate) fn syn_field(cold: &Cold) -> u16 {
    u16::try_from(cold.receive_ring()).unwrap_or(u16::MAX)
}

/// Whether the window has opened so far that the peer should hear of it even if nothing else is to
/// be said: to twice what it knows.
#[inline]
pub(crate) fn is_update_due(flow: &Flow, cold: &Cold) -> bool {
    let limit = limit(flow, cold);
    if limit.is_before(flow.rcv_adv) || limit.since(flow.rcv_adv) < worthwhile(cold) {
        return false;
    }
    limit.since(flow.rcv_nxt) >= 2 * flow.rcv_wnd()
}

#[cfg(test)]
mod tests {
    use base::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::FlowOptions;
    use crate::flow::State;

    fn flow(ring_log2: u8, start: Seq) -> (Flow, Cold) {
        let key = "tcp 10.0.0.1:5000 -> 10.0.0.2:7".parse().unwrap();
        let mut flow = Flow::new(key, State::Established, Seq(0));
        let options = FlowOptions { receive_ring_log2: ring_log2, ..FlowOptions::default() };
        let cold = Cold::new(options, None, Seq(0), Nanos::ZERO);
        flow.set_shifts(0, shift_for(cold.receive_ring()));
        (flow.rcv_nxt, flow.rcv_read, flow.rcv_adv) = (start, start, start);
        (flow, cold)
    }

    #[test]
    fn a_shift_is_as_small_as_can_be() {
        assert_eq!(shift_for(1 << 15), 0);
        assert_eq!(shift_for(1 << 16), 0);
        assert_eq!(shift_for(1 << 24), 8);
        assert_eq!(shift_for(1 << 30), 14);
        assert_eq!(shift_for(u32::MAX), 14);
    }

    #[test]
    fn a_ring_larger_than_an_unscaled_window_can_say_is_not_announced_again_and_again() {
        let (mut flow, cold) = flow(17, Seq(5));
        flow.set_shifts(0, 0);
        let announcement = announce(&flow, &cold);
        assert_eq!(announcement.field, u16::MAX);
        flow.rcv_adv = announcement.edge;
        assert!(!is_update_due(&flow, &cold));
    }

    proptest! {
        #[test]
        fn the_promised_edge_never_moves_back_nor_behind_the_ring(
            ring_log2 in 8_u8..24,
            start: u32,
            steps in prop::collection::vec((any::<bool>(), any::<u32>()), 1..200),
        ) {
            let (mut flow, cold) = flow(ring_log2, Seq(start));
            for (is_read, random) in steps {
                if is_read {
                    let unread = flow.rcv_nxt.since(flow.rcv_read);
                    flow.rcv_read += random % (unread + 1);
                } else {
                    flow.rcv_nxt += random % (flow.rcv_wnd() + 1);
                }
                let announcement = announce(&flow, &cold);
                prop_assert!(!announcement.edge.is_before(flow.rcv_adv));
                prop_assert!(!announcement.edge.is_after(flow.rcv_read + cold.receive_ring()));
                flow.rcv_adv = announcement.edge;
            }
            // Whatever went before: an application that reads everything opens the window.
            flow.rcv_read = flow.rcv_nxt;
            let is_open = flow.rcv_wnd() >= cold.receive_ring() / 4;
            prop_assert!(is_open || is_update_due(&flow, &cold));
        }
    }
}

//! The path's MTU: what routers say about it (RFC 1191, RFC 8201), as far as they can be believed,
//! and what longer segments find out (RFC 4821).

use base::Nanos;
use wire::tcp;

use crate::cold::Cold;
use crate::flow::{Flags, Flow};
use crate::options::TIMESTAMPS_BYTES;
use crate::recovery::Phase;
use crate::scoreboard::Scoreboard;
use crate::shared::Shared;
use crate::{Config, Seq, fast, handshake};

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
    let mtu_min = if flow.key.is_ipv6() { MTU_MIN_V6 } else { MTU_MIN_V4 };
    let headers = u32::from(header_bytes(flow));
    let Ok(mss) = u16::try_from(mtu.max(mtu_min) - headers) else { return false };
    if !is_ours || !flow.state.is_synchronized() || mss >= flow.mss {
        return false;
    }
    flow.mss = mss;
    cold.search.narrow(mss + header_bytes(flow));
    cold.search.low = cold.search.low.min(cold.search.high);
    let board = &mut cold.board;
    if board.mark_longer_lost(&mut shared.sent, &flow.sent, u32::from(mss)) > 0 {
        cold.recovery.recut(&mut flow.window, flow.snd_nxt);
    }
    let is_slow = fast::is_slow(flow, cold);
    flow.flags.put(Flags::SLOW, is_slow);
    true
}

/// The search for what a path carries, in bytes of a packet: at least `low`, at most `high`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    low: u16,
    high: u16,
    /// The MSS that the peer has announced, or is taken to have.
    peer_mss: u16,
    /// Payload of the probe that is on its way; zero: none is.
    bytes: u16,
    /// Its first number; while none is on its way, the minute since which `high` is less than was
    /// hoped for (zero: since the last look).
    start: Seq,
}

/// What is known to be too long is tried again after this many minutes, for the path may be another
/// one by then (RFC 1191 section 6.3, RFC 4821 section 7.3; Linux's mtu_expires).
const NARROW_FOR_MIN: u32 = 10;
/// A difference that is not worth a probe.
const DIFFERENCE_MIN: u16 = 8;
/// A smaller window says that the path is too slow to care.
const WINDOW_MIN: u32 = 11;
/// Segments behind a probe, so that its loss shows (RFC 4821 section 7.4).
const BEHIND: u32 = 4;

/// Bytes of IP and TCP headers with their options.
fn header_bytes(flow: &Flow) -> u16 {
    let ip_bytes = match flow.key.is_ipv6() {
        true => wire::ipv6::HEADER_BYTES,
        false => wire::ipv4::MIN_HEADER_BYTES,
    };
    let stamps = if flow.flags.has(Flags::TIMESTAMPS) { TIMESTAMPS_BYTES } else { 0 };
    ip_bytes + tcp::MIN_HEADER_BYTES + stamps
}

/// The longest packet that may be found to arrive at a peer that takes `peer_mss` bytes.
fn hoped_for(flow: &Flow, config: &Config, peer_mss: u16) -> u16 {
    config.mtu.min(peer_mss.saturating_add(header_bytes(flow)))
}

impl Search {
    /// What is to be found out about the path to a peer that takes `peer_mss` bytes.
    pub(crate) fn new(flow: &Flow, config: &Config, peer_mss: u16) -> Self {
        let high = hoped_for(flow, config, peer_mss);
        let low = if config.mtu_probing { config.mtu_floor.min(high) } else { high };
        Self { low, high, peer_mss, ..Self::default() }
    }

    /// A packet of more than `high` bytes does not arrive.
    fn narrow(&mut self, high: u16) {
        self.high = self.high.min(high);
        (self.bytes, self.start) = (0, Seq(0));
    }

    /// Whether there is something left to find out, and no probe is on its way.
    #[inline]
    pub(crate) const fn is_open(&self) -> bool {
        self.high - self.low > DIFFERENCE_MIN && self.bytes == 0
    }

    /// Whether a probe is on its way.
    #[inline]
    pub(crate) const fn is_probing(&self) -> bool {
        self.bytes > 0
    }

    /// Whether either.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.is_open() || self.is_probing()
    }

    /// A segment of `bytes` has left at `start` that is longer than what the path is known to
    /// carry.
    pub(crate) fn note_probe(&mut self, start: Seq, bytes: u32) {
        self.bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        self.start = start;
    }
}

/// Payload of the next segment if that is to be a probe.
pub(crate) fn probe_bytes(flow: &Flow, cold: &Cold) -> Option<u32> {
    let search = &cold.search;
    let mtu = search.low + (search.high - search.low) / 2;
    let bytes = u32::from(mtu.saturating_sub(header_bytes(flow)));
    let needed = bytes + BEHIND * u32::from(flow.mss);
    let is_calm = cold.recovery.phase == Phase::Open && cold.board.is_clean();
    let has_room = flow.window.segments >= WINDOW_MIN
        && cold.board.in_flight(&flow.sent) + 2 <= flow.window.segments
        && flow.unsent() >= needed
        && flow.usable() >= needed;
    (bytes > u32::from(flow.mss) && is_calm && has_room).then_some(bytes)
}

/// Whether the probe that is on its way counts as lost.
pub(crate) fn is_lost(flow: &Flow, cold: &Cold, shared: &Shared) -> bool {
    Scoreboard::is_due(&shared.sent, &flow.sent, cold.search.start)
}

/// Draws the conclusion once the probe has arrived or is lost.
pub(crate) fn settle(flow: &mut Flow, cold: &mut Cold, shared: &mut Shared) {
    let Search { bytes, start, .. } = cold.search;
    if !flow.snd_una.is_before(start + u32::from(bytes)) {
        cold.search.low = bytes + header_bytes(flow);
        (cold.search.bytes, cold.search.start) = (0, Seq(0));
        widen(flow, bytes);
        shared.counters.paths_widened += 1;
    } else if is_lost(flow, cold, shared) {
        cold.search.narrow(bytes + header_bytes(flow) - 1);
    }
}

/// Segments are longer from now on. The window counts them: as many bytes as before.
fn widen(flow: &mut Flow, mss: u16) {
    let scaled = u64::from(flow.window.segments) * u64::from(flow.mss) / u64::from(mss.max(1));
    flow.window.segments = u32::try_from(scaled).unwrap_or(u32::MAX).max(1);
    flow.mss = mss;
}

/// Forgets after a while what the path did not carry: who searches goes on searching, all others
/// send segments as at the start. If they are still too long, a router says so again.
pub(crate) fn age(flow: &mut Flow, cold: &mut Cold, config: &Config, now: Nanos) {
    let search = &mut cold.search;
    let hoped_for = hoped_for(flow, config, search.peer_mss);
    if search.high >= hoped_for || search.is_probing() {
        return;
    }
    let minute = ((now.0 / 60_000_000_000) as u32).max(1);
    if search.start == Seq(0) {
        search.start = Seq(minute);
    }
    if Seq(minute).since(search.start) <= NARROW_FOR_MIN {
        return;
    }
    search.high = hoped_for;
    if !config.mtu_probing {
        search.low = search.high;
        widen(flow, handshake::full_segment(flow, cold, config, cold.search.peer_mss));
    }
}

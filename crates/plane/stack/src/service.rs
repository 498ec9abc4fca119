//! What is served on the flows of a stream worker: the small services of RFC 862, 863 and 864.

use base::Nanos;
use piece::{Piece, ReadPiece};
use tcp::{Engine, FlowId};

use crate::rings::{Pair, Rings};

/// The services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Every byte comes back (RFC 862).
    Echo,
    /// Every byte is swallowed (RFC 863).
    Discard,
    /// Lines of characters come for as long as anybody reads (RFC 864).
    Chargen,
    /// None of our own: the flows are sockets of applications.
    Sockets,
}

/// What a worker knows of its flows besides the engine.
#[derive(Debug)]
pub(crate) struct ServiceContext {
    pub(crate) rings: Rings,
    /// By flow number: those that were announced and are not over.
    live: Vec<Option<FlowId>>,
    /// By flow number: how fast it is read.
    readings: Vec<Reading>,
}

/// Round trips are not measured shorter than a host needs to answer at all.
const SHORTEST_ROUND_TRIP: Nanos = Nanos::from_micros(100);

/// Bytes read since a moment: whether a larger window would be used.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    bytes: u32,
    since: Nanos,
}

impl ServiceContext {
    pub(crate) fn new(rings: Rings) -> Self {
        Self { rings, live: Vec::new(), readings: Vec::new() }
    }

    /// All flows that are not over.
    pub(crate) fn live(&self) -> impl Iterator<Item = FlowId> {
        self.live.iter().copied().flatten()
    }

    pub(crate) fn remember(&mut self, flow: FlowId) {
        if self.live.len() <= flow.index() {
            self.live.resize(flow.index() + 1, None);
            self.readings.resize(flow.index() + 1, Reading::default());
        }
        self.live[flow.index()] = Some(flow);
        self.readings[flow.index()] = Reading::default();
    }

    /// The flow is over.
    pub(crate) fn forget(&mut self, flow: FlowId) {
        self.rings.free(flow);
        if let Some(live) = self.live.get_mut(flow.index()) {
            live.take_if(|live| *live == flow);
        }
    }

    /// The flow goes elsewhere: its rings, and whether it was announced.
    pub(crate) fn take(&mut self, flow: FlowId) -> (Pair, bool) {
        let live = self.live.get_mut(flow.index());
        let was_live = live.and_then(|live| live.take_if(|live| *live == flow)).is_some();
        (self.rings.take(flow), was_live)
    }

    /// The flow comes from elsewhere.
    pub(crate) fn put(&mut self, flow: FlowId, pair: Pair, was_live: bool) {
        self.rings.put(flow, pair);
        if was_live {
            self.remember(flow);
        }
    }

    /// The service has taken `bytes`; the receive ring doubles when half of it was read within a
    /// round trip, for then the window is what holds the peer back (what Linux calls right-sizing).
    fn has_read(&mut self, engine: &mut Engine, flow: FlowId, bytes: u32, now: Nanos) {
        let Some(reading) = self.readings.get_mut(flow.index()) else { return };
        reading.bytes = reading.bytes.saturating_add(bytes);
        let ring_bytes = self.rings.lengths(flow).0;
        if (reading.bytes as usize) < ring_bytes / 2 {
            return;
        }
        let took = now.since(reading.since);
        *reading = Reading { bytes: 0, since: now };
        let round_trip = engine.info(flow).and_then(|info| info.round_trip);
        let round_trip = round_trip.unwrap_or_default().max(SHORTEST_ROUND_TRIP);
        let larger = ring_bytes.trailing_zeros() as u8 + 1;
        if took > round_trip
            || larger > self.rings.limits().receive_log2
            || !self.rings.has_room(larger)
        {
            return;
        }
        if let Some(regrow) = engine.grow_receive_ring(flow, larger) {
            let is_grown = self.rings.grow_receive(flow, larger, |old, new| regrow.copy(old, new));
            debug_assert!(is_grown, "the room was looked for, and the lengths are the engine's");
        }
    }

    /// The send ring is full: it doubles while the congestion window could take half of it at once.
    fn widen(&mut self, engine: &mut Engine, flow: FlowId) -> bool {
        let ring_bytes = self.rings.lengths(flow).1;
        let Some(info) = engine.info(flow) else { return false };
        let window_bytes = u64::from(info.window) * u64::from(info.snd_mss);
        let larger = ring_bytes.trailing_zeros() as u8 + 1;
        if ring_bytes == 0
            || window_bytes <= ring_bytes as u64 / 2
            || larger > self.rings.limits().send_log2
            || !self.rings.has_room(larger)
        {
            return false;
        }
        let Some(regrow) = engine.grow_send_ring(flow, larger) else { return false };
        self.rings.grow_send(flow, larger, |old, new| regrow.copy(old, new))
    }
}

/// Printable characters of RFC 864.
const CHARACTERS: usize = 95;
/// Characters of a line, and with its end.
const LINE: usize = 72;
const LINE_BYTES: usize = LINE + 2;
/// After this many bytes the lines repeat.
const PERIOD: usize = CHARACTERS * LINE_BYTES;

/// A service and what it knows of each flow.
#[derive(Debug)]
pub(crate) enum Service {
    Echo,
    Discard,
    Chargen {
        /// One period of lines.
        lines: Box<[u8]>,
        /// By flow number: where in the period the next byte is.
        positions: Vec<u32>,
    },
}

impl Service {
    pub(crate) fn new(kind: ServiceKind) -> Self {
        match kind {
            ServiceKind::Echo => Self::Echo,
            // Flows without an application are read by nobody.
            ServiceKind::Discard | ServiceKind::Sockets => Self::Discard,
            ServiceKind::Chargen => {
                let line = |first: usize| {
                    let shown = (first..first + LINE).map(|at| b' ' + (at % CHARACTERS) as u8);
                    shown.chain(*b"\r\n")
                };
                Self::Chargen {
                    lines: (0..CHARACTERS).flat_map(line).collect(),
                    positions: Vec::new(),
                }
            }
        }
    }

    /// Does what can be done for a flow now; true when it is to be closed.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        engine: &mut Engine,
        context: &mut ServiceContext,
        flow: FlowId,
        now: Nanos,
    ) -> bool {
        match self {
            Self::Echo => echo(engine, context, flow, now),
            Self::Discard => discard(engine, context, flow, now),
            Self::Chargen { lines, positions } => {
                if positions.len() <= flow.index() {
                    positions.resize(flow.index() + 1, 0);
                }
                discard(engine, context, flow, now)
                    || generate(engine, context, flow, lines, &mut positions[flow.index()])
            }
        }
    }

    /// The flow is over.
    pub(crate) fn forget(&mut self, flow: FlowId) {
        self.set_position(flow, 0);
    }

    /// What a flow that goes elsewhere takes along.
    pub(crate) fn position(&self, flow: FlowId) -> u32 {
        match self {
            Self::Echo | Self::Discard => 0,
            Self::Chargen { positions, .. } => positions.get(flow.index()).copied().unwrap_or(0),
        }
    }

    /// What a flow has brought along.
    pub(crate) fn set_position(&mut self, flow: FlowId, position: u32) {
        if let Self::Chargen { positions, .. } = self {
            if positions.len() <= flow.index() {
                positions.resize(flow.index() + 1, 0);
            }
            positions[flow.index()] = position % PERIOD as u32;
        }
    }
}

/// What comes goes back, as far as there is room.
#[inline]
fn echo(engine: &mut Engine, context: &mut ServiceContext, flow: FlowId, now: Nanos) -> bool {
    loop {
        let unread = engine.readable(flow);
        if unread.bytes == 0 {
            return engine.is_at_end(flow);
        }
        if !context.rings.ensure(flow) {
            // Without a ring to write to there is nothing to be done for it.
            let _ = engine.abort(flow);
            return false;
        }
        let room = engine.room(flow);
        if room.bytes == 0 {
            if context.widen(engine, flow) {
                continue;
            }
            return false;
        }
        let bytes = unread.bytes.min(room.bytes);
        let (from, to) = context.rings.both(flow);
        copy(from, unread.at, to, room.at, bytes as usize);
        let done = engine.consume(flow, bytes).and_then(|()| engine.send(flow, bytes));
        if done.is_err() {
            return false;
        }
        context.has_read(engine, flow, bytes, now);
    }
}

fn discard(engine: &mut Engine, context: &mut ServiceContext, flow: FlowId, now: Nanos) -> bool {
    let unread = engine.readable(flow).bytes;
    if unread > 0 && engine.consume(flow, unread).is_ok() {
        context.has_read(engine, flow, unread, now);
    }
    engine.is_at_end(flow)
}

fn generate(
    engine: &mut Engine,
    context: &mut ServiceContext,
    flow: FlowId,
    lines: &[u8],
    position: &mut u32,
) -> bool {
    loop {
        let room = engine.room(flow);
        if room.bytes == 0 {
            if context.widen(engine, flow) {
                continue;
            }
            return false;
        }
        if !context.rings.ensure(flow) {
            let _ = engine.abort(flow);
            return false;
        }
        let (_, ring) = context.rings.both(flow);
        let mut at = room.at;
        let mut left = room.bytes as usize;
        while left > 0 {
            let start = *position as usize;
            let run = left.min(lines.len() - start).min(ring.len() - at);
            ring.split_at(at).1.copy_in(&lines[start..start + run]);
            at = (at + run) & (ring.len() - 1);
            *position = ((start + run) % lines.len()) as u32;
            left -= run;
        }
        if engine.send(flow, room.bytes).is_err() {
            return false;
        }
    }
}

/// Copies from one ring to another; both lengths are powers of two, and the bytes fit.
#[inline]
fn copy(from: ReadPiece<'_>, from_at: usize, to: Piece<'_>, to_at: usize, bytes: usize) {
    let (mut from_at, mut to_at, mut left) = (from_at, to_at, bytes);
    while left > 0 {
        let run = left.min(from.len() - from_at).min(to.len() - to_at);
        if let Some(from) = from.get(from_at, run) {
            from.copy_to(to.split_at(to_at).1);
        }
        from_at = (from_at + run) & (from.len() - 1);
        to_at = (to_at + run) & (to.len() - 1);
        left -= run;
    }
}

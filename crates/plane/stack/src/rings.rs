//! The rings of all flows of a worker: none until the first byte, small at first, larger on demand.
//!
//! What must hold: a flow never gets the rings of another. The engine gives the number of a flow
//! that is over to the next one before anybody has heard of the end, so rings are kept by number
//! *and* generation.

mod ring;

use std::sync::Arc;

use base::Nanos;
use piece::{Piece, ReadPiece};
use tcp::{Buffers, Engine, FlowId, FlowOptions};

use crate::app_sockets::AppSockets;
use crate::flow_records::OrphanRecord;
pub(crate) use ring::{Pair, Ring};

/// How large rings may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Base-2 logarithm of the bytes of a receive ring, at most.
    pub receive_log2: u8,
    /// Base-2 logarithm of the bytes of a send ring, at most.
    pub send_log2: u8,
    /// Bytes of all rings of a worker together.
    pub bytes_max: u64,
}

/// Bytes of unused rings that are kept for the next flows.
const UNUSED_MAX: u64 = 64 << 20;

/// A flow number's rings, and the flow that has them.
#[derive(Debug, Default)]
struct Held {
    flow: Option<FlowId>,
    pair: Pair,
}

/// All rings of a worker.
#[derive(Debug)]
pub(crate) struct Rings {
    limits: RingLimits,
    receive_log2: u8,
    send_log2: u8,
    /// By flow number.
    held: Vec<Held>,
    /// Rings of flows that are over and whose end nobody has heard of, though their numbers are
    /// others' already. Bounded by the flows that end in one turn; nearly always empty.
    displaced: Vec<(FlowId, Pair)>,
    /// Rings without a flow, by the logarithm of their length.
    unused: Vec<Vec<Box<[u8]>>>,
    unused_bytes: u64,
    /// Bytes of rings with a flow.
    bytes: u64,
    /// Times that there was no memory for the first ring of a flow.
    refused: u64,
}

impl Rings {
    pub(crate) fn new(limits: RingLimits, flow: &FlowOptions) -> Self {
        Self {
            limits,
            receive_log2: flow.receive_ring_log2,
            send_log2: flow.send_ring_log2,
            held: Vec::new(),
            displaced: Vec::new(),
            unused: (0..=30).map(|_| Vec::new()).collect(),
            unused_bytes: 0,
            bytes: 0,
            refused: 0,
        }
    }

    /// Times that a flow could not be served for lack of memory.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of all rings that belong to flows.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn limits(&self) -> RingLimits {
        self.limits
    }

    /// A ring of that length, unless there is no memory for it.
    fn make(&mut self, log2: u8, home: Option<&AppSockets>) -> Option<Ring> {
        let bytes = 1_u64 << log2;
        if let Some(app) = home {
            // The application's own limit holds for these.
            let ring = app.server.heap().lend(log2)?;
            if ring.desc().log2() != Some(log2) {
                app.server.heap().take_back(ring);
                return None;
            }
            self.bytes += bytes;
            return Some(Ring::Shared(ring));
        }
        if self.bytes + bytes > self.limits.bytes_max {
            return None;
        }
        self.bytes += bytes;
        match self.unused.get_mut(usize::from(log2)).and_then(Vec::pop) {
            Some(ring) => {
                self.unused_bytes -= bytes;
                Some(Ring::Own(ring))
            }
            None => Some(Ring::Own(vec![0; bytes as usize].into_boxed_slice())),
        }
    }

    /// Takes a ring back that no flow has any more.
    pub(crate) fn give_back(&mut self, ring: Ring, home: Option<&AppSockets>) {
        let bytes = ring.len() as u64;
        self.bytes -= bytes;
        let ring = match (ring, home) {
            (Ring::Own(ring), _) => ring,
            (Ring::Shared(ring), Some(app)) => return app.server.heap().take_back(ring),
            (Ring::Shared(_) | Ring::None, _) => return,
        };
        if self.unused_bytes + bytes <= UNUSED_MAX
            && let Some(unused) = self.unused.get_mut(ring.len().trailing_zeros() as usize)
        {
            self.unused_bytes += bytes;
            unused.push(ring);
        }
    }

    fn pair(&mut self, flow: FlowId) -> &mut Pair {
        if self.held.len() <= flow.index() {
            self.held.resize_with(flow.index() + 1, Held::default);
        }
        let held = &mut self.held[flow.index()];
        if held.flow != Some(flow) {
            if let Some(before) = held.flow.replace(flow) {
                self.displaced.push((before, std::mem::take(&mut held.pair)));
            }
            if let Some(at) = self.displaced.iter().position(|(other, _)| *other == flow) {
                held.pair = self.displaced.swap_remove(at).1;
            }
        }
        &mut held.pair
    }

    /// Both rings of a flow, made if need be: what it has received, and where it writes. False: no
    /// memory.
    pub(crate) fn ensure(&mut self, flow: FlowId) -> bool {
        let (has_receive, has_send) = {
            let pair = self.pair(flow);
            (!pair.receive.is_none(), !pair.send.is_none())
        };
        if !has_receive && !self.ensure_receive(flow) {
            return false;
        }
        if !has_send {
            let Some(ring) = self.make(self.send_log2, None) else { return self.refuse() };
            self.pair(flow).send = ring;
        }
        true
    }

    fn ensure_receive(&mut self, flow: FlowId) -> bool {
        let pair = self.pair(flow);
        let (home, log2) = (pair.home.clone(), pair.receive_log2);
        let log2 = if log2 == 0 { self.receive_log2 } else { log2 };
        let Some(ring) = self.make(log2, home.as_deref()) else {
            self.pair(flow).is_starved = true;
            return self.refuse();
        };
        let pair = self.pair(flow);
        (pair.receive, pair.is_starved) = (ring, false);
        true
    }

    /// From now on the flow's rings lie in an application's memory: a send ring of `1 << send_log2`
    /// bytes, and what has come already. False: there is no memory, and everything is as it was.
    pub(crate) fn settle(&mut self, flow: FlowId, home: &Arc<AppSockets>, send_log2: u8) -> bool {
        let Some(send) = self.make(send_log2, Some(home)) else { return self.refuse() };
        let mut receive = Ring::None;
        if !self.pair(flow).receive.is_none() {
            let Some(made) = self.make(self.receive_log2, Some(home)) else {
                self.give_back(send, Some(home));
                return self.refuse();
            };
            receive = made;
            self.pair(flow).receive.read_piece().copy_to(receive.piece());
        }
        let new = Pair { receive, send, home: Some(Arc::clone(home)), ..Pair::default() };
        let Pair { receive, send, home: before, .. } = std::mem::replace(self.pair(flow), new);
        self.give_back(receive, before.as_deref());
        self.give_back(send, before.as_deref());
        true
    }

    /// The receive ring goes back: it holds nothing. The next byte brings another, and the one that
    /// was used last is the first to be used again: so a busy application's rings stay in the
    /// cache, and an idle one's cost nothing.
    pub(crate) fn rest(&mut self, flow: FlowId) {
        let pair = self.pair(flow);
        let ring = std::mem::take(&mut pair.receive);
        if !ring.is_none() {
            // The clone is of a pointer.
            let home = pair.home.clone();
            self.give_back(ring, home.as_deref());
        }
    }

    /// Another ring in the place of the send ring, which comes back.
    pub(crate) fn replace_send(&mut self, flow: FlowId, ring: Ring) -> Ring {
        self.bytes += ring.len() as u64;
        let old = std::mem::replace(&mut self.pair(flow).send, ring);
        self.bytes -= old.len() as u64;
        old
    }

    /// The rings of a flow as they are.
    #[inline]
    pub(crate) fn of(&self, flow: FlowId) -> Option<&Pair> {
        match self.held.get(flow.index()) {
            Some(held) if held.flow == Some(flow) => Some(&held.pair),
            _ => self.of_displaced(flow),
        }
    }

    #[cold]
    fn of_displaced(&self, flow: FlowId) -> Option<&Pair> {
        self.displaced.iter().find(|(other, _)| *other == flow).map(|(_, pair)| pair)
    }

    /// The program has closed the flow, which goes on to its own end: that is written down.
    pub(crate) fn keep_orphan(
        &mut self,
        flow: FlowId,
        (app, was_opened): (&AppSockets, bool),
        engine: &Engine,
        now: Nanos,
    ) {
        let Some(records) = &app.records else { return };
        let pair = self.pair(flow);
        let send = pair.send.desc().unwrap_or_default();
        pair.orphan = OrphanRecord::write(records, (flow, was_opened), engine, send, now);
    }

    /// Whether the peer has sent bytes that nobody had memory for: they are as unread as those in a
    /// ring.
    pub(crate) fn is_starved(&self, flow: FlowId) -> bool {
        self.of(flow).is_some_and(|pair| pair.is_starved)
    }

    fn refuse(&mut self) -> bool {
        self.refused += 1;
        false
    }

    /// What a flow has received, and where it writes.
    pub(crate) fn both(&mut self, flow: FlowId) -> (ReadPiece<'_>, Piece<'_>) {
        let Pair { receive, send, .. } = self.pair(flow);
        (receive.read_piece(), send.piece())
    }

    /// Bytes of a flow's receive and send ring; zero: not made yet.
    pub(crate) fn lengths(&self, flow: FlowId) -> (usize, usize) {
        let pair = self.of(flow);
        pair.map_or((0, 0), |pair| (pair.receive.len(), pair.send.len()))
    }

    /// Puts a larger receive ring in the place of the present one, which `copy` empties into it.
    pub(crate) fn grow_receive(
        &mut self,
        flow: FlowId,
        log2: u8,
        copy: impl FnOnce(ReadPiece<'_>, Piece<'_>) -> bool,
    ) -> bool {
        let old = self.grow(flow, log2, |pair| &mut pair.receive, copy);
        old.is_some_and(|old| {
            self.give_back(old, None);
            true
        })
    }

    /// The same for a ring that an application reads from: the old one comes back, because it may
    /// still be read. `copy` is asked once there is memory for the new one.
    pub(crate) fn outgrow_receive(
        &mut self,
        flow: FlowId,
        log2: u8,
        copy: impl FnOnce(ReadPiece<'_>, Piece<'_>) -> bool,
    ) -> Option<Ring> {
        let old = self.grow(flow, log2, |pair| &mut pair.receive, copy)?;
        self.bytes -= old.len() as u64;
        self.pair(flow).receive_log2 = log2;
        Some(old)
    }

    /// The same for the send ring.
    pub(crate) fn grow_send(
        &mut self,
        flow: FlowId,
        log2: u8,
        copy: impl FnOnce(ReadPiece<'_>, Piece<'_>) -> bool,
    ) -> bool {
        let old = self.grow(flow, log2, |pair| &mut pair.send, copy);
        old.is_some_and(|old| {
            self.give_back(old, None);
            true
        })
    }

    /// The old ring; nothing when it has stayed.
    fn grow(
        &mut self,
        flow: FlowId,
        log2: u8,
        which: impl FnOnce(&mut Pair) -> &mut Ring,
        copy: impl FnOnce(ReadPiece<'_>, Piece<'_>) -> bool,
    ) -> Option<Ring> {
        let home = self.pair(flow).home.clone();
        let mut ring = self.make(log2, home.as_deref())?;
        let place = which(self.pair(flow));
        if copy(place.read_piece(), ring.piece()) {
            return Some(std::mem::replace(place, ring));
        }
        self.give_back(ring, home.as_deref());
        None
    }

    /// Whether there is memory for a ring of that length.
    pub(crate) fn has_room(&self, log2: u8) -> bool {
        self.bytes + (1 << log2) <= self.limits.bytes_max
    }

    /// The flow is over, or goes elsewhere: its rings are free.
    pub(crate) fn free(&mut self, flow: FlowId) {
        let Pair { receive, send, home, .. } = self.take(flow);
        self.bytes += (receive.len() + send.len()) as u64;
        self.give_back(receive, home.as_deref());
        self.give_back(send, home.as_deref());
    }

    /// Takes the rings of a flow that goes elsewhere.
    pub(crate) fn take(&mut self, flow: FlowId) -> Pair {
        let pair = match self.held.get_mut(flow.index()) {
            Some(held) if held.flow == Some(flow) => std::mem::take(held).pair,
            _ => {
                let at = self.displaced.iter().position(|(other, _)| *other == flow);
                at.map(|at| self.displaced.swap_remove(at).1).unwrap_or_default()
            }
        };
        self.bytes -= pair.bytes();
        pair
    }

    /// Takes rings back that were taken from a flow.
    pub(crate) fn adopt(&mut self, pair: Pair) {
        self.bytes += pair.bytes();
        let Pair { receive, send, home, .. } = pair;
        self.give_back(receive, home.as_deref());
        self.give_back(send, home.as_deref());
    }

    /// Takes a ring back that a flow of an application has outgrown.
    pub(crate) fn return_shared(&mut self, ring: Ring, flow: FlowId) {
        let home = self.pair(flow).home.clone();
        self.bytes += ring.len() as u64;
        self.give_back(ring, home.as_deref());
    }

    /// Puts the rings of a flow in that comes from elsewhere.
    pub(crate) fn put(&mut self, flow: FlowId, pair: Pair) {
        self.free(flow);
        self.bytes += pair.bytes();
        *self.pair(flow) = pair;
    }
}

impl Buffers for Rings {
    #[inline]
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        let is_made = self.of(flow).is_some_and(|pair| !pair.receive.is_none());
        if !is_made && !self.ensure_receive(flow) {
            return Piece::EMPTY;
        }
        self.pair(flow).receive.piece()
    }

    #[inline]
    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        self.of(flow).map(|pair| pair.send.read_piece()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

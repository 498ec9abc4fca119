//! A server with nothing around its engine that a figure would count: rings of one length, segments
//! written and forgotten, an application that sends back what it reads.

use arrayvec::ArrayVec;
use base::{BURST, Nanos};
use tcp::{Buffers, Engine, Event, FlowId, Incoming, Output, Piece, ReadPiece, Segment, Span};

use super::end::{PACKET_BYTES, Packet, copy_ring};

/// Base-2 logarithm of the bytes in each ring.
pub(super) const RING_LOG2: u8 = 10;
const RING: usize = 1 << RING_LOG2;

/// What the names of the engine's parts in a request have in common, and no other's.
pub(super) const COUNTED: &str = "lean::counted_";

struct Rings {
    receive: Vec<u8>,
    send: Vec<u8>,
}

const fn place(flow: FlowId) -> std::ops::Range<usize> {
    flow.index() * RING..(flow.index() + 1) * RING
}

impl Buffers for Rings {
    #[inline]
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        (&mut self.receive[place(flow)]).into()
    }

    #[inline]
    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        (&self.send[place(flow)]).into()
    }
}

/// Segments are written to where they would be sent from.
struct Sink {
    segments: Vec<[u8; PACKET_BYTES]>,
    written: usize,
    readable: Vec<FlowId>,
}

impl Output for Sink {
    // As in the data path.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let Some(place) = self.segments.get_mut(self.written) else { return false };
        if segment.write(place).is_none() {
            return false;
        }
        self.written += 1;
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        if let Event::Readable { flow } = event {
            self.readable.push(flow);
        }
    }
}

/// The server.
pub(super) struct Lean {
    engine: Engine,
    rings: Rings,
    sink: Sink,
}

impl Lean {
    /// Over an engine whose `flows` connections stand, with rings of [`RING_LOG2`] and nothing in
    /// them.
    pub(super) fn over(engine: Engine, flows: u32) -> Self {
        let bytes = flows as usize * RING;
        // Not zero: memory that was never written to is one page for all.
        let rings = Rings { receive: vec![1; bytes], send: vec![1; bytes] };
        let segments = vec![[0; PACKET_BYTES]; 2 * BURST];
        let sink = Sink { segments, written: 0, readable: Vec::with_capacity(2 * BURST) };
        Self { engine, rings, sink }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Answers a batch; how many segments that took.
    #[inline]
    pub(super) fn serve(&mut self, now: Nanos, packets: &[Packet]) -> usize {
        self.sink.written = 0;
        counted_expire(self, now);
        let batch: ArrayVec<Incoming<'_>, BURST> = packets.iter().map(Packet::incoming).collect();
        counted_receive(self, now, &batch);
        for at in 0..self.sink.readable.len() {
            let flow = self.sink.readable[at];
            let (unread, room) = counted_spans(&mut self.engine, flow);
            let bytes = unread.bytes.min(room.bytes) as usize;
            let (from, to) = (&self.rings.receive[place(flow)], &mut self.rings.send[place(flow)]);
            copy_ring(from, unread.at, to, room.at, bytes);
            counted_reply(&mut self.engine, flow, bytes as u32);
        }
        self.sink.readable.clear();
        counted_transmit(self, now);
        self.sink.written
    }
}

#[inline(never)]
fn counted_expire(server: &mut Lean, now: Nanos) {
    server.engine.expire(now, &mut server.sink);
}

#[inline(never)]
fn counted_receive(server: &mut Lean, now: Nanos, batch: &[Incoming<'_>]) {
    server.engine.receive(now, batch, &mut server.rings, &mut server.sink);
}

/// Delivers: where the application finds its bytes, and where it may write.
#[inline(never)]
fn counted_spans(engine: &mut Engine, flow: FlowId) -> (Span, Span) {
    (engine.readable(flow), engine.room(flow))
}

/// Takes the reply.
#[inline(never)]
fn counted_reply(engine: &mut Engine, flow: FlowId, bytes: u32) -> bool {
    engine.consume(flow, bytes).is_ok() && engine.send(flow, bytes).is_ok()
}

#[inline(never)]
fn counted_transmit(server: &mut Lean, now: Nanos) {
    server.engine.transmit(now, &mut server.rings, &mut server.sink);
}

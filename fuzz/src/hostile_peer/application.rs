//! The applications at all ends: every byte that they read and every event that they hear is
//! checked.

use tcp::{CallError, CloseReason, Engine, Event, FlowId, Seq};

use wire::tcp::Header;

use super::sink::{Rings, Sink};
use super::wire_side::{HONEST, Side, content, side_of, streams};

/// A flow that an application knows of.
#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) id: FlowId,
    /// The engine that has it.
    pub(super) host: usize,
    /// Nothing: it was over before anybody could ask for its name.
    pub(super) side: Option<usize>,
    /// Which of its name's connections it is.
    pub(super) number: u32,
    pub(super) read: u32,
    pub(super) written: u32,
    is_connected: bool,
    has_peer_closed: bool,
    pub(super) is_misled: bool,
    pub(super) has_shut: bool,
}

/// What became of the honest connection.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) reason: Option<CloseReason>,
    pub(super) read: u32,
    pub(super) written: u32,
}

/// All flows that were announced and not yet said to be closed.
#[derive(Default)]
pub(super) struct Applications {
    pub(super) records: Vec<Record>,
    /// The engine's end of the honest connection, then its peer's.
    pub(super) honest: [Ending; 2],
}

impl Applications {
    /// The flow that `side` had last.
    pub(super) fn of(&mut self, side: usize) -> Option<&mut Record> {
        self.records.iter_mut().rev().find(|record| record.side == Some(side))
    }

    /// A flow that an application has opened, or was told of.
    pub(super) fn add(&mut self, id: FlowId, host: usize, side: Option<usize>, sides: &[Side]) {
        let number = side.map_or(0, |side| sides[side].number);
        self.records.push(Record {
            id,
            host,
            side,
            number,
            read: 0,
            written: 0,
            is_connected: false,
            has_peer_closed: false,
            is_misled: false,
            has_shut: false,
        });
    }

    /// Hears what the engine of `host` has said. `opener` is the segment that has brought a
    /// cookie back.
    pub(super) fn hear(
        &mut self,
        host: usize,
        engine: &Engine,
        rings: &mut Rings,
        sink: &mut Sink,
        opener: Option<&[u8]>,
    ) {
        for at in 0..sink.events.len() {
            let event = sink.events[at];
            let (Event::Connected { flow, .. }
            | Event::Readable { flow }
            | Event::Writable { flow }
            | Event::Urgent { flow }
            | Event::PeerClosed { flow }
            | Event::Closed { flow, .. }) = event;
            let mut found =
                self.records.iter().position(|record| (record.host, record.id) == (host, flow));
            if let (Event::Connected { listener, .. }, None) = (event, found) {
                assert!(listener.is_some(), "nobody has opened {flow:?}");
                let side = engine.key(flow).and_then(|key| side_of(&key.reversed()));
                if let (Some(opener), Some(side)) = (opener, side) {
                    let side = &mut sink.sides[side];
                    let header = Header::parse(opener).expect("it was understood");
                    side.begin(Seq(header.acknowledgement) - 1, sink.ring);
                    side.heard_to = Some(Seq(header.sequence));
                    side.deliver(opener);
                }
                self.add(flow, host, side, &sink.sides);
                found = self.records.len().checked_sub(1);
            }
            let at = found.expect("an event is a known flow's");
            let record = &mut self.records[at];
            match event {
                Event::Connected { .. } => {
                    assert!(!record.is_connected, "a flow comes to stand once");
                    record.is_connected = true;
                }
                Event::PeerClosed { .. } => {
                    assert!(!record.has_peer_closed, "a peer closes once");
                    record.has_peer_closed = true;
                }
                Event::Readable { .. } | Event::Writable { .. } | Event::Urgent { .. } => {}
                Event::Closed { reason, .. } => {
                    assert_eq!(engine.state(flow), None, "its number is void");
                    assert_eq!(engine.readable(flow).bytes, 0);
                    let Record { side, read, written, .. } = *record;
                    if let Some(end) = side.and_then(|side| side.checked_sub(HONEST)) {
                        self.honest[end] = Ending { reason: Some(reason), read, written };
                    }
                    rings.clear(flow);
                    self.records.remove(at);
                }
            }
        }
        sink.events.clear();
    }
}

impl Record {
    /// Writes at most `count` bytes.
    pub(super) fn write(
        &mut self,
        engine: &mut Engine,
        rings: &mut Rings,
        sides: &mut [Side],
        count: u32,
    ) {
        let Some(side) = self.side else { return };
        let span = engine.room(self.id);
        let (_, stream) = streams(side);
        let ring = rings.send_ring_mut(self.id);
        assert!(span.bytes as usize <= ring.len(), "there is no more room than the ring has");
        let count = count.min(span.bytes);
        for offset in 0..count as usize {
            let at = (span.at + offset) & (ring.len() - 1);
            // Of what the peer has not acknowledged nothing may be overwritten.
            ring[at] = content(stream, self.written + offset as u32);
        }
        match engine.send(self.id, count) {
            Ok(()) => self.written += count,
            Err(error) => assert!(self.has_shut && error == CallError::Closed, "{error}"),
        }
        self.publish(sides);
    }

    /// Reads at most `limit` bytes.
    pub(super) fn read(
        &mut self,
        engine: &mut Engine,
        rings: &mut Rings,
        sides: &mut [Side],
        limit: u32,
    ) {
        let Some(side) = self.side else { return };
        self.is_misled |= sides[side].is_misled;
        let span = engine.readable(self.id);
        let ring = &rings.receive[self.id.index()];
        assert!(span.bytes as usize <= ring.len(), "there is no more than the ring takes");
        let count = limit.min(span.bytes);
        let (stream, _) = streams(side);
        for offset in 0..count as usize {
            let byte = ring[(span.at + offset) & (ring.len() - 1)];
            let expected = content(stream, self.read + offset as u32);
            assert!(self.is_misled || byte == expected, "what was sent is what is read");
        }
        engine.consume(self.id, count).expect("there are that many");
        assert_eq!(engine.consume(self.id, span.bytes - count + 1), Err(CallError::TooMany));
        self.read += count;
        self.publish(sides);
    }

    /// No more will be written.
    pub(super) fn shut(&mut self, sides: &mut [Side]) {
        self.has_shut = true;
        self.publish(sides);
    }

    /// The receive ring has become larger.
    pub(super) fn grown(&self, sides: &mut [Side], bytes: u32) {
        if let Some(side) = self.side.filter(|side| sides[*side].number == self.number) {
            sides[side].ring = bytes;
        }
    }

    /// Tells who watches the wire what may be seen on it.
    fn publish(&self, sides: &mut [Side]) {
        let Some(side) = self.side.filter(|side| sides[*side].number == self.number) else {
            return;
        };
        sides[side].written = self.written;
        sides[side].read = self.read;
        sides[side].has_shut = self.has_shut;
    }
}

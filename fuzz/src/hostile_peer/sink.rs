//! What engines send and say, and the rings that they are lent.

use std::collections::VecDeque;

use tcp::{Buffers, Event, FlowId, Output, Piece, ReadPiece, Segment};

use super::wire_side::{HONEST, HONEST_PEER, SIDES, Side, side_of};

/// Flows of an engine at most.
pub(super) const FLOWS_MAX: usize = 8;

/// Checks every segment as it leaves and keeps every event.
pub(super) struct Sink {
    pub(super) sides: [Side; SIDES],
    pub(super) events: Vec<Event>,
    /// What is on its way from the honest peer, and to it.
    pub(super) link: [VecDeque<Vec<u8>>; 2],
    /// One bit for each of the next offers: there is no room for it.
    pub(super) refusals: u32,
    /// The engine has not been asked to transmit: what leaves now answers for no flow.
    pub(super) is_answer: bool,
    /// Segments that have left.
    pub(super) sent: u64,
    pub(super) ring: u32,
    /// Bytes of the longest segment that fits the MTU beside a header of IPv4.
    pub(super) longest: usize,
    pub(super) scratch: Vec<u8>,
}

impl Output for Sink {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let is_refused = self.refusals & 1 != 0;
        self.refusals >>= 1;
        if is_refused {
            return false;
        }
        let longest = self.longest - if segment.key.is_ipv6() { 20 } else { 0 };
        assert!(
            segment.len() <= longest,
            "{} bytes leave, {longest} fit: {segment:?}",
            segment.len()
        );
        let bytes = segment.write(&mut self.scratch).expect("there is room");
        assert_eq!(bytes, segment.len());
        let side = side_of(&segment.key).expect("answers go where questions came from");
        assert_eq!(segment.route, side as u32, "answers leave the way questions came");
        let segment = &self.scratch[..bytes];
        self.sides[side].check(side, segment, self.is_answer, self.ring);
        self.sent += 1;
        match side {
            HONEST => self.link[1].push_back(segment.to_vec()),
            HONEST_PEER => self.link[0].push_back(segment.to_vec()),
            _ => {}
        }
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Two rings for each flow of one engine, made when they are first used.
pub(super) struct Rings {
    pub(super) receive: [Vec<u8>; FLOWS_MAX],
    pub(super) send: [Vec<u8>; FLOWS_MAX],
    pub(super) receive_bytes: usize,
    pub(super) send_bytes: usize,
}

impl Rings {
    pub(super) fn new(receive_bytes: usize, send_bytes: usize) -> Self {
        Self { receive: Default::default(), send: Default::default(), receive_bytes, send_bytes }
    }

    pub(super) fn send_ring_mut(&mut self, flow: FlowId) -> &mut [u8] {
        made(&mut self.send[flow.index()], self.send_bytes)
    }

    /// The flow is over, and its rings are another's.
    pub(super) fn clear(&mut self, flow: FlowId) {
        self.receive[flow.index()].clear();
        self.send[flow.index()].clear();
    }
}

fn made(ring: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if ring.is_empty() {
        ring.resize(bytes, 0);
    }
    ring
}

impl Buffers for Rings {
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        made(&mut self.receive[flow.index()], self.receive_bytes).into()
    }

    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        (&self.send[flow.index()]).into()
    }
}

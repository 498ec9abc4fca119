//! A received UDP packet, read once.

use std::net::SocketAddr;
use std::ops::Range;

use shm::Frame;
use wire::{Outcome, Protocol};

use crate::rt::peers::Link;

/// A frame that was found to hold a whole UDP packet from one host to one host.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) frame: Frame,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    payload: Range<usize>,
}

impl Packet {
    /// Reads the packet in `frame`.
    ///
    /// # Errors
    /// The frame: it holds something else.
    pub(crate) fn read(mut frame: Frame) -> Result<Self, Frame> {
        let flow = match wire::classify(frame.bytes()) {
            Outcome::Flow(flow) if flow.key.protocol() == Protocol::Udp => flow,
            _ => return Err(frame),
        };
        let meta = frame.meta_mut();
        (meta.l3_offset, meta.l4_offset) = (flow.l3_offset, flow.l4_offset);
        let start = usize::from(flow.payload_offset);
        Ok(Self {
            frame,
            from: flow.key.source(),
            to: flow.key.destination(),
            payload: start..start + usize::from(flow.payload_len),
        })
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.frame.bytes()[self.payload.clone()]
    }

    /// The way back.
    pub(crate) fn link(&self) -> Option<Link> {
        Link::back(&self.frame, self.to)
    }
}

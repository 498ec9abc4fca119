//! Opening a connection on the worker that its packets will come to.
//!
//! Who owns the new flow's group is the owner table's secret, and may be changing at this moment.
//! So the wish goes the way that the peer's first packet will go: as a frame that looks like that
//! packet, through group lookup, first placement, hold queue and ring, in order with every barrier.
//! The worker that it comes to is the right one.

use std::net::SocketAddr;

use base::{Nanos, PortId};
use piece::ReadPiece;
use port::Port;
use shm::Frame;
use tcp::{IpFields, OptionBytes, Segment, Seq};
use wire::{FlowKey, Outcome, Protocol};

use super::{Heard, RETRY_EVERY, SocketJob};
use crate::frames;
use crate::routes::{NextHop, Route};
use datapath::Dispatcher;

/// Ethertypes of a connect probe's link header, behind two addresses of zeros.
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Sends a connect probe about a connection from `local` to `remote` to the worker of `dispatcher`
/// that will own it. False: there is no frame for it now; try again.
pub fn send_connect_probe<P: Port>(
    dispatcher: &mut Dispatcher<P>,
    local: SocketAddr,
    remote: SocketAddr,
    now: Nanos,
) -> bool {
    let Some(key) = FlowKey::new(Protocol::Tcp, remote, local) else { return true };
    dispatcher.inject(|frame| write_connect_probe(key, frame).is_some(), now)
}

fn write_connect_probe(key: FlowKey, frame: &mut Frame) -> Option<()> {
    let link = [&[0; 12][..], if key.is_ipv6() { &IPV6[..] } else { &IPV4 }].concat();
    let next_hop = NextHop { port: PortId(0), vlan_tci: 0, header: link };
    let route = Route::of_next_hop(&next_hop)?;
    frames::write(&route, &hello(key), frame)?;
    // No port says so of what it receives: this is a connect probe.
    frame.meta_mut().transmit = true;
    Some(())
}

/// A segment that names the flow and says nothing.
fn hello(key: FlowKey) -> Segment<'static> {
    Segment {
        key,
        sequence: Seq(0),
        acknowledgement: Seq(0),
        flags: 0,
        window: 0,
        urgent: 0,
        options: OptionBytes::NONE,
        payload: [ReadPiece::EMPTY; 2],
        ecn: 0,
        ip: IpFields::default(),
        route: 0,
    }
}

impl SocketJob {
    /// Connect probes among the frames of this turn are read and become empty frames.
    pub(super) fn read_connect_probes(&mut self, now: Nanos) {
        let mut at = 0;
        while let Some(frame) = self.kept.get_mut(at) {
            if !std::mem::take(&mut frame.meta_mut().transmit) {
                at += 1;
                continue;
            }
            let frame = self.kept.remove(at);
            self.open(&frame, now);
            self.spares.push(frame);
        }
    }

    /// A connect probe has come before its group could be taken over.
    pub(super) fn postpone(&mut self, connect_probe: &Frame, now: Nanos) {
        let Outcome::Flow(flow) = wire::classify(connect_probe.bytes()) else { return };
        if let Some(sockets) = self.sockets.as_mut() {
            sockets.call_later(&flow.key, now + RETRY_EVERY);
        }
    }

    fn open(&mut self, connect_probe: &Frame, now: Nanos) {
        let Outcome::Flow(flow) = wire::classify(connect_probe.bytes()) else { return };
        let Self { engine, context, sockets, events, neighbours, .. } = self;
        let Some(sockets) = sockets else { return };
        // A connect probe may overtake the commands that it was sent after, such as the first word
        // of its application.
        sockets.read_commands(
            usize::MAX,
            engine,
            &mut context.rings,
            neighbours,
            now,
            &mut Heard { events },
        );
        sockets.open(&flow.key, &mut self.engine, &mut self.routes, now);
    }
}

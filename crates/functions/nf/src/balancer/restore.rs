//! Packets that leave to servers by their link address.

use base::Nanos;
use shm::Frame;

use super::flows::Flow;
use super::packet::Ends;
use super::{Balancer, Forwarding};
use crate::rewrite::{End, Side, write_end};
use crate::track::Packet;

impl Balancer {
    /// Gives a packet that leaves to a server by its link address the service's back.
    pub(super) fn restore(&mut self, frame: &mut Frame, now: Nanos) {
        let Ok(mut packet) = Packet::read(frame.bytes()) else { return };
        if let Some(quoted) = packet.quoted_mut().map(|tuple| *tuple) {
            self.restore_error(frame, &packet, &quoted, now);
            return;
        }
        let protocol = packet.tuple.protocol;
        let address = if packet.is_later_fragment() {
            let id = packet.fragment.map_or(0, |fragment| fragment.id);
            self.leaving.find(&packet.tuple, id, now)
        } else {
            let Some(Ends { source, destination }) = Ends::of(&packet.tuple) else { return };
            let service = self.service_of(destination.0, destination.1, protocol);
            let service = service.filter(|one| one.forwarding == Forwarding::Link);
            let Some(end) = service.map(|one| one.end) else { return };
            let flow = Flow { client: source, service: end, protocol };
            let found = self.flows.find(&flow, now).filter(|one| one.server == destination);
            let is_it = found.is_some();
            if let Some(first) = packet.fragment.filter(|_| is_it) {
                self.leaving.note(&packet.tuple, first.id, end.0, now);
            }
            is_it.then_some(end.0)
        };
        if let Some(address) = address {
            write_end(frame, Side::Destination, End { address, port: None });
        }
    }
}

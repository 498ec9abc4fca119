//! ICMP errors about packets of services, for servers and clients.

use base::Nanos;
use shm::Frame;

use super::counters::Stop;
use super::flows::Flow;
use super::packet::{Ends, mapped};
use super::{Balancer, Forwarding};
use crate::rewrite::{End, Side, is_icmp_right, write_end, write_quoted};
use crate::track::{Packet, Tuple};

impl Balancer {
    /// An error to a service is about an answer of one of its servers.
    pub(super) fn error_to_server(
        &mut self,
        frame: &mut Frame,
        mut packet: Packet,
        now: Nanos,
    ) -> Result<(), Stop> {
        let is_right = packet.fragment.is_none() && is_icmp_right(frame.bytes());
        let quoted = packet.quoted_mut().filter(|_| is_right).ok_or(Stop::Icmp)?;
        let flow = flow_of(quoted).ok_or(Stop::Icmp)?;
        let server = self.flows.find(&flow, now).map(|entry| entry.server).ok_or(Stop::Icmp)?;
        let service = self.service_at(flow.service.0, flow.service.1, flow.protocol);
        let forwarding = service.ok_or(Stop::Icmp)?.forwarding;
        let (address, port) = server;
        if forwarding == Forwarding::Nat {
            write_quoted(frame, Side::Source, End { address, port: Some(port) });
        }
        self.hand(frame, (address, None), forwarding)?;
        self.counters.errors += 1;
        Ok(())
    }

    /// An error about a packet to a server is, for the client, about one to the service.
    pub(super) fn error_to_client(&mut self, frame: &mut Frame, mut packet: Packet, now: Nanos) {
        let Some(quoted) = packet.quoted_mut().map(|tuple| *tuple) else { return };
        let Some(Ends { source, destination }) = Ends::of(&quoted) else { return };
        let Some(service) = self.service_of(destination.0, destination.1, quoted.protocol) else {
            return;
        };
        let end = service.end;
        let flow = Flow { client: source, service: end, protocol: quoted.protocol };
        let entry = self.flows.find(&flow, now).filter(|entry| entry.server == destination);
        if entry.is_none() || packet.fragment.is_some() || !is_icmp_right(frame.bytes()) {
            return;
        }
        write_quoted(frame, Side::Destination, End { address: end.0, port: Some(end.1) });
        if packet.tuple.source == mapped(destination.0) {
            write_end(frame, Side::Source, End { address: end.0, port: None });
        }
        self.counters.errors += 1;
    }

    /// An error that leaves: to a server by its link address, or of the router about a packet to
    /// one.
    pub(super) fn restore_error(
        &mut self,
        frame: &mut Frame,
        packet: &Packet,
        quoted: &Tuple,
        now: Nanos,
    ) {
        let to_server = flow_of(quoted).and_then(|flow| {
            let server = self.flows.find(&flow, now)?.server;
            let service = self.service_at(flow.service.0, flow.service.1, flow.protocol)?;
            let is_it = service.forwarding == Forwarding::Link
                && packet.tuple.destination == mapped(server.0);
            is_it.then_some(flow.service.0)
        });
        match to_server {
            Some(address) => {
                write_end(frame, Side::Destination, End { address, port: None });
            }
            None => self.error_to_client(frame, packet.clone(), now),
        }
    }
}

/// The flow of a packet from a service that was quoted.
fn flow_of(quoted: &Tuple) -> Option<Flow> {
    let Ends { source, destination } = Ends::of(quoted)?;
    Some(Flow { client: destination, service: source, protocol: quoted.protocol })
}

//! balancer: shares services among servers, each flow with one for as long as it lasts.
//!
//! WHAT IT DOES
//!   A packet to the address and port of a service goes to one of its servers: to that of its flow,
//!   or, where it is the first, to the one that Maglev's ring says. The ring has 65,537 places, by
//!   the weights of the servers that are well; when one of n goes, 1/n of the flows move, and
//!   flows that are known do not. A TCP flow that is not known and did not begin just now goes by
//!   the ring of before for two minutes. How packets get to the servers is the service's
//!   `forwarding`. The control thread checks whether servers are well; one that is not gets no new
//!   flows, and nor does one of weight 0, which drains. Put `router` behind it.
//!
//! PARAMETERS
//!   flows          flows that each slice remembers, 1024 to 16777216; 262144
//!   services       at most 256, each with
//!     address      where clients find it, as "192.0.2.80:443"; the address is the chain's whole:
//!                  of one that this host has too, the kernel gets nothing more but ARP, which it
//!                  answers
//!     protocol     "tcp" or "udp"; tcp
//!     forwarding   "nat": with the server as destination, and its answers come back this way;
//!                  "link": as they are, to the server's link address (direct return); "ipip":
//!                  inside a packet to the server. With the last two the server has the service's address
//!                  on its loopback and answers by itself; nat
//!     source       of "ipip": our address where those packets come from
//!     check        "tcp": a server is well that accepts a connection; "http": and answers a GET
//!                  with a status of 200 to 399; or "none"; tcp, and none for udp
//!     check_path   of "http": what is asked for; /
//!     check_seconds  between two checks of a server, and as long as one may take, 1 to 60; 2
//!     servers      at most 256, each with
//!       address    as "10.0.0.1:8443"; the same port as the service but for "nat"
//!       weight     its share beside the others', 0 to 100; 1
//!
//! COUNTERS
//!   sent, returned, errors (passed on); opened; by_previous_ring; untracked; no_service,
//!   no_server, no_room, no_flow, fragment, icmp, unreadable (dropped); servers_well. Each has a
//!   sentence in the statistics.
//!
//! STANDARDS
//!   Maglev (NSDI 2016), RFC 2003 (IPIP), RFC 1624 (checksums are updated), RFC 5508 section 4
//!   (ICMP errors). TCP flows are kept for 7440 s, 60 s before they are answered, 120 s after a FIN
//!   or a reset; UDP flows for 300 s, 30 s before they are answered.
//!
//! LIMITS
//!   IPv4 only. Each packet costs as much whatever comes: a flow has eight places, and a first
//!   packet never takes that of a flow that was seen to go both ways; by "link" and "ipip" none
//!   is, and a flood takes the places of who is quiet. With "nat" answers must come back by the
//!   same slice, and a server is of one service only. For full NAT, where servers do not answer
//!   by this way, put a `nat` before it that is outside where the servers are. The packet of "ipip"
//!   may be fragmented, which a larger MTU towards the servers avoids. Ping to a service: dropped.

mod counters;
mod flows;
mod packet;
mod restore;
mod ring;
mod service;
mod tell;

use base::{Nanos, PortId};
use shm::{Batch, Frame};
use wire::tcp;

use crate::rewrite::{End, Side, write_end};
use crate::tag::strip_priority_tag;
use crate::track::{Fragments, Packet};
use crate::{Function, Verdict, Verdicts};

pub use counters::BalancerCounters;
use counters::Stop;
use flows::{Flow, Flows, Stage};
use packet::{Ends, destination_of, wrap};
use service::Running;
pub use service::{Forwarding, SERVERS_MAX, SERVICES_MAX, Server, Service, WEIGHT_MAX};

/// Flows that one slice may remember.
pub const FLOWS: std::ops::RangeInclusive<usize> = 1024..=1 << 24;

/// What an operator may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerSettings {
    /// What is shared.
    pub services: Vec<Service>,
    /// Flows that one slice remembers.
    pub flows: usize,
    /// Anything that others cannot know.
    pub seed: u64,
}

/// The function.
#[derive(Debug)]
pub struct Balancer {
    services: Vec<Running>,
    /// By end and protocol, sorted: the place of the service.
    by_end: Vec<((u32, u16, u8), u16)>,
    /// Servers of services with "nat" and "link" by end and protocol, sorted.
    by_server: Vec<((u32, u16, u8), u16)>,
    /// Addresses of services, sorted.
    addresses: Vec<u32>,
    flows: Flows,
    /// Where later fragments of a packet go: to a server, or back as from a service.
    pieces: Fragments<Piece>,
    /// The service that later fragments are for which leave to a server by its link address,
    /// whoever cut them: by what they say as they leave.
    leaving: Fragments<u32>,
    /// The number of the last packet that a server got inside another one.
    identification: u16,
    servers_well: usize,
    counters: BalancerCounters,
    /// When packets were last looked at.
    now: Nanos,
    /// It has no flows before those of another.
    follows: bool,
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    To { server: u32, forwarding: Forwarding },
    From { service: u32 },
}

impl Balancer {
    /// Shares these services; `is_well` says of each service and server, by their places, whether
    /// it may get new flows.
    pub fn new(settings: &BalancerSettings, is_well: impl Fn(usize, usize) -> bool) -> Self {
        Self::with_rings(settings, is_well, |_| true)
    }

    /// The same; services that `has_ring` names not are to go on with the ring of before.
    fn with_rings(
        settings: &BalancerSettings,
        is_well: impl Fn(usize, usize) -> bool,
        has_ring: impl Fn(usize) -> bool,
    ) -> Self {
        let given = || settings.services.iter().take(SERVICES_MAX).enumerate();
        let services: Vec<Running> = given()
            .map(|(at, one)| Running::new(one, |to| is_well(at, to), has_ring(at)))
            .collect();
        let mut by_end: Vec<_> = (0..)
            .zip(&services)
            .map(|(at, one)| ((one.end.0, one.end.1, one.protocol), at))
            .collect();
        by_end.sort_unstable();
        let mut by_server = Vec::new();
        for (at, one) in (0..).zip(&services) {
            if !matches!(one.forwarding, Forwarding::Ipip { .. }) {
                by_server.extend(one.servers.iter().map(|to| ((to.0, to.1, one.protocol), at)));
            }
        }
        by_server.sort_unstable();
        let mut addresses: Vec<u32> = services.iter().map(|one| one.end.0).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let wells =
            given().map(|(at, one)| (0..one.servers.len()).filter(|s| is_well(at, *s)).count());
        Self {
            servers_well: wells.sum(),
            follows: false,
            services,
            by_end,
            by_server,
            addresses,
            flows: Flows::new(settings.flows, settings.seed),
            pieces: Fragments::new(settings.seed.rotate_left(5)),
            leaving: Fragments::new(settings.seed.rotate_left(11)),
            identification: settings.seed as u16,
            counters: BalancerCounters::default(),
            now: Nanos::ZERO,
        }
    }

    /// The same, to take the place of one with the same services and number of flows: it has no
    /// room for flows before, and rings of its own only of services that `has_changed` names.
    pub fn following(
        settings: &BalancerSettings,
        is_well: impl Fn(usize, usize) -> bool,
        has_changed: impl Fn(usize) -> bool,
    ) -> Self {
        let without = BalancerSettings { flows: 1, ..settings.clone() };
        Self { follows: true, ..Self::with_rings(&without, is_well, has_changed) }
    }

    /// Goes on with the flows, the rings and the counters of `before`, whose place it takes; flows
    /// are forgotten where another number of them is to be remembered.
    pub fn take_over(&mut self, before: &mut Self) {
        self.counters = before.counters;
        self.now = before.now;
        if self.follows || self.flows.room() == before.flows.room() {
            std::mem::swap(&mut self.flows, &mut before.flows);
            std::mem::swap(&mut self.pieces, &mut before.pieces);
            std::mem::swap(&mut self.leaving, &mut before.leaving);
        }
        for service in &mut self.services {
            if let Some(old) = before.services.iter_mut().find(|old| old.is_like(service)) {
                service.follow(old, before.now);
            }
        }
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &BalancerCounters {
        &self.counters
    }

    fn service_at(&self, address: u32, port: u16, protocol: u8) -> Option<&Running> {
        let key = (address, port, protocol);
        let found = self.by_end.binary_search_by_key(&key, |(end, _)| *end).ok()?;
        self.services.get(usize::from(self.by_end.get(found)?.1))
    }

    /// The service of which that is a server.
    fn service_of(&self, address: u32, port: u16, protocol: u8) -> Option<&Running> {
        let key = (address, port, protocol);
        let found = self.by_server.binary_search_by_key(&key, |(end, _)| *end).ok()?;
        self.services.get(usize::from(self.by_server.get(found)?.1))
    }

    /// The server of a packet to a service.
    fn server_of(&mut self, packet: &Packet, now: Nanos) -> Result<((u32, u16), Forwarding), Stop> {
        let Ends { source, destination } = Ends::of(&packet.tuple).ok_or(Stop::NoService)?;
        let protocol = packet.tuple.protocol;
        let service =
            self.service_at(destination.0, destination.1, protocol).ok_or(Stop::NoService)?;
        let forwarding = service.forwarding;
        let flow = Flow { client: source, service: destination, protocol };
        let flags = packet.tcp_flags();
        let begins = flags.is_some_and(|flags| flags & (tcp::SYN | tcp::ACK) == tcp::SYN);
        // Of UDP nobody knows whether a flow begins.
        let has_begun = flags.is_some() && !begins;
        let chosen = service.choose(Flows::hash(&flow), has_begun, now);
        let known = self.flows.peek(&flow, now);
        let goes_on = known.filter(|(server, stage)| match stage {
            // Sent once more, or nothing has come back yet: while its server is well.
            Stage::Begun if begins || flags.is_none() => service.is_open(*server),
            Stage::Ending if begins => false,
            // Whoever lies about his address takes no flow away by its first packet.
            _ => service.servers.contains(server),
        });
        if let Some((server, stage)) = goes_on {
            if let Some(entry) = self.flows.find(&flow, now) {
                entry.advance(flags, true, forwarding != Forwarding::Nat);
                // Datagrams to a server that answers no more keep nothing: another one is chosen.
                let waits = flags.is_none() && forwarding == Forwarding::Nat;
                if !(begins || waits && stage != Stage::Begun) {
                    entry.keep(now);
                }
            }
            return Ok((server, forwarding));
        }
        let (server, is_previous) = chosen.ok_or(Stop::NoServer)?;
        self.counters.by_previous_ring += u64::from(is_previous);
        let is_kept = match self.flows.find(&flow, now) {
            Some(entry) => {
                entry.begin(server, now);
                true
            }
            None => self.flows.insert(flow, server, now),
        };
        let counter =
            if is_kept { &mut self.counters.opened } else { &mut self.counters.untracked };
        *counter += 1;
        match is_kept || forwarding != Forwarding::Nat {
            true => Ok((server, forwarding)),
            // Its answer would leave with the server's address.
            false => Err(Stop::NoFlow),
        }
    }

    /// A packet to the address of a service.
    fn send(&mut self, frame: &mut Frame, now: Nanos) -> Result<(), Stop> {
        let mut packet = Packet::read(frame.bytes()).map_err(|_| Stop::Unreadable)?;
        if packet.quoted_mut().is_some() {
            return self.error_to_server(frame, packet, now);
        }
        if packet.is_later_fragment() {
            let id = packet.fragment.map_or(0, |fragment| fragment.id);
            let Some(Piece::To { server, forwarding }) = self.pieces.find(&packet.tuple, id, now)
            else {
                return Err(Stop::Fragment);
            };
            self.hand(frame, (server, None), forwarding)?;
            self.counters.sent += 1;
            return Ok(());
        }
        let (server, forwarding) = self.server_of(&packet, now)?;
        if let Some(fragment) = packet.fragment {
            let piece = Piece::To { server: server.0, forwarding };
            self.pieces.note(&packet.tuple, fragment.id, piece, now);
        }
        self.hand(frame, (server.0, Some(server.1)), forwarding)?;
        self.counters.sent += 1;
        Ok(())
    }

    /// Makes the router send the packet to a server.
    fn hand(
        &mut self,
        frame: &mut Frame,
        (address, port): (u32, Option<u16>),
        forwarding: Forwarding,
    ) -> Result<(), Stop> {
        match forwarding {
            Forwarding::Nat => write_end(frame, Side::Destination, End { address, port }),
            // Until it leaves: the router is to find the server, not the service.
            Forwarding::Link => write_end(frame, Side::Destination, End { address, port: None }),
            // It has nowhere to go any more, which the router tells its sender.
            Forwarding::Ipip { .. } if packet::is_spent(frame) => {}
            Forwarding::Ipip { source } => {
                self.identification = self.identification.wrapping_add(1);
                wrap(frame, source.octets(), address.to_be_bytes(), self.identification)
                    .ok_or(Stop::NoRoom)?;
            }
        }
        Ok(())
    }

    /// A packet that is not for a service: an answer of a server goes back as from the service.
    fn give_back(&mut self, frame: &mut Frame, now: Nanos) -> Result<(), Stop> {
        let Ok(mut packet) = Packet::read(frame.bytes()) else { return Ok(()) };
        if packet.quoted_mut().is_some() {
            self.error_to_client(frame, packet, now);
            return Ok(());
        }
        if packet.is_later_fragment() {
            let id = packet.fragment.map_or(0, |fragment| fragment.id);
            if let Some(Piece::From { service }) = self.pieces.find(&packet.tuple, id, now) {
                write_end(frame, Side::Source, End { address: service, port: None });
                self.counters.returned += 1;
            }
            return Ok(());
        }
        let protocol = packet.tuple.protocol;
        let Some(Ends { source, destination }) = Ends::of(&packet.tuple) else { return Ok(()) };
        let Some(service) = self.service_of(source.0, source.1, protocol) else { return Ok(()) };
        if service.forwarding != Forwarding::Nat {
            return Ok(());
        }
        let flow = Flow { client: destination, service: service.end, protocol };
        // To whoever speaks to the server itself it answers itself.
        let entry = self.flows.find(&flow, now).filter(|entry| entry.server == source);
        let Some(entry) = entry else { return Ok(()) };
        entry.advance(packet.tcp_flags(), false, false);
        entry.keep(now);
        let (address, port) = flow.service;
        if let Some(fragment) = packet.fragment {
            self.pieces.note(&packet.tuple, fragment.id, Piece::From { service: address }, now);
        }
        write_end(frame, Side::Source, End { address, port: Some(port) });
        self.counters.returned += 1;
        Ok(())
    }

    fn settle(&mut self, done: Result<(), Stop>, verdict: &mut Verdict) {
        if let Err(stop) = done {
            *stop.counter(&mut self.counters) += 1;
            *verdict = Verdict::Drop;
        }
    }
}

impl Function for Balancer {
    fn name(&self) -> &'static str {
        "balancer"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        self.now = now;
        for (_, frame, verdict) in verdicts.undecided(batch) {
            // The router will forward what is behind it.
            strip_priority_tag(frame);
            let Some(destination) = destination_of(frame) else { continue };
            let done = match self.addresses.binary_search(&destination) {
                Ok(_) => self.send(frame, now),
                Err(_) => self.give_back(frame, now),
            };
            self.settle(done, verdict);
        }
    }

    fn leave(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (frame, _, PortId(_)) in verdicts.leaving(batch) {
            if destination_of(frame).is_some() {
                self.restore(frame, now);
            }
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
        let help = "Servers that are well, each counted in each of its services.";
        each("servers_well", help, self.servers_well as u64);
    }
}

#[cfg(test)]
mod tests;

//! The parts of a turn: segments in, the service, the applications, segments out.

use arrayvec::ArrayVec;
use base::{BURST, Nanos};
use datapath::Outlet;
use tcp::{Event, Incoming, Seq};
use wire::Protocol;
use wire::icmp::{ErrorKind, ErrorMessage};

use super::{Heard, SPARES, SWEEP_EVERY, SocketJob};
use crate::counts::SocketCounter;
use crate::frames::{Arrival, Press, arrival, is_of_vlan};
use crate::routes::Route;
use crate::served::COMMANDS;

impl SocketJob {
    /// Takes the segments of the kept frames in, and the frames as empty ones.
    pub(super) fn receive(&mut self, now: Nanos, outlet: &mut Outlet<'_>) {
        if self.exchange.has_any() {
            self.claim_arrived(now);
        }
        self.read_connect_probes(now);
        self.read_commands(now);
        let Self {
            engine, context, sockets, routes, neighbours, kept, spares, events, counts, ..
        } = self;
        let mut incoming = ArrayVec::<Incoming<'_>, BURST>::new();
        let mut errors = ArrayVec::<(ErrorMessage, &[u8]), BURST>::new();
        let mut is_full = false;
        for frame in kept.iter() {
            if sockets.is_some() && is_of_vlan(frame) {
                counts.add(SocketCounter::Vlans, 1);
                continue;
            }
            match arrival(frame, routes) {
                Arrival::Segment(segment) => {
                    if let Some(traces) = sockets.as_mut().and_then(|of| of.traces()) {
                        traces.arrived(segment.key, frame.meta().received_at);
                    }
                    incoming.push(segment);
                }
                Arrival::NoRoute => {
                    counts.add(SocketCounter::RoutesFull, 1);
                    is_full = true;
                }
                Arrival::Datagram(key, fields, payload) => {
                    let taker = sockets.as_mut();
                    let (source, port) = (key.source().ip(), frame.meta().port);
                    if !neighbours.is_known_by(source, port)
                        && let Some(sources) = taker.as_ref().and_then(|of| of.sources())
                        && !sources.may_come(source, port)
                    {
                        counts.add(SocketCounter::SourcesElsewhere, 1);
                        continue;
                    }
                    let came = (port, payload);
                    let user = taker.and_then(|sockets| sockets.deliver(&key, fields, came, now));
                    // Not of what nobody wanted: its sender may have invented any number of
                    // addresses.
                    let Some(user) = user else {
                        counts.add(SocketCounter::NotTcp, 1);
                        continue;
                    };
                    if let Some(route) = Route::back(frame) {
                        let (from, to) = (key.source().ip(), key.destination().ip());
                        neighbours.learn(from, to, route, user, now);
                    }
                }
                Arrival::Error(error, packet) => errors.push((error, packet)),
                Arrival::NotTcp => counts.add(SocketCounter::NotTcp, 1),
            }
        }
        let mut press = Press::plain(routes, spares, outlet, events, counts);
        press.sources = sockets.as_ref().and_then(|sockets| sockets.sources());
        press.takers = sockets.as_deref();
        engine.receive(now, &incoming, &mut context.rings, &mut press);
        drop(incoming);
        let mut press = Press::plain(routes, spares, outlet, events, counts);
        for (error, packet) in errors {
            match (error.key.protocol(), error.kind) {
                (Protocol::Udp, _) => {
                    if let Some(sockets) = sockets {
                        sockets.unreachable(&error, packet, now);
                    }
                }
                (Protocol::Tcp, ErrorKind::TooBig { mtu }) => {
                    engine.too_big(&error.key, Seq(error.sequence), mtu);
                }
                (Protocol::Tcp, _) => {
                    let errno = error.errno() as u16;
                    engine.unreachable(&error.key, Seq(error.sequence), errno, &mut press);
                }
            }
        }
        for frame in kept.drain(..) {
            if spares.len() < SPARES || outlet.room() == 0 {
                spares.push(frame);
            } else {
                outlet.give_back(frame);
            }
        }
        if is_full && now >= self.sweep_at {
            self.sweep_at = now + SWEEP_EVERY;
            let engine = &self.engine;
            self.routes.sweep(|mark| engine.each_route(mark));
        }
    }

    /// Heeds what was told before these segments came: a caller may be the first of a listener that
    /// was told of a moment ago.
    fn read_commands(&mut self, now: Nanos) {
        let Self { engine, context, sockets, events, neighbours, .. } = self;
        if let Some(sockets) = sockets {
            let (rings, mut heard) = (&mut context.rings, Heard { events });
            sockets.read_commands(COMMANDS, engine, rings, neighbours, now, &mut heard);
        }
        self.follow_addresses();
    }

    /// What leaves from here on has the link address that its port has now, as far as it was told.
    fn follow_addresses(&mut self) {
        for link in self.neighbours.take_readdressed() {
            self.routes.readdress(&link);
        }
    }

    /// The service's part: what it does may lead to more events.
    pub(super) fn serve(&mut self, now: Nanos, outlet: &mut Outlet<'_>) {
        let Self { engine, context, service, sockets, routes, spares, events, counts, .. } = self;
        let is_closing = self.is_closing;
        // What a service does to one flow says nothing new about another, so this ends.
        for at in 0.. {
            let Some(&event) = events.get(at) else { break };
            if let Some(sockets) = sockets {
                if is_closing && let Event::Connected { flow, .. } = event {
                    let _ = engine.abort(flow);
                    continue;
                }
                sockets.event(event, engine, &mut context.rings);
                continue;
            }
            match event {
                Event::Closed { flow, .. } => {
                    context.forget(flow);
                    service.forget(flow);
                    continue;
                }
                Event::Connected { flow, .. } => context.remember(flow),
                Event::Readable { .. }
                | Event::Writable { .. }
                | Event::Urgent { .. }
                | Event::PeerClosed { .. } => {}
            }
            let (Event::Connected { flow, .. }
            | Event::Readable { flow }
            | Event::Writable { flow }
            | Event::Urgent { flow }
            | Event::PeerClosed { flow }
            | Event::Closed { flow, .. }) = event;
            if is_closing {
                // The flow is gone already when this fails.
                let _ = engine.abort(flow);
                continue;
            }
            if service.advance(engine, context, flow, now) {
                let mut press = Press::plain(routes, spares, outlet, events, counts);
                let _ = engine.close(flow, &mut press);
            }
        }
        events.clear();
    }

    /// What applications and the slow side want.
    pub(super) fn attend(&mut self, now: Nanos) {
        let Self { engine, context, sockets, events, neighbours, .. } = self;
        let Some(sockets) = sockets else { return };
        let mut heard = Heard { events };
        sockets.attend(engine, &mut context.rings, neighbours, now, &mut heard);
        self.follow_addresses();
    }

    pub(super) fn transmit(&mut self, now: Nanos, outlet: &mut Outlet<'_>) {
        let Self { engine, context, routes, spares, events, counts, wanted, joins, .. } = self;
        let mut press = Press::plain(routes, spares, outlet, events, counts);
        press.joins = *joins;
        engine.transmit(now, &mut context.rings, &mut press);
        press.finish();
        let has_more = engine.next_deadline().is_some_and(|due| due <= now);
        // One is always there for a segment that is refused: such an answer is not kept.
        let is_short = spares.is_empty() || (has_more && spares.len() < BURST);
        if is_short && *wanted == 0 && outlet.room() > 0 {
            outlet.want(BURST);
            *wanted = BURST;
        }
    }

    pub(super) fn publish_counts(&mut self, now: Nanos) {
        self.counts_at = now;
        self.counts.publish(self.engine.counters());
        self.counts.set(SocketCounter::Flows, self.engine.flows_in_use() as u64);
        self.counts.set(SocketCounter::RingBytes, self.context.rings.bytes());
        self.counts.set(SocketCounter::RingsFull, self.context.rings.refused());
        if let Some(sockets) = &self.sockets {
            sockets.stats().publish(&self.counts);
        }
    }
}

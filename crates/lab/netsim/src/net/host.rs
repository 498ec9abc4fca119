//! A host: an engine, its rings, and an application that sends or reads.

use base::Nanos;
use tcp::{
    Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece, ReadPiece,
    Segment,
};

use super::flow::{PORT, address};
use super::simulation::Shared;

/// Bytes that may wait in a host's NIC; the engine keeps what is more, as Linux's does (TCP small
/// queues).
const NIC_BYTES: u32 = 64 << 10;

/// Connections half open at a host before it answers with cookies.
const BACKLOG: u32 = 4096;

/// A host.
pub(super) struct Host {
    number: u32,
    engine: Engine,
    rings: Rings,
    /// Number of each of the engine's flows.
    numbers: Vec<u32>,
    said: Vec<Event>,
    /// The engine has more to send than the NIC takes.
    is_blocked: bool,
    /// When the next look at the engine is put down for.
    pub(super) look_at: Nanos,
    pub(super) wrong_bytes: u64,
}

/// Rings of a host's flows. What is sent is the same for all: a byte's value depends on its place
/// in the ring.
struct Rings {
    pattern: std::rc::Rc<[u8]>,
    receive: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Rings {
    /// What is at these places must be what was sent; returns how many bytes are not. Leaves zeros,
    /// so that nothing is taken for new that is old.
    fn check(&mut self, flow: FlowId, at: usize, bytes: usize) -> usize {
        let Some(ring) = self.receive.get_mut(flow.index()) else { return bytes };
        let first = bytes.min(ring.len() - at);
        let mut wrong = 0;
        for place in [at..at + first, 0..bytes - first] {
            let (found, sent) = (&mut ring[place.clone()], &self.pattern[place]);
            if found != sent {
                wrong += found.iter().zip(sent).filter(|(found, sent)| found != sent).count();
            }
            found.fill(0);
        }
        wrong
    }

    fn recycle(&mut self, flow: FlowId) {
        if let Some(ring) = self.receive.get_mut(flow.index())
            && !ring.is_empty()
        {
            let mut ring = std::mem::take(ring);
            ring.fill(0);
            self.spare.push(ring);
        }
    }
}

impl Buffers for Rings {
    #[inline]
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        let Self { pattern, receive, spare } = self;
        if receive.len() <= flow.index() {
            receive.resize_with(flow.index() + 1, Vec::new);
        }
        let ring = &mut receive[flow.index()];
        if ring.is_empty() {
            *ring = spare.pop().unwrap_or_else(|| vec![0; pattern.len()]);
        }
        ring.into()
    }

    #[inline]
    fn send_ring(&self, _: FlowId) -> ReadPiece<'_> {
        (&self.pattern).into()
    }
}

/// The way out of an engine: its NIC.
struct Out<'a> {
    shared: &'a mut Shared,
    said: &'a mut Vec<Event>,
    is_blocked: &'a mut bool,
    host: u32,
    now: Nanos,
}

impl Output for Out<'_> {
    #[inline]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        if self.shared.links.all[self.host as usize].waiting(self.now) >= NIC_BYTES {
            *self.is_blocked = true;
            return false;
        }
        self.shared.send(self.now, self.host, segment);
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.said.push(event);
    }
}

/// Calls an engine: it, its rings and its way out at once.
macro_rules! out {
    ($host:expr, $shared:expr, $now:expr) => {
        Out {
            shared: $shared,
            said: &mut $host.said,
            is_blocked: &mut $host.is_blocked,
            host: $host.number,
            now: $now,
        }
    };
}

impl Host {
    pub(super) fn new(
        number: u32,
        config: Config,
        options: FlowOptions,
        pattern: std::rc::Rc<[u8]>,
        seed: u64,
    ) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&seed.to_be_bytes());
        key[8..12].copy_from_slice(&number.to_be_bytes());
        let mut engine = Engine::new(config, key, Nanos::ZERO);
        engine
            .listen(address(number, PORT), BACKLOG, options)
            .expect("a fresh engine listens nowhere, and the port is not zero");
        Self {
            number,
            engine,
            rings: Rings { pattern, receive: Vec::new(), spare: Vec::new() },
            numbers: Vec::new(),
            said: Vec::new(),
            is_blocked: false,
            look_at: Nanos::FAR_FUTURE,
            wrong_bytes: 0,
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Opens a flow of the plan.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        flow: u32,
        options: FlowOptions,
        shared: &mut Shared,
    ) {
        let of = &shared.flows[flow as usize];
        let (local, remote) = (of.client_address(), of.server_address());
        match self.engine.connect(now, local, remote, options, flow) {
            Ok(id) => {
                shared.flows[flow as usize].id = Some(id);
                self.note_number(id, flow);
                self.write(id, flow, shared);
                self.turn(now, shared);
            }
            Err(error) => {
                debug_assert!(false, "the plan has room for all its flows: {error}");
                shared.give_up(flow);
            }
        }
    }

    /// A packet has come.
    pub(super) fn receive(&mut self, now: Nanos, packet: u32, shared: &mut Shared) {
        let came = std::mem::take(shared.packets.at(packet));
        let way = *shared.flows[came.flow as usize].way(came.is_to_server);
        let incoming = Incoming {
            key: way.key,
            hash: way.hash,
            segment: &came.bytes,
            ecn: came.ecn,
            is_verified: true,
            route: came.flow,
        };
        let mut out = out!(self, shared, now);
        self.engine.receive(now, &[incoming], &mut self.rings, &mut out);
        *shared.packets.at(packet) = came;
        shared.packets.give(packet);
        self.turn(now, shared);
    }

    /// Does what is due and sends what may be sent.
    pub(super) fn turn(&mut self, now: Nanos, shared: &mut Shared) {
        self.engine.expire(now, &mut out!(self, shared, now));
        loop {
            self.act(now, shared);
            self.is_blocked = false;
            let mut out = out!(self, shared, now);
            self.engine.transmit(now, &mut self.rings, &mut out);
            let has_more = self.engine.next_deadline() == Some(Nanos::ZERO) && !self.is_blocked;
            if self.said.is_empty() && !has_more {
                return;
            }
        }
    }

    /// When the engine has to be looked at next.
    pub(super) fn next_look(&self, shared: &Shared) -> Option<Nanos> {
        if self.is_blocked {
            return Some(shared.links.all[self.number as usize].waits_at_most(NIC_BYTES / 2));
        }
        self.engine.next_deadline()
    }

    /// The application hears what has happened.
    fn act(&mut self, now: Nanos, shared: &mut Shared) {
        let mut next = 0;
        while let Some(event) = self.said.get(next).copied() {
            next += 1;
            match event {
                Event::Connected { flow: id, listener: Some(_) } => {
                    let peer = self.engine.key(id).map(|key| key.source());
                    let number = peer.and_then(|peer| shared.names.get(&peer).copied());
                    self.note_number(id, number.expect("only flows of the plan connect"));
                }
                Event::Connected { .. } | Event::Urgent { .. } => {}
                Event::Readable { flow: id } => self.read(now, id, shared),
                Event::Writable { flow: id } => {
                    let flow = self.numbers[id.index()];
                    self.write(id, flow, shared);
                }
                Event::PeerClosed { flow: id } => {
                    self.read(now, id, shared);
                    // That it is gone already is no error.
                    let _ = self.engine.close(id, &mut out!(self, shared, now));
                }
                Event::Closed { flow: id, .. } => {
                    self.rings.recycle(id);
                    let number = self.numbers[id.index()];
                    if shared.flows[number as usize].id == Some(id)
                        && shared.flows[number as usize].client == self.number
                    {
                        shared.give_up(number);
                    }
                }
            }
        }
        self.said.clear();
    }

    fn note_number(&mut self, id: FlowId, number: u32) {
        if self.numbers.len() <= id.index() {
            self.numbers.resize(id.index() + 1, 0);
        }
        self.numbers[id.index()] = number;
    }

    /// Gives the engine as much as it takes; after the last byte the flow's end.
    fn write(&mut self, id: FlowId, number: u32, shared: &mut Shared) {
        let flow = &mut shared.flows[number as usize];
        if flow.unsent == 0 {
            return;
        }
        let room = self.engine.room(id).bytes;
        let count = u64::from(room).min(flow.unsent);
        if self.engine.send(id, count as u32).is_err() {
            // The flow is over, which its last event tells.
            return;
        }
        flow.unsent -= count;
        if flow.unsent > 0 {
            self.engine.want_room(id);
        } else {
            // Nobody has shut it down before.
            let _ = self.engine.shutdown(id);
        }
    }

    /// Reads and checks everything that has come.
    fn read(&mut self, now: Nanos, id: FlowId, shared: &mut Shared) {
        let span = self.engine.readable(id);
        if span.bytes == 0 {
            return;
        }
        self.wrong_bytes += self.rings.check(id, span.at, span.bytes as usize) as u64;
        let consumed = self.engine.consume(id, span.bytes);
        debug_assert!(consumed.is_ok(), "so much was readable just now");
        shared.arrived(now, self.numbers[id.index()], span.bytes);
    }
}

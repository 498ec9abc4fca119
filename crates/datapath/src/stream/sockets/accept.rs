//! Connections that come to listeners, and those that were opened and now stand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Nanos;
use shm::stream::{Entry, Kind, SlotOption, SlotState, SlotWords};
use tcp::{Engine, FlowId, FlowOptions, ListenerId, Output};
use wire::FlowKey;

use super::super::front::{AppStreams, Listening};
use super::super::rings::Rings;
use super::{Conn, Sockets};

/// Bytes of a new connection's send ring, as a logarithm: most answers are short, and idle connections many.
pub(super) const FIRST_SEND_LOG2: u8 = 10;

/// Connections that stand and wait for room in their backlog, at most.
pub(super) const PARKED_MAX: usize = 4096;

/// Time until they try again.
const PARKED_FOR: Nanos = Nanos::from_micros(500);

/// Bytes that a send ring may grow to, as a logarithm.
const SEND_LOG2_MAX: u8 = 22;

/// An address that is listened on, and by whom: several share its connections by flow hash.
#[derive(Debug)]
pub(super) struct Bound {
    id: ListenerId,
    address: SocketAddr,
    members: Vec<Arc<Listening>>,
}

impl Bound {
    pub(super) fn slots_of(&self, app: u16) -> impl Iterator<Item = u32> {
        let own = self.members.iter().filter(move |member| member.app.app == app);
        own.map(|member| member.slot)
    }
}

impl Sockets {
    pub(super) fn listen(&mut self, listening: Arc<Listening>, engine: &mut Engine) {
        let address = listening.address;
        if let Some(bound) = self.bound.iter_mut().find(|bound| bound.address == address) {
            return bound.members.push(listening);
        }
        // The slow side has seen to it that the address is free.
        let options = FlowOptions { send_ring_log2: FIRST_SEND_LOG2, ..listening.options };
        if let Ok(id) = engine.listen(address, listening.half_open_max, options) {
            self.bound.push(Bound { id, address, members: vec![listening] });
        }
    }

    pub(super) fn unlisten(&mut self, app: u16, slot: u32, engine: &mut Engine) {
        for bound in &mut self.bound {
            bound.members.retain(|member| (member.app.app, member.slot) != (app, slot));
        }
        self.bound.retain(|bound| {
            let is_wanted = !bound.members.is_empty();
            if !is_wanted {
                engine.unlisten(bound.id);
            }
            is_wanted
        });
    }

    /// A connection stands that somebody listens for.
    pub(super) fn accept<O: Output>(
        &mut self,
        flow: FlowId,
        listener: ListenerId,
        engine: &mut Engine,
        rings: &mut Rings,
        _out: &mut O,
    ) {
        if self.is_full(flow, listener, engine) && self.parked.len() < PARKED_MAX {
            // The program is late, not gone. Linux lets the peer send its last acknowledgement again.
            self.parked.push_back((flow, listener));
            self.paced_until = self.paced_until.min(self.now + PARKED_FOR);
        } else if self.try_accept(flow, listener, engine, rings).is_none() {
            // Nobody can take it: the peer hears so at once.
            let _ = engine.abort(flow);
        }
    }

    /// Connections that found their backlog full try again, oldest first.
    pub(super) fn accept_parked(&mut self, engine: &mut Engine, rings: &mut Rings) {
        for _ in 0..self.parked.len() {
            let Some((flow, listener)) = self.parked.pop_front() else { return };
            if engine.state(flow).is_none() {
                rings.free(flow);
            } else if self.is_full(flow, listener, engine) {
                self.parked.push_back((flow, listener));
                self.paced_until = self.paced_until.min(self.now + PARKED_FOR);
            } else if self.try_accept(flow, listener, engine, rings).is_none() {
                let _ = engine.abort(flow);
            }
        }
    }

    /// Who takes the connections of a listener that have this flow's name.
    fn taker(
        &self,
        flow: FlowId,
        listener: ListenerId,
        engine: &Engine,
    ) -> Option<(&Arc<Listening>, FlowKey)> {
        let bound = self.bound.iter().find(|bound| bound.id == listener)?;
        let key = engine.key(flow)?;
        let at = engine.hash_of(&key).0 as usize % bound.members.len().max(1);
        Some((bound.members.get(at)?, key))
    }

    fn is_full(&self, flow: FlowId, listener: ListenerId, engine: &Engine) -> bool {
        self.taker(flow, listener, engine).is_some_and(|(taker, _)| {
            let words = taker.app.server.memory().slot(taker.slot);
            words.is_some_and(|words| taker.backlog.is_full(words))
        })
    }

    fn try_accept(
        &mut self,
        flow: FlowId,
        listener: ListenerId,
        engine: &mut Engine,
        rings: &mut Rings,
    ) -> Option<()> {
        let (taker, key) = self.taker(flow, listener, engine)?;
        let listening = Arc::clone(taker);
        let app = Arc::clone(&listening.app);
        let slot = app.server.lend_slot()?;
        if !rings.settle(flow, Arc::clone(&app), FIRST_SEND_LOG2) {
            rings.free(flow);
            app.server.take_back_slot(slot);
            return None;
        }
        let memory = app.server.memory();
        let (words, from) = (memory.slot(slot)?, memory.slot(listening.slot)?);
        words.local.set(Some(key.destination()));
        words.remote.set(Some(key.source()));
        inherit(from, words);
        let mut conn = Conn::new(Some(flow), app.server.generation(slot));
        self.settle(&app, slot, &mut conn, flow, engine, rings);
        self.insert(app.app, slot, conn);
        self.touch(app.app, slot);
        let entry = Entry { region: app.region, slot };
        if !listening.backlog.push(memory, from, entry) {
            self.by_flow[flow.index()] = None;
            let client = self.clients.get_mut(usize::from(app.app))?.as_deref_mut()?;
            let conn = client.conns.get_mut(slot as usize)?.take()?;
            conn.give_back(&app, rings);
            app.server.take_back_slot(slot);
            return None;
        }
        self.notify(app.app, listening.slot);
        Some(())
    }

    /// A connection that was opened here stands.
    pub(super) fn connected(
        &mut self,
        app: u16,
        slot: u32,
        flow: FlowId,
        engine: &mut Engine,
        rings: &mut Rings,
    ) {
        let Some((_, streams)) = self.conn(app, slot) else { return };
        let streams = Arc::clone(streams);
        if !rings.settle(flow, Arc::clone(&streams), FIRST_SEND_LOG2) {
            let _ = engine.abort(flow);
            return;
        }
        let client = self.clients.get_mut(usize::from(app)).and_then(Option::as_deref_mut);
        let conn = client.and_then(|client| client.conns.get_mut(slot as usize)?.take());
        let Some(mut conn) = conn else { return };
        self.settle(&streams, slot, &mut conn, flow, engine, rings);
        self.insert(app, slot, conn);
        self.touch(app, slot);
    }

    /// Writes into the slot where bytes lie.
    fn settle(
        &self,
        app: &AppStreams,
        slot: u32,
        conn: &mut Conn,
        flow: FlowId,
        engine: &Engine,
        rings: &Rings,
    ) {
        let Some(words) = app.server.memory().slot(slot) else { return };
        let Some((read, end)) = engine.numbers(flow) else { return };
        words.rx_base.store(read.0, Ordering::Relaxed);
        words.tx_base.store(end.0, Ordering::Relaxed);
        words.tx_log2_max.store(u32::from(SEND_LOG2_MAX), Ordering::Relaxed);
        let send = rings.of(flow).and_then(|pair| pair.send.desc()).unwrap_or_default();
        words.tx_ring.store(send.word(), Ordering::Release);
        words.tx_ring_used.store(send.word(), Ordering::Release);
        conn.is_connected = true;
        words.state.store(Kind::Stream as u32 | SlotState::CONNECTED, Ordering::Release);
    }
}

/// What an accepted socket has from its listener (as in Linux: all but what belongs to the descriptor).
fn inherit(from: &SlotWords, to: &SlotWords) {
    for (value, place) in from.options.iter().zip(&to.options) {
        place.store(value.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    // Timeouts of accept are the listener's own.
    to.options[SlotOption::ReceiveTimeout as usize].store(0, Ordering::Relaxed);
    to.options[SlotOption::SendTimeout as usize].store(0, Ordering::Relaxed);
    to.options_version.store(1, Ordering::Relaxed);
}

//! Connections that come to listeners, and those that were opened and now stand.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{AppId, SlotId};
use shm::sockets::{Entry, Kind, SlotOption, SlotState, SlotWords};
use tcp::{Engine, FlowId, FlowOptions, ListenerId};
use wire::FlowKey;

use super::bound::{Bound, Taken};
use super::options::first_options;
use super::records::{strike_out, write_down};
use super::{Conn, Sockets};
use crate::app_sockets::AppSockets;
use crate::command_queue::Listening;
use crate::rings::Rings;

/// Bytes of a new connection's send ring, as a logarithm: most answers are short, and idle
/// connections many.
pub(super) const FIRST_SEND_LOG2: u8 = 10;

/// Bytes that a send ring may grow to, as a logarithm.
const SEND_LOG2_MAX: u8 = 22;

impl Sockets {
    pub(super) fn listen(&mut self, listening: Arc<Listening>, engine: &mut Engine) {
        let address = listening.address;
        if let Some(id) = self.bound.at(address) {
            return self.bound.join(id, listening);
        }
        // The slow side has seen to it that the address is free.
        let options = options_of(&listening);
        if let Ok(id) = engine.listen(address, listening.half_open_max, options) {
            self.bound.join(id, listening);
        }
    }

    /// Has the options of a listener heeded; whether they have changed.
    ///
    /// Several listeners of one address agree before a connection is known to be any one's, so the
    /// first of them says what the answer to a SYN is.
    pub(super) fn listener_changed(&self, app: AppId, slot: SlotId, engine: &mut Engine) -> bool {
        let mut has_changed = false;
        for &id in self.bound.of_socket(app, slot) {
            if let Some(first) = self.bound.get(id).and_then(Bound::first) {
                has_changed |= engine.set_listener_options(id, options_of(first));
            }
        }
        has_changed
    }

    pub(super) fn unlisten(&mut self, app: AppId, slot: SlotId, engine: &mut Engine) {
        self.bound.leave(app, slot, |id| engine.unlisten(id));
    }

    /// A connection stands that somebody listens for.
    pub(super) fn accept(
        &mut self,
        flow: FlowId,
        listener: ListenerId,
        engine: &mut Engine,
        rings: &mut Rings,
    ) {
        match self.try_accept(flow, listener, engine, rings) {
            Taken::Yes => {}
            Taken::Later(taker) => self.park(flow, listener, &taker, engine),
            // Nobody can take it: the peer hears so at once.
            Taken::No => _ = engine.abort(flow),
        }
    }

    /// Who takes the connections of a listener that have this flow's name.
    fn taker(
        &self,
        flow: FlowId,
        listener: ListenerId,
        engine: &Engine,
    ) -> Option<(&Arc<Listening>, FlowKey)> {
        let bound = self.bound.get(listener)?;
        let key = engine.key(flow)?;
        Some((bound.member(engine.hash_of(&key))?, key))
    }

    pub(super) fn try_accept(
        &mut self,
        flow: FlowId,
        listener: ListenerId,
        engine: &mut Engine,
        rings: &mut Rings,
    ) -> Taken {
        let Some((taker, key)) = self.taker(flow, listener, engine) else { return Taken::No };
        let listening = Arc::clone(taker);
        let app = Arc::clone(&listening.app);
        let memory = app.server.memory();
        let Some(from) = memory.slot(listening.slot) else { return Taken::No };
        if listening.backlog.is_full(from) {
            return Taken::Later(listening);
        }
        // As with a full backlog: its program is late to close others, and the caller can wait.
        let Some(slot) = app.server.lend_slot() else { return Taken::Later(listening) };
        let words = memory.slot(slot).filter(|_| rings.settle(flow, &app, FIRST_SEND_LOG2));
        let Some(words) = words else {
            app.server.take_back_slot(slot);
            return Taken::Later(listening);
        };
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
            if let Some(mut conn) = self.take_conn(app.app, slot) {
                strike_out(&mut conn, &app, slot);
                conn.give_back(&app, rings);
            }
            app.server.take_back_slot(slot);
            return Taken::No;
        }
        self.notify(app.app, listening.slot);
        Taken::Yes
    }

    /// A connection that was opened here stands.
    pub(super) fn connected(
        &mut self,
        app: AppId,
        slot: SlotId,
        flow: FlowId,
        engine: &mut Engine,
        rings: &mut Rings,
    ) {
        let Some((_, streams)) = self.conn(app, slot) else { return };
        let streams = Arc::clone(streams);
        if !rings.settle(flow, &streams, FIRST_SEND_LOG2) {
            return self.park_opened(flow);
        }
        let Some(mut conn) = self.take_conn(app, slot) else { return };
        self.settle(&streams, slot, &mut conn, flow, engine, rings);
        self.insert(app, slot, conn);
        self.touch(app, slot);
    }

    /// Writes into the slot where bytes lie.
    fn settle(
        &self,
        app: &AppSockets,
        slot: SlotId,
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
        // From the next line on the application may have it.
        write_down(conn, (app, slot), engine, rings, self.now);
        words.state.store(Kind::Stream as u32 | SlotState::CONNECTED, Ordering::Release);
    }
}

/// Settings of the connections that come to a listener, as they are now.
fn options_of(listening: &Listening) -> FlowOptions {
    let base = FlowOptions { send_ring_log2: FIRST_SEND_LOG2, ..listening.options };
    let words = listening.app.server.memory().slot(listening.slot);
    words.map_or(base, |words| first_options(words, base, listening.address.is_ipv6()))
}

/// What an accepted socket has from its listener (as in Linux: all but what belongs to the
/// descriptor).
fn inherit(from: &SlotWords, to: &SlotWords) {
    for (value, place) in from.options.iter().zip(&to.options) {
        place.store(value.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    // Timeouts of accept are the listener's own.
    to.options[SlotOption::ReceiveTimeout as usize].store(0, Ordering::Relaxed);
    to.options[SlotOption::SendTimeout as usize].store(0, Ordering::Relaxed);
    to.options_version.store(1, Ordering::Relaxed);
}

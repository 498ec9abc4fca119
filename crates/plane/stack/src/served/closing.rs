//! How sockets end: with their flow, with their application, or because they are closed.

use std::sync::Arc;

use base::{AppId, SlotId};
use tcp::{CloseReason, Engine, FlowId, Output};

use super::records::strike_out;
use super::{SocketKey, Sockets};
use crate::command_queue::SocketEvent;
use crate::rings::Rings;

impl Sockets {
    /// A connection that was opened here is over, for that reason if it is known.
    pub(super) fn finished(
        &mut self,
        (app, slot, generation): SocketKey,
        reason: Option<CloseReason>,
    ) {
        // Of all others late segments may come.
        let is_cut_off = matches!(
            reason,
            Some(
                CloseReason::Refused
                    | CloseReason::Reset
                    | CloseReason::TimedOut
                    | CloseReason::Aborted
                    | CloseReason::DataAfterClose
            )
        );
        let may_linger = !is_cut_off;
        self.post.say(SocketEvent::Finished { app, slot, generation, may_linger });
    }

    /// A flow is over; its socket may still have something to be read.
    pub(super) fn ended(
        &mut self,
        app: AppId,
        slot: SlotId,
        flow: FlowId,
        reason: CloseReason,
        rings: &mut Rings,
    ) {
        // The engine has said its last word, so that nothing more is known than was shown; what is
        // unread stays readable until the socket is closed.
        let pair = rings.take(flow);
        let Some((conn, streams)) = self.conn(app, slot) else {
            rings.adopt(pair);
            return;
        };
        strike_out(conn, streams, slot);
        conn.flow = None;
        conn.kept = Some(pair);
        let is_evicted = conn.is_evicted;
        conn.reason = Some(reason);
        let was_opened = std::mem::take(&mut conn.was_opened);
        let generation = conn.generation;
        if was_opened {
            self.finished((app, slot, generation), Some(reason));
        }
        if is_evicted {
            self.surrender(app, slot);
        }
        self.touch(app, slot);
    }

    /// The application is gone: its connections end.
    pub(super) fn remove<O: Output>(
        &mut self,
        app: AppId,
        engine: &mut Engine,
        rings: &mut Rings,
        out: &mut O,
    ) {
        let Some(client) = self.clients.get(app.index()).and_then(Option::as_deref) else {
            return;
        };
        let slots = (0..).map(SlotId).zip(&client.conns).filter(|(_, conn)| conn.is_some());
        let slots: Vec<SlotId> = slots.map(|(slot, _)| slot).collect();
        for slot in self.bound.slots_of(app) {
            self.unlisten(app, slot, engine);
        }
        for slot in slots {
            self.close(app, slot, true, engine, rings, out);
        }
        for slot in self.datagrams.slots_of(app) {
            self.end_datagrams(app, slot);
        }
        self.clients[app.index()] = None;
        self.ready.forget_idle();
        self.outbox.waiting.forget_idle();
    }

    /// Ends a socket: the slot is free, the flow goes on to its own end.
    pub(super) fn close<O: Output>(
        &mut self,
        app: AppId,
        slot: SlotId,
        is_abort: bool,
        engine: &mut Engine,
        rings: &mut Rings,
        out: &mut O,
    ) {
        if self.end_datagrams(app, slot) {
            return;
        }
        let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
        let Some(client) = client else { return };
        let Some(mut conn) = client.conns.get_mut(slot.index()).and_then(Option::take) else {
            return;
        };
        let streams = Arc::clone(&client.streams);
        self.stats.traces.ended(conn.trace);
        let generation = conn.generation;
        let mut finished = conn.was_opened.then_some((app, slot, generation));
        if let Some(flow) = conn.flow {
            if let Some(owner) = self.by_flow.get_mut(flow.index()) {
                owner.take_if(|owner| *owner == (app, slot));
            }
            // What found no memory is unread too, though the engine does not know of it: else
            // the peer would hear so with its next try only, which comes later and later.
            let is_abort = is_abort || rings.is_starved(flow);
            let ended = match is_abort {
                true => engine.abort(flow),
                false => engine.close(flow, out),
            };
            if ended.is_ok() && !is_abort && conn.is_connected {
                rings.keep_orphan(flow, (&streams, conn.was_opened), engine, self.now);
            }
            // Its name is free when the engine has said its last word about it.
            if ended.is_ok()
                && let Some(finished) = finished.take()
            {
                self.orphans.insert(flow, finished);
            }
        }
        if let Some(key) = finished {
            self.finished(key, conn.reason);
        }
        // Not before there is a record without the slot.
        strike_out(&mut conn, &streams, slot);
        conn.give_back(&streams, rings);
        streams.server.take_back_slot(slot);
        self.post.say(SocketEvent::Freed { app, slot, generation });
    }

    /// All flows that are some application's and are not over.
    pub(crate) fn abort_all(&self, engine: &mut Engine) {
        for client in self.clients.iter().flatten() {
            for flow in client.conns.iter().flatten().filter_map(|conn| conn.flow) {
                let _ = engine.abort(flow);
            }
        }
    }
}

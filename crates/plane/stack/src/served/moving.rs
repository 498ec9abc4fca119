//! Sockets that go from one worker to another: with the flows of their groups, or, when their
//! connections are over, because their worker ends.

use std::sync::Arc;

use base::{Nanos, SlotId};
use tcp::{CloseReason, Engine, FlowId, State};
use wire::FlowKey;

use super::records::strike_out;
use super::{Client, Conn, Sockets};
use crate::app_sockets::AppSockets;
use crate::command_queue::SocketEvent;
use crate::rings::Rings;

impl Sockets {
    /// The socket of a flow that goes to another worker.
    pub(crate) fn take_along(&mut self, flow: FlowId) -> Option<(Arc<AppSockets>, SlotId, Conn)> {
        // Who takes it knows nothing of its name: that is held for a while from now on.
        if let Some(key) = self.orphans.remove(&flow) {
            self.finished(key, None);
            // It is shown at the end of a turn, and this may be between two.
            self.paced.wake_at(self.now);
        }
        let (app, slot) = self.disown(flow)?;
        let conn = self.take_conn(app, slot)?;
        let streams = Arc::clone(&self.client(app)?.streams);
        Some((streams, slot, conn))
    }

    /// A flow has come from another worker without a socket. If its own side is open, it waited
    /// for room at its listener, and goes on waiting here, unless nobody listens any more; one that
    /// was closed goes on to its end.
    pub(crate) fn take_unaccepted(&mut self, flow: FlowId, engine: &mut Engine, rings: &mut Rings) {
        match engine.listener_of(flow) {
            Some(listener) => self.accept(flow, listener, engine, rings),
            None if matches!(engine.state(flow), Some(State::Established | State::CloseWait)) => {
                let _ = engine.abort(flow);
            }
            None => {}
        }
    }

    /// This worker ends. Its flows have gone with their groups; sockets whose flows are over, but
    /// which their programs may still read and have to close, go to another worker.
    pub(crate) fn leave(&mut self) {
        let clients = self.clients.iter_mut().flatten();
        let stranded = clients.flat_map(|client| {
            let Client { streams, conns, .. } = &mut **client;
            let conns = (0..).map(SlotId).zip(conns.iter_mut());
            conns.filter_map(|(slot, conn)| Some((Arc::clone(streams), slot, conn.take()?)))
        });
        let stranded = stranded.collect();
        self.post.strand(stranded);
        for (local, remote) in self.paced.take_opens(usize::MAX, Nanos::FAR_FUTURE) {
            self.post.call_for(local, remote);
        }
    }

    /// Sends a connect probe to whoever has, or gets, that flow's group (the peer is its source).
    pub(crate) fn call_for(&self, name: &FlowKey) {
        self.post.call_for(name.destination(), name.source());
        self.post.wake_others();
    }

    /// Sends one later, when that flow's group may be ready for it.
    pub(crate) fn call_later(&mut self, name: &FlowKey, due: Nanos) {
        self.paced.open_at(name.destination(), name.source(), due);
    }

    /// Takes over what workers that have ended left behind.
    pub(crate) fn adopt_stranded(&mut self, engine: &mut Engine, rings: &mut Rings) {
        for socket in self.post.take_stranded() {
            self.settle_in(None, socket, engine, rings);
        }
    }

    /// The socket of a flow that has come from another worker, or, without a flow, one whose flow
    /// is over. What the slow side has asked for was heard.
    pub(crate) fn settle_in(
        &mut self,
        flow: Option<FlowId>,
        (streams, slot, mut conn): (Arc<AppSockets>, SlotId, Conn),
        engine: &mut Engine,
        rings: &mut Rings,
    ) {
        let (app, generation) = (streams.app, conn.generation);
        let is_known =
            self.client(app).is_some_and(|client| Arc::ptr_eq(&client.streams, &streams));
        if !is_known {
            // The application has gone meanwhile, and no worker had the socket when that was told.
            let _ = flow.map(|flow| engine.abort(flow));
            if conn.was_opened {
                self.finished((app, slot, generation), Some(CloseReason::Aborted));
            }
            strike_out(&mut conn, &streams, slot);
            conn.give_back(&streams, rings);
            streams.server.take_back_slot(slot);
            return self.post.say(SocketEvent::Freed { app, slot, generation });
        }
        if let Some(is_abort) = self.post.closing(app, slot, generation) {
            (conn.is_closing, conn.must_abort) = (true, is_abort);
        }
        if conn.is_closing {
            // Not by a ready bit: its application could take that away.
            self.later(app, slot, self.now);
        }
        if let Some(flow) = flow.filter(|_| !conn.is_connected) {
            // It may stand already, and wait for its first ring.
            self.park_opened(flow);
        }
        conn.flow = flow;
        conn.is_touched = false;
        self.insert(app, slot, conn);
        // What was marked at the other worker, or changed on the way, is looked at here.
        if let Some(client) = self.client(app)
            && let Some(bits) = client.streams.server.memory().worker(u32::from(self.me.0))
        {
            let _ = bits.set(slot);
        }
        self.touch(app, slot);
    }
}

//! Connections that come while a listener has no room.
//!
//! The program is late, not gone. As in Linux the handshake of a new caller is left where it is,
//! and the peer sends its last acknowledgement again. Those that came to stand in the same turn, or
//! that find no memory, wait here and try again: so few that a program that accepts nothing takes
//! nobody else's place.

use base::{FlowHash, Nanos};
use tcp::{Engine, FlowId, ListenerId, State};

use super::Sockets;
use super::bound::Taken;
use crate::command_queue::Listening;
use crate::rings::Rings;

/// This many of each listener's try at once.
const TRIES: usize = 64;

/// Time until they try again.
const PARKED_FOR: Nanos = Nanos::from_micros(500);

/// How many may wait for a listener whatever its backlog: more than come to stand in one turn.
const PARKED_MIN: u64 = 1024;

impl Sockets {
    /// Whether the program that a connection of that name would go to has room for another.
    pub(crate) fn may_accept(&self, listener: ListenerId, hash: FlowHash) -> bool {
        let bound = self.bound.get(listener);
        let Some(taker) = bound.and_then(|bound| bound.member(hash)) else { return true };
        let words = taker.app.server.memory().slot(taker.slot);
        let has_room = words.is_none_or(|words| !taker.backlog.is_full(words));
        has_room && !self.parked.accepted.contains_key(&(taker.app.app, taker.slot))
    }

    /// A connection waits for room at who is to take it; when too many do, nobody can take it.
    pub(super) fn park(
        &mut self,
        flow: FlowId,
        listener: ListenerId,
        taker: &Listening,
        engine: &mut Engine,
    ) {
        let name = (taker.app.app, taker.slot);
        let waiting = self.parked.accepted.entry(name).or_default();
        if waiting.len() as u64 >= taker.backlog.limit().max(PARKED_MIN) {
            let _ = engine.abort(flow);
            return;
        }
        waiting.push_back((flow, listener));
        self.paced.wake_at(self.now + PARKED_FOR);
    }

    /// A connection that was opened here waits for its first ring.
    pub(super) fn park_opened(&mut self, flow: FlowId) {
        self.parked.opened.push_back(flow);
        self.paced.wake_at(self.now + PARKED_FOR);
    }

    /// Connections that wait for room try again.
    pub(super) fn try_parked(&mut self, engine: &mut Engine, rings: &mut Rings) {
        for _ in 0..self.parked.opened.len().min(TRIES) {
            let Some(flow) = self.parked.opened.pop_front() else { break };
            // It is over or elsewhere, or says itself that it stands.
            let stands = engine.state(flow).is_some_and(|state| state != State::SynSent);
            if let Some((app, slot)) = self.owner(flow).filter(|_| stands) {
                self.connected(app, slot, flow, engine, rings);
            }
        }
        let names: Vec<_> = self.parked.accepted.keys().copied().collect();
        for name in names {
            let Some(mut waiting) = self.parked.accepted.remove(&name) else { continue };
            for _ in 0..TRIES {
                let Some((flow, listener)) = waiting.pop_front() else { break };
                if engine.state(flow).is_none() {
                    continue;
                }
                match self.try_accept(flow, listener, engine, rings) {
                    Taken::Yes => {}
                    Taken::Later(_) => {
                        // Those behind it find no more room than it has.
                        waiting.push_front((flow, listener));
                        break;
                    }
                    Taken::No => _ = engine.abort(flow),
                }
            }
            if !waiting.is_empty() {
                self.parked.accepted.insert(name, waiting);
            }
        }
        if !self.parked.is_empty() {
            self.paced.wake_at(self.now + PARKED_FOR);
        }
    }
}

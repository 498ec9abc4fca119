//! Takes the rings of connections that nobody reads, when memory is short.
//!
//! To its program such a connection is one that its peer has reset: the flow ends by an abort, the
//! end is heard like any other, and what was not read is gone. Nothing that a program does with it
//! afterwards says anything about the program.

use std::sync::atomic::Ordering;

use base::{AppId, Nanos, SlotId};
use shm::sockets::RingDesc;
use tcp::{CloseReason, Engine};

use super::records::strike_out;
use super::{Conn, Sockets};
use crate::eviction::{Evicted, Eviction};
use crate::rings::Ring;

/// Slots that are looked at for one command: the next command goes on where this one has ended.
const LOOKED_AT: usize = 4096;

/// Connections that are ended for one command: each is a segment to be sent.
const ENDED_MAX: usize = 256;

/// Shorter rings share their page with others: nothing is won by them.
const BYTES_MIN: usize = 4096;

impl Sockets {
    /// Ends connections of an application that were not read from for long.
    pub(super) fn evict(&mut self, eviction: &Eviction, engine: &mut Engine, now: Nanos) {
        let app = eviction.app;
        let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
        let Some(client) = client else { return };
        let count = client.conns.len();
        let (mut ended, mut over) = (0, Vec::new());
        for _ in 0..count.min(LOOKED_AT) {
            if ended == ENDED_MAX || eviction.is_done() {
                break;
            }
            let at = client.evict_cursor % count;
            client.evict_cursor = at + 1;
            let Some(conn) = client.conns[at].as_mut() else { continue };
            let bytes = ring_bytes(conn);
            if bytes < BYTES_MIN || conn.is_evicted || now.since(conn.idle_since) < eviction.idle {
                continue;
            }
            conn.is_evicted = true;
            ended += 1;
            eviction.count(bytes as u64);
            // One that is over already has told all that it had to tell, but for this.
            if conn.flow.is_none_or(|flow| engine.abort(flow).is_err()) {
                over.push(SlotId(at as u32));
            }
        }
        for slot in over {
            if let Some((conn, _)) = self.conn(app, slot) {
                conn.reason = Some(CloseReason::Reset);
                conn.is_finished = false;
            }
            self.surrender(app, slot);
            self.touch(app, slot);
        }
    }

    /// The flow of an evicted connection is over: its receive ring goes to the slow side. From now
    /// on the program finds no ring, and the error that says why.
    pub(super) fn surrender(&mut self, app: AppId, slot: SlotId) {
        let Some((conn, streams)) = self.conn(app, slot) else { return };
        let Some(pair) = &mut conn.kept else { return };
        let Ring::Shared(ring) = std::mem::take(&mut pair.receive) else { return };
        let evicted = Evicted {
            app: std::sync::Arc::clone(streams),
            slot,
            generation: conn.generation,
            ring,
        };
        strike_out(conn, streams, slot);
        conn.rx_desc = RingDesc::NONE;
        if let Some(words) = evicted.app.server.memory().slot(slot) {
            words.rx_ring.store(RingDesc::NONE.word(), Ordering::Release);
        }
        self.stats.evicted += 1;
        self.post.surrender(evicted);
    }
}

/// Bytes of the ring that a connection was shown and that holds what nobody has read.
fn ring_bytes(conn: &Conn) -> usize {
    match (&conn.kept, conn.flow) {
        (Some(pair), None) => pair.receive.len(),
        _ => conn.rx_desc.bytes() as usize,
    }
}

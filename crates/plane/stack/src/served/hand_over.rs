//! Lets a connection go, for the kernel to go on with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Nanos;
use tcp::{Engine, FlowId, NoRepair, Output};

use super::records::strike_out;
use super::{SocketKey, Sockets};
use crate::command_queue::{LetGoRequest, SocketEvent};
use crate::parcel::{LetGo, Parcel};
use crate::rings::Rings;

/// Connections without a program that are let go at once.
const ORPHANS_MAX: usize = 1024;

impl Sockets {
    /// Lets go of a connection, if it is this worker's, and says what it was. Nobody of its
    /// application copies any more, so that one look sees all that was read, written and asked for.
    pub(super) fn hand_over<O: Output>(
        &mut self,
        (app, slot, generation): SocketKey,
        request: &LetGoRequest,
        engine: &mut Engine,
        rings: &mut Rings,
        now: Nanos,
        out: &mut O,
    ) {
        let Some((_, streams)) =
            self.conn(app, slot).filter(|(conn, _)| conn.generation == generation)
        else {
            return;
        };
        if !request.decide() {
            return;
        }
        let streams = Arc::clone(streams);
        self.drain_slot(app, slot, engine, rings, now, out);
        let connection = self.let_go((app, slot, generation), engine, rings, now);
        self.post.hand_over(Parcel { app: streams, slot, generation, connection });
    }

    /// Lets go of the connections that no program has any more, some at most: each still has bytes,
    /// or an end, to bring to its peer.
    pub(super) fn hand_over_orphans(&mut self, engine: &mut Engine, rings: &mut Rings, now: Nanos) {
        let orphans: Vec<FlowId> = engine.orphans().take(ORPHANS_MAX).collect();
        for flow in orphans {
            let home = rings.of(flow).and_then(|pair| pair.home.clone());
            let (Some(app), Ok(repair)) = (home, engine.repair(flow, now)) else { continue };
            let opened = self.orphans.remove(&flow);
            let pair = rings.take(flow);
            engine.let_go(flow);
            let was_opened = opened.is_some();
            let (_, slot, generation) = opened.unwrap_or_default();
            let connection = Ok(LetGo { repair, was_opened, more_bytes: 0, pair });
            self.post.hand_over(Parcel { app, slot, generation, connection });
        }
    }

    fn let_go(
        &mut self,
        (app, slot, generation): SocketKey,
        engine: &mut Engine,
        rings: &mut Rings,
        now: Nanos,
    ) -> Result<LetGo, NoRepair> {
        let (conn, streams) = self.conn(app, slot).ok_or(NoRepair::Gone)?;
        if conn.generation != generation || conn.is_evicted || conn.is_closing {
            return Err(NoRepair::Gone);
        }
        let flow = conn.flow.ok_or(NoRepair::Gone)?;
        let words = streams.server.memory().slot(slot).ok_or(NoRepair::Gone)?;
        if !conn.is_connected {
            return Err(NoRepair::NotEstablished);
        }
        let repair = engine.repair(flow, now)?;
        // A user's rate may not have allowed all that was written.
        let more = match conn.is_shut {
            true => 0,
            false => words.tx_tail.load(Ordering::Acquire).wrapping_sub(conn.tx_tail),
        };
        let room = (rings.lengths(flow).1 as u64).checked_sub(repair.queued.bytes.into());
        let Some(more_bytes) = u32::try_from(more).ok().filter(|_| room >= Some(more)) else {
            self.post.say(SocketEvent::Violation { app });
            return Err(NoRepair::Gone);
        };
        let was_opened = conn.was_opened;
        let streams = Arc::clone(streams);
        self.disown(flow);
        let pair = rings.take(flow);
        engine.let_go(flow);
        if let Some(mut conn) = self.take_conn(app, slot) {
            strike_out(&mut conn, &streams, slot);
            conn.give_back(&streams, rings);
        }
        Ok(LetGo { repair, was_opened, more_bytes, pair })
    }
}

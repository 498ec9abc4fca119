//! What is written down of each connection, so that somebody can go on with it when this process is
//! dead.
//!
//! At the end of a turn, when its segments are ready and nobody has seen them yet: whatever a peer
//! or a program can know of a connection is in its record by then. A connection of which neither
//! bytes came nor went needs none: what a record says of acknowledgements may be old, because a
//! ring keeps what its application was not told to be free.

use base::{Nanos, SlotId};
use tcp::Engine;

use super::{Client, Conn, Sockets};
use crate::app_sockets::AppSockets;
use crate::heritage::{Changing, Lasting};
use crate::rings::{Ring, Rings};

impl Sockets {
    /// Writes down what this turn has done to connections. Before it nobody outside sees anything
    /// of the turn.
    pub(crate) fn commit(&mut self, engine: &Engine, rings: &Rings, now: Nanos) {
        watch::look();
        for &(app, slot) in &self.touched {
            let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
            let Some(Client { streams, conns, .. }) = client else { continue };
            if let Some(conn) = conns.get_mut(slot.index()).and_then(Option::as_mut) {
                write_down(conn, (streams, slot), engine, rings, now);
            }
            watch::look();
        }
    }
}

/// Writes down what is to be known of the connection in a slot.
#[inline]
pub(super) fn write_down(
    conn: &mut Conn,
    (app, slot): (&AppSockets, SlotId),
    engine: &Engine,
    rings: &Rings,
    now: Nanos,
) {
    let Some(place) = app.records.as_ref().and_then(|records| records.of_slot(slot)) else {
        return;
    };
    let flow = conn.flow.filter(|_| conn.is_connected && !conn.is_evicted);
    let Some((flow, record)) = flow.and_then(|flow| Some((flow, engine.record(flow)?))) else {
        return strike_out(conn, app, slot);
    };
    if conn.turns_written == 0 {
        let Some(key) = engine.key(flow) else { return };
        let (generation, was_opened) = (conn.generation, conn.was_opened);
        place.begin(&Lasting { key, generation, was_opened, is_orphan: false }.words());
    }
    let pair = rings.of(flow);
    let word = |ring: &Ring| ring.desc().unwrap_or_default().word();
    let words = Changing {
        flow: record,
        rx_head: conn.rx_head,
        tx_tail: conn.tx_tail,
        receive: pair.map_or(0, |pair| word(&pair.receive)),
        send: pair.map_or(0, |pair| word(&pair.send)),
        offered: conn.offered.as_ref().map_or(0, word),
        at: now,
    };
    conn.turns_written += 1;
    place.write(conn.turns_written, &words.words());
}

/// Nobody is to go on with it: it is over, or its rings are about to be another's.
pub(super) fn strike_out(conn: &mut Conn, app: &AppSockets, slot: SlotId) {
    if std::mem::take(&mut conn.turns_written) == 0 {
        return;
    }
    if let Some(place) = app.records.as_ref().and_then(|records| records.of_slot(slot)) {
        place.clear();
    }
}

/// Lets a test look, at moments at which a death is possible, at what a death then would leave.
#[cfg(test)]
pub(crate) mod watch {
    use std::cell::RefCell;

    type Look = Box<dyn FnMut()>;

    thread_local! {
        static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
    }

    pub(crate) fn set(look: Option<Look>) {
        LOOK.with(|place| *place.borrow_mut() = look);
    }

    pub(crate) fn look() {
        LOOK.with(|place| place.borrow_mut().iter_mut().for_each(|look| look()));
    }
}

#[cfg(not(test))]
pub(crate) mod watch {
    #[inline]
    pub(crate) fn look() {}
}

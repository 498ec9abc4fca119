//! Connections that their programs have closed: the kernel brings what is left to their peers, as
//! it does for its own.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use base::SlotId;
use shm::sockets::{Asks, SlotOption};
use stack::{Heritage, Inherited};
use sys::clock;

use super::mapped::Mapped;
use super::rescue::Rescue;
use crate::sockets::raw_segments::RawSegments;
use crate::sockets::successor::{self, give};

impl Rescue<'_> {
    /// Those of an application of which its worker had heard.
    pub(super) fn give_orphans(&mut self, mapped: &Mapped<'_>) {
        let all =
            (0..mapped.records.slots()).map(SlotId).filter_map(|place| mapped.records.get(place));
        for heritage in all.filter_map(Heritage::read).filter(Heritage::is_orphan) {
            if self.is_late() {
                self.counts.busy += 1;
                continue;
            }
            match heritage.inherit_orphan(&mapped.memory, clock::now()) {
                Ok(connection) => self.give_orphan(mapped, &connection),
                Err(_) => self.counts.state += 1,
            }
        }
    }

    /// One whose descriptor was found nowhere: its program may have closed it a moment ago, which
    /// its worker had no time to hear.
    pub(super) fn give_closed(&mut self, mapped: &Mapped<'_>, slot: SlotId, heritage: &Heritage) {
        let Some(words) = mapped.words(slot) else { return };
        let is_reset = words.asks().has(Asks::ABORT) || words.option(SlotOption::Linger) == 1;
        let is_closed = words.asks().has(Asks::CLOSE) && !is_reset;
        // Bytes that nobody has read are a reset to the peer.
        let has_read_all =
            words.rx_head.load(Ordering::Acquire) == words.rx_tail.load(Ordering::Acquire);
        let inherited = heritage.inherit(&mapped.memory, words, clock::now());
        match inherited {
            Ok(connection) if is_closed && has_read_all && connection.unread.is_empty() => {
                self.give_orphan(mapped, &connection);
            }
            _ => self.counts.unnamed += 1,
        }
    }

    fn give_orphan(&mut self, mapped: &Mapped<'_>, connection: &Inherited) {
        let asks = Asks(Asks::SHUT_WRITE);
        let given = successor::of_nobody(&connection.repair).and_then(|socket| {
            let name_is_known = || self.leave_flow(connection);
            give(connection, asks, &socket, self.raw_segments, name_is_known).map(|()| socket)
        });
        let Ok(socket) = given else {
            self.counts.refused += 1;
            return;
        };
        if connection.repair.has_peer_closed {
            RawSegments::await_ends(std::iter::once(socket.as_fd()));
        }
        self.counts.given += 1;
        self.closer.close(mapped.app.uid, socket);
    }
}

//! UDP sockets of applications that this worker serves.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Nanos;
use wire::FlowKey;
use wire::icmp::ErrorMessage;

use super::Sockets;
use crate::command_queue::SocketEvent;
use crate::datagrams::Datagrams;

impl Sockets {
    pub(super) fn bind(&mut self, socket: Arc<Datagrams>) {
        if let Some(words) = socket.app.server.memory().slot(socket.slot) {
            words.worker.store(u32::from(self.me.0), Ordering::Release);
        }
        let (app, slot) = (socket.app.app, socket.slot);
        self.datagrams.insert(socket);
        // It may have been another worker's, which has ended with something left to do.
        self.later(app, slot, self.now);
    }

    pub(super) fn datagrams_of(&self, app: u16, slot: u32) -> Option<Arc<Datagrams>> {
        self.datagrams.get((app, slot)).cloned()
    }

    /// Ends a UDP socket at once; false: there is none.
    pub(super) fn end_datagrams(&mut self, app: u16, slot: u32) -> bool {
        self.ending.remove(&(app, slot));
        let Some(socket) = self.datagrams.remove((app, slot)) else { return false };
        // Before its slot is another socket's.
        let generation = socket.app.server.generation(slot);
        let Some(has_left) = socket.end() else { return false };
        self.stats.datagrams_cut_off += u64::from(!has_left);
        self.post.say(SocketEvent::Freed { app, slot, generation });
        true
    }

    /// Ends a UDP socket when what it has written has left.
    pub(super) fn finish_datagrams(&mut self, app: u16, slot: u32) {
        self.ending.insert((app, slot));
        self.to_send.push((app, slot));
    }

    /// A datagram has come. True: somebody has it.
    pub(crate) fn deliver(&mut self, key: &FlowKey, payload: &[u8], now: Nanos) -> bool {
        // Who is connected to this peer goes before who hears everybody, and of those the more
        // exact address.
        let fits = self.datagrams.on(key.destination().port()).filter(|at| at.hears(key));
        let best = fits.max_by_key(|at| (at.remote.is_some(), !at.local.ip().is_unspecified()));
        let Some(socket) = best.cloned() else { return false };
        if !socket.deliver(key, payload) {
            self.stats.datagrams_no_room += 1;
            return true;
        }
        self.notify(socket.app.app, socket.slot);
        self.owed_since.get_or_insert(now);
        true
    }

    /// A datagram of ours did not arrive: who is connected to that peer hears so (as in Linux, of
    /// what is final).
    pub(crate) fn unreachable(&mut self, error: &ErrorMessage) {
        if !error.is_hard() {
            return;
        }
        let port = error.key.destination().port();
        let fits = |at: &&Arc<Datagrams>| at.remote.is_some() && at.hears(&error.key);
        let Some(socket) = self.datagrams.on(port).find(fits).cloned() else { return };
        let Some(words) = socket.app.server.memory().slot(socket.slot) else { return };
        words.error.store(error.errno() as u32, Ordering::Release);
        self.notify(socket.app.app, socket.slot);
    }
}

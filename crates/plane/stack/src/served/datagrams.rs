//! UDP sockets of applications that this worker serves.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{AppId, Nanos, PortId, SlotId};
use shm::sockets::{Asks, Record, SlotOption};
use tcp::IpFields;
use wire::FlowKey;
use wire::icmp::{ErrorKind, ErrorMessage};

use super::Sockets;
use crate::command_queue::SocketEvent;
use crate::datagrams::Datagrams;
use crate::for_kernel::ForKernel;

impl Sockets {
    pub(super) fn bind(&mut self, socket: Arc<Datagrams>) {
        if !socket.is_served_by(self.me) {
            // It has ended meanwhile, and its slot may be another socket's.
            return;
        }
        let (app, slot) = (socket.app.app, socket.slot);
        self.datagrams.insert(socket);
        // It may have been another worker's, which has ended with something left to do.
        self.later(app, slot, self.now);
    }

    pub(super) fn datagrams_of(&self, app: AppId, slot: SlotId) -> Option<Arc<Datagrams>> {
        self.datagrams.get((app, slot)).cloned()
    }

    /// Ends a UDP socket at once; false: there is none.
    pub(super) fn end_datagrams(&mut self, app: AppId, slot: SlotId) -> bool {
        self.outbox.ending.remove(&(app, slot));
        let Some(socket) = self.datagrams.remove((app, slot)) else { return false };
        // Before its slot is another socket's.
        let generation = socket.app.server.generation(slot);
        let Some(has_left) = socket.end() else { return false };
        self.stats.datagrams_cut_off += u64::from(!has_left);
        self.post.say(SocketEvent::Freed { app, slot, generation });
        true
    }

    /// Ends a UDP socket when what it has written has left.
    pub(super) fn finish_datagrams(&mut self, app: AppId, slot: SlotId) {
        self.outbox.ending.insert((app, slot));
        self.will_send(app, slot);
    }

    /// A ready bit for a UDP socket, or for a connection that is another worker's by now. Whether
    /// anything was new.
    pub(super) fn drain_datagrams(&mut self, app: AppId, slot: SlotId) -> bool {
        let Some(socket) = self.datagrams_of(app, slot) else {
            self.pass_on(app, slot);
            return false;
        };
        let Some(words) = socket.app.server.memory().slot(slot) else { return false };
        let asks = words.asks();
        if asks.has(Asks::NAMED) {
            words.asks.fetch_and(!Asks::NAMED, Ordering::AcqRel);
            let cookie = words.cookie.load(Ordering::Relaxed);
            let generation = socket.app.server.generation(slot);
            self.post.say(SocketEvent::Named { app, slot, generation, cookie });
        }
        let is_news = asks.0 != 0 || socket.has_written(words);
        if asks.has(Asks::ABORT) {
            self.end_datagrams(app, slot);
        } else if asks.has(Asks::CLOSE) {
            self.finish_datagrams(app, slot);
        } else if is_news {
            self.will_send(app, slot);
        }
        is_news
    }

    /// A ready bit for a socket that is another worker's by now.
    fn pass_on(&self, app: AppId, slot: SlotId) {
        let Some(client) = self.client(app) else { return };
        let (server, memory) = (&client.streams.server, client.streams.server.memory());
        let Some(words) = memory.slot(slot).filter(|_| server.is_taken(slot)) else { return };
        let worker = words.worker.load(Ordering::Acquire);
        if worker != u32::from(self.me.0)
            && let Some(ready_bits) = memory.worker(worker)
            && ready_bits.set(slot)
        {
            self.post.wake_others();
        }
    }

    /// A UDP socket has something to send, or to end.
    pub(super) fn will_send(&mut self, app: AppId, slot: SlotId) {
        if !self.datagrams.set_queued((app, slot), true) {
            let user = self.client(app).map_or(0, |client| client.streams.user);
            self.outbox.waiting.push(user, (app, slot));
        }
    }

    /// A datagram has come: the user whose program has it, if anybody has.
    pub(crate) fn deliver(
        &mut self,
        key: &FlowKey,
        fields: IpFields,
        (port, payload): (PortId, &[u8]),
        now: Nanos,
    ) -> Option<u32> {
        let socket = self.hearer(key)?;
        let interface = self.datagrams.interface_of(port);
        let IpFields { class, hop_limit } = fields;
        let record = Record {
            payload: payload.len() as u32,
            remote: Some(key.source()),
            local: Some(key.destination().ip()),
            class: Some(class),
            hop_limit: Some(hop_limit),
            interface,
            came_at: now.0,
        };
        if !socket.deliver(&record, payload) {
            self.stats.datagrams_no_room += 1;
            return Some(socket.app.user);
        }
        self.notify(socket.app.app, socket.slot);
        self.owed_since.get_or_insert(now);
        Some(socket.app.user)
    }

    /// A datagram of ours did not arrive, as `packet` says. Of the path's MTU the socket's program
    /// and the kernel hear. Whoever has a queue of errors (IP_RECVERR) has it at the kernel's half;
    /// of the others who is connected to that peer hears so (as in Linux, of what is final, and of
    /// what was too long for a link though it was not to be cut).
    pub(crate) fn unreachable(&mut self, error: &ErrorMessage, packet: &[u8], now: Nanos) {
        let Some(socket) = self.hearer(&error.key) else { return };
        let Some(words) = socket.app.server.memory().slot(socket.slot) else { return };
        let is_too_big = matches!(error.kind, ErrorKind::TooBig { .. });
        let has_queue = words.option(SlotOption::TellsErrors) != 0;
        if let Some(mtu) = socket.narrow_path(error) {
            let seconds = now.0 / 1_000_000_000;
            socket.app.server.memory().learn_path_mtu(error.key.source().ip(), mtu, seconds);
            self.stats.narrow_paths += 1;
        }
        if is_too_big || has_queue {
            let to = error.key.destination().ip();
            let app = Arc::clone(&socket.app);
            let user = app.user;
            let make = || ForKernel { app, slot: socket.slot, to, packet: packet.into() };
            let is_given = self.post.give_to_kernel(user, make);
            self.stats.errors_for_kernel += u64::from(is_given);
            self.stats.errors_too_many += u64::from(!is_given);
        }
        let is_told = error.is_hard() || is_too_big && words.option(SlotOption::MayBeCut) == 0;
        if has_queue || socket.remote.is_none() || !is_told {
            return;
        }
        words.error.store(error.errno() as u32, Ordering::Release);
        self.notify(socket.app.app, socket.slot);
    }

    /// The socket that hears packets of that name: who is connected to this peer goes before who
    /// hears everybody, and of those the more exact address. One that its program has closed, and
    /// that only has something left to send, goes behind all.
    fn hearer(&self, key: &FlowKey) -> Option<Arc<Datagrams>> {
        let is_ending = |at: &Datagrams| self.outbox.ending.contains(&(at.app.app, at.slot));
        let fits = self.datagrams.on(key.destination().port()).filter(|at| at.hears(key));
        let best = fits.max_by_key(|at| {
            (!is_ending(at), at.remote.is_some(), !at.local.ip().is_unspecified())
        });
        best.cloned()
    }
}

//! Who listens where.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::{AppId, FlowHash, SlotId};
use tcp::ListenerId;

use crate::command_queue::Listening;

/// An address that is listened on, and by whom: several share its connections by flow hash.
#[derive(Debug, Default)]
pub(super) struct Bound {
    members: Vec<Arc<Listening>>,
    /// Where each is among them, by application and slot.
    places: BTreeMap<(AppId, SlotId), usize>,
}

impl Bound {
    /// Whose a connection is that has a name with that hash.
    pub(super) fn member(&self, hash: FlowHash) -> Option<&Arc<Listening>> {
        self.members.get(hash.0 as usize % self.members.len().max(1))
    }

    /// The one that answers for all until it is known whose a connection is.
    pub(super) fn first(&self) -> Option<&Arc<Listening>> {
        self.members.first()
    }

    fn join(&mut self, listening: Arc<Listening>) {
        self.places.insert((listening.app.app, listening.slot), self.members.len());
        self.members.push(listening);
    }

    /// The last one takes its place, as in a group of SO_REUSEPORT of Linux.
    fn leave(&mut self, app: AppId, slot: SlotId) {
        let Some(at) = self.places.remove(&(app, slot)) else { return };
        self.members.swap_remove(at);
        if let Some(moved) = self.members.get(at) {
            self.places.insert((moved.app.app, moved.slot), at);
        }
    }
}

/// All that is listened on. A program may have as many listeners as it has sockets, so nothing here
/// walks them all for one packet, one look or one command.
#[derive(Debug, Default)]
pub(super) struct AllBound {
    by_id: BTreeMap<ListenerId, Bound>,
    by_address: BTreeMap<SocketAddr, ListenerId>,
    /// By application and slot: a socket may listen on several addresses of the host.
    by_socket: BTreeMap<(AppId, SlotId), Vec<ListenerId>>,
}

impl AllBound {
    pub(super) fn get(&self, id: ListenerId) -> Option<&Bound> {
        self.by_id.get(&id)
    }

    /// Who listens on an address.
    pub(super) fn at(&self, address: SocketAddr) -> Option<ListenerId> {
        self.by_address.get(&address).copied()
    }

    /// The addresses of a socket.
    pub(super) fn of_socket(&self, app: AppId, slot: SlotId) -> &[ListenerId] {
        self.by_socket.get(&(app, slot)).map_or(&[], Vec::as_slice)
    }

    /// The slots of an application that listen.
    pub(super) fn slots_of(&self, app: AppId) -> Vec<SlotId> {
        let own = self.by_socket.range((app, SlotId(0))..=(app, SlotId(u32::MAX)));
        own.map(|((_, slot), _)| *slot).collect()
    }

    /// One more listens on the address of `id`, if it does not yet.
    pub(super) fn join(&mut self, id: ListenerId, listening: Arc<Listening>) {
        let socket = (listening.app.app, listening.slot);
        let of_socket = self.by_socket.entry(socket).or_default();
        if of_socket.contains(&id) {
            // An address that was away for a while and is back: it has never left here.
            return;
        }
        of_socket.push(id);
        self.by_address.insert(listening.address, id);
        self.by_id.entry(id).or_default().join(listening);
    }

    /// A socket listens no more. `over` is told on what nobody does now.
    pub(super) fn leave(&mut self, app: AppId, slot: SlotId, mut over: impl FnMut(ListenerId)) {
        for id in self.by_socket.remove(&(app, slot)).unwrap_or_default() {
            let Some(bound) = self.by_id.get_mut(&id) else { continue };
            let address = bound.first().map(|member| member.address);
            bound.leave(app, slot);
            if bound.members.is_empty() {
                self.by_id.remove(&id);
                address.map(|address| self.by_address.remove(&address));
                over(id);
            }
        }
    }
}

/// What becomes of a connection that has come.
pub(super) enum Taken {
    Yes,
    /// There is no room now at that listener.
    Later(Arc<Listening>),
    /// Nobody can.
    No,
}

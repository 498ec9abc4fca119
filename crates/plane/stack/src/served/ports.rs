//! The UDP sockets of all applications: by name, and by the port that packets come to.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{AppId, PortId, SlotId};

use crate::datagrams::Datagrams;
use crate::routes::PortLink;

/// Application and slot.
type Name = (AppId, SlotId);

/// All that a worker serves. A port has at most one for each of our addresses, however many sockets
/// there are.
#[derive(Debug, Default)]
pub(super) struct Ports {
    by_name: BTreeMap<Name, Member>,
    by_port: BTreeMap<u16, Vec<Arc<Datagrams>>>,
    /// Each port's interface.
    interfaces: Option<Arc<[PortLink]>>,
}

/// A socket, and whether it waits for its turn to send.
#[derive(Debug)]
struct Member {
    socket: Arc<Datagrams>,
    is_queued: bool,
}

impl Ports {
    /// See [`Self::interface_of`].
    pub(super) fn set_interfaces(&mut self, interfaces: Arc<[PortLink]>) {
        self.interfaces = Some(interfaces);
    }

    /// The number of a port's interface; 0: nobody has said.
    pub(super) fn interface_of(&self, port: PortId) -> u32 {
        let mut all = self.interfaces.iter().flat_map(|all| all.iter());
        all.find(|link| link.port == port).map_or(0, |link| link.interface)
    }

    /// Adds a socket; one of the same name goes.
    pub(super) fn insert(&mut self, socket: Arc<Datagrams>) {
        let name = (socket.app.app, socket.slot);
        self.remove(name);
        self.by_port.entry(socket.local.port()).or_default().push(Arc::clone(&socket));
        self.by_name.insert(name, Member { socket, is_queued: false });
    }

    pub(super) fn remove(&mut self, name: Name) -> Option<Arc<Datagrams>> {
        let socket = self.by_name.remove(&name)?.socket;
        let port = socket.local.port();
        if let Some(others) = self.by_port.get_mut(&port) {
            others.retain(|other| !Arc::ptr_eq(other, &socket));
            if others.is_empty() {
                self.by_port.remove(&port);
            }
        }
        Some(socket)
    }

    /// The socket of that name, unless another worker has ended it.
    pub(super) fn get(&self, name: Name) -> Option<&Arc<Datagrams>> {
        let socket = &self.by_name.get(&name)?.socket;
        (!socket.is_over()).then_some(socket)
    }

    /// Notes that a socket waits for its turn to send, or that it has it; whether that was so
    /// before.
    pub(super) fn set_queued(&mut self, name: Name, is_queued: bool) -> bool {
        let member = self.by_name.get_mut(&name);
        member.is_some_and(|member| std::mem::replace(&mut member.is_queued, is_queued))
    }

    /// The sockets on a port.
    pub(super) fn on(&self, port: u16) -> impl Iterator<Item = &Arc<Datagrams>> {
        self.by_port.get(&port).into_iter().flatten()
    }

    /// The slots of an application's sockets.
    pub(super) fn slots_of(&self, app: AppId) -> Vec<SlotId> {
        self.by_name
            .range((app, SlotId(0))..=(app, SlotId(u32::MAX)))
            .map(|((_, slot), _)| *slot)
            .collect()
    }
}

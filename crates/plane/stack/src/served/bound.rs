//! Who listens where.

use std::net::SocketAddr;
use std::sync::Arc;

use base::FlowHash;
use tcp::ListenerId;

use crate::command_queue::Listening;

/// An address that is listened on, and by whom: several share its connections by flow hash.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) id: ListenerId,
    pub(super) address: SocketAddr,
    pub(super) members: Vec<Arc<Listening>>,
}

impl Bound {
    /// Whose a connection is that has a name with that hash.
    pub(super) fn member(&self, hash: FlowHash) -> Option<&Arc<Listening>> {
        self.members.get(hash.0 as usize % self.members.len().max(1))
    }

    /// The slots of an application that listen here.
    pub(super) fn slots_of(&self, app: u16) -> impl Iterator<Item = u32> {
        let own = self.members.iter().filter(move |member| member.app.app == app);
        own.map(|member| member.slot)
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

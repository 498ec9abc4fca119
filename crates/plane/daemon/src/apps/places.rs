//! Whether there is a place for an application, and for what it wants of the kernel.

use port::xdp::Destination;

use crate::apps::admission::has_place;
use crate::apps::attach_server::AttachServer;
use crate::apps::client::Client;
use crate::attach_server_counters::AttachServerEvent;
use crate::payers::payer_of;
use crate::sockets::SocketTable;

impl AttachServer {
    /// Whether an application of a user may have the packets for `destination`, which no other
    /// application has: neither what programs' sockets are served there, nor what is another user's
    /// at the kernel. What the loop serves it refuses itself.
    pub(super) fn check_free(
        &mut self,
        destination: Destination,
        name: &str,
        uid: u32,
    ) -> Result<(), String> {
        if let Some(what) = self.served_at(destination) {
            return Err(format!("{what} at {name} (`calisto ss` lists them)"));
        }
        let socket_table = self.socket_table.as_mut();
        match socket_table.and_then(|table| table.others_at(destination, uid)) {
            None => Ok(()),
            Some(others) => Err(format!("{others} at {name}")),
        }
    }

    /// Whether one more application may come.
    pub(super) fn check_count(&self, uid: u32) -> Result<(), String> {
        let in_packet_mode = self.clients.iter().filter(|client| client.app.is_some());
        let payer = payer_of(uid);
        let is_its = |client: &&Client| payer_of(client.peer.credentials().uid) == payer;
        let own = in_packet_mode.clone().filter(is_its);
        let socket_table = self.socket_table.as_ref();
        let own = own.count() + socket_table.map_or(0, |socket_table| socket_table.count_of(uid));
        let taken = in_packet_mode.count() + socket_table.map_or(0, SocketTable::count);
        if has_place(self.apps_max, uid, own, taken) {
            return Ok(());
        }
        let max = self.apps_max;
        if taken >= max {
            return Err(format!("{max} applications are attached already (`apps.max`)"));
        }
        self.counters.count(AttachServerEvent::PlaceShareUsedUp);
        Err(format!(
            "user {uid} has {own} of the {max} places for applications (`apps.max`), and {taken} are \
             taken: one user gets half of them, and some are left to root"
        ))
    }
}

//! What applications in packet mode have for themselves alone, beside sockets of programs and of
//! the kernel.

use port::xdp::{Destination, Protocol};
use sys::clock;

use crate::apps::attach_server::AttachServer;

impl AttachServer {
    /// What is served at a destination that others want alone: as the beginning of a sentence.
    pub(super) fn served_at(&self, destination: Destination) -> Option<&'static str> {
        let socket_table = self.socket_table.as_ref();
        socket_table
            .filter(|_| self.claims.has_shared(destination))
            .map(|table| table.served_at(destination))
    }

    /// Gives back to the kernel what has become another user's there.
    pub(super) fn give_back_lost(&mut self) {
        let Some(socket_table) = &mut self.socket_table else { return };
        let apps = self.clients.iter().filter_map(|client| {
            client.app.as_ref().map(|app| (app, client.peer.credentials().uid))
        });
        let held = apps.flat_map(|(app, uid)| app.destinations.iter().map(move |at| (*at, uid)));
        let held: Vec<_> = held.collect();
        let now = clock::now();
        for (destination, other) in socket_table.lost_alone(&held, now) {
            self.claims.remove(destination);
            for client in &mut self.clients {
                let uid = client.peer.credentials().uid;
                let Some(app) = &mut client.app else { continue };
                let before = app.destinations.len();
                app.destinations.retain(|at| *at != destination);
                if app.destinations.len() < before {
                    let (id, at, other) = (app.id, text(destination), name(other));
                    let line = || {
                        format!("{id} gets nothing at {at} any more: {other} has a socket there")
                    };
                    self.chatter.say(uid, line, now);
                }
            }
        }
    }
}

fn name(user: Option<u32>) -> String {
    user.map_or("another user".to_owned(), |uid| format!("user {uid}"))
}

/// As listeners are written.
fn text(destination: Destination) -> String {
    let protocol = match destination.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    let address = destination.address.map_or("*".to_owned(), |address| address.to_string());
    format!("{protocol}:{address}:{}", destination.port.unwrap_or(0))
}

//! What a changed configuration changes at the attach server.

use std::sync::Arc;

use datapath::Listener;

use crate::apps::attach_server::AttachServer;
use crate::changes::AttachChange;
use crate::setup::destination;

impl AttachServer {
    /// Takes from the kernel what these listeners want: all of it or nothing.
    pub(super) fn claim(&mut self, come: &[Listener]) -> Result<(), String> {
        for (at, listener) in come.iter().enumerate() {
            let claimed = match self.served_at(destination(listener)) {
                Some(what) => Err(format!("{what} at {listener} (`calisto ss` lists them)")),
                None => self.claims.add_alone(destination(listener)).map_err(|e| e.to_string()),
            };
            if let Err(error) = claimed {
                come[..at].iter().for_each(|one| self.claims.remove(destination(one)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The configuration has changed; nothing of it can fail any more.
    pub(super) fn change(&mut self, change: AttachChange) {
        change.go.iter().for_each(|one| self.claims.remove(destination(one)));
        self.rules = change.rules;
        self.apps_max = usize::from(change.config.apps.max);
        if let Some(socket_table) = &mut self.socket_table {
            socket_table.change(Arc::new(change.config));
        }
    }
}

//! Workers are told where first packets may come from.

use std::sync::Arc;

use base::Nanos;
use stack::Command;

use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;
use crate::log;

impl SocketTable {
    /// Reads the routes again when they have changed.
    pub(super) fn tend_sources(&mut self, now: Nanos) {
        let Some(read) = self.network.sources.read(now) else { return };
        let sources = match read {
            Ok(sources) => Some(Arc::new(sources)),
            Err(why) => {
                self.table_config.counters.count(AttachServerEvent::SourcesUnchecked);
                tracing::warn!(target: log::SOCKETS, "sources of first packets are not checked: {why}");
                None
            }
        };
        self.table_config.command_queue.command(&Command::Sources(sources));
    }
}

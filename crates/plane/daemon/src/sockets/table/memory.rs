//! What is done when the memory of rings runs short.

use base::Nanos;

use super::SocketTable;

/// Rings of one region whose pages are discarded in one look, at most: each takes a system call of
/// some microseconds, and others want to be heard.
const DISCARDED_MAX: usize = 1024;

impl SocketTable {
    /// Discards pages that no ring uses, if memory is short.
    pub(super) fn tend_memory(&mut self, now: Nanos) {
        if self.apps.memory().is_short(now) {
            let own = self.apps.iter().map(|app| &app.streams.server);
            let local = self.local_pairs.values().map(|local_pair| &local_pair.server);
            let discarded: u64 =
                own.chain(local).map(|server| server.heap().trim(DISCARDED_MAX)).sum();
            self.table_config.counters.add_discarded(discarded);
        }
        self.table_config.counters.note_memory(self.apps.budget());
    }
}

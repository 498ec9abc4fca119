//! What is done with memory of rings that nobody uses, and when there is too little.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Nanos;
use shm::sockets::Heap;
use stack::{Command, Evicted, Eviction};

use super::super::app::App;
use super::super::apps::Apps;
use super::super::memory::Usage;
use super::SocketTable;
use crate::log;

/// Rings of one region whose pages are discarded in one look, at most: each takes a system call of
/// some microseconds, and others want to be heard.
const DISCARDED_MAX: usize = 1024;

/// The same while there is memory enough: 40 MiB a second of rings of 64 KiB.
const DISCARDED_UNHURRIED_MAX: usize = 128;

impl SocketTable {
    /// Looks whether memory is short, and does what is to be done then: pages that no ring uses are
    /// discarded, and connections that nobody reads are reset.
    pub(super) fn tend_memory(&mut self, now: Nanos) {
        if self.apps.memory().is_due(now) {
            self.settle_evicted(now);
            let discarded = self.apps.memory().trim_left(DISCARDED_MAX);
            self.table_config.counters.add_discarded(discarded);
            let taken = |apps: &Apps| apps.iter().map(usage).collect::<Vec<_>>();
            let before = taken(&self.apps);
            match self.apps.memory().is_short(&before) {
                true => self.discard(|heap| heap.trim(DISCARDED_MAX)),
                false => self.discard(|heap| heap.trim_unused(DISCARDED_UNHURRIED_MAX)),
            }
            let after = taken(&self.apps);
            let (idle, wanted) = self.apps.memory().evictions(&after);
            for (app, bytes) in wanted {
                let eviction = Arc::new(Eviction::new(app, idle, bytes));
                self.table_config.command_queue.command(&Command::Evict(eviction));
            }
        }
        self.table_config.counters.note_memory(self.apps.budget());
    }

    /// Of every region what `trim` says: it returns how many bytes it has discarded.
    fn discard(&self, trim: impl Fn(&Heap) -> u64) {
        let own = self.apps.iter().map(|app| &app.streams.server);
        let local = self.local_pairs.values().map(|local_pair| &local_pair.server);
        let discarded: u64 = own.chain(local).map(|server| trim(server.heap())).sum();
        self.table_config.counters.add_discarded(discarded);
    }

    /// Gives back what workers have taken from connections since the last look.
    fn settle_evicted(&mut self, now: Nanos) {
        let new = self.table_config.command_queue.take_evicted();
        let count = new.len();
        let names: BTreeSet<&str> = new.iter().filter_map(|of| self.name_of(of)).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let discarded = self.apps.memory().settle(new);
        self.table_config.counters.add_discarded(discarded);
        self.table_config.counters.add_evicted(count as u64);
        if count > 0 && self.apps.memory().may_say(now) {
            tracing::warn!(
                target: log::SOCKETS,
                "the memory for rings is short (`sockets.memory_mib`): connections that {names} does \
                 not read are reset; `ring_memory_evicted` counts them"
            );
        }
    }

    fn name_of(&self, evicted: &Evicted) -> Option<&str> {
        self.apps.get(evicted.app.app).map(|app| app.name.as_str())
    }
}

/// What an application has in memory.
fn usage(app: &App) -> Usage {
    let heap = app.streams.server.heap();
    Usage {
        app: app.number(),
        uid: app.uid,
        bytes: heap.resident_bytes(),
        bytes_max: heap.resident_max(),
        user_bytes: app.quota.resident_bytes(),
        user_bytes_max: app.quota.resident_max(),
    }
}

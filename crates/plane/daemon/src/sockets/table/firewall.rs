//! Rules of packet filters that come while programs are served.

use base::Nanos;
use datapath::DetachReason;

use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;
use crate::log;

impl SocketTable {
    /// Puts every program with sockets out when there are rules that were not there before.
    pub(super) fn tend_firewall(&mut self, now: Nanos) {
        let is_anybody_served = !self.apps.is_empty();
        if !self.network.firewall.has_appeared(is_anybody_served, now) {
            return;
        }
        let out: Vec<u16> =
            self.apps.iter().map(|app| app.number()).filter(|app| self.has_sockets(*app)).collect();
        if out.is_empty() {
            return;
        }
        self.table_config.counters.count(AttachServerEvent::FirewallAppeared);
        log::warn(format!(
            "packet filter rules have come, which served sockets would pass by: {} programs are put \
             out, and served by the kernel from now on (`sockets.ignore_firewall`)",
            out.len()
        ));
        for app in out {
            self.detach(app, DetachReason::Operator, now);
        }
        self.claimed.release_lingering();
    }

    fn has_sockets(&self, app: u16) -> bool {
        self.apps.get(app).is_some_and(|app| app.streams.server.slots_taken() > 0)
            || self.local_pairs.values().any(|local_pair| local_pair.has_named_end(app))
    }
}

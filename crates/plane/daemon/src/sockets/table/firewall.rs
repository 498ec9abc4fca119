//! Filters that come while programs are served: rules of the namespace, BPF programs of control
//! groups.

use base::{AppId, Nanos};
use datapath::DetachReason;

use super::SocketTable;
use crate::attach_server_counters::AttachServerEvent;
use crate::log;

impl SocketTable {
    /// Puts every program with sockets out when there are rules that were not there before; and
    /// those whose control group has got a filter.
    pub(super) fn tend_firewall(&mut self, now: Nanos) {
        let is_anybody_served = !self.apps.is_empty();
        if self.network.firewall.has_appeared(is_anybody_served, now) {
            let out: Vec<AppId> = self.apps.iter().map(|app| app.number()).collect();
            let what = "packet filter rules";
            if self.put_out(&out, AttachServerEvent::FirewallAppeared, what, now) {
                self.claimed.release_lingering();
            }
        }
        if !self.network.control_groups.is_due(now) {
            return;
        }
        let processes = self.apps.iter().flat_map(|app| {
            let number = app.number();
            app.pids.iter().map(move |pid| (number, *pid))
        });
        let processes: Vec<(AppId, u32)> = processes.collect();
        let out = self.network.control_groups.newly_guarded(&processes, now);
        let what = "BPF programs over control groups";
        self.put_out(&out, AttachServerEvent::ControlGroupFilterAppeared, what, now);
    }

    /// Puts those of the applications out that have sockets: whether there are any.
    fn put_out(
        &mut self,
        apps: &[AppId],
        event: AttachServerEvent,
        what: &str,
        now: Nanos,
    ) -> bool {
        let out: Vec<AppId> = apps.iter().copied().filter(|app| self.has_sockets(*app)).collect();
        if out.is_empty() {
            return false;
        }
        self.table_config.counters.count(event);
        tracing::warn!(
            target: log::SOCKETS,
            "{what} have come, which served sockets would pass by: {} programs are put out, and served \
             by the kernel from now on (`sockets.ignore_firewall`)",
            out.len()
        );
        for app in out {
            self.detach(app, DetachReason::Operator, now);
        }
        true
    }

    fn has_sockets(&self, app: AppId) -> bool {
        self.apps.get(app).is_some_and(|app| app.streams.server.slots_taken() > 0)
            || self.local_pairs.values().any(|local_pair| local_pair.has_named_end(app))
    }
}

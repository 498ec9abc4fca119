//! Groups of flows that go from one engine to the other.

use base::FlowGroup;
use tcp::FlowId;

use super::harness::{GROUPS, Harness};
use super::host::Host;
use super::settings::Settings;

impl Harness {
    /// A group of flows goes to the other engine.
    pub(super) fn move_group(&mut self, group: usize) {
        self.flush();
        let (old, new) = (self.owners[group], 1 - self.owners[group]);
        if self.hosts[new].is_none() {
            let Settings { config, options, .. } = &self.settings;
            self.hosts[new] = Some(Host::new(config.clone(), options, self.now));
            if self.is_listening {
                self.listen(new);
            }
        }
        let flow_group = FlowGroup(group as u32);
        if let Some(host) = &mut self.hosts[old] {
            host.engine.detach_group(flow_group, GROUPS, |_| true, &mut self.detached);
        }
        // Too many for the new one: back to where they came from.
        if !self.attach(old, new) {
            assert!(self.attach(old, old), "where they came from there is room");
        } else {
            self.owners[group] = new;
        }
    }

    fn attach(&mut self, from: usize, to: usize) -> bool {
        let mut names: Vec<(FlowId, FlowId)> = Vec::new();
        let Some(host) = &mut self.hosts[to] else { return false };
        let count = self.detached.len();
        let result = host.engine.attach_group(self.now, &mut self.detached, |old, new| {
            names.push((old, new));
        });
        if result.is_err() {
            assert_eq!(self.detached.len(), count, "all or nothing");
            return false;
        }
        assert!(self.detached.is_empty());
        let mut rings = Vec::new();
        for (old, _) in &names {
            let Some(host) = &mut self.hosts[from] else { continue };
            let receive = std::mem::take(&mut host.rings.receive[old.index()]);
            rings.push((receive, std::mem::take(&mut host.rings.send[old.index()])));
        }
        let records = &mut self.applications.records;
        let moved: Vec<Option<usize>> = names
            .iter()
            .map(|(old, _)| records.iter().position(|at| (at.host, at.id) == (from, *old)))
            .collect();
        for (((_, new), (receive, send)), record) in names.iter().zip(rings).zip(moved) {
            let Some(host) = &mut self.hosts[to] else { continue };
            host.rings.receive[new.index()] = receive;
            host.rings.send[new.index()] = send;
            if let Some(record) = record {
                (records[record].host, records[record].id) = (to, *new);
            }
        }
        true
    }
}

//! What is said of cores: which worker holds which.

use admin::{CoreApp, CoreRow, CoresStatus, Counter};
use base::{Nanos, WorkerId};
use datapath::AttachmentId;
use datapath::cores::{CoreAllocator, CoreEvent};
use policy::cores::{Class, Core};

use crate::event_loop::EventLoop;

/// The daemon's own workers, as people read it.
const OWN_NAME: &str = "calistod";

impl EventLoop {
    pub(crate) fn cores_status(&self, now: Nanos) -> CoresStatus {
        let Some(cores) = &self.cores else { return CoresStatus::default() };
        let allocator = &cores.allocator;
        let (policy, interval, cost) = allocator.pace();
        let counts = allocator.counts(None);
        let mut rows: Vec<CoreRow> = allocator
            .table()
            .cores()
            .iter()
            .map(|core| self.core_row(core, allocator, now))
            .collect();
        rows.sort_unstable_by_key(|row| row.core);
        let faults = [
            CoreEvent::Nudges,
            CoreEvent::Drains,
            CoreEvent::Rests,
            CoreEvent::RanWhileParked,
            CoreEvent::StrayThreads,
        ];
        let counter = |event: CoreEvent| Counter {
            name: event.name().to_owned(),
            help: event.help().to_owned(),
            value: counts.get(event),
        };
        CoresStatus {
            enabled: true,
            policy: policy.to_owned(),
            interval_ns: interval.0,
            tick_cost_ns: cost.0,
            yield_bound_us: allocator.yield_bound().0 / 1000,
            cores: rows,
            apps: self.core_apps(allocator),
            grants: counts.get(CoreEvent::Grants),
            parks: counts.get(CoreEvent::Parks),
            revokes: counts.get(CoreEvent::Revokes),
            takes: counts.get(CoreEvent::Takes),
            ticks: counts.get(CoreEvent::Ticks),
            counters: faults.map(counter).into(),
        }
    }

    fn core_row(&self, core: &Core, allocator: &CoreAllocator, now: Nanos) -> CoreRow {
        let owner = |worker: WorkerId| allocator.owner(worker);
        let holder = core.holder.and_then(owner);
        let leaves = core.holder.is_some_and(|worker| allocator.table().running(worker).is_none());
        let state = match (holder, leaves) {
            (None, _) => "idle",
            (Some(_), true) => "leaving",
            (Some(_), false) => "held",
        };
        CoreRow {
            core: core.id.0,
            state: state.to_owned(),
            app: holder.map(|(app, _)| app.number()),
            app_name: holder.map(|(app, _)| self.app_name(app)),
            worker: holder.map(|(_, worker)| worker.0),
            next_app: core.next.and_then(owner).map(|(app, _)| app.number()),
            since_ms: now.since(core.since).0 as f64 / 1e6,
        }
    }

    fn core_apps(&self, allocator: &CoreAllocator) -> Vec<CoreApp> {
        let mut apps: Vec<CoreApp> = allocator
            .kept()
            .map(|(id, app, oldest)| {
                let counts = allocator.counts(Some(id));
                CoreApp {
                    app: id.number(),
                    name: self.app_name(id),
                    class: match app.terms.class {
                        Class::Latency => "latency",
                        Class::Batch => "batch",
                    }
                    .to_owned(),
                    guaranteed: app.terms.guaranteed,
                    burst: app.terms.burst,
                    held: app.active().len() as u16,
                    parked: app.parked().len() as u16,
                    queue_delay_us: app.terms.queue_delay.0 / 1000,
                    oldest_us: oldest.0 as f64 / 1e3,
                    grants: counts.get(CoreEvent::Grants),
                    parks: counts.get(CoreEvent::Parks),
                    revokes: counts.get(CoreEvent::Revokes),
                    takes: counts.get(CoreEvent::Takes),
                    asked: counts.get(CoreEvent::Asks),
                }
            })
            .collect();
        apps.sort_unstable_by_key(|app| app.app);
        apps
    }

    fn app_name(&self, app: AttachmentId) -> String {
        if app == AttachmentId::OWN {
            return OWN_NAME.to_owned();
        }
        let attached_app =
            self.attached_apps.present().iter().find(|attached_app| attached_app.id == app);
        attached_app.map_or_else(|| app.to_string(), |attached_app| attached_app.facts.name.clone())
    }
}

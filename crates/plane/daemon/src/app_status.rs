//! What is said of applications: which are here, which were, and what each has done.

use admin::{AppLimits, AppStatus, AppWorker, Command, Counter, Reason, ReplyBody};
use datapath::AttachmentId;
use datapath::counters::{CounterReader, WorkerEvent};

use crate::apps::{AttachedApp, Departed, Facts};
use crate::event_loop::EventLoop;
use crate::status::{counter, state_name};

impl EventLoop {
    /// Everybody, the latest departed first; without counters.
    pub(crate) fn apps(&self) -> Vec<AppStatus> {
        let here =
            self.attached_apps.present().iter().map(|attached_app| self.present(attached_app));
        here.chain(self.attached_apps.departed().rev().map(gone)).collect()
    }

    /// One, with counters.
    pub(crate) fn explain(&self, app: AttachmentId) -> Option<AppStatus> {
        let attached_app =
            self.attached_apps.present().iter().find(|attached_app| attached_app.id == app)?;
        let mut counters = app_counters(&self.dispatcher.counters_of(app)?);
        counters.push(Counter {
            name: "muted".to_owned(),
            help: "Times that it rang too often for nothing and was not listened to for a moment."
                .to_owned(),
            value: attached_app.muted,
        });
        Some(AppStatus { counters, ..self.present(attached_app) })
    }

    /// What `explain` says of one that is gone.
    pub(crate) fn departed(&self, app: Option<&str>, command: &Command) -> Option<ReplyBody> {
        let (app, Command::Explain) = (app?, command) else { return None };
        let is_it = |departed: &&Departed| {
            departed.facts.name == app || departed.id.number().to_string() == app
        };
        let departed = self.attached_apps.departed().rev().find(is_it)?;
        let counters = app_counters(&departed.counters);
        Some(ReplyBody::Explain { app: AppStatus { counters, ..gone(departed) } })
    }

    fn present(&self, attached_app: &AttachedApp) -> AppStatus {
        let workers = self.dispatcher.steering_of(attached_app.id).map(|steering| {
            let each = steering.workers().map(|(id, state, queued)| AppWorker {
                id: id.0,
                state: state_name(state).to_owned(),
                queued: queued as u32,
                groups: steering.control().owned(id),
                packets: steering
                    .worker_counters(id)
                    .map_or(0, |counters| counters.get(WorkerEvent::Packets)),
                asleep: steering.is_asleep(id),
            });
            each.collect()
        });
        let held = self.dispatcher.memory_of(attached_app.id).map_or(0, |memory| memory.held());
        AppStatus {
            workers: workers.unwrap_or_default(),
            frames_with_app: held as u32,
            ..facts(attached_app.id, &attached_app.facts)
        }
    }
}

fn gone(departed: &Departed) -> AppStatus {
    AppStatus {
        state: "gone".to_owned(),
        reason: Some(Reason {
            name: departed.reason.name().to_owned(),
            message: departed.reason.to_string(),
        }),
        ..facts(departed.id, &departed.facts)
    }
}

/// What does not change while it is here.
fn facts(id: AttachmentId, facts: &Facts) -> AppStatus {
    let limit = |per_s: u32| (per_s > 0).then_some(u64::from(per_s));
    AppStatus {
        name: facts.name.clone(),
        id: id.number(),
        pid: facts.who.pid,
        uid: facts.who.uid,
        state: "attached".to_owned(),
        reason: None,
        listen: facts.listen.clone(),
        workers: Vec::new(),
        region_bytes: facts.sizes.region_bytes() as u64,
        frames: facts.sizes.receive_chunks,
        frames_with_app: 0,
        limits: AppLimits {
            packets_per_s: limit(facts.packets_per_s),
            wakes_per_s: limit(facts.wakes_per_s),
            memory_bytes: Some(facts.memory_bytes_max),
        },
        served: None,
        counters: Vec::new(),
    }
}

/// What the dispatcher counts for an application.
pub(crate) fn app_counters(counters: &CounterReader) -> Vec<Counter> {
    counters.dispatch_events().filter(|(.., value)| *value > 0).map(counter).collect()
}

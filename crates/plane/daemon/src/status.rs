//! What the daemon says of itself: ports, workers, counters, flows, tables.

use admin::{Counter, FlowRow, PortStatus, Status, SteerStatus, ThreadCounters, WorkerStatus};
use base::{Nanos, WorkerId};
use datapath::counters::WorkerEvent;
use datapath::{AttachmentId, Steering, WorkerQueueState};
use policy::steer;
use port::{AnyPort, LinkChecksums, Port};

use crate::app_status::app_counters;
use crate::event_loop::EventLoop;

/// Flows that one answer lists, at most.
const FLOWS_MAX: u32 = 1024;

impl EventLoop {
    pub(crate) fn status(&self, now: Nanos) -> Status {
        let pool = self.dispatcher.pool();
        let programs = self.attach_server_counters.as_ref().map_or(0, |all| all.programs());
        let dispatcher_ports = self.config.ports.iter().zip(self.dispatcher.ports());
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: now.since(self.started).as_secs_f64(),
            arrangement: self.config.workers.arrangement.name().to_owned(),
            job: self.config.job().name().to_owned(),
            listen: self.config.listen.clone(),
            ports: dispatcher_ports
                .map(|(spec, dispatcher_port)| {
                    port_status(spec, dispatcher_port.port(), dispatcher_port.checksums())
                })
                .collect(),
            workers: self.worker_status(),
            workers_wanted: self.workers_wanted.count,
            workers_asked: self.workers_wanted.asked,
            policy: self.dispatcher.steering().control().policy().to_owned(),
            groups: self.dispatcher.steering().table().groups(),
            frames: pool.config().frames,
            frames_free: pool.free_count() as u32,
            numa_node: pool.config().numa_node,
            apps: self.attached_apps.present().len() as u32 + programs,
            programs,
            confinement: self.confinement.to_owned(),
            guardian: self
                .attach_server_counters
                .as_ref()
                .map_or("off", |all| all.guardian())
                .to_owned(),
            ring_memory: self.attach_server_counters.as_ref().and_then(|all| all.memory()),
            descriptors: self.attach_server_counters.as_ref().and_then(|all| all.descriptors()),
            draining_ms: self.drain.left_ms(self.stops_asked(), now, self.drain_length()),
        }
    }

    /// Times that the end was asked for, by operators and signals.
    pub(crate) fn stops_asked(&self) -> u32 {
        sys::signal::stop_count().saturating_add(self.drain.stops_asked())
    }

    /// What sockets get to close.
    pub(crate) fn drain_length(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.config.sockets.drain_ms))
    }

    /// What runs here, for the log: a line for each port, and one for what is done with its
    /// packets.
    pub(crate) fn describe(&self) -> Vec<String> {
        let Status { version, pid, arrangement, job, listen, ports, policy, .. } =
            self.status(self.started);
        let port = |port: &PortStatus| {
            let PortStatus { port, mode, mtu, .. } = port;
            format!("port {port}: {mode}, MTU {mtu} bytes")
        };
        let listens = if listen.is_empty() { "nothing".to_owned() } else { listen.join(", ") };
        let rest = format!(
            "calistod {version}, process {pid}: workers {}, arrangement {arrangement}, job {job}, \
             policy {policy}, listens on {listens}",
            self.workers_wanted.count,
        );
        ports.iter().map(port).chain([rest]).collect()
    }

    fn worker_status(&self) -> Vec<WorkerStatus> {
        let steering = self.dispatcher.steering();
        let row = |(id, state, queued): (WorkerId, WorkerQueueState, usize)| WorkerStatus {
            id: id.0,
            state: state_name(state).to_owned(),
            cpu: self.worker_pool.config().cpu(id),
            numa_node: self.worker_pool.config().cpu(id).and_then(sys::numa::of_cpu),
            groups: steering.control().owned(id),
            queued: queued as u32,
            packets: steering
                .worker_counters(id)
                .map_or(0, |counters| counters.get(WorkerEvent::Packets)),
        };
        steering.workers().map(row).collect()
    }

    pub(crate) fn stats(&self) -> Vec<ThreadCounters> {
        let steering = self.dispatcher.steering();
        let mut threads = vec![ThreadCounters {
            thread: "dispatcher".to_owned(),
            counters: self.dispatcher.counters().dispatch_events().map(counter).collect(),
        }];
        for (id, ..) in steering.workers() {
            let Some(counters) = steering.worker_counters(id) else { continue };
            let mut counters: Vec<Counter> = counters.worker_events().map(counter).collect();
            if let Some(engines) = self.worker_pool.engines() {
                let counts = engines.counts_of(id).into_iter();
                counters.extend(
                    counts.map(|(name, help, value)| counter((format!("tcp_{name}"), help, value))),
                );
            }
            threads.push(ThreadCounters { thread: format!("worker {id}"), counters });
        }
        if let Some(counters) = &self.attach_server_counters {
            let counters = counters.each().map(counter).collect();
            threads.push(ThreadCounters { thread: "attach".to_owned(), counters });
        }
        for attached_app in self.attached_apps.present() {
            let Some(counters) = self.dispatcher.counters_of(attached_app.id) else { continue };
            threads.push(ThreadCounters {
                thread: format!("app {} ({})", attached_app.facts.name, attached_app.id),
                counters: app_counters(&counters),
            });
        }
        threads
    }

    pub(crate) fn flows(&self, app: AttachmentId, count: u32) -> Vec<FlowRow> {
        let Some(steering) = self.dispatcher.steering_of(app) else { return Vec::new() };
        let (table, listeners) = (steering.table(), self.dispatcher.listeners());
        let mut heaviest = self.dispatcher.sampler().heaviest(FLOWS_MAX as usize);
        heaviest.retain(|flow| listeners.owner(&flow.key) == Some(app));
        heaviest.truncate(count as usize);
        let row = |flow: datapath::SampledFlow| FlowRow {
            flow: flow.key.to_string(),
            hash: flow.hash.0,
            group: flow.group.0,
            worker: table.entry(flow.group).owner().map(|worker| worker.0),
            packets: flow.packets,
            bytes: flow.bytes,
        };
        heaviest.into_iter().map(row).collect()
    }
}

/// A table and its policy.
pub(crate) fn steer_status(steering: &Steering) -> SteerStatus {
    let control = steering.control();
    let owned: Vec<(u16, u32)> =
        steering.workers().map(|(id, ..)| (id.0, control.owned(id))).collect();
    let owned_all: u32 = owned.iter().map(|(_, groups)| groups).sum();
    let table = steering.table();
    let names = steer::NAMES.iter();
    SteerStatus {
        policy: control.policy().to_owned(),
        policies: names.map(|&(name, help)| (name.to_owned(), help.to_owned())).collect(),
        groups: table.groups(),
        unowned: (table.groups() + steering.pinned_flows() as u32).saturating_sub(owned_all),
        epoch: steering.epoch().0,
        settled: steering.is_settled(),
        held: steering.held() as u32,
        owned,
        pins: control.pins().iter().map(|(group, worker)| (group.0, worker.0)).collect(),
        pinned_flows: steering.pinned_flows() as u32,
        pinned: Vec::new(),
        pins_pending: 0,
    }
}

/// A worker's state as a word.
pub(crate) fn state_name(state: WorkerQueueState) -> &'static str {
    match state {
        WorkerQueueState::Active => "active",
        WorkerQueueState::Resting => "resting",
        WorkerQueueState::Leaving => "leaving",
        WorkerQueueState::Retiring => "retiring",
    }
}

pub(crate) fn counter((name, help, value): (String, &str, u64)) -> Counter {
    Counter { name, help: help.to_owned(), value }
}

fn port_status(spec: &str, port: &AnyPort, checksums: LinkChecksums) -> PortStatus {
    let capabilities = port.capabilities();
    let counters = port.counters();
    PortStatus {
        port: spec.to_owned(),
        mode: capabilities.mode.clone(),
        mtu: capabilities.mtu,
        trust_link: checksums == LinkChecksums::Trusted,
        fault: port.fault().map(|fault| fault.of(&capabilities.name)),
        counters: counters
            .each()
            .into_iter()
            .map(|(name, value, help)| Counter {
                name: name.to_owned(),
                help: help.to_owned(),
                value,
            })
            .collect(),
    }
}

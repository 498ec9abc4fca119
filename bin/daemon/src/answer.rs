//! What an operator can ask, and how the loop answers.

use admin::{
    Command, Counter, FlowRow, PortStatus, ReplyBody, Status, SteerStatus, Target, ThreadCounters,
    WorkerStatus,
};
use base::{FlowGroup, Nanos, WorkerId};
use datapath::LaneState;
use datapath::counters::WorkerEvent;
use policy::steer::{self, SteerConfig};
use port::{AnyPort, Port};
use wire::FlowKey;

use crate::admin_socket::{Ask, Question, error};
use crate::turn::{Export, Host};

/// Flows that one answer lists, at most.
const FLOWS_MAX: u32 = 1024;

impl Host {
    pub(crate) fn answer(&mut self, mut ask: Ask, now: Nanos) {
        let body = match &mut ask.question {
            Question::Load(owners) => {
                let owners = std::mem::take(owners);
                let (control, live) = self.dispatcher.steering_mut().control_mut();
                done(control.load(owners, live))
            }
            Question::Command(Command::SteerExport) => {
                let groups = self.dispatcher.steering().table().groups() as usize;
                self.exports.push(Export { entries: Vec::with_capacity(groups), ask });
                return;
            }
            Question::Command(command) => {
                let command = command.clone();
                self.command(&command, now)
            }
        };
        ask.reply(body);
    }

    fn command(&mut self, command: &Command, now: Nanos) -> ReplyBody {
        match command {
            Command::Status => ReplyBody::Status(self.status(now)),
            Command::Stats => ReplyBody::Stats { threads: self.stats() },
            Command::Flows { count } => ReplyBody::Flows { flows: self.flows(*count) },
            Command::SteerShow => ReplyBody::Steer(self.steer_status()),
            Command::SteerSet { policy } => self.steer_set(policy),
            Command::SteerPin { target, worker } => self.pin(target, WorkerId(*worker)),
            Command::SteerUnpin { target } => self.unpin(target),
            Command::Workers { count } => self.workers(*count),
            Command::Stop => {
                self.stopping = true;
                ReplyBody::Done
            }
            // The admin thread has turned this one into `Question::Load` or an export.
            Command::SteerLoad { .. } | Command::SteerExport => error("not answered this way"),
        }
    }

    fn steer_set(&mut self, name: &str) -> ReplyBody {
        let groups = self.dispatcher.steering().table().len();
        match steer::by_name(name, SteerConfig { groups, seed: self.seed }) {
            Ok(steer) => {
                self.dispatcher.steering_mut().control_mut().0.set_policy(steer);
                ReplyBody::Done
            }
            Err(unknown) => error(&unknown.to_string()),
        }
    }

    fn workers(&mut self, count: u16) -> ReplyBody {
        if count == 0 || count > self.config.workers.max {
            return error(&format!(
                "{count} workers are not possible: 1 to {} (`workers.max`)",
                self.config.workers.max
            ));
        }
        self.workers_wanted = count;
        ReplyBody::Done
    }

    fn pin(&mut self, target: &Target, worker: WorkerId) -> ReplyBody {
        match target {
            Target::Group(group) => {
                let groups = self.dispatcher.steering().table().groups();
                if *group >= groups {
                    return error(&format!(
                        "there is no group {group}: there are 0 to {}",
                        groups - 1
                    ));
                }
                let (control, live) = self.dispatcher.steering_mut().control_mut();
                done(control.pin(FlowGroup(*group), worker, live))
            }
            Target::Flow(text) => match text.parse::<FlowKey>() {
                Ok(flow) => {
                    let hash = self.dispatcher.hash(&flow);
                    done(self.dispatcher.steering_mut().pin_flow(flow.id(), hash, worker))
                }
                Err(wrong) => error(&wrong.to_string()),
            },
        }
    }

    fn unpin(&mut self, target: &Target) -> ReplyBody {
        let was_pinned = match target {
            Target::Group(group) => {
                self.dispatcher.steering_mut().control_mut().0.unpin(FlowGroup(*group))
            }
            Target::Flow(text) => match text.parse::<FlowKey>() {
                Ok(flow) => {
                    let hash = self.dispatcher.hash(&flow);
                    self.dispatcher.steering_mut().unpin_flow(flow.id(), hash)
                }
                Err(wrong) => return error(&wrong.to_string()),
            },
        };
        if was_pinned {
            ReplyBody::Done
        } else {
            error("it is not pinned: see `calisto steer show`")
        }
    }

    fn status(&self, now: Nanos) -> Status {
        let pool = self.dispatcher.pool();
        let lanes = self.config.ports.iter().zip(self.dispatcher.ports());
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: now.since(self.started).as_secs_f64(),
            arrangement: self.config.workers.arrangement.name().to_owned(),
            job: self.staff.config().job.name().to_owned(),
            listen: self.config.listen.clone(),
            ports: lanes
                .map(|(spec, lane)| port_status(spec, lane.port(), lane.trusts_link()))
                .collect(),
            workers: self.worker_status(),
            policy: self.dispatcher.steering().control().policy().to_owned(),
            groups: self.dispatcher.steering().table().groups(),
            frames: pool.config().frames,
            frames_free: pool.free_count() as u32,
            numa_node: pool.config().numa_node,
        }
    }

    fn worker_status(&self) -> Vec<WorkerStatus> {
        let steering = self.dispatcher.steering();
        let row = |(id, state, queued): (WorkerId, LaneState, usize)| WorkerStatus {
            id: id.0,
            state: match state {
                LaneState::Active => "active",
                LaneState::Leaving => "leaving",
                LaneState::Retiring => "retiring",
            }
            .to_owned(),
            cpu: self.staff.config().cpu(id),
            numa_node: self.staff.config().cpu(id).and_then(sys::numa::of_cpu),
            groups: steering.control().owned(id),
            queued: queued as u32,
            packets: steering
                .worker_counters(id)
                .map_or(0, |counters| counters.get(WorkerEvent::Packets)),
        };
        steering.workers().map(row).collect()
    }

    fn stats(&self) -> Vec<ThreadCounters> {
        let counter = |(name, help, value): (String, &str, u64)| Counter {
            name,
            help: help.to_owned(),
            value,
        };
        let steering = self.dispatcher.steering();
        let mut threads = vec![ThreadCounters {
            thread: "dispatcher".to_owned(),
            counters: self.dispatcher.counters().dispatch_events().map(counter).collect(),
        }];
        for (id, ..) in steering.workers() {
            let Some(counters) = steering.worker_counters(id) else { continue };
            threads.push(ThreadCounters {
                thread: format!("worker {id}"),
                counters: counters.worker_events().map(counter).collect(),
            });
        }
        threads
    }

    fn flows(&self, count: u32) -> Vec<FlowRow> {
        let table = self.dispatcher.steering().table();
        let heaviest = self.dispatcher.sampler().heaviest(count.min(FLOWS_MAX) as usize);
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

    fn steer_status(&self) -> SteerStatus {
        let steering = self.dispatcher.steering();
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
        }
    }
}

fn port_status(spec: &str, port: &AnyPort, trust_link: bool) -> PortStatus {
    let capabilities = port.capabilities();
    let counters = port.counters();
    PortStatus {
        port: spec.to_owned(),
        mode: capabilities.mode.clone(),
        mtu: capabilities.mtu,
        trust_link,
        fault: port.fault().map(|fault| fault.to_string()),
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

fn done<E: std::fmt::Display>(result: Result<(), E>) -> ReplyBody {
    result.map_or_else(|refused| error(&refused.to_string()), |()| ReplyBody::Done)
}

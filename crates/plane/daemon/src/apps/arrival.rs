//! What an application needs before the loop hears of it: memory, wakers, an eventfd, limits.
//!
//! Made on the attach server's thread, because filling memory and tables takes a millisecond.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use attach::{AttachRequest, CoresClass, CoresRequest, Peer, PeerCredentials};
use base::{Nanos, WorkerId};
use config::Config;
use datapath::cores::{Call, CoreTerms, GrantedWorker};
use datapath::{
    AppDispatch, AppLimits, Egress, Listener, MigrateConfig, NewApp, SteeringConfig, Wake,
};
use policy::cores::Class;
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use shm::packets::{PacketServer, PacketSizes};
use sys::SysError;
use sys::eventfd::EventFd;
use sys::pidfd::PidFd;
use sys::waker::Waker;

use crate::apps::rules::Rule;
use crate::cores::Keeping;
use crate::setup::control_config;

/// Frames of its own that each worker has.
const SEND_FRAMES: u32 = 64;
/// Hand-overs of single groups that an application can have under way.
const HANDOVERS: usize = 16;
/// Packets that wait for an application's hand-overs, at most.
const HOLD_PACKETS_MAX: u32 = 256;
/// Flows of one application that can be pinned one by one.
const OVERRIDES: u32 = 64;
/// Time between two looks at the load of an application's groups.
const LOAD_INTERVAL: Nanos = Nanos::from_millis(10);
const RING_SLOTS_MIN: u32 = 64;
const RING_SLOTS_MAX: u32 = 1024;

/// What every application gets, from the configuration and the ports.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    frames: u32,
    steering: SteeringConfig,
    stall: Nanos,
    policy: String,
    seed: u64,
    control: ControlConfig,
    macs: Vec<[u8; 6]>,
    host: Vec<IpAddr>,
    /// To make calls from; absent when no core is managed.
    call: Option<Call>,
}

/// An application that is about to come in.
pub(crate) struct Arrival {
    pub(crate) app_dispatch: Box<AppDispatch>,
    pub(crate) facts: Facts,
    /// Rung by the application when the loop sleeps.
    pub(crate) eventfd: Arc<EventFd>,
    /// Of one that runs on granted cores.
    pub(crate) keeping: Option<Keeping>,
}

/// What is told of an application.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) who: PeerCredentials,
    pub(crate) listen: Vec<String>,
    pub(crate) sizes: PacketSizes,
    pub(crate) packets_per_s: u32,
    pub(crate) wakes_per_s: u32,
    pub(crate) memory_bytes_max: u64,
}

/// The descriptors that go to the application.
pub(crate) struct Handout {
    memory: OwnedFd,
    eventfd: Arc<EventFd>,
    doorbells: Vec<OwnedFd>,
}

impl Handout {
    /// In the order of the attach protocol.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let first = [self.memory.as_fd(), self.eventfd.as_fd()];
        first.into_iter().chain(self.doorbells.iter().map(AsFd::as_fd)).collect()
    }
}

impl Terms {
    pub(crate) fn new(
        config: &Config,
        steering: SteeringConfig,
        seed: u64,
        macs: Vec<[u8; 6]>,
        host: Vec<IpAddr>,
        call: Option<Call>,
    ) -> Self {
        let hold = (config.handover.hold_packets / 8).clamp(1, HOLD_PACKETS_MAX);
        let steering = SteeringConfig {
            groups: config.apps.groups,
            overrides: OVERRIDES,
            load_interval: LOAD_INTERVAL,
            migrate: MigrateConfig {
                hold_packets: hold as usize,
                slots: HANDOVERS,
                ..steering.migrate
            },
            ..steering
        };
        let stall = Nanos::from_millis(u64::from(config.apps.stall_ms));
        Self {
            frames: config.apps.frames,
            steering,
            stall,
            policy: config.steer.policy.clone(),
            seed,
            control: control_config(config),
            macs,
            host,
            call,
        }
    }

    /// Makes everything for an application, or says why it gets nothing.
    pub(crate) fn arrange(
        &self,
        request: &AttachRequest,
        peer: &Peer,
        rule: &Rule,
    ) -> Result<(Arrival, Handout), Refusal> {
        let who = peer.credentials();
        let listeners = listeners(request, rule)?;
        let cores = self.core_terms(request, who, rule)?;
        if request.workers > rule.workers {
            return Err(Refusal(format!(
                "{} workers are more than the {} that user {} may have (`apps.allow`)",
                request.workers, rule.workers, who.uid
            )));
        }
        let sizes = self.sizes(request, rule, who)?;
        let failed =
            |error: &dyn fmt::Display| Refusal(format!("the daemon ran out of resources: {error}"));
        let (server, worker_queues) =
            PacketServer::create(sizes).map_err(|error| failed(&error))?;
        let eventfd = Arc::new(EventFd::new().map_err(|error| failed(&error))?);
        let mut workers = Vec::new();
        let mut doorbells = Vec::new();
        let mut granted = Vec::new();
        for (worker_queue, worker) in worker_queues.into_iter().zip(0..) {
            let (doorbell, wake) = doorbell().map_err(|error| failed(&error))?;
            doorbells.push(doorbell);
            let core_grant = server.core_grant(worker).filter(|_| cores.is_some());
            let call = self
                .call
                .as_ref()
                .zip(core_grant)
                .map(|(call, core_grant)| (call.another(), core_grant));
            workers.push(match call {
                None => (worker_queue, wake),
                Some((call, core_grant)) => {
                    let called = call.over(&wake);
                    granted.push(GrantedWorker {
                        worker: WorkerId(worker as u16),
                        core_grant,
                        wake,
                        call,
                    });
                    (worker_queue, called)
                }
            });
        }
        let keeping = match cores {
            None => None,
            Some(terms) => {
                let process = PidFd::of_peer(peer.as_fd()).map_err(|error| failed(&error))?;
                Some(Keeping { terms, workers: granted, bits: server.core_grant_bits(), process })
            }
        };
        let memory = server.as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
        let facts = Facts {
            name: request.name.clone(),
            who,
            listen: listeners.iter().map(ToString::to_string).collect(),
            sizes,
            packets_per_s: rule.packets_per_s,
            wakes_per_s: rule.wakes_per_s,
            memory_bytes_max: u64::from(rule.memory_mib) << 20,
        };
        let new = NewApp {
            server,
            workers,
            egress: Egress::new(listeners.clone(), self.macs.clone(), self.host.clone()),
            listeners,
            limits: AppLimits {
                packets_per_s: rule.packets_per_s,
                wakes_per_s: rule.wakes_per_s,
                stall: self.stall,
            },
            steering: SteeringConfig { workers_max: sizes.workers as u16, ..self.steering },
        };
        let app_dispatch = AppDispatch::new(new, |groups| {
            let steer = steer::by_name(&self.policy, SteerConfig { groups, seed: self.seed });
            Control::new(self.control, steer.expect("looked up when the daemon started"), groups)
        });
        let app_dispatch = Box::new(app_dispatch.map_err(|error| failed(&error))?);
        let handout = Handout { memory, eventfd: Arc::clone(&eventfd), doorbells };
        Ok((Arrival { app_dispatch, facts, eventfd, keeping }, handout))
    }

    /// On which terms it gets cores; none: it runs wherever Linux lets it.
    fn core_terms(
        &self,
        request: &AttachRequest,
        who: PeerCredentials,
        rule: &Rule,
    ) -> Result<Option<CoreTerms>, Refusal> {
        let Some(CoresRequest { guaranteed, burst, class, queue_delay_us }) = request.cores else {
            return Ok(None);
        };
        if self.call.is_none() {
            return Err(Refusal(
                "this daemon gives out no cores: start it with some (`calisto up --cores \
                 LIST`, or `cores.set` of its configuration), or attach without asking for any"
                    .to_owned(),
            ));
        }
        let burst = burst.unwrap_or(request.workers as u16).max(guaranteed);
        if u32::from(guaranteed) > rule.guaranteed || u32::from(burst) > rule.cores {
            return Err(Refusal(format!(
                "user {} may have {} cores, {} of them guaranteed (`apps.allow`)",
                who.uid, rule.cores, rule.guaranteed
            )));
        }
        if !shares_process_ids(who.pid) {
            return Err(Refusal(
                "it has process numbers of its own (a container), so its threads cannot be told \
                 from others: attach without asking for cores"
                    .to_owned(),
            ));
        }
        Ok(Some(CoreTerms {
            guaranteed,
            burst,
            class: match class {
                CoresClass::Latency => Class::Latency,
                CoresClass::Batch => Class::Batch,
            },
            queue_delay: Nanos::from_micros(u64::from(queue_delay_us)),
        }))
    }

    fn sizes(
        &self,
        request: &AttachRequest,
        rule: &Rule,
        who: PeerCredentials,
    ) -> Result<PacketSizes, Refusal> {
        let frames = request.frames.unwrap_or(self.frames);
        let sizes = PacketSizes {
            workers: request.workers,
            ring_slots: frames.clamp(RING_SLOTS_MIN, RING_SLOTS_MAX).next_power_of_two(),
            chunk_bytes: request.frame_bytes.unwrap_or(2048),
            receive_chunks: frames,
            send_chunks: SEND_FRAMES,
            handovers: HANDOVERS as u32 + request.workers,
        };
        let sizes = sizes.checked().map_err(|error| Refusal(error.to_string()))?;
        let (bytes, limit) = (sizes.region_bytes(), (rule.memory_mib as usize) << 20);
        if bytes > limit {
            return Err(Refusal(format!(
                "that takes {bytes} bytes of memory and user {} may have {} MiB (`apps.allow`): ask \
                 for fewer frames or workers",
                who.uid, rule.memory_mib
            )));
        }
        Ok(sizes)
    }
}

fn listeners(request: &AttachRequest, rule: &Rule) -> Result<Vec<Listener>, Refusal> {
    let parse = |text: &String| text.parse().map_err(|error| Refusal(format!("{error}")));
    let listeners: Vec<Listener> =
        request.listen.iter().map(parse).collect::<Result<_, Refusal>>()?;
    let is_batch = request.cores.is_some_and(|cores| cores.class == CoresClass::Batch);
    if is_batch && !listeners.is_empty() {
        return Err(Refusal("a batch job listens on nothing".to_owned()));
    }
    if listeners.is_empty() && !is_batch {
        return Err(Refusal("it listens on nothing: name an address and port".to_owned()));
    }
    match listeners.iter().find(|listener| !rule.may_listen(listener)) {
        None => Ok(listeners),
        Some(refused) => {
            Err(Refusal(format!("this user may not listen on {refused} (`apps.allow`)")))
        }
    }
}

/// Whether a process has the same numbers for processes and threads as we have.
fn shares_process_ids(pid: u32) -> bool {
    // proc_pid_status(5): its number in each namespace, from that of this /proc inwards. Unlike
    // the link to its namespace anybody may read it.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().count() == 1)
}

/// What wakes one of the application's workers, and that one's end: whoever wakes it never waits.
fn doorbell() -> Result<(OwnedFd, Wake), SysError> {
    let (sleeper, waker) = Waker::new()?;
    Ok((sleeper, Arc::new(move || waker.ring())))
}

/// Why an application gets nothing, in a sentence for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! The daemon's data path in one thread: dispatcher, workers, and the far end of a port in memory.

use std::sync::Arc;

use base::{Nanos, WorkerId};
use datapath::{
    Dispatcher, DispatcherConfig, DispatcherPort, Echo, Listener, Listeners, MigrateConfig,
    SteeringConfig, Worker,
};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::Port;
use port::memory::{MemoryPort, WireConfig, wire_with};
use shm::{Batch, Doorbell, FramePool, PoolConfig};
use stack::{BuiltIn, Exchange, SocketCounts, SocketJob, SocketJobConfig};
use wire::Toeplitz;

pub(crate) use super::frames::SERVER_MAC as MAC;
use crate::Refused;

/// Frames of the data path: the daemon's default.
const FRAMES: u32 = 8192;
const CHUNK_BYTES: u32 = 2048;
/// Packets that the port holds, as a NIC's ring of the daemon does.
const PORT_RING: usize = 2048;

/// What the data path is to be.
pub(crate) struct ServerPlan<'a> {
    /// Its steering policy, by name.
    pub(crate) policy: &'a str,
    pub(crate) groups: u32,
    /// As `steer.seed` of the daemon's configuration: the key of the flow hash comes from it.
    pub(crate) seed: u64,
    /// Where it listens, as the configuration says it.
    pub(crate) listen: &'a str,
}

/// What workers do.
pub(crate) enum Work {
    /// UDP packets go back where they came from.
    Echo,
    /// Connections.
    Streams(Box<SocketJobConfig>),
}

/// A data path.
pub(crate) struct Server {
    pub(crate) dispatcher: Dispatcher<MemoryPort>,
    far: MemoryPort,
    batch: Batch,
    workers: Vec<(WorkerId, Worker<BuiltIn>)>,
    work: Work,
    exchange: Exchange,
    /// Of every worker that ever was.
    counts: Vec<SocketCounts>,
    seed: u64,
}

impl Server {
    /// Without workers.
    pub(crate) fn new(plan: &ServerPlan<'_>, work: Work) -> Result<Self, Refused> {
        let &ServerPlan { policy, groups, seed, listen } = plan;
        let refused =
            |field, value: &str, allowed| Refused { field, value: value.to_owned(), allowed };
        let listener: Listener =
            listen.parse().map_err(|_| refused("listen", listen, "such as udp:10.0.0.2:7"))?;
        let steer = steer::by_name(policy, SteerConfig { groups: groups as usize, seed })
            .map_err(|_| refused("policy", policy, "one that `calisto steer show` lists"))?;
        let pool = FramePool::new(PoolConfig {
            frames: FRAMES,
            chunk_bytes: CHUNK_BYTES,
            numa_node: None,
        })
        .map_err(|_| refused("frames", "16 MiB", "less than the memory of this machine"))?;
        let config = WireConfig { capacity: PORT_RING, ..WireConfig::default() };
        let (far, near) = wire_with(&config);
        // The daemon's own defaults.
        let steering = SteeringConfig {
            groups,
            migrate: MigrateConfig::default(),
            ..SteeringConfig::default()
        };
        let config = DispatcherConfig {
            steering,
            ring: FRAMES as usize,
            hash_key: Toeplitz::key_from_seed(seed),
        };
        let dispatcher_ports = vec![DispatcherPort::new(near, MAC)];
        let dispatcher = Dispatcher::new(
            &config,
            dispatcher_ports,
            pool,
            Listeners::new(vec![listener]),
            |groups| Control::new(ControlConfig::default(), steer, groups),
        )
        .map_err(|_| {
            refused("groups", &groups.to_string(), "a power of two from 128 to 1048576")
        })?;
        Ok(Self {
            dispatcher,
            far,
            batch: Batch::new(),
            workers: Vec::new(),
            work,
            exchange: Exchange::new(),
            counts: Vec::new(),
            seed,
        })
    }

    /// Makes it that many workers: the youngest come and go. Returns how many got no number.
    pub(crate) fn resize(&mut self, workers: u16, now: Nanos) -> u16 {
        let active = self.active();
        for leaver in active.iter().skip(usize::from(workers)) {
            self.dispatcher.steering_mut().remove_worker(*leaver);
        }
        for number in active.len()..usize::from(workers) {
            let spawned = self.dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
            // None is free only while earlier leavers have not retired.
            let Some(spawned) = spawned else { return workers - number as u16 };
            let id = spawned.id;
            let job = match &self.work {
                Work::Echo => BuiltIn::Echo(Echo),
                Work::Streams(config) => {
                    let owners = self.dispatcher.steering_mut().share_owners();
                    let counts = SocketCounts::new();
                    self.counts.push(counts.clone());
                    let exchange = self.exchange.clone();
                    let stream = SocketJob::new(id, config, exchange, owners, counts, now);
                    BuiltIn::SocketJob(Box::new(stream.expect("a plan has one listener")))
                }
            };
            self.workers.push((id, spawned.employ(job)));
        }
        0
    }

    /// Ids of workers that are there and not on their way out, ascending.
    pub(crate) fn active(&self) -> Vec<WorkerId> {
        let workers = self.dispatcher.steering().workers();
        let active = workers.filter(|(_, state, _)| *state == datapath::WorkerQueueState::Active);
        active.map(|(id, ..)| id).collect()
    }

    /// Another policy decides from now on.
    pub(crate) fn set_policy(&mut self, policy: &str) -> Result<(), Refused> {
        let steering = self.dispatcher.steering_mut();
        // As the daemon does it, which counts the groups of pinned flows, too.
        let groups = steering.table().len();
        let steer =
            steer::by_name(policy, SteerConfig { groups, seed: self.seed }).map_err(|_| {
                Refused {
                    field: "policies",
                    value: policy.to_owned(),
                    allowed: "names that `calisto steer show` lists",
                }
            })?;
        steering.control_mut().0.set_policy(steer);
        Ok(())
    }

    /// A packet reaches the port; false: it had no room.
    pub(crate) fn put(&mut self, packet: &[u8], now: Nanos) -> bool {
        let (_, pool) = self.dispatcher.ports_and_pool();
        let Some(mut frame) = pool.take() else { return false };
        let fits = frame.fill(packet);
        self.batch.push(frame);
        let taken = if fits { self.far.tx(pool, &mut self.batch, now) } else { 0 };
        self.batch.drain(..).for_each(|frame| pool.give(frame));
        taken == 1
    }

    /// One turn of everybody. Returns how many packets were received and sent.
    pub(crate) fn turn(&mut self, now: Nanos) -> usize {
        let received = self.dispatcher.receive(now);
        for (_, worker) in &mut self.workers {
            worker.step(now);
        }
        let (_, sent) = self.dispatcher.transmit(now);
        self.dispatcher.control(now);
        let retired = self.dispatcher.steering_mut().take_retired();
        if !retired.is_empty() {
            self.workers.retain(|(id, _)| !retired.contains(id));
        }
        received + sent
    }

    /// Takes what has left the port.
    pub(crate) fn take(&mut self, now: Nanos, mut each: impl FnMut(&[u8])) {
        let (_, pool) = self.dispatcher.ports_and_pool();
        while self.far.rx(pool, &mut self.batch, now) > 0 {
            for frame in self.batch.drain(..) {
                each(frame.bytes());
                pool.give(frame);
            }
        }
    }

    /// Turns until nothing moves any more, a control tick apart; whether it came to that.
    pub(crate) fn settle(&mut self, now: &mut Nanos) -> bool {
        let tick = SteeringConfig::default().tick;
        for _ in 0..10_000 {
            *now += tick;
            self.turn(*now);
            let all_there = self.workers.len() == self.active().len();
            if all_there && self.dispatcher.steering().is_settled() {
                return true;
            }
        }
        false
    }

    /// When the next turn is due.
    pub(crate) fn next_turn(&self, now: Nanos) -> Nanos {
        let has_work = self.dispatcher.has_work()
            || self.workers.iter().any(|(_, worker)| worker.has_work(now));
        if has_work {
            return now;
        }
        let workers = self.workers.iter().map(|(_, worker)| worker.next_deadline());
        workers.min().unwrap_or(Nanos::FAR_FUTURE).min(self.dispatcher.next_deadline())
    }

    /// What all engines have counted together, by name; zeros are left out.
    pub(crate) fn stream_counts(&self) -> Vec<(&'static str, u64)> {
        let Some(first) = self.counts.first() else { return Vec::new() };
        let names = first.iter().map(|(name, ..)| name);
        let sum = |name| {
            let all = self.counts.iter().flat_map(SocketCounts::iter);
            all.filter(|(other, ..)| *other == name).map(|(.., value)| value).sum()
        };
        names.map(|name| (name, sum(name))).filter(|(_, sum)| *sum > 0).collect()
    }
}

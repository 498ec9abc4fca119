//! The real dispatcher behind a wire in memory, and a generator at the wire's other end.
//!
//! Generator and dispatcher share a thread, because they share the pool: what the generator costs
//! is measured apart.

use std::sync::Arc;

use base::{BURST, Nanos};
use datapath::counters::DispatchEvent;
use datapath::{
    Dispatcher, DispatcherConfig, DispatcherPort, Job, Listeners, MigrateConfig, SteeringConfig,
    Worker,
};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig, Steer};
use port::Port;
use port::memory::{MemoryPort, wire};
use shm::{Batch, Doorbell, Frame, FramePool, PoolConfig};

use crate::error::{Error, OrNeeds};
use crate::flows::{SEED, SERVER_MAC, hash_key, listeners};

/// What differs between cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RigConfig {
    /// Flow groups.
    pub(crate) groups: u32,
    /// Frames of the pool, and bytes of each.
    pub(crate) frames: u32,
    pub(crate) chunk_bytes: u32,
    /// Messages in each ring.
    pub(crate) ring: usize,
    /// The policy at the start.
    pub(crate) policy: &'static str,
    /// Packets that may wait for hand-overs.
    pub(crate) hold_packets: usize,
}

impl Default for RigConfig {
    fn default() -> Self {
        Self {
            groups: 1 << 20,
            frames: 4096,
            chunk_bytes: 2048,
            ring: 1024,
            policy: "sticky",
            hold_packets: MigrateConfig::default().hold_packets,
        }
    }
}

/// A dispatcher, and the far end of its wire.
pub(crate) struct Rig {
    pub(crate) dispatcher: Dispatcher<MemoryPort>,
    far: MemoryPort,
    outgoing: Batch,
}

/// A policy by name.
pub(crate) fn policy(name: &str, groups: usize) -> Result<Box<dyn Steer>, Error> {
    steer::by_name(name, SteerConfig { groups, seed: SEED }).or_needs("policy of that name")
}

/// A control loop for a dispatcher.
pub(crate) fn control(name: &str, groups: usize) -> Result<Control, Error> {
    Ok(Control::new(ControlConfig::default(), policy(name, groups)?, groups))
}

/// A dispatcher over one port whose own workers serve `listeners`.
pub(crate) fn dispatcher<P: Port>(
    config: &RigConfig,
    port: P,
    pool: FramePool,
    listeners: Listeners,
) -> Result<Dispatcher<P>, Error> {
    let RigConfig { groups, ring, hold_packets, .. } = *config;
    let migrate = MigrateConfig { hold_packets, ..MigrateConfig::default() };
    let steering = SteeringConfig { groups, migrate, ..SteeringConfig::default() };
    // The policy is looked up before, where an error can still be returned.
    let steer = policy(config.policy, (groups + steering.overrides) as usize)?;
    let config = DispatcherConfig { steering, ring, hash_key: hash_key() };
    let dispatcher_ports = vec![DispatcherPort::new(port, SERVER_MAC)];
    Dispatcher::new(&config, dispatcher_ports, pool, listeners, |groups| {
        Control::new(ControlConfig::default(), steer, groups)
    })
    .or_needs("dispatcher")
}

/// One more worker of `dispatcher`, which is never asleep.
pub(crate) fn spawn<P: Port, J: Job>(
    dispatcher: &mut Dispatcher<P>,
    job: J,
) -> Result<Worker<J>, Error> {
    let worker = dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
    Ok(worker.ok_or("every worker id is in use").or_needs("worker")?.employ(job))
}

impl Rig {
    /// A dispatcher without workers, for packets to [`crate::flows::SERVER`].
    pub(crate) fn new(config: &RigConfig) -> Result<Self, Error> {
        Self::serving(config, listeners())
    }

    /// The same for packets to others.
    pub(crate) fn serving(config: &RigConfig, listeners: Listeners) -> Result<Self, Error> {
        let RigConfig { frames, chunk_bytes, .. } = *config;
        let pool = FramePool::new(PoolConfig { frames, chunk_bytes, numa_node: None });
        let (far, near) = wire(frames as usize);
        let dispatcher = dispatcher(config, near, pool.or_needs("pool of frames")?, listeners)?;
        Ok(Self { dispatcher, far, outgoing: Batch::new() })
    }

    /// Puts up to `count` packets, at most [`BURST`], onto the wire: `write` fills each. Fewer
    /// when no frame is free. How many.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        count: usize,
        now: Nanos,
        mut write: impl FnMut(&mut Frame),
    ) -> usize {
        let Self { dispatcher, far, outgoing } = self;
        let (_, pool) = dispatcher.ports_and_pool();
        for _ in 0..count.min(BURST) {
            let Some(mut frame) = pool.take() else {
                break;
            };
            write(&mut frame);
            outgoing.push(frame);
        }
        let sent = far.tx(pool, outgoing, now);
        for frame in outgoing.drain(..) {
            pool.give(frame);
        }
        sent
    }

    /// Takes answers off the wire; how many.
    pub(crate) fn take_answers(&mut self, now: Nanos) -> usize {
        let Self { dispatcher, far, outgoing } = self;
        let (_, pool) = dispatcher.ports_and_pool();
        let received = far.rx(pool, outgoing, now);
        for frame in outgoing.drain(..) {
            pool.give(frame);
        }
        received
    }

    /// Frames that are under way.
    pub(crate) fn outstanding(&self) -> usize {
        self.dispatcher.pool().outstanding()
    }

    /// Packets dropped for any reason that a working data path may have.
    pub(crate) fn dropped(&self) -> u64 {
        let counters = self.dispatcher.counters();
        let reasons = [
            DispatchEvent::RingFull,
            DispatchEvent::HoldOverflow,
            DispatchEvent::NoWorker,
            DispatchEvent::NotListening,
            DispatchEvent::BadChecksum,
            DispatchEvent::TransmitFault,
        ];
        reasons.into_iter().map(|reason| counters.get(reason)).sum()
    }
}

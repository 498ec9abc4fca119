//! The data path of a replay: the daemon's dispatcher and workers, with a wire in memory before
//! them.

use std::cell::RefCell;
use std::rc::Rc;

use datapath::{
    Dispatcher, DispatcherConfig, DispatcherPort, Listener, Listeners, MigrateConfig,
    SteeringConfig,
};
use policy::sample::GROUPS_PER_STEP;
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::Port;
use port::memory::{MemoryPort, WireConfig, wire_with};
use shm::{Batch, Frame, FramePool, PoolConfig};
use wire::Toeplitz;

use crate::clock::Clock;
use crate::packet_tracker::{PacketTracker, SharedPacketTracker};
use crate::worker_set::WorkerSet;
use crate::{Error, Options};

/// Frames under way, at most. Every ring, and the list of held packets, takes all of them: no
/// packet is lost for want of room.
const FRAMES: u32 = 512;
const CHUNK_BYTES: u32 = 2048;
const RING: usize = 2 * FRAMES as usize;
/// After this many turns without a packet, what has not come to its end is a bug.
pub(crate) const REST_TURNS: usize = 10_000;
/// All ports of all hosts: every flow is served.
const SERVED: [&str; 4] = ["udp:0.0.0.0:0", "tcp:0.0.0.0:0", "udp:[::]:0", "tcp:[::]:0"];

/// Dispatcher, workers, and the far end of the wire.
pub(crate) struct Rig {
    pub(crate) dispatcher: Dispatcher<MemoryPort>,
    far: MemoryPort,
    outgoing: Batch,
    worker_set: WorkerSet,
    pub(crate) tracker: SharedPacketTracker,
    pub(crate) clock: Clock,
    groups: u32,
}

impl Rig {
    /// A data path without workers.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let failed = |error: String| Error::Failed(error);
        let config = PoolConfig { frames: FRAMES, chunk_bytes: CHUNK_BYTES, numa_node: None };
        let pool = FramePool::new(config).map_err(|error| failed(error.to_string()))?;
        let (far, near) = wire_with(&WireConfig {
            capacity: FRAMES as usize,
            mtu: CHUNK_BYTES,
            ..WireConfig::default()
        });
        let mut dispatcher_port = DispatcherPort::new(near, [2, 0, 0, 0, 0, 2]);
        if !options.check_checksums {
            dispatcher_port.trust_link();
        }
        let migrate = MigrateConfig { hold_packets: FRAMES as usize, ..MigrateConfig::default() };
        let groups = options.groups;
        let steering =
            SteeringConfig { groups, overrides: 0, migrate, ..SteeringConfig::default() };
        let hash_key = Toeplitz::key_from_seed(options.seed);
        let config = DispatcherConfig { steering, ring: RING, hash_key };
        let seed = options.seed;
        let steer = SteerConfig { groups: groups as usize, seed };
        let steer =
            steer::by_name(&options.policy, steer).map_err(|error| failed(error.to_string()))?;
        let served: Vec<Listener> = SERVED
            .iter()
            .map(|text| text.parse().map_err(|error| failed(format!("{error}"))))
            .collect::<Result<_, _>>()?;
        let dispatcher = Dispatcher::new(
            &config,
            vec![dispatcher_port],
            pool,
            Listeners::new(served),
            |groups| Control::new(ControlConfig::default(), steer, groups),
        )
        .map_err(|error| failed(error.to_string()))?;
        let most = options.workers.iter().copied().max().unwrap_or(1);
        let tracker = PacketTracker::new(FRAMES, CHUNK_BYTES, most.into(), options.flows_max);
        let tracker = Rc::new(RefCell::new(tracker));
        Ok(Self {
            dispatcher,
            far,
            outgoing: Batch::new(),
            worker_set: WorkerSet::new(Rc::clone(&tracker), seed),
            tracker,
            clock: Clock::new(options.pace),
            groups,
        })
    }

    /// Puts frames that `next` fills onto the wire, up to a batch; how many.
    pub(crate) fn offer(
        &mut self,
        mut next: impl FnMut(&mut Frame, &mut PacketTracker) -> bool,
    ) -> usize {
        let Self { dispatcher, far, outgoing, tracker, clock, .. } = self;
        let (_, pool) = dispatcher.ports_and_pool();
        let mut tracker = tracker.borrow_mut();
        while !outgoing.is_full() {
            let Some(mut frame) = pool.take() else {
                break;
            };
            if !next(&mut frame, &mut tracker) {
                pool.give(frame);
                break;
            }
            outgoing.push(frame);
        }
        let sent = far.tx(pool, outgoing, clock.now());
        for frame in outgoing.drain(..) {
            pool.give(frame);
        }
        sent
    }

    /// One turn of dispatcher and workers: of all workers, or of some.
    pub(crate) fn turn(&mut self, all: bool) {
        let Self { dispatcher, far, outgoing, worker_set, clock, .. } = self;
        let now = clock.now();
        dispatcher.receive(now);
        if all {
            worker_set.all_step(now);
        } else {
            worker_set.some_step(now);
        }
        let (_, transmitted) = dispatcher.transmit(now);
        dispatcher.control(now);
        // Answers to neighbours that ask for the unspecified address.
        if transmitted > 0 {
            let (_, pool) = dispatcher.ports_and_pool();
            far.rx(pool, outgoing, now);
            for frame in outgoing.drain(..) {
                pool.give(frame);
            }
        }
    }

    /// Whether every packet is done and nothing moves.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.dispatcher.pool().outstanding() == 0
            && self.dispatcher.steering().is_settled()
            && !self.worker_set.has_leavers()
    }

    /// Lets time pass without packets until all are done and nothing moves; whether that is so.
    pub(crate) fn rest(&mut self) -> bool {
        for _ in 0..REST_TURNS {
            if self.is_at_rest() {
                return true;
            }
            if !self.dispatcher.steering().is_settled() || self.worker_set.has_leavers() {
                self.clock.pass(sys::clock::now);
            }
            self.turn(true);
        }
        self.is_at_rest()
    }

    /// Makes it `count` workers, and lets the policy make its new table. What is queued stays
    /// queued meanwhile, so that the hand-overs meet it.
    pub(crate) fn change_workers(&mut self, count: u16) -> Result<(), Error> {
        let is_over = self.dispatcher.steering().is_settled() && !self.worker_set.has_leavers();
        if !is_over && !self.rest() {
            return Err(Error::Failed(
                "a change of workers did not come to its end: report this".to_owned(),
            ));
        }
        self.worker_set.resize(&mut self.dispatcher, count)?;
        let epoch = self.dispatcher.steering().epoch();
        // The policy counts the table and then fills the new one, a step a tick, and begins and
        // publishes in one each.
        for _ in 0..2 * (self.groups as usize).div_ceil(GROUPS_PER_STEP) + 8 {
            let steering = self.dispatcher.steering();
            if steering.is_settled() || steering.epoch() != epoch {
                break;
            }
            self.clock.pass(sys::clock::now);
            self.dispatcher.control(self.clock.now());
        }
        Ok(())
    }
}

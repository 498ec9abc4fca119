//! The real steering and the real workers in one thread, with a tracker that sees every packet.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::{FlowGroup, Nanos, WorkerId};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use shm::{Consumer, Doorbell, Frame, FramePool, PoolConfig, Producer, ring};

use crate::counters::{CounterWriter, DispatchEvent};
use crate::dispatch_context::DispatchContext;
use crate::job::{Job, Verdict};
use crate::message::{FromWorker, Moving, ToWorker};
use crate::migrate::MigrateConfig;
use crate::steering::{Steering, SteeringConfig};
use crate::worker::Worker;
use crate::worker_queue::{WorkerQueueEnds, WorkerQueueState};

pub(super) const FLOWS: usize = 96;

/// What every worker has done, checked as it happens.
#[derive(Debug)]
pub(super) struct PacketTracker {
    /// By flow: the number of the last packet processed.
    last: [u32; FLOWS],
    /// By group: the worker that touched it and has not detached it since.
    holder: Vec<Option<WorkerId>>,
    /// By group: the worker that detached it alone and was not given it again.
    given_up: Vec<Option<WorkerId>>,
    pub(super) processed: u64,
}

/// A job that keeps the tracker, and dies or dawdles on demand.
pub(super) struct Recorder {
    id: WorkerId,
    tracker: Rc<RefCell<PacketTracker>>,
    /// Packets until it dies, if it is to.
    dies_after: Rc<RefCell<Option<u32>>>,
    /// Calls of `detach` that answer "not yet".
    dawdle: u32,
}

impl Job for Recorder {
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        if let Some(left) = &mut *self.dies_after.borrow_mut() {
            if *left == 0 {
                // Before the packet is in the tracker: it is undone, and another must do it.
                std::panic::resume_unwind(Box::new("this worker dies here"));
            }
            *left -= 1;
        }
        let bytes = frame.bytes();
        let flow = usize::from(bytes[0]);
        let number = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        let mut tracker = self.tracker.borrow_mut();
        assert!(
            number > tracker.last[flow],
            "flow {flow}: packet {number} after {} at worker {}",
            tracker.last[flow],
            self.id
        );
        tracker.last[flow] = number;
        tracker.processed += 1;
        let holder = &mut tracker.holder[frame.meta().group.index()];
        let group = frame.meta().group;
        assert!(
            holder.is_none_or(|holder| holder == self.id),
            "group {group} is with {holder:?} and worker {} has a packet of it",
            self.id
        );
        *holder = Some(self.id);
        let given_up = tracker.given_up[group.index()];
        // Virtual groups are given to flows anew without a hand-over.
        let hashed = group.0 < 128;
        assert!(
            !hashed || given_up != Some(self.id),
            "worker {} has given group {group} up and has a packet of it",
            self.id
        );
        Verdict::Consume
    }

    fn detach(&mut self, moving: Moving, _: Nanos) -> bool {
        if self.dawdle > 0 {
            self.dawdle -= 1;
            return false;
        }
        let mut tracker = self.tracker.borrow_mut();
        match moving {
            Moving::Group(group) => {
                tracker.holder[group.index()] = None;
                tracker.given_up[group.index()] = Some(self.id);
            }
            // Those that stay are taken again with their next packet.
            Moving::Epoch(_) => release_all(&mut tracker, self.id),
        }
        true
    }

    fn attach(&mut self, moving: Moving, _: Nanos) {
        let mut tracker = self.tracker.borrow_mut();
        match moving {
            Moving::Group(group) => {
                let holder = tracker.holder[group.index()];
                assert_eq!(holder, None, "group {group} is attached before it was detached");
                tracker.given_up[group.index()] = None;
            }
            // Perhaps groups that it gave up come back with this table.
            Moving::Epoch(_) => forget_gifts(&mut tracker, |worker| worker == self.id),
        }
    }
}

fn forget_gifts(tracker: &mut PacketTracker, whose: impl Fn(WorkerId) -> bool) {
    for given_up in &mut tracker.given_up {
        if given_up.is_some_and(&whose) {
            *given_up = None;
        }
    }
}

fn release_all(tracker: &mut PacketTracker, worker: WorkerId) {
    for holder in &mut tracker.holder {
        if *holder == Some(worker) {
            *holder = None;
        }
    }
}

/// A worker as its host sees it.
pub(super) struct Hosted {
    pub(super) worker: Worker<Recorder>,
    dies_after: Rc<RefCell<Option<u32>>>,
    /// Steps that it will not get (SIGSTOP, or its CPU is elsewhere).
    pub(super) stopped_for: u32,
}

/// Steering, workers, frames, and a clock.
pub(super) struct Harness {
    pub(super) steering: Steering,
    pub(super) hosted: Vec<Option<Hosted>>,
    pub(super) pool: FramePool,
    pub(super) counters: CounterWriter,
    pub(super) tracker: Rc<RefCell<PacketTracker>>,
    pub(super) now: Nanos,
    sent: [u32; FLOWS],
    pub(super) sent_all: u64,
}

pub(super) fn policy(name: &str, groups: usize) -> Box<dyn policy::Steer> {
    steer::by_name(name, SteerConfig { groups, seed: 11 }).expect("the test names a policy")
}

impl Harness {
    pub(super) fn new(name: &str, workers: usize, hold_packets: usize) -> Self {
        let migrate = MigrateConfig { hold_packets, deadline: Nanos::from_millis(20), slots: 8 };
        let config = SteeringConfig {
            groups: 128,
            overrides: 8,
            workers_max: 8,
            tick: Nanos::from_micros(50),
            // Few packets come here, and with few the loop looks 64 times less often.
            load_interval: Nanos::from_micros(50),
            migrate,
        };
        let idle_timeout = Nanos::from_millis(30);
        let control = ControlConfig { idle_timeout, ..ControlConfig::default() };
        let steering = Steering::new(config, flow_id, |groups| {
            Control::new(control, policy(name, groups), groups)
        })
        .expect("128 groups are possible");
        let pool = FramePool::new(PoolConfig { frames: 512, chunk_bytes: 2048, numa_node: None })
            .expect("1 MiB fits");
        let groups = steering.table().len();
        let tracker = PacketTracker {
            last: [0; FLOWS],
            holder: vec![None; groups],
            given_up: vec![None; groups],
            processed: 0,
        };
        let mut harness = Self {
            steering,
            hosted: (0..8).map(|_| None).collect(),
            pool,
            counters: CounterWriter::new(),
            tracker: Rc::new(RefCell::new(tracker)),
            now: Nanos::from_secs(1),
            sent: [0; FLOWS],
            sent_all: 0,
        };
        for _ in 0..workers {
            assert!(harness.add_worker(0));
        }
        harness
    }

    pub(super) fn add_worker(&mut self, dawdle: u32) -> bool {
        let Some(id) = self.steering.free_worker_id() else {
            return false;
        };
        // As many as there are frames, and control messages besides: rings are never full here,
        // so that every loss must be a hold overflow.
        let (ends, inbox, outbox, counters) = rings(1024);
        self.steering.add_worker(id, ends);
        let dies_after = Rc::new(RefCell::new(None));
        let tracker = Rc::clone(&self.tracker);
        let job = Recorder { id, tracker, dies_after: Rc::clone(&dies_after), dawdle };
        let worker = Worker::new(
            job,
            inbox,
            outbox,
            self.steering.handovers(),
            self.steering.caller(id),
            counters,
        );
        self.hosted[id.index()] = Some(Hosted { worker, dies_after, stopped_for: 0 });
        true
    }

    pub(super) fn active(&self) -> Vec<WorkerId> {
        let workers = self.steering.workers();
        workers
            .filter(|&(_, state, _)| state == WorkerQueueState::Active)
            .map(|(id, ..)| id)
            .collect()
    }

    /// One packet of a flow, if a frame is free.
    pub(super) fn packet(&mut self, flow: usize) {
        let Some(mut frame) = self.pool.take() else {
            return;
        };
        self.sent[flow] += 1;
        self.sent_all += 1;
        let number = self.sent[flow].to_be_bytes();
        assert!(frame.fill(&[flow as u8, number[0], number[1], number[2], number[3]]));
        let hash = base::FlowHash((flow as u32).wrapping_mul(0x9e37_79b1));
        frame.meta_mut().flow_hash = hash;
        frame.meta_mut().group = self.steering.group_of(hash, || flow as u64);
        let Self { steering, pool, counters, now, .. } = self;
        let entry = steering.look_up(frame.meta().group, *now);
        steering.steer(frame, entry, &mut DispatchContext { pool, counters, now: *now });
    }

    /// One packet of every flow, shown to the workers.
    pub(super) fn packet_each(&mut self) {
        for flow in 0..FLOWS {
            self.packet(flow);
        }
        self.publish();
    }

    pub(super) fn publish(&mut self) {
        self.steering.publish(self.now);
    }

    /// One turn of a worker; it may die of it.
    pub(super) fn step(&mut self, index: usize) {
        let Some(hosted) = &mut self.hosted[index] else {
            return;
        };
        if hosted.stopped_for > 0 {
            hosted.stopped_for -= 1;
            return;
        }
        let now = self.now;
        let turn = std::panic::AssertUnwindSafe(|| hosted.worker.step(now));
        match std::panic::catch_unwind(turn) {
            Ok(step) if step.retired => {
                let hosted = self.hosted[index].take();
                drop(hosted.map(|hosted| hosted.worker.into_remains()));
            }
            Ok(_) => {}
            Err(cause) if cause.downcast_ref::<&str>() == Some(&"this worker dies here") => {
                self.reap(index);
            }
            Err(cause) => std::panic::resume_unwind(cause),
        }
    }

    /// The worker is killed, now or at its `packets`th packet from now.
    pub(super) fn kill(&mut self, index: usize, packets: u32) {
        if let Some(hosted) = &self.hosted[index] {
            *hosted.dies_after.borrow_mut() = Some(packets);
        }
    }

    /// Whoever was to die later lives on.
    pub(super) fn spare(&mut self) {
        for hosted in self.hosted.iter().flatten() {
            *hosted.dies_after.borrow_mut() = None;
        }
    }

    fn reap(&mut self, index: usize) {
        let Some(hosted) = self.hosted[index].take() else {
            return;
        };
        let remains = hosted.worker.into_remains();
        let id = WorkerId(index as u16);
        release_all(&mut self.tracker.borrow_mut(), id);
        // Groups of the dead are placed anew, perhaps where they were once, without a hand-over.
        forget_gifts(&mut self.tracker.borrow_mut(), |_| true);
        let Self { steering, pool, counters, now, .. } = self;
        let mut context = DispatchContext { pool, counters, now: *now };
        while steering.drain_worker_queue(index, &mut context, 64, &mut give) > 0 {}
        steering.worker_died(id, remains, &mut context);
    }

    pub(super) fn drain(&mut self, budget: usize) {
        let Self { steering, pool, counters, now, .. } = self;
        let mut context = DispatchContext { pool, counters, now: *now };
        steering.drain(&mut context, budget, give);
    }

    pub(super) fn tick(&mut self, passes: Nanos) {
        self.now += passes;
        let Self { steering, pool, counters, now, .. } = self;
        steering.tick(&mut DispatchContext { pool, counters, now: *now });
    }

    /// Everybody runs until nothing moves any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..20_000 {
            for index in 0..self.hosted.len() {
                if let Some(hosted) = &mut self.hosted[index] {
                    hosted.stopped_for = 0;
                    *hosted.dies_after.borrow_mut() = None;
                }
                self.step(index);
            }
            self.drain(512);
            self.tick(Nanos::from_micros(100));
            if self.pool.outstanding() == 0 && self.steering.is_settled() {
                return;
            }
        }
        panic!(
            "something moves for ever: {} frames out, {}",
            self.pool.outstanding(),
            self.steering.describe()
        );
    }

    pub(super) fn lost(&self, event: DispatchEvent) -> u64 {
        self.counters.get(event)
    }

    pub(super) fn owner(&self, group: FlowGroup) -> Option<WorkerId> {
        self.steering.table().entry(group).owner()
    }
}

pub(super) fn give(message: FromWorker, context: &mut DispatchContext<'_>) {
    let FromWorker::Packet(frame) = message else { panic!("{message:?} is the steering's") };
    context.pool.give(frame);
}

/// Flows are numbered here.
fn flow_id(frame: &Frame) -> Option<u64> {
    Some(u64::from(frame.bytes()[0]))
}

/// Rings of a worker that never sleeps: the dispatcher's ends, then the worker's.
pub(super) fn rings(
    capacity: usize,
) -> (WorkerQueueEnds, Consumer<ToWorker>, Producer<FromWorker>, CounterWriter) {
    let (to_worker, inbox) = ring(capacity);
    let (outbox, from_worker) = ring(capacity);
    let counters = CounterWriter::new();
    let ends = WorkerQueueEnds {
        to_worker,
        from_worker,
        doorbell: Arc::new(Doorbell::new()),
        wake: Arc::new(|| ()),
        counters: counters.reader(),
    };
    (ends, inbox, outbox, counters)
}

//! The same promises with workers on threads of their own: real rings, real races, real deaths.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use base::{FlowHash, Nanos, WorkerId};
use policy::{Control, ControlConfig};
use shm::{Frame, FramePool, PoolConfig};

use super::harness::{give, policy, rings};
use crate::counters::{CounterWriter, DispatchEvent};
use crate::dispatch_context::DispatchContext;
use crate::job::{Job, Verdict};
use crate::message::Moving;
use crate::migrate::MigrateConfig;
use crate::steering::{Steering, SteeringConfig};
use crate::worker::{Remains, Worker};
use crate::worker_queue::WorkerQueueState;

const FLOWS: usize = 64;

/// What all workers have done, seen from any thread.
#[derive(Default)]
struct PacketTracker {
    last: [AtomicU32; 32],
    more: [AtomicU32; 32],
    processed: AtomicU64,
    reordered: AtomicU64,
}

impl PacketTracker {
    fn last(&self, flow: usize) -> &AtomicU32 {
        if flow < 32 { &self.last[flow] } else { &self.more[flow - 32] }
    }
}

struct Recorder {
    tracker: Arc<PacketTracker>,
    dies: Arc<AtomicBool>,
}

impl Job for Recorder {
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        if self.dies.load(Ordering::Relaxed) {
            resume_unwind(Box::new("this worker dies here"));
        }
        let bytes = frame.bytes();
        let number = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        // Relaxed is enough to be wrong: if two workers had the flow at once, or in the wrong
        // order without a hand-over between them, the numbers would show it.
        let before = self.tracker.last(usize::from(bytes[0])).swap(number, Ordering::Relaxed);
        if before >= number {
            self.tracker.reordered.fetch_add(1, Ordering::Relaxed);
        }
        self.tracker.processed.fetch_add(1, Ordering::Relaxed);
        Verdict::Consume
    }

    fn detach(&mut self, _: Moving, _: Nanos) -> bool {
        true
    }

    fn attach(&mut self, _: Moving, _: Nanos) {}
}

struct Harness {
    steering: Steering,
    pool: FramePool,
    counters: CounterWriter,
    tracker: Arc<PacketTracker>,
    threads: Vec<Option<(JoinHandle<()>, Arc<AtomicBool>)>>,
    notices: Sender<(WorkerId, Remains)>,
    deaths: Receiver<(WorkerId, Remains)>,
    stop: Arc<AtomicBool>,
    now: Nanos,
    sent: [u32; FLOWS],
}

impl Harness {
    fn new() -> Self {
        // The virtual clock runs far faster than the threads do: no abort, only releases.
        let migrate =
            MigrateConfig { hold_packets: 4096, deadline: Nanos::from_secs(3600), slots: 8 };
        let config = SteeringConfig {
            groups: 128,
            overrides: 0,
            workers_max: 8,
            migrate,
            ..SteeringConfig::default()
        };
        let control =
            |groups| Control::new(ControlConfig::default(), policy("sticky", groups), groups);
        let steering = Steering::new(config, |_| None, control).expect("128 groups are possible");
        let pool = FramePool::new(PoolConfig { frames: 2048, chunk_bytes: 2048, numa_node: None });
        let (notices, deaths) = channel();
        Self {
            steering,
            pool: pool.expect("4 MiB fit"),
            counters: CounterWriter::new(),
            tracker: Arc::default(),
            threads: (0..8).map(|_| None).collect(),
            notices,
            deaths,
            stop: Arc::default(),
            now: Nanos::from_secs(1),
            sent: [0; FLOWS],
        }
    }

    /// Threads of workers that have ended as asked, before their ids are used again.
    fn reap(&mut self) {
        for worker in self.steering.take_retired() {
            if let Some((thread, _)) = self.threads[worker.index()].take() {
                thread.join().expect("it ended as asked");
            }
        }
    }

    fn spawn(&mut self) {
        self.reap();
        let Some(id) = self.steering.free_worker_id() else { return };
        let (ends, inbox, outbox, counters) = rings(4096);
        self.steering.add_worker(id, ends);
        let dies = Arc::new(AtomicBool::new(false));
        let job = Recorder { tracker: Arc::clone(&self.tracker), dies: Arc::clone(&dies) };
        let mut worker = Worker::new(
            job,
            inbox,
            outbox,
            self.steering.handovers(),
            self.steering.caller(id),
            counters,
        );
        let (stop, notices) = (Arc::clone(&self.stop), self.notices.clone());
        let thread = std::thread::spawn(move || {
            let life = catch_unwind(AssertUnwindSafe(|| {
                while !stop.load(Ordering::Relaxed) && !worker.step(Nanos::ZERO).retired {
                    std::thread::yield_now();
                }
            }));
            if life.is_err() {
                let _ = notices.send((id, worker.into_remains()));
            }
        });
        self.threads[id.index()] = Some((thread, dies));
    }

    fn active(&self) -> Vec<WorkerId> {
        let workers = self.steering.workers();
        workers
            .filter(|&(_, state, _)| state == WorkerQueueState::Active)
            .map(|(id, ..)| id)
            .collect()
    }

    fn describe(&self) -> String {
        format!("{} frames out, {}", self.pool.outstanding(), self.steering.describe())
    }

    fn turn(&mut self) {
        self.now += Nanos::from_micros(60);
        self.reap();
        let Self { steering, pool, counters, now, deaths, threads, .. } = self;
        let mut context = DispatchContext { pool, counters, now: *now };
        while let Ok((worker, remains)) = deaths.try_recv() {
            while steering.drain_worker_queue(worker.index(), &mut context, 64, &mut give) > 0 {}
            steering.worker_died(worker, remains, &mut context);
            threads[worker.index()] = None;
        }
        steering.drain(&mut context, 256, give);
        steering.tick(&mut context);
    }

    fn packet(&mut self, flow: usize) {
        let Some(mut frame) = self.pool.take() else { return };
        self.sent[flow] += 1;
        let number = self.sent[flow].to_be_bytes();
        assert!(frame.fill(&[flow as u8, number[0], number[1], number[2], number[3]]));
        let hash = FlowHash((flow as u32).wrapping_mul(0x9e37_79b1));
        frame.meta_mut().flow_hash = hash;
        frame.meta_mut().group = self.steering.group_of(hash, || 0);
        let Self { steering, pool, counters, now, .. } = self;
        let entry = steering.look_up(frame.meta().group, *now);
        steering.steer(frame, entry, &mut DispatchContext { pool, counters, now: *now });
    }
}

#[test]
fn threads_that_come_go_and_die_reorder_nothing_and_lose_nothing() {
    let mut harness = Harness::new();
    harness.spawn();
    harness.spawn();
    let began = std::time::Instant::now();
    for round in 0..20_000_usize {
        // As fast as the threads are, and no faster: some hundred packets are always under way.
        while harness.pool.free_count() < 1800 {
            assert!(began.elapsed().as_secs() < 60, "stuck: {}", harness.describe());
            harness.turn();
            harness.steering.publish(Nanos::ZERO);
            std::thread::yield_now();
        }
        for packet in 0..16 {
            harness.packet((round * 7 + packet * 13) % FLOWS);
        }
        harness.steering.publish(Nanos::ZERO);
        harness.turn();
        let active = harness.active();
        match round % 200 {
            40 | 90 => harness.spawn(),
            120 if active.len() > 2 => {
                harness.steering.remove_worker(active[round % active.len()]);
            }
            // It dies at its next packet, wherever it is in its ring, while groups move.
            160 if active.len() > 2 => {
                let victim = active[round % active.len()];
                if let Some((_, dies)) = &harness.threads[victim.index()] {
                    dies.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
    while harness.pool.outstanding() > 0 || !harness.steering.is_settled() {
        harness.turn();
        harness.steering.publish(Nanos::ZERO);
        std::thread::yield_now();
        assert!(began.elapsed().as_secs() < 60, "never at rest: {}", harness.describe());
    }
    harness.stop.store(true, Ordering::Relaxed);
    for (thread, _) in harness.threads.into_iter().flatten() {
        thread.join().expect("it ended as asked");
    }
    let count = |event| harness.counters.get(event);
    assert!(count(DispatchEvent::EpochsFinished) > 10 && count(DispatchEvent::WorkersDied) > 3);
    assert_eq!(harness.tracker.reordered.load(Ordering::Relaxed), 0);
    let lost = count(DispatchEvent::HoldOverflow) + count(DispatchEvent::RingFull);
    let sent: u64 = harness.sent.iter().map(|&sent| u64::from(sent)).sum();
    assert_eq!(harness.tracker.processed.load(Ordering::Relaxed) + lost, sent);
    assert!(sent > 10_000, "{sent} packets were too few to mean anything");
}

//! The daemon's side: a dispatcher, and workers with the sockets of programs.

use std::sync::Arc;

use base::{Nanos, WorkerId};
use datapath::{
    Dispatcher, DispatcherConfig, DispatcherPort, Listeners, Sink, SteeringConfig, Worker,
};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::Port;
use port::memory::{MemoryPort, wire as memory_wire};
use shm::{Batch, Doorbell, FramePool, PoolConfig};
use stack::{
    BuiltIn, CommandQueue, Exchange, RingLimits, ServiceKind, SocketCounts, SocketJob,
    SocketJobConfig,
};
use tcp::{Config, FlowOptions};
use wire::Toeplitz;

pub(super) const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const WORKERS_MAX: usize = 4;
/// Turns within which every worker ends that is asked to.
const ENDING_TURNS_MAX: usize = 400;

/// Dispatcher and workers, and the other end of their port.
pub(super) struct DataPath {
    pub(super) port: MemoryPort,
    pub(super) dispatcher: Dispatcher<MemoryPort>,
    pub(super) command_queue: CommandQueue,
    workers: Vec<(WorkerId, Worker<BuiltIn>)>,
    config: SocketJobConfig,
    exchange: Exchange,
}

impl DataPath {
    pub(super) fn new(workers: usize, now: Nanos) -> Self {
        let pool = PoolConfig { frames: 512, chunk_bytes: 2048, numa_node: None };
        let pool = FramePool::new(pool).expect("a MiB fits");
        let (port, server) = memory_wire(256);
        let hash_key = Toeplitz::MICROSOFT_KEY;
        let config = DispatcherConfig {
            steering: SteeringConfig { groups: 128, ..SteeringConfig::default() },
            ring: 256,
            hash_key,
        };
        let listen = ["tcp:10.0.0.2:7", "tcp:10.0.0.2:8"];
        let listen = listen.iter().map(|text| text.parse().expect("a listener")).collect();
        let ports = vec![DispatcherPort::new(server, OUR_MAC)];
        let dispatcher = Dispatcher::new(&config, ports, pool, Listeners::new(listen), |groups| {
            let steer = steer::by_name("sticky", SteerConfig { groups, seed: 1 });
            Control::new(ControlConfig::default(), steer.expect("a policy"), groups)
        });
        let command_queue = CommandQueue::new(|| (), || ());
        let config = SocketJobConfig {
            engine: Config { flows_max: 64, hash_key, ..Config::default() },
            secret: [5; 16],
            service: ServiceKind::Sockets,
            listeners: Vec::new(),
            backlog: 16,
            flow: FlowOptions { receive_limit_log2: 16, ..FlowOptions::default() },
            rings: RingLimits { receive_log2: 16, send_log2: 16, bytes_max: 1 << 24 },
            joins: false,
            command_queue: Some(command_queue.clone()),
        };
        let mut data_path = Self {
            port,
            dispatcher: dispatcher.expect("128 groups are possible"),
            command_queue,
            workers: Vec::new(),
            config,
            exchange: Exchange::new(),
        };
        for _ in 0..workers {
            data_path.spawn(now);
        }
        data_path
    }

    /// A worker comes, if there is room for one.
    pub(super) fn spawn(&mut self, now: Nanos) {
        self.reap();
        if self.workers.len() >= WORKERS_MAX {
            return;
        }
        let new = self.dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
        // Ids of workers that are ending are not free yet.
        let Some(new) = new else { return };
        let owners = self.dispatcher.steering_mut().share_owners();
        let exchange = self.exchange.clone();
        let job = SocketJob::new(new.id, &self.config, exchange, owners, SocketCounts::new(), now);
        let job = BuiltIn::SocketJob(Box::new(job.expect("nobody listens yet")));
        self.workers.push((new.id, new.employ(job)));
    }

    /// A worker ends, unless it is the last.
    pub(super) fn remove(&mut self, number: usize) -> bool {
        let can = self.workers.len() > 1;
        if can {
            let id = self.workers[number % self.workers.len()].0;
            self.dispatcher.steering_mut().remove_worker(id);
        }
        can
    }

    /// The dispatcher alone looks, then one worker.
    pub(super) fn step_one(&mut self, number: usize, now: Nanos) {
        self.dispatcher.step(now);
        if !self.workers.is_empty() {
            let at = number % self.workers.len();
            self.workers[at].1.step(now);
        }
    }

    /// Everybody looks, twice.
    pub(super) fn turn(&mut self, now: Nanos) {
        for _ in 0..2 {
            self.dispatcher.step(now);
            for (_, worker) in &mut self.workers {
                worker.step(now);
            }
        }
        self.reap();
        self.dispatcher.step(now);
    }

    /// Workers that have ended go, before another one has their number.
    fn reap(&mut self) {
        let retired = self.dispatcher.steering_mut().take_retired();
        self.workers.retain(|(id, _)| !retired.contains(id));
    }
    /// The end: every frame comes home. A pool with a frame that is still out stays mapped for
    /// ever, and the next execution makes another one.
    pub(super) fn end(mut self, mut now: Nanos) {
        self.reap();
        // Where the packets of those that serve sockets go now: it keeps none.
        let last = self.dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
        let last = last.expect("there are more ids than workers");
        let id = last.id;
        for (worker, _) in &self.workers {
            self.dispatcher.steering_mut().remove_worker(*worker);
        }
        self.workers.push((id, last.employ(BuiltIn::Sink(Sink))));
        for _ in 0..ENDING_TURNS_MAX {
            now += Nanos::from_micros(100);
            self.turn(now);
            self.discard_sent(now);
            if self.workers.len() == 1 && self.dispatcher.pool().outstanding() == 0 {
                break;
            }
        }
        assert!(self.workers.iter().all(|(worker, _)| *worker == id), "a worker does not end");
        self.dispatcher.close();
        self.port.close(self.dispatcher.ports_and_pool().1);
        assert_eq!(self.dispatcher.pool().outstanding(), 0, "no frame is missing");
    }

    /// Nobody is at the other end any more.
    fn discard_sent(&mut self, now: Nanos) {
        let (_, pool) = self.dispatcher.ports_and_pool();
        let mut batch = Batch::new();
        while self.port.rx(pool, &mut batch, now) > 0 {
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
    }
}

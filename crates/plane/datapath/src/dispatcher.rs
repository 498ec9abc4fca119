//! One dispatcher: ports in front, workers behind, and the steering between them.

use std::sync::Arc;

use arrayvec::ArrayVec;
use base::{BURST, FlowHash, Nanos, WorkerId};
use policy::{Control, Entry};
use port::{ADDRESS_MASK, LinkChecksums, Port, Stations};
use shm::{Batch, Consumer, Doorbell, FramePool, Handovers, Producer, ring};
use wire::Toeplitz;

use crate::apps::Apps;
use crate::capture::Captures;
use crate::classified::Classified;
use crate::counters::{CounterReader, CounterWriter, DispatchEvent};
use crate::dispatch_context::DispatchContext;
use crate::flow_id::flow_id;
use crate::flow_sampler::FlowSampler;
use crate::job::Job;
use crate::listeners::Listeners;
use crate::message::{FromWorker, ToWorker};
use crate::steering::{Caller, Steering, SteeringConfig};
use crate::worker::{Remains, Worker};
use crate::worker_queue::{Wake, WorkerQueueEnds};

/// Settings of a dispatcher.
#[derive(Clone, Debug)]
pub struct DispatcherConfig {
    /// Groups, hand-overs, ticks.
    pub steering: SteeringConfig,
    /// Messages in each ring between dispatcher and worker: a power of two.
    pub ring: usize,
    /// Key of the flow hash.
    pub hash_key: [u8; 40],
}

/// A port and the frames that wait to leave by it.
pub struct DispatcherPort<P> {
    pub(crate) port: P,
    pub(crate) backlog: Batch,
    /// What is done about checksums of received packets.
    pub(crate) checksums: LinkChecksums,
    /// The kernel does not answer ARP for our addresses on this port, so we do.
    pub(crate) answers_arp: bool,
    /// Workers send packets in several frames.
    pub(crate) gets_pieces: bool,
    /// Frames at the head of the backlog that captures have seen; kept only while there are any.
    pub(crate) captured: usize,
    /// Under which link addresses frames are for us; whoever follows the interface changes them.
    pub(crate) stations: Arc<Stations>,
    /// What of a frame's first bytes has to be our link address: none where the port hears nobody
    /// else's frames.
    pub(crate) address_mask: u64,
}

impl<P: Port> DispatcherPort<P> {
    /// A port. Whether it is trusted and who answers ARP is read off its capabilities; `mac` is
    /// used where it has none of its own.
    pub fn new(port: P, mac: [u8; 6]) -> Self {
        let capabilities = port.capabilities();
        Self {
            checksums: capabilities.checksums,
            answers_arp: !capabilities.kernel_answers_arp,
            gets_pieces: false,
            captured: 0,
            stations: Arc::new(Stations::new(capabilities.mac.unwrap_or(mac))),
            address_mask: if capabilities.hears_others { ADDRESS_MASK } else { 0 },
            backlog: Batch::new(),
            port,
        }
    }

    /// The link cannot damage packets, whatever their checksums say: look at none.
    pub fn trust_link(&mut self) {
        self.checksums = LinkChecksums::Trusted;
    }

    /// What is done about received checksums.
    pub fn checksums(&self) -> LinkChecksums {
        self.checksums
    }

    /// The link address that packets of ours leave with.
    pub fn mac(&self) -> [u8; 6] {
        self.stations.own()
    }

    /// The link addresses under which frames are for us, to be changed with the interface's.
    pub fn stations(&self) -> &Arc<Stations> {
        &self.stations
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// The port, to wait for it.
    pub fn port_mut(&mut self) -> &mut P {
        &mut self.port
    }
}

/// Receives, classifies, dispatches, transmits; moves groups; asks the policy.
pub struct Dispatcher<P> {
    pub(crate) ports: Vec<DispatcherPort<P>>,
    pub(crate) pool: FramePool,
    pub(crate) toeplitz: Toeplitz,
    pub(crate) listeners: Listeners,
    pub(crate) apps: Apps,
    pub(crate) sampler: FlowSampler,
    /// Frames of the batch in hand; empty between steps.
    pub(crate) batch: Batch,
    pub(crate) classified: ArrayVec<Classified, BURST>,
    /// What the owner table says of each frame of the batch in hand.
    pub(crate) owners: ArrayVec<Entry, BURST>,
    pub(crate) ring: usize,
    pub(crate) captures: Captures,
}

/// What one turn of the loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets received.
    pub received: usize,
    /// Messages of workers taken.
    pub messages: usize,
    /// Packets that a port took.
    pub transmitted: usize,
}

impl Progress {
    /// Whether there was nothing to do.
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

/// A worker's ends, to be given to its thread.
pub struct NewWorker {
    /// Its id.
    pub id: WorkerId,
    inbox: Consumer<ToWorker>,
    outbox: Producer<FromWorker>,
    handovers: Handovers,
    caller: Caller,
    counters: CounterWriter,
}

impl NewWorker {
    /// The worker, with its job.
    pub fn employ<J: Job>(self, job: J) -> Worker<J> {
        Worker::new(job, self.inbox, self.outbox, self.handovers, self.caller, self.counters)
    }
}

impl<P: Port> Dispatcher<P> {
    /// A dispatcher over `ports`, whose frames all come from `pool`.
    ///
    /// # Errors
    /// The number of groups is not possible.
    pub fn new(
        config: &DispatcherConfig,
        ports: Vec<DispatcherPort<P>>,
        pool: FramePool,
        listeners: Listeners,
        control: impl FnOnce(usize) -> Control,
    ) -> Result<Self, policy::GroupCountError> {
        Ok(Self {
            ports,
            pool,
            toeplitz: Toeplitz::new(config.hash_key),
            listeners,
            apps: Apps::new(Steering::new(config.steering, flow_id, control)?),
            sampler: FlowSampler::new(),
            batch: Batch::new(),
            classified: ArrayVec::new(),
            owners: ArrayVec::new(),
            ring: config.ring,
            captures: Captures::default(),
        })
    }

    /// One turn: everything that is there is received and dispatched, everything that workers
    /// have done is sent, and what is due is decided. Bounded work; never waits.
    #[inline]
    pub fn step(&mut self, now: Nanos) -> Progress {
        let received = self.receive(now);
        let (messages, transmitted) = self.transmit(now);
        self.control(now);
        self.count_step(received + messages + transmitted == 0);
        Progress { received, messages, transmitted }
    }

    /// The first half of a turn, for a host whose workers run on the same thread in between.
    #[inline]
    pub fn receive(&mut self, now: Nanos) -> usize {
        let mut received = 0;
        for index in 0..self.ports.len() {
            received += self.receive_from(index, now);
        }
        if received > 0 {
            self.apps.each(&mut self.pool, now, |steering, context| steering.publish(context.now));
        }
        received
    }

    /// The second half: what workers have done leaves. Returns messages taken and packets sent.
    #[inline]
    pub fn transmit(&mut self, now: Nanos) -> (usize, usize) {
        let messages = self.collect(now);
        (messages, self.send(now))
    }

    /// The slow part of a turn: hand-overs and policy, at control rate.
    #[inline]
    pub fn control(&mut self, now: Nanos) {
        self.apps.each(&mut self.pool, now, Steering::tick);
    }

    /// Counts a turn of a host that calls the parts itself.
    #[inline]
    pub fn count_step(&mut self, idle: bool) {
        self.apps.counters.add(DispatchEvent::Steps, 1);
        if idle {
            self.apps.counters.add(DispatchEvent::IdleSteps, 1);
        }
    }

    /// The own workers are told of ICMP errors about their flows.
    pub fn expect_errors(&mut self) {
        self.apps.hears_errors = true;
    }

    /// Workers may send packets in several frames, which stay together: every port cuts segments.
    pub fn expect_pieces(&mut self) {
        self.ports.iter_mut().for_each(|dispatcher_port| dispatcher_port.gets_pieces = true);
    }

    /// Makes the rings of one more worker and takes it up; `None` when every id is in use.
    /// `wake` wakes its thread when `doorbell` says that it sleeps.
    pub fn add_worker(&mut self, doorbell: Arc<Doorbell>, wake: Wake) -> Option<NewWorker> {
        let id = self.apps.own.free_worker_id()?;
        let (to_worker, inbox) = ring(self.ring);
        let (outbox, from_worker) = ring(self.ring);
        let handovers = self.apps.own.handovers();
        let counters = CounterWriter::new();
        let reader = counters.reader();
        self.apps.own.add_worker(
            id,
            WorkerQueueEnds { to_worker, from_worker, doorbell, wake, counters: reader },
        );
        let caller = self.apps.own.caller(id);
        Some(NewWorker { id, inbox, outbox, handovers, caller, counters })
    }

    /// A worker has ended without being asked to. Everything that it said is heard first.
    pub fn worker_died(&mut self, worker: WorkerId, remains: Remains, now: Nanos) {
        while self.collect_worker_queue(worker, now) > 0 {
            self.send(now);
        }
        let Apps { own, counters, .. } = &mut self.apps;
        let context = &mut DispatchContext { pool: &mut self.pool, counters, now };
        own.worker_died(worker, remains, context);
    }

    /// Whether anything waits that a step would move at once.
    pub fn has_work(&self) -> bool {
        let attached_apps = self.apps.attached_apps();
        !self.apps.own.is_quiet()
            || attached_apps.into_iter().any(|app_dispatch| !app_dispatch.steering.is_quiet())
            || self.ports.iter().any(|dispatcher_port| !dispatcher_port.backlog.is_empty())
    }

    /// When the next step is due although nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        let ports = self.ports.iter().map(|dispatcher_port| dispatcher_port.port.next_deadline());
        let attached_apps =
            self.apps.attached_apps().map(|app_dispatch| app_dispatch.steering.next_deadline());
        let all = ports.chain(attached_apps).min().unwrap_or(Nanos::FAR_FUTURE);
        all.min(self.apps.own.next_deadline())
    }

    /// Tables, hand-overs, policy of the own workers.
    pub fn steering(&self) -> &Steering {
        &self.apps.own
    }

    /// The same, to be instructed.
    pub fn steering_mut(&mut self) -> &mut Steering {
        &mut self.apps.own
    }

    /// What this dispatcher counts, to read from any thread.
    pub fn counters(&self) -> CounterReader {
        self.apps.counters.reader()
    }

    /// The heaviest flows, by sampling.
    pub fn sampler(&self) -> &FlowSampler {
        &self.sampler
    }

    /// Our own hash of a flow.
    pub fn hash(&self, flow: &wire::FlowKey) -> FlowHash {
        self.toeplitz.hash(flow)
    }

    /// The ports.
    pub fn ports(&self) -> &[DispatcherPort<P>] {
        &self.ports
    }

    /// The ports with the pool that their frames come from, to wait for them.
    pub fn ports_and_pool(&mut self) -> (&mut [DispatcherPort<P>], &mut FramePool) {
        (&mut self.ports, &mut self.pool)
    }

    /// The frames.
    pub fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// Closes every port and gives every frame that is here back: the end.
    pub fn close(&mut self) {
        for dispatcher_port in &mut self.ports {
            for frame in dispatcher_port.backlog.drain(..) {
                self.pool.give(frame);
            }
            dispatcher_port.port.close(&mut self.pool);
        }
    }
}

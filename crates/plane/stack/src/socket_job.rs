//! TCP inside the data path: an engine, the rings of its flows, and a service on top.
//!
//! A job like any other, on the flows of the groups that its worker owns. A turn is one round of
//! the engine: the segments of a batch in, what is due, the service's part, segments out. Frames
//! that came in are used for what goes out; for more, the dispatcher is asked. Flows move with
//! their groups by way of the [`Exchange`]. What must hold: between two turns nothing is kept but
//! empty frames, so a barrier is met with everything before it done.

mod connect_probe;
mod moving;
mod turn;

use arrayvec::ArrayVec;
use base::{BURST, FlowGroup, Nanos, WorkerId};
use datapath::job::{Job, Outlet, Refusal, Verdict};
use datapath::message::Moving;
use datapath::owners::Owners;
use shm::Frame;
use tcp::{Config, Engine, Event, FlowId, FlowOptions, ListenError};

use crate::command_queue::CommandQueue;
use crate::counts::SocketCounts;
use crate::exchange::Exchange;
use crate::frames::Press;
use crate::neighbours::Neighbours;
use crate::rings::{RingLimits, Rings};
use crate::routes::Routes;
use crate::served::records::watch;
use crate::served::{Sending, Sockets};
use crate::service::{Service, ServiceContext, ServiceKind};
pub use connect_probe::send_connect_probe;

/// Empty frames that a worker keeps for what it will have to say: two batches, so that one can be
/// filled while the other is on its way.
const SPARES: usize = 2 * BURST;

/// Time between two publications of the engine's counts.
const COUNTS_EVERY: Nanos = Nanos::from_millis(1);

/// Least time between two looks for routes without a flow: such a look goes through all flows.
const SWEEP_EVERY: Nanos = Nanos::from_secs(1);

/// Time between two looks for room.
const RETRY_EVERY: Nanos = Nanos::from_millis(10);

/// What the workers of one data path have in common.
#[derive(Clone, Debug)]
pub struct SocketJobConfig {
    /// The engine of each worker. `hash_key` is the dispatcher's.
    pub engine: Config,
    /// The secret of their sequence numbers and cookies: the same for all, 16 random bytes.
    pub secret: [u8; 16],
    /// What is served.
    pub service: ServiceKind,
    /// Where.
    pub listeners: Vec<std::net::SocketAddr>,
    /// Connections that may be half open at each listener before cookies take their place.
    pub backlog: u32,
    /// Settings of every accepted flow.
    pub flow: FlowOptions,
    /// How large rings may become.
    pub rings: RingLimits,
    /// Whether segments that follow on each other leave as one: every port cuts them again.
    pub joins: bool,
    /// Where sockets of applications come from, when they are what is served.
    pub command_queue: Option<CommandQueue>,
}

/// How far a worker has come with what it gives up.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    moving: Moving,
    next: FlowGroup,
}

/// An engine with everything around it.
#[derive(Debug)]
pub struct SocketJob {
    me: WorkerId,
    engine: Engine,
    context: ServiceContext,
    service: Service,
    sockets: Option<Box<Sockets>>,
    routes: Routes,
    neighbours: Neighbours,
    /// Frames of the segments that came since the last turn.
    kept: ArrayVec<Frame, BURST>,
    /// Empty frames.
    spares: Vec<Frame>,
    /// Empty frames that were asked for and have not come.
    wanted: usize,
    events: Vec<Event>,
    exchange: Exchange,
    owners: Owners,
    leaving: Option<Leaving>,
    /// Groups of ours whose flows wait for room in the engine, and when to try again.
    waiting: Vec<FlowGroup>,
    retry_at: Nanos,
    counts: SocketCounts,
    counts_at: Nanos,
    /// When routes may be swept next.
    sweep_at: Nanos,
    is_closing: bool,
    /// The ports cut long segments.
    joins: bool,
}

impl SocketJob {
    /// The job of worker `me`.
    ///
    /// # Errors
    /// Two listeners have one address, or one has no port.
    pub fn new(
        me: WorkerId,
        config: &SocketJobConfig,
        exchange: Exchange,
        owners: Owners,
        counts: SocketCounts,
        now: Nanos,
    ) -> Result<Self, ListenError> {
        let mut engine = Engine::new(config.engine.clone(), config.secret, now);
        for &address in &config.listeners {
            engine.listen(address, config.backlog, config.flow)?;
        }
        Ok(Self {
            me,
            engine,
            context: ServiceContext::new(Rings::new(config.rings, &config.flow)),
            service: Service::new(config.service),
            sockets: config
                .command_queue
                .as_ref()
                .map(|command_queue| Box::new(Sockets::new(me, command_queue))),
            routes: Routes::new(),
            neighbours: Neighbours::default(),
            kept: ArrayVec::new(),
            spares: Vec::with_capacity(SPARES + BURST),
            wanted: 0,
            events: Vec::with_capacity(4 * BURST),
            exchange,
            owners,
            leaving: None,
            waiting: Vec::new(),
            retry_at: Nanos::FAR_FUTURE,
            counts,
            counts_at: Nanos::ZERO,
            sweep_at: Nanos::ZERO,
            is_closing: false,
            joins: config.joins,
        })
    }
}

/// Keeps events; takes no segment: it stays with the engine until the next transmit.
struct Heard<'a> {
    events: &'a mut Vec<Event>,
}

impl tcp::Output for Heard<'_> {
    fn segment(&mut self, _: &tcp::Segment<'_>) -> bool {
        false
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

impl Job for SocketJob {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        match frame.bytes().get(usize::from(frame.meta().l4_offset)..) {
            Some(_) if !self.kept.is_full() => Verdict::Keep,
            _ => Verdict::Refuse(Refusal::BadRequest),
        }
    }

    #[inline]
    fn keep(&mut self, frame: Frame) {
        self.kept.push(frame);
    }

    fn spare(&mut self, frame: Frame) {
        self.wanted = self.wanted.saturating_sub(1);
        self.spares.push(frame);
    }

    #[inline]
    fn turn(&mut self, now: Nanos, outlet: &mut Outlet<'_>) -> bool {
        if now >= self.retry_at {
            self.claim_waiting(now);
        }
        if self.exchange.has_any() {
            self.retry_at = self.retry_at.min(now + RETRY_EVERY);
        }
        if let Some(sockets) = &mut self.sockets {
            sockets.note_end_of_turn(now);
        }
        let is_due = self.engine.next_deadline().is_some_and(|due| due <= now);
        let is_asked = self.sockets.as_ref().is_some_and(|sockets| sockets.has_work(now));
        if self.kept.is_empty() && !is_due && !is_asked && self.events.is_empty() {
            if self.counts.is_stale() && now.since(self.counts_at) >= COUNTS_EVERY {
                self.publish_counts(now);
            }
            return false;
        }
        if let Some(sockets) = &mut self.sockets {
            sockets.begin(now);
        }
        let sent = outlet.sent();
        let received = self.kept.len();
        if received > 0 {
            self.receive(now, outlet);
        }
        if is_due {
            let Self { engine, routes, spares, events, counts, .. } = self;
            let mut press = Press::plain(routes, spares, outlet, events, counts);
            engine.expire(now, &mut press);
        }
        let told = self.events.len() + usize::from(is_asked);
        watch::look();
        // A reset has freed its flow by now: its socket hears so before anybody looks at what its
        // program wrote.
        self.serve(now, outlet);
        if is_asked {
            self.attend(now);
            self.serve(now, outlet);
        }
        self.transmit(now, outlet);
        watch::look();
        // Aborted flows say that they are over when their reset has left.
        self.serve(now, outlet);
        let Self { sockets, neighbours, spares, .. } = self;
        if let Some(sockets) = sockets {
            sockets.commit(&self.engine, &self.context.rings, now);
            sockets.send_datagrams(&mut Sending { neighbours, spares, outlet }, now);
            sockets.publish(&mut self.engine, &mut self.context.rings, now);
        }
        self.counts.touch();
        if now.since(self.counts_at) >= COUNTS_EVERY {
            self.publish_counts(now);
        }
        received + told > 0 || outlet.sent() > sent
    }

    fn next_deadline(&self) -> Nanos {
        let due = self.engine.next_deadline().unwrap_or(Nanos::FAR_FUTURE);
        // What waits for empty frames is woken by them.
        let is_waiting = due == Nanos::ZERO && self.spares.is_empty() && self.wanted > 0;
        let counts = self.counts.is_stale().then(|| self.counts_at + COUNTS_EVERY);
        let due = if is_waiting { Nanos::FAR_FUTURE } else { due };
        let sockets = self.sockets.as_ref().map_or(Nanos::FAR_FUTURE, |of| of.next_deadline());
        due.min(counts.unwrap_or(Nanos::FAR_FUTURE)).min(self.retry_at).min(sockets)
    }

    fn arm(&self) -> bool {
        self.sockets.as_ref().is_none_or(|sockets| sockets.arm())
    }

    fn disarm(&self) {
        if let Some(sockets) = &self.sockets {
            sockets.disarm();
        }
    }

    fn may_spin(&self) -> bool {
        self.sockets.as_ref().is_none_or(|sockets| sockets.may_spin())
    }

    fn owed_since(&self) -> Option<Nanos> {
        self.sockets.as_ref()?.owed_since()
    }

    fn close(&mut self) {
        self.is_closing = true;
        if let Some(sockets) = &self.sockets {
            sockets.abort_all(&mut self.engine);
        }
        let live: Vec<FlowId> = self.context.live().collect();
        for flow in live {
            let _ = self.engine.abort(flow);
        }
    }

    fn surrender(&mut self) -> Option<Frame> {
        if self.counts.is_stale() {
            self.publish_counts(self.counts_at);
        }
        self.leave();
        self.spares.pop()
    }

    fn detach(&mut self, moving: Moving, now: Nanos) -> bool {
        self.detach_moving(moving, now)
    }

    fn attach(&mut self, moving: Moving, now: Nanos) {
        self.attach_moving(moving, now);
    }
}

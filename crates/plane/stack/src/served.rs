//! The sockets of applications: what a worker does for those whose flows it owns.
//!
//! An application and the worker share a slot of words for each socket ([`shm::sockets`]): the
//! worker drains marked slots and publishes what has changed, once a turn each. It keeps every
//! position and ring to itself; what an application writes can only end its own connection.

mod accept;
mod bound;
mod client;
mod closing;
mod commands;
mod conn;
mod datagrams;
mod describe;
mod drain_slot;
mod evict;
mod hand_over;
mod moving;
mod options;
mod outbox;
mod outgoing;
mod paced;
mod park;
mod parked;
mod ports;
mod publish;
pub(crate) mod records;
mod rounds;
mod stats;
mod traces;
mod unresolved;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{AppId, Generation, Nanos, SlotId, WorkerId};
use tcp::{Engine, Event, FlowId, Output};

use crate::app_sockets::AppSockets;
use crate::command_queue::{CommandQueue, Post};
use crate::neighbours::Neighbours;
use crate::rings::Rings;
use crate::sources::Sources;
use bound::AllBound;
use client::Client;
pub(crate) use conn::Conn;
use outbox::Outbox;
pub(crate) use outgoing::Sending;
use paced::Paced;
use parked::Parked;
use ports::Ports;
use rounds::Rounds;
pub(crate) use stats::Stats;
use traces::Traces;

/// Marked slots that are drained in one turn, of all programs, so that what came meanwhile does not
/// wait for long. (At most 63 more: marks are taken by words.)
const LOOKS: usize = 256;

/// Those of one program, before others have their turn.
const QUANTUM: usize = 32;

/// Commands that are carried out in one turn.
pub(crate) const COMMANDS: usize = 32;

/// A socket: the application's number, its slot, the generation.
type SocketKey = (AppId, SlotId, Generation);

/// Everything a worker knows about sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    me: WorkerId,
    post: Post,
    /// By number.
    clients: Vec<Option<Box<Client>>>,
    /// By flow number: whose it is.
    by_flow: Vec<Option<(AppId, SlotId)>>,
    bound: AllBound,
    /// Connections opened here that have no socket and are not over: what is to be said then.
    orphans: BTreeMap<FlowId, SocketKey>,
    parked: Parked,
    /// The time of the present turn.
    now: Nanos,
    /// UDP sockets, of all applications.
    datagrams: Ports,
    /// What they have to send.
    outbox: Outbox,
    /// Where first packets may come from.
    sources: Option<Arc<Sources>>,
    /// Programs with marked slots that wait for their turn.
    ready: Rounds<AppId>,
    /// Sockets to be shown at the end of the turn.
    touched: Vec<(AppId, SlotId)>,
    /// What waits for a moment.
    paced: Paced,
    /// Applications were told something since they last said something.
    owed_since: Option<Nanos>,
    stats: Stats,
}

impl Sockets {
    pub(crate) fn new(me: WorkerId, command_queue: &CommandQueue) -> Self {
        let post = command_queue.post(me);
        Self {
            me,
            stats: Stats::new(Traces::new(Arc::clone(post.tracing()))),
            post,
            clients: Vec::new(),
            by_flow: Vec::new(),
            bound: AllBound::default(),
            orphans: BTreeMap::new(),
            parked: Parked::default(),
            now: Nanos::ZERO,
            datagrams: Ports::default(),
            outbox: Outbox::default(),
            sources: None,
            ready: Rounds::default(),
            touched: Vec::new(),
            paced: Paced::default(),
            owed_since: None,
        }
    }

    /// Whether somebody has something to say.
    #[inline]
    pub(crate) fn has_work(&self, now: Nanos) -> bool {
        self.post.has_commands() || now >= self.paced.until() || self.has_ready_bits(now)
    }

    #[inline]
    fn has_ready_bits(&self, now: Nanos) -> bool {
        let mut clients = self.clients.iter().flatten();
        clients.any(|client| {
            let bits = client.ready_bits(u32::from(self.me.0));
            bits.is_some_and(|bits| !bits.is_empty()) && client.rests_until(now).is_none()
        })
    }

    /// When to look again although nobody says anything.
    pub(crate) fn next_deadline(&self) -> Nanos {
        self.paced.until()
    }

    /// Whether applications have not answered yet to what they were told, and since when.
    pub(crate) fn owed_since(&self) -> Option<Nanos> {
        self.owed_since
    }

    /// Where first packets may come from, if that is asked.
    pub(crate) fn sources(&self) -> Option<&Sources> {
        self.sources.as_deref()
    }

    /// What happened so far.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether an application wants its worker to wait on a CPU; while there is none, nobody minds.
    pub(crate) fn may_spin(&self) -> bool {
        let mut clients = self.clients.iter().flatten().peekable();
        clients.peek().is_none() || clients.any(|client| client.streams.spins)
    }

    /// The worker is about to sleep. False: there is something to do.
    pub(crate) fn arm(&self) -> bool {
        let clients = self.clients.iter().flatten();
        let mut may_sleep = !self.post.has_commands();
        for client in clients {
            // One that rests is looked at when that is over, and wakes nobody before.
            if let Some(bits) = client.ready_bits(u32::from(self.me.0))
                && client.rests_until(self.now).is_none()
            {
                may_sleep &= bits.arm();
            }
        }
        may_sleep
    }

    /// The worker is awake.
    pub(crate) fn disarm(&self) {
        for client in self.clients.iter().flatten() {
            if let Some(bits) = client.ready_bits(u32::from(self.me.0)) {
                bits.disarm();
            }
        }
    }

    /// Does what the slow side has asked for, and drains marked slots. True: there was something.
    pub(crate) fn attend<O: Output>(
        &mut self,
        engine: &mut Engine,
        rings: &mut Rings,
        neighbours: &mut Neighbours,
        now: Nanos,
        out: &mut O,
    ) -> bool {
        let mut has_acted = self.read_commands(COMMANDS, engine, rings, neighbours, now, out);
        if now >= self.paced.until() {
            for (local, remote) in self.paced.take_opens(LOOKS, now) {
                self.post.call_for(local, remote);
                self.post.wake_others();
            }
            for (app, slot) in self.paced.take_sockets(LOOKS, now) {
                self.drain_slot(app, slot, engine, rings, now, out);
            }
            self.try_parked(engine, rings);
        }
        self.queue_ready(now);
        let mut left = LOOKS;
        while left > 0 {
            let Some((user, app)) = self.ready.pop() else { break };
            let looks = self.look_at(app, left.min(QUANTUM), engine, rings, now, out);
            left = left.saturating_sub(looks.max(1));
            has_acted |= looks > 0;
            let Some(client) = self.clients[app.index()].as_deref_mut() else { continue };
            let has_more = client.rests_until(now).is_none()
                && client.ready_bits(u32::from(self.me.0)).is_some_and(|bits| !bits.is_empty());
            client.is_queued = has_more;
            if has_more {
                self.ready.push(user, app);
            }
        }
        if has_acted {
            self.owed_since = None;
        }
        has_acted
    }

    /// Programs with marks wait for their turn, those that rest excepted.
    fn queue_ready(&mut self, now: Nanos) {
        for client in self.clients.iter_mut().flatten() {
            if let Some(due) = client.rests_until(now) {
                self.paced.wake_at(due);
            } else if !client.is_queued
                && client.ready_bits(u32::from(self.me.0)).is_some_and(|bits| !bits.is_empty())
            {
                client.is_queued = true;
                self.ready.push(client.streams.user, client.streams.app);
            }
        }
    }

    /// Drains up to about `most` marked slots of a program; how many.
    fn look_at<O: Output>(
        &mut self,
        app: AppId,
        most: usize,
        engine: &mut Engine,
        rings: &mut Rings,
        now: Nanos,
        out: &mut O,
    ) -> usize {
        let mut marked = arrayvec::ArrayVec::<SlotId, { QUANTUM + 64 }>::new();
        let Some(client) = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut) else {
            return 0;
        };
        let Some(bits) = client.streams.server.memory().worker(u32::from(self.me.0)) else {
            return 0;
        };
        bits.take(&mut client.cursor, most, |slot| _ = marked.try_push(slot));
        let looks = marked.len();
        let mut news = 0;
        for slot in marked {
            news += u64::from(self.drain_slot(app, slot, engine, rings, now, out));
        }
        self.stats.looks += looks as u64;
        self.stats.looks_barren += looks as u64 - news;
        if let Some(client) = self.clients[app.index()].as_deref_mut() {
            client.has_looked(news > 0 || looks == 0, now);
            if let Some(due) = client.rests_until(now) {
                self.paced.wake_at(due);
            }
        }
        looks
    }

    fn client(&self, app: AppId) -> Option<&Client> {
        self.clients.get(app.index())?.as_deref()
    }

    fn conn(&mut self, app: AppId, slot: SlotId) -> Option<(&mut Conn, &Arc<AppSockets>)> {
        let client = self.clients.get_mut(app.index())?.as_deref_mut()?;
        let conn = client.conns.get_mut(slot.index())?.as_mut()?;
        Some((conn, &client.streams))
    }

    fn take_conn(&mut self, app: AppId, slot: SlotId) -> Option<Conn> {
        let client = self.clients.get_mut(app.index())?.as_deref_mut()?;
        let conn = client.conns.get_mut(slot.index())?.take()?;
        self.stats.traces.ended(conn.trace);
        Some(conn)
    }

    fn insert(&mut self, app: AppId, slot: SlotId, conn: Conn) {
        if let Some(flow) = conn.flow {
            if self.by_flow.len() <= flow.index() {
                self.by_flow.resize(flow.index() + 1, None);
            }
            self.by_flow[flow.index()] = Some((app, slot));
        }
        let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
        let Some(client) = client else { return };
        if client.conns.len() <= slot.index() {
            client.conns.resize_with(slot.index() + 1, || None);
        }
        if let Some(words) = client.streams.server.memory().slot(slot) {
            words.trace.store(0, Ordering::Relaxed);
            words.worker.store(u32::from(self.me.0), Ordering::Release);
        }
        client.conns[slot.index()] = Some(Conn { trace: 0, ..conn });
    }

    /// Whose a flow is. When it is over and that was not heard yet, its number may be another's.
    fn owner(&self, flow: FlowId) -> Option<(AppId, SlotId)> {
        let (app, slot) = self.by_flow.get(flow.index()).copied().flatten()?;
        let conn = self.client(app)?.conns.get(slot.index())?.as_ref()?;
        (conn.flow == Some(flow)).then_some((app, slot))
    }

    /// A flow has no owner any more, unless its number is another flow's by now.
    fn disown(&mut self, flow: FlowId) -> Option<(AppId, SlotId)> {
        let owner = self.owner(flow)?;
        self.by_flow[flow.index()] = None;
        Some(owner)
    }

    fn touch(&mut self, app: AppId, slot: SlotId) {
        if let Some((conn, _)) = self.conn(app, slot)
            && !std::mem::replace(&mut conn.is_touched, true)
        {
            self.touched.push((app, slot));
        }
    }

    /// What the engine has to say about a flow.
    pub(crate) fn event(&mut self, event: Event, engine: &mut Engine, rings: &mut Rings) {
        match event {
            Event::Connected { flow, listener } => match (listener, self.owner(flow)) {
                (Some(listener), _) => self.accept(flow, listener, engine, rings),
                (None, Some((app, slot))) => self.connected(app, slot, flow, engine, rings),
                (None, None) => _ = engine.abort(flow),
            },
            Event::Readable { flow }
            | Event::Writable { flow }
            | Event::Urgent { flow }
            | Event::PeerClosed { flow } => {
                if let Some((app, slot)) = self.owner(flow) {
                    self.touch(app, slot);
                }
            }
            Event::Closed { flow, reason } => {
                if let Some((app, slot)) = self.disown(flow) {
                    self.ended(app, slot, flow, reason, rings);
                } else {
                    rings.free(flow);
                    if let Some(key) = self.orphans.remove(&flow) {
                        self.finished(key, Some(reason));
                    }
                }
            }
        }
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.now = now;
        self.stats.traces.begin();
    }

    /// The samples of requests, if there are to be any.
    #[inline]
    pub(crate) fn traces(&mut self) -> Option<&mut Traces> {
        let traces = &mut self.stats.traces;
        traces.is_on().then_some(traces)
    }

    /// The turn before is over by now, for the samples of requests.
    #[inline]
    pub(crate) fn note_end_of_turn(&mut self, now: Nanos) {
        if self.stats.traces.is_on() {
            let Self { stats, post, .. } = self;
            stats.traces.turn_ended(now, |sample| post.sample(sample));
        }
    }
}

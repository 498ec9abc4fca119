//! One worker's flows, and the engine's public calls.
//!
//! One round of the caller's loop is: [`Engine::receive`] the segments that came,
//! [`Engine::expire`] what is due, let applications act on the events, [`Engine::transmit`], and
//! sleep until [`Engine::next_deadline`]. Applications act between `receive` and `transmit`, so
//! that an acknowledgement rides on the answer to what it acknowledges.

mod calls;
mod ending;
mod handover;
mod listeners;
mod settings;
#[cfg(test)]
mod tests;
mod touch;
mod visit;

use std::collections::VecDeque;

use base::{FlowHash, Nanos};
use wire::checksum::Sum;
use wire::{FlowKey, tcp};

use crate::cold::Cold;
use crate::flow::{Flags, Flow};
use crate::io::{Buffers, CloseReason, FlowId, Incoming, Output};
use crate::options::Parsed;
use crate::pool::Pool;
use crate::reset::{Unwanted, refuse};
use crate::secret::Secret;
use crate::shared::{Shared, Turn};
use crate::slow::{Arrived, Fate};
use crate::table::Table;
use crate::wheel::Wheel;
use crate::{Config, Counters, Seq, State, expire, fast, slow};
pub use calls::{CallError, ConnectError, Span};
pub use handover::{AttachError, Detached};
pub use listeners::ListenError;
use listeners::Listeners;

/// The engine.
#[derive(Debug)]
pub struct Engine {
    shared: Shared,
    table: Table,
    flows: Vec<Flow>,
    cold: Vec<Cold>,
    /// Places that were used before.
    free: Vec<u32>,
    wheel: Wheel,
    /// Flows to look at in the next [`Self::transmit`]; a flow is in it at most once.
    queue: Vec<u32>,
    /// The queue's other half, so that flows can be queued while it is gone through.
    spare: Vec<u32>,
    listeners: Listeners,
    /// Flows that are over but not closed by their application. Their names are free, so the table
    /// has them no longer.
    ended: Vec<u32>,
    /// Flows in TIME-WAIT that nobody here knows any more, oldest first: places and generations.
    /// Some are over; all that are not are in it.
    waiting: VecDeque<(u32, u32)>,
    /// Counts connects, so that their ports differ.
    connects: u64,
}

impl Engine {
    /// An engine without flows. `key` is the secret behind sequence numbers, ports and cookies: 16
    /// bytes from the system's source of randomness, never the same twice.
    ///
    /// All memory is reserved here. What a bound of `config` makes impossible is mended: an MTU
    /// outside 576 to 9216 becomes the nearer of the two.
    pub fn new(config: Config, key: [u8; 16], now: Nanos) -> Self {
        let mtu = config.mtu.clamp(576, 9216);
        let config = Config { mtu, flows_max: config.flows_max.min(u32::MAX / 2 - 1), ..config };
        let secret = Secret::new(key);
        let flows_max = config.flows_max as usize;
        Self {
            table: Table::new(config.flows_max, config.hash_key),
            flows: Vec::with_capacity(flows_max),
            cold: Vec::with_capacity(flows_max),
            free: Vec::with_capacity(flows_max),
            wheel: Wheel::new(config.flows_max, now),
            queue: Vec::with_capacity(flows_max),
            spare: Vec::with_capacity(flows_max),
            listeners: Listeners::default(),
            ended: Vec::with_capacity(flows_max),
            waiting: VecDeque::with_capacity(flows_max.saturating_mul(2)),
            connects: 0,
            shared: Shared {
                // One flow alone gets half of what is shared.
                sent: Pool::new(config.flows_max, config.sent_max.saturating_mul(2)),
                ranges: Pool::new(config.flows_max, config.ranges_max.saturating_mul(2)),
                counters: Counters::default(),
                secret,
                rto_floor: config.rto_min.min(config.rto_max).min(config.rto_initial),
                config,
                is_silent: false,
            },
        }
    }

    /// What has happened so far.
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Flows that hold memory, those in TIME-WAIT included.
    pub fn flows_in_use(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Segments on their way and out-of-order ranges of all flows together.
    pub fn records_in_use(&self) -> (u32, u32) {
        (self.shared.sent.used(), self.shared.ranges.used())
    }

    /// When [`Self::expire`] and then [`Self::transmit`] have to be called next; the present or the
    /// past when something waits to be sent now. Nothing: nothing is outstanding.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.queue.is_empty() { self.wheel.next() } else { Some(Nanos::ZERO) }
    }

    /// The hash of `key` under [`Config::hash_key`], for whoever has none from elsewhere.
    pub fn hash_of(&self, key: &FlowKey) -> FlowHash {
        self.table.hash(key)
    }

    /// Takes segments in. Answers leave with the next [`Self::transmit`], except those that belong
    /// to no flow.
    pub fn receive<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        batch: &[Incoming<'_>],
        buffers: &mut B,
        out: &mut O,
    ) {
        self.shared.counters.received += batch.len() as u64;
        for burst in batch.chunks(BURST) {
            self.touch_all(burst, buffers);
            for incoming in burst {
                self.receive_one(now, incoming, buffers, out);
            }
        }
    }

    #[inline]
    fn receive_one<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        incoming: &Incoming<'_>,
        buffers: &mut B,
        out: &mut O,
    ) {
        let Incoming { key, hash, segment, is_verified, .. } = incoming;
        let (Ok(header), Ok(bytes)) = (tcp::Header::parse(segment), u16::try_from(segment.len()))
        else {
            self.shared.counters.malformed += 1;
            return;
        };
        if !*is_verified && Sum::ZERO.pseudo_of(key, bytes).bytes(segment).fold() != 0xffff {
            self.shared.counters.bad_checksum += 1;
            return;
        }
        let flows = &self.flows;
        let found = self.table.find(*hash, |index| flows[index as usize].key == *key);
        if let Some(index) = found {
            let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
            let id = FlowId { index, generation: flow.generation };
            let mut turn = Turn { now, shared: &mut self.shared, buffers, out };
            match fast::receive(&mut turn, id, flow, cold, &header, incoming) {
                Ok(()) => {
                    enqueue(&mut self.queue, flow, index);
                    return;
                }
                Err(punt) => punt.count(&mut self.shared.counters),
            }
        }
        self.receive_other(now, incoming, found, buffers, out);
    }

    /// Takes in what the fast path has left; it reads the header again, so that the fast path need
    /// not keep what it does not use.
    #[inline(never)]
    fn receive_other<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        incoming: &Incoming<'_>,
        found: Option<u32>,
        buffers: &mut B,
        out: &mut O,
    ) {
        let Incoming { key, hash, segment, ecn, route, .. } = *incoming;
        let Ok(header) = tcp::Header::parse(segment) else { return };
        let options = Parsed::read(header.options(segment));
        self.shared.counters.bad_options += u64::from(options.is_broken);
        let payload = segment.get(usize::from(header.header_bytes)..).unwrap_or_default();
        let arrived = Arrived { header, options, payload, ecn, hash, route };
        let Some(index) = found else {
            self.receive_for_nobody(now, key, &arrived, None, buffers, out);
            return;
        };
        let fate = self.receive_slowly(now, index, &arrived, buffers, out);
        if fate == Fate::Reuse && !self.may_take_over(index, &key, &arrived, out) {
            self.enqueue(index);
        } else if fate == Fate::Reuse {
            let floor = self.flows[index as usize].snd_nxt + 0xffff;
            self.shared.counters.time_wait_reused += 1;
            self.finish(index, CloseReason::Finished, out);
            self.receive_for_nobody(now, key, &arrived, Some(floor), buffers, out);
        } else {
            self.settle(index, fate, out);
        }
    }

    fn receive_slowly<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        index: u32,
        arrived: &Arrived<'_>,
        buffers: &mut B,
        out: &mut O,
    ) -> Fate {
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        // Whoever may come by one way may not come by any: an answer would leave by it.
        if arrived.route != flow.route && !out.may_come(&flow.key, arrived.route) {
            self.shared.counters.bad_source += 1;
            return Fate::Keep;
        }
        let id = FlowId { index, generation: flow.generation };
        let was_half_open = flow.state == State::SynReceived;
        expire::catch_up(flow, cold, &self.shared);
        let mut turn = Turn { now, shared: &mut self.shared, buffers, out };
        let fate = slow::receive(&mut turn, id, flow, cold, arrived);
        if was_half_open && flow.state != State::SynReceived {
            self.listeners.half_open_ended(cold.listener);
        }
        fate
    }

    /// Does what is due, or as much of it as one turn has time for: then [`Self::next_deadline`]
    /// lies in the past. Segments leave with the next [`Self::transmit`].
    #[inline]
    pub fn expire<O: Output>(&mut self, now: Nanos, out: &mut O) {
        let mut steps = STEPS_A_TURN;
        while let Some(first) = self.wheel.pop(now, &mut steps) {
            self.expire_burst(now, first, &mut steps, out);
        }
    }

    /// Looks at a burst of flows whose time has come; `first` is one of them.
    #[inline(never)]
    fn expire_burst<O: Output>(&mut self, now: Nanos, first: u32, steps: &mut u32, out: &mut O) {
        let mut due = [first; BURST];
        let mut count = 1;
        while let Some(place) = due.get_mut(count)
            && let Some(index) = self.wheel.pop(now, steps)
        {
            *place = index;
            count += 1;
        }
        let due = &due[..count];
        self.touch_flows(due);
        for index in due {
            let records = self.expire_one(now, *index, out);
            *steps = steps.saturating_sub(records);
        }
    }

    /// Looks at a flow whose time may have come. Returns how many records that has walked over.
    fn expire_one<O: Output>(&mut self, now: Nanos, index: u32, out: &mut O) -> u32 {
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        if !flow.flags.has(Flags::LIVE) {
            return 0;
        }
        expire::catch_up(flow, cold, &self.shared);
        let first = cold.timers.first();
        if first > now {
            // Its deadline has moved away since the wheel was told.
            if first != Nanos::FAR_FUTURE {
                self.wheel.arm(index, first);
            }
            return 0;
        }
        let timeouts = self.shared.counters.timeouts;
        // Nobody will take it, however long its listener would have waited for data.
        let is_for_nobody = flow.state == State::SynReceived
            && cold.listener.is_some_and(|id| !self.listeners.is_open(id));
        let fate = match is_for_nobody {
            true => Fate::Over(CloseReason::TimedOut),
            false => expire::run(flow, cold, &mut self.shared, now),
        };
        let has_walked = self.shared.counters.timeouts != timeouts;
        let records = if has_walked { flow.sent.len() } else { 0 };
        self.settle(index, fate, out);
        records
    }

    /// Puts a flow in, and into the queue; nothing when all places are taken, none of them by a
    /// flow that is in TIME-WAIT only.
    fn add(&mut self, mut flow: Flow, cold: Cold) -> Option<u32> {
        flow.flags.set(Flags::LIVE);
        if self.flows_in_use() >= self.shared.config.flows_max as usize {
            self.evict_waiting();
        }
        let hash = cold.hash;
        let index = match self.free.pop() {
            Some(index) => {
                let old = self.flows[index as usize];
                flow.generation = old.generation;
                flow.flags.put(Flags::QUEUED, old.flags.has(Flags::QUEUED));
                (self.flows[index as usize], self.cold[index as usize]) = (flow, cold);
                index
            }
            None if self.flows.len() < self.shared.config.flows_max as usize => {
                self.flows.push(flow);
                self.cold.push(cold);
                u32::try_from(self.flows.len() - 1).ok()?
            }
            None => {
                self.shared.counters.flows_full += 1;
                return None;
            }
        };
        self.wheel.grow(index);
        self.table.insert(hash, index);
        self.enqueue(index);
        Some(index)
    }

    #[inline]
    fn enqueue(&mut self, index: u32) {
        enqueue(&mut self.queue, &mut self.flows[index as usize], index);
    }

    fn refuse<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        key: FlowKey,
        arrived: &Arrived<'_>,
        buffers: &mut B,
        out: &mut O,
    ) {
        let payload_bytes = arrived.payload.len() as u32;
        let route = arrived.route;
        let unwanted = Unwanted { key, header: arrived.header, payload_bytes, route };
        self.shared.counters.no_flow += 1;
        refuse(&mut Turn { now, shared: &mut self.shared, buffers, out }, &unwanted);
    }

    /// The index of the flow of that name.
    fn find(&self, key: &FlowKey) -> Option<u32> {
        self.table.find(self.table.hash(key), |index| self.flows[index as usize].key == *key)
    }

    /// The place of a flow, if its number is good: a generation begins before anybody hears of it,
    /// and is over when the flow is, or its application has been told of the end.
    #[inline]
    fn place(&self, id: FlowId) -> Option<usize> {
        let flow = self.flows.get(id.index())?;
        (flow.generation == id.generation).then_some(id.index())
    }

    /// What is known of a flow; nothing when it is over.
    pub(crate) fn flow(&self, id: FlowId) -> Option<(&Flow, &Cold)> {
        self.place(id).map(|at| (&self.flows[at], &self.cold[at]))
    }
}

/// Looks at timers, and at records of segments that timed out, before whoever calls
/// [`Engine::expire`] has his turn: some tenths of a millisecond. After a worker was stopped for a
/// while the timers of all its flows may be due at once.
const STEPS_A_TURN: u32 = 4096;

/// Segments whose flows are brought close together.
pub(crate) const BURST: usize = 64;

/// Puts a flow into the queue, unless it is in.
#[inline]
fn enqueue(queue: &mut Vec<u32>, flow: &mut Flow, index: u32) {
    if !flow.flags.has(Flags::QUEUED) {
        flow.flags.set(Flags::QUEUED);
        queue.push(index);
    }
}

/// The first number of a connection that takes a name over: behind all that the old one used.
fn above(isn: Seq, floor: Option<Seq>) -> Seq {
    match floor {
        Some(floor) if isn.is_before(floor) => floor,
        _ => isn,
    }
}

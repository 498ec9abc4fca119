//! Flows go from one engine to another, group by group, with their timers and pending output.
//!
//! The data path holds a group's packets until both calls are done, so nothing arrives in between.
//! Rings stay where they are: the caller gives them to the new owner under the new numbers.

use std::fmt;

use base::{FlowGroup, Nanos};
use wire::FlowKey;

use super::Engine;
use crate::cold::Cold;
use crate::flow::{Flags, Flow, State};
use crate::pool::List;
use crate::reassembly::Range;
use crate::scoreboard::Sent;
use crate::{FlowId, ListenerId, expire};

/// Flows that belong to no engine at the moment. What was detached before stays until
/// [`Engine::attach_group`] has taken it; empty, it may be used again.
#[derive(Debug, Default)]
pub struct Detached {
    flows: Vec<Parcel>,
    /// Segments on their way, flow after flow.
    sent: Vec<Sent>,
    /// Out-of-order ranges, flow after flow.
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, Debug)]
struct Parcel {
    id: FlowId,
    flow: Flow,
    cold: Cold,
    sent_count: u32,
    range_count: u32,
}

impl Parcel {
    /// Whether it is in TIME-WAIT, and nobody knows it any more.
    fn only_waits(&self) -> bool {
        self.flow.state == State::TimeWait && self.flow.flags.has(Flags::ORPHAN)
    }
}

impl Detached {
    /// Flows in it.
    pub const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// The numbers that the flows had in their engine.
    pub fn ids(&self) -> impl Iterator<Item = FlowId> {
        self.flows.iter().map(|parcel| parcel.id)
    }

    /// Writes every flow's route anew: for callers whose routes mean something else elsewhere.
    pub fn map_routes(&mut self, mut anew: impl FnMut(u32) -> u32) {
        for parcel in &mut self.flows {
            parcel.flow.route = anew(parcel.flow.route);
        }
    }
}

/// Why an engine took none of the flows: they stay in [`Detached`] and can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// Too few free places for flows, segments on their way or out-of-order ranges.
    Full,
    /// It has a flow of one of the names already.
    InUse,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the engine has no room for the flows: attach them where they came from",
            Self::InUse => "the engine has a flow of that name: attach them where they came from",
        })
    }
}

impl std::error::Error for AttachError {}

impl Engine {
    /// Takes those flows of `group` out that `is_wanted` names (their keys have the peer as the
    /// source), those in TIME-WAIT and those that wait for their application's close included, and
    /// adds them to `out`. Their numbers are void here. `groups` is how many there are, a power of
    /// two; the hash is [`crate::Config::hash_key`]'s.
    pub fn detach_group(
        &mut self,
        group: FlowGroup,
        groups: u32,
        mut is_wanted: impl FnMut(&FlowKey) -> bool,
        out: &mut Detached,
    ) {
        let groups = groups.max(1).next_power_of_two();
        let mut members = Vec::new();
        self.table.each_of_group(group.0, groups, |index| members.push(index));
        let is_member = |index: &u32| self.cold[*index as usize].hash.0 & (groups - 1) == group.0;
        members.extend(self.ended.iter().copied().filter(is_member));
        members.retain(|index| is_wanted(&self.flows[*index as usize].key));
        for index in members {
            self.detach(index, out);
        }
    }

    fn detach(&mut self, index: u32, out: &mut Detached) {
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        let id = FlowId { index, generation: flow.generation };
        expire::catch_up(flow, cold, &self.shared);
        let sent_count = flow.sent.len();
        while let Some(sent) = self.shared.sent.pop_front(&mut flow.sent) {
            out.sent.push(sent);
        }
        let range_count = cold.reassembly.drain(&mut self.shared.ranges, &mut out.ranges);
        out.flows.push(Parcel { id, flow: *flow, cold: *cold, sent_count, range_count });
        self.shared.counters.detached += 1;
        self.release(index);
    }

    /// Forgets a flow that goes on elsewhere (see [`Self::repair`]): no segment says so, and no
    /// event. False: it was over.
    pub fn let_go(&mut self, id: FlowId) -> bool {
        let at = self.place(id);
        if at.is_some() {
            self.detach(id.index, &mut Detached::default());
        }
        at.is_some()
    }

    /// The listener that a flow has come to, if both its sides may still be used and that listener
    /// is open here: of a flow that no application has, who could have it.
    pub fn listener_of(&self, id: FlowId) -> Option<ListenerId> {
        let at = self.place(id)?;
        let is_open = matches!(self.flows[at].state, State::Established | State::CloseWait)
            && !self.flows[at].flags.has(Flags::ABORT);
        let listener = self.cold[at].listener.filter(|_| is_open)?;
        self.listeners.is_open(listener).then_some(listener)
    }

    /// Flows that their application has closed and that are not over.
    pub fn orphans(&self) -> impl Iterator<Item = FlowId> {
        let is_meant = |flow: &Flow| {
            flow.flags.has(Flags::LIVE)
                && flow.flags.has(Flags::ORPHAN)
                && flow.state.is_synchronized()
        };
        let all = (0..).zip(&self.flows).filter(move |(_, flow)| is_meant(flow));
        all.map(|(index, flow)| FlowId { index, generation: flow.generation })
    }

    /// From now on segments that belong to nothing are dropped and not refused by a reset: they may
    /// be of flows that were let go and that somebody else is about to go on with.
    pub fn be_silent(&mut self) {
        self.shared.is_silent = true;
    }

    /// Takes over everything in `detached`, or nothing. `moved` hears each flow's old and new
    /// number, in this order. A half-open flow whose address has no listener here is dropped: its
    /// peer asks again and is told. Where places are short TIME-WAIT gives way: that of this
    /// engine, then that which comes.
    ///
    /// Engines that exchange flows must have been made with the same keys: with another hash key
    /// flows are not found, with another secret cookies that one has sent mean nothing to another.
    ///
    /// # Errors
    /// This engine has too few free places, or has a flow of one of the names already: see
    /// [`AttachError`]. `detached` is as it was.
    pub fn attach_group(
        &mut self,
        now: Nanos,
        detached: &mut Detached,
        mut moved: impl FnMut(FlowId, FlowId),
    ) -> Result<(), AttachError> {
        let mut waits_left = self.make_room(detached)?;
        let Detached { flows, sent, ranges } = detached;
        let (mut sent, mut ranges) = (sent.drain(..), ranges.drain(..));
        for parcel in flows.drain(..) {
            let only_waits = parcel.only_waits();
            let Parcel { id, mut flow, mut cold, sent_count, range_count } = parcel;
            if only_waits && waits_left == 0 {
                sent.by_ref().take(sent_count as usize).for_each(drop);
                ranges.by_ref().take(range_count as usize).for_each(drop);
                self.shared.counters.time_wait_evicted += 1;
                continue;
            }
            waits_left -= usize::from(only_waits);
            let listener = self.listeners.at(flow.key.destination());
            if flow.state == State::SynReceived && cold.listener.is_some() {
                let Some(listener) = listener else {
                    // Nothing is on its way yet but the SYN-ACK, which has no record.
                    self.shared.counters.homeless += 1;
                    continue;
                };
                self.listeners.half_open_began(listener);
            }
            cold.listener = cold.listener.and(listener);
            flow.sent = List::EMPTY;
            for record in sent.by_ref().take(sent_count as usize) {
                let has_room = self.shared.sent.push_back(&mut flow.sent, record);
                debug_assert!(has_room, "the room was checked");
            }
            cold.board.adopt(&mut self.shared.sent, &flow.sent);
            let own_ranges = ranges.by_ref().take(range_count as usize);
            let has_room = cold.reassembly.restore(&mut self.shared.ranges, own_ranges);
            debug_assert!(has_room, "the room was checked");
            flow.flags.clear(Flags::QUEUED);
            let is_ended = flow.state == State::Closed;
            let deadline = cold.timers.first();
            let Some(index) = self.add(flow, cold) else { continue };
            if is_ended {
                self.forget_name(index);
                self.note_ended(index);
            }
            if only_waits {
                self.note_waiting(index);
            }
            if deadline != Nanos::FAR_FUTURE {
                self.wheel.arm(index, deadline.max(now));
            }
            self.shared.counters.attached += 1;
            moved(id, FlowId { index, generation: self.flows[index as usize].generation });
        }
        Ok(())
    }

    /// Sees to it that there is a place for each of `detached` but those in TIME-WAIT that nobody
    /// knows; for how many of these there is one, too.
    fn make_room(&mut self, detached: &Detached) -> Result<usize, AttachError> {
        let mut places = self.shared.config.flows_max as usize - self.flows_in_use();
        let flows = || detached.flows.iter();
        let waits = flows().filter(|parcel| parcel.only_waits()).count();
        let wanted = detached.flows.len() - waits;
        let can_go = if wanted > places { self.waiting_count() } else { 0 };
        let has_room = wanted <= places + can_go
            && self.shared.sent.has_room_for(flows().map(|parcel| parcel.sent_count))
            && self.shared.ranges.has_room_for(flows().map(|parcel| parcel.range_count));
        if !has_room {
            return Err(AttachError::Full);
        }
        let mut names = detached.flows.iter().filter(|parcel| parcel.flow.state != State::Closed);
        if names.any(|parcel| self.is_taken(&parcel.flow.key)) {
            return Err(AttachError::InUse);
        }
        while places < wanted && self.evict_waiting() {
            places += 1;
        }
        Ok(places.saturating_sub(wanted).min(waits))
    }
}

//! Flows go from one engine to another, group by group, with their timers and pending output.
//!
//! The data path holds a group's packets until both calls are done, so nothing arrives in between.
//! Rings stay where they are: the caller gives them to the new owner under the new numbers.

use std::fmt;

use base::{FlowGroup, Nanos};
use wire::FlowKey;

use super::Engine;
use crate::FlowId;
use crate::cold::Cold;
use crate::expire;
use crate::flow::{Flags, Flow, State};
use crate::pool::List;
use crate::reassembly::Range;
use crate::scoreboard::Sent;

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
    /// peer asks again and is told.
    ///
    /// Engines that exchange flows must have been made with the same keys: with another hash key
    /// flows are not found, with another secret cookies that one has sent mean nothing to another.
    pub fn attach_group(
        &mut self,
        now: Nanos,
        detached: &mut Detached,
        mut moved: impl FnMut(FlowId, FlowId),
    ) -> Result<(), AttachError> {
        self.check_room(detached)?;
        let Detached { flows, sent, ranges } = detached;
        let (mut sent, mut ranges) = (sent.drain(..), ranges.drain(..));
        for parcel in flows.drain(..) {
            let Parcel { id, mut flow, mut cold, sent_count, range_count } = parcel;
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
            let flow = &self.flows[index as usize];
            if flow.state == State::TimeWait && flow.flags.has(Flags::ORPHAN) {
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

    fn check_room(&self, detached: &Detached) -> Result<(), AttachError> {
        let places = self.shared.config.flows_max as usize - self.flows_in_use();
        let flows = || detached.flows.iter();
        let has_room = detached.flows.len() <= places
            && self.shared.sent.has_room_for(flows().map(|parcel| parcel.sent_count))
            && self.shared.ranges.has_room_for(flows().map(|parcel| parcel.range_count));
        if !has_room {
            return Err(AttachError::Full);
        }
        let mut names = detached.flows.iter().filter(|parcel| parcel.flow.state != State::Closed);
        match names.any(|parcel| self.is_taken(&parcel.flow.key)) {
            true => Err(AttachError::InUse),
            false => Ok(()),
        }
    }
}

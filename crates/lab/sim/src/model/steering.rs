//! Which worker gets a packet: by the daemon's tables, or by a rule that needs none.

use base::{Nanos, WorkerId};
use policy::WorkerSample;

use super::PlanError;
use super::system::System;
use super::tables::Tables;
use super::worker::Packet;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// To the worker of this number.
    To(u16),
    /// Its group is on its way: it waits with this hand-over.
    Held(u32),
    /// To whoever has the shortest ring.
    Shortest,
    /// Into the one queue of all workers.
    Any,
    /// Nobody is active.
    Nobody,
}

/// A hand-over that has begun: the old owner passes its barrier when it has done all that came
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) handover: u32,
    pub(super) from: u16,
}

/// The steering of one application.
pub(super) struct Steering {
    rule: Rule,
    active: Vec<WorkerId>,
}

enum Rule {
    /// The hash modulo the active workers.
    Modulo,
    /// Any worker, from one queue.
    OneQueue,
    /// A policy and its tables.
    Tables(Box<Tables>),
}

impl Steering {
    /// With no worker yet.
    pub(super) fn new(system: &System, seed: u64) -> Result<Self, PlanError> {
        let rule = match system {
            System::Shenango | System::PublicCode => Rule::Modulo,
            System::OneQueue => Rule::OneQueue,
            System::Policy { name, groups } => {
                Rule::Tables(Box::new(Tables::new(name, *groups, seed)?))
            }
        };
        Ok(Self { rule, active: Vec::new() })
    }

    /// The workers that get packets from now on, ascending.
    pub(super) fn set_active(&mut self, active: Vec<WorkerId>) {
        self.active = active;
        if let Rule::Tables(tables) = &mut self.rule {
            tables.set_workers(&self.active);
        }
    }

    pub(super) fn active(&self) -> &[WorkerId] {
        &self.active
    }

    /// Whether the control loop has nothing to do and nothing moves.
    pub(super) fn is_settled(&self) -> bool {
        match &self.rule {
            Rule::Tables(tables) => tables.is_settled(),
            Rule::Modulo | Rule::OneQueue => true,
        }
    }

    /// Whether the dispatcher has tables whose load it looks at.
    pub(super) fn has_load(&self) -> bool {
        matches!(&self.rule, Rule::Tables(_))
    }

    /// The dispatcher looks at the load now: at that many groups.
    pub(super) fn look(&mut self, now: Nanos) -> usize {
        match &mut self.rule {
            Rule::Tables(tables) => tables.look(now),
            Rule::Modulo | Rule::OneQueue => 0,
        }
    }

    /// Whether the policy decides by the load.
    pub(super) fn wants_load(&self) -> bool {
        matches!(&self.rule, Rule::Tables(tables) if tables.wants_load())
    }

    /// Whether it is time for it to look.
    pub(super) fn is_load_due(&self, now: Nanos) -> bool {
        matches!(&self.rule, Rule::Tables(tables) if tables.is_load_due(now))
    }

    /// Packets that wait for a hand-over.
    pub(super) fn waiting(&self) -> usize {
        match &self.rule {
            Rule::Tables(tables) => tables.waiting(),
            Rule::Modulo | Rule::OneQueue => 0,
        }
    }

    /// Where a packet of this hash goes. Hand-overs that this begins are put into `begun`.
    #[inline]
    pub(super) fn route(&mut self, hash: u32, now: Nanos, begun: &mut Vec<Begun>) -> Route {
        match &mut self.rule {
            _ if self.active.is_empty() => Route::Nobody,
            Rule::Modulo => Route::To(self.active[hash as usize % self.active.len()].0),
            Rule::OneQueue => Route::Any,
            Rule::Tables(tables) => tables.route(hash, now, begun),
        }
    }

    /// The packet waits with this hand-over. False: that is over.
    pub(super) fn hold(&mut self, handover: u32, packet: Packet) -> bool {
        match &mut self.rule {
            Rule::Tables(tables) => tables.hold(handover, packet),
            Rule::Modulo | Rule::OneQueue => false,
        }
    }

    /// The old owner has passed its barrier: what waited.
    pub(super) fn passed(&mut self, handover: u32, now: Nanos) -> Vec<Packet> {
        match &mut self.rule {
            Rule::Tables(tables) => tables.passed(handover, now),
            Rule::Modulo | Rule::OneQueue => Vec::new(),
        }
    }

    /// The old owner of a hand-over that is under way.
    pub(super) fn old_owner(&self, handover: u32) -> Option<WorkerId> {
        match &self.rule {
            Rule::Tables(tables) => tables.old_owner(handover),
            Rule::Modulo | Rule::OneQueue => None,
        }
    }

    /// The old owner keeps its flows: what waited, as much as there is room for, and whether that
    /// was all.
    pub(super) fn take_back(
        &mut self,
        handover: u32,
        room: usize,
        now: Nanos,
    ) -> (Vec<Packet>, bool) {
        match &mut self.rule {
            Rule::Tables(tables) => tables.take_back(handover, room, now),
            Rule::Modulo | Rule::OneQueue => (Vec::new(), true),
        }
    }

    #[cfg(test)]
    pub(super) fn start_recording(&mut self) -> Option<policy::record::Snapshot> {
        let Rule::Tables(tables) = &mut self.rule else { return None };
        Some(tables.start_recording())
    }

    #[cfg(test)]
    pub(super) fn stop_recording(&mut self) -> Option<Box<policy::record::Recorder>> {
        let Rule::Tables(tables) = &mut self.rule else { return None };
        tables.stop_recording()
    }

    /// A turn of the control loop.
    pub(super) fn turn(
        &mut self,
        workers: impl Iterator<Item = WorkerSample>,
        with_load: bool,
        now: Nanos,
        begun: &mut Vec<Begun>,
    ) {
        if let Rule::Tables(tables) = &mut self.rule {
            tables.turn(workers, with_load, now, begun);
        }
    }
}

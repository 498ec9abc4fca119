//! A worker: a ring, and whether it has a core.

use std::collections::VecDeque;

use base::Nanos;
use policy::cores::{CoreId, Progress};

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) arrived: Nanos,
    pub(super) work: Nanos,
    pub(super) flow: u32,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has no core.
    Parked,
    /// It has one and is on its way.
    Waking,
    /// It looks for something to do, since then.
    Looking(Nanos),
    /// It has a packet, or, in a batch job, work without end.
    Working,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) app: u16,
    /// Its number in the application's steering.
    pub(super) number: u16,
    pub(super) doing: Doing,
    pub(super) core: Option<CoreId>,
    pub(super) ring: VecDeque<Packet>,
    pub(super) current: Option<Packet>,
    pub(super) progress: Progress,
    /// It is to park at its next poll boundary.
    pub(super) is_told: bool,
    /// Counts what would make an old event mean something new.
    pub(super) generation: u32,
    pub(super) granted_at: Nanos,
    /// How long it has found nothing to do.
    pub(super) idle: Nanos,
    /// Core time that it has held.
    pub(super) held: Nanos,
    /// Marks of hand-overs in its ring: after so many packets more, this hand-over passes.
    pub(super) marks: VecDeque<(u32, u32)>,
}

impl Worker {
    pub(super) fn new(app: u16, number: u16) -> Self {
        Self {
            app,
            number,
            doing: Doing::Parked,
            core: None,
            ring: VecDeque::new(),
            current: None,
            progress: Progress::default(),
            is_told: false,
            generation: 0,
            granted_at: Nanos::ZERO,
            idle: Nanos::ZERO,
            held: Nanos::ZERO,
            marks: VecDeque::new(),
        }
    }

    pub(super) fn has_core(&self) -> bool {
        self.core.is_some()
    }

    /// Packets in its ring and in its hands.
    pub(super) fn unfinished(&self) -> u32 {
        self.ring.len() as u32 + u32::from(self.current.is_some())
    }

    pub(super) fn put(&mut self, packet: Packet) {
        self.ring.push_back(packet);
        self.progress.put = self.progress.put.wrapping_add(1);
    }

    pub(super) fn take(&mut self) -> Option<Packet> {
        let packet = self.ring.pop_front()?;
        self.progress.taken = self.progress.taken.wrapping_add(1);
        Some(packet)
    }

    /// How long the oldest packet in the ring has waited.
    pub(super) fn oldest(&self, now: Nanos) -> Nanos {
        self.ring.front().map_or(Nanos::ZERO, |packet| now.since(packet.arrived))
    }
}

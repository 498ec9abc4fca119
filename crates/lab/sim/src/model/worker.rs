//! A worker: a ring, and whether it has a core.

use std::collections::VecDeque;

use base::Nanos;
use policy::cores::{CoreId, Progress};

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) arrived: Nanos,
    /// What is left to be done for it.
    pub(super) work: Nanos,
    pub(super) flow: u32,
    /// Which of the flows that have had this place it belongs to.
    pub(super) life: u8,
    /// It was put aside in the middle of its work: what each packet costs has been paid.
    pub(super) is_begun: bool,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has no core.
    Parked,
    /// It is on its way to its core; or, without one, to what nobody else can do.
    Waking,
    /// It looks for something to do, since then.
    Looking(Nanos),
    /// It has a packet, or, in a batch job, work without end; since then.
    Working(Nanos),
    /// Its flows are others' by now, and it does what is left in its ring, without a core of its
    /// own.
    Draining,
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
    /// When it is done with that, or puts it aside.
    pub(super) done_at: Nanos,
    pub(super) progress: Progress,
    /// It is to give its core back at its next poll boundary.
    pub(super) is_told: bool,
    /// It is in the list of workers that wait for a core.
    pub(super) waits: bool,
    /// Counts what would make an old event about its core mean something new.
    pub(super) generation: u32,
    /// In this generation the time runs after which it gives its groups away.
    pub(super) timed: Option<u32>,
    /// The same for the packet in its hands.
    pub(super) turn: u32,
    pub(super) granted_at: Nanos,
    /// How long it has found nothing to do, all its life.
    pub(super) idle: Nanos,
    /// Core time that it has held, and the part in which it worked, since the step began.
    pub(super) held: Nanos,
    pub(super) busy: Nanos,
    /// Barriers of hand-overs in its ring: after this many packets, this hand-over passes.
    pub(super) barriers: VecDeque<(u32, u32)>,
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
            done_at: Nanos::ZERO,
            progress: Progress::default(),
            is_told: false,
            waits: false,
            generation: 0,
            timed: None,
            turn: 0,
            granted_at: Nanos::ZERO,
            idle: Nanos::ZERO,
            held: Nanos::ZERO,
            busy: Nanos::ZERO,
            barriers: VecDeque::new(),
        }
    }

    pub(super) fn is_timed(&self) -> bool {
        self.timed == Some(self.generation)
    }

    #[inline]
    pub(super) fn has_core(&self) -> bool {
        self.core.is_some()
    }

    /// From now on it does this; how long it did what it did before is written down.
    #[inline]
    pub(super) fn does(&mut self, doing: Doing, now: Nanos) {
        match self.doing {
            Doing::Looking(since) => self.idle += now.since(since),
            Doing::Working(since) => self.busy += now.since(since),
            Doing::Parked | Doing::Waking | Doing::Draining => {}
        }
        self.doing = doing;
    }

    /// Whether packets or barriers are in its ring.
    pub(super) fn has_messages(&self) -> bool {
        !self.ring.is_empty() || !self.barriers.is_empty()
    }

    /// Packets in its ring and in its hands.
    #[inline]
    pub(super) fn unfinished(&self) -> usize {
        self.ring.len() + usize::from(self.current.is_some())
    }

    #[inline]
    pub(super) fn put(&mut self, packet: Packet) {
        self.ring.push_back(packet);
        self.progress.put = self.progress.put.wrapping_add(1);
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<Packet> {
        let packet = self.ring.pop_front()?;
        self.progress.taken = self.progress.taken.wrapping_add(1);
        Some(packet)
    }

    /// What it has in its hands goes back into its ring, with what is left of its work.
    pub(super) fn lay_down(&mut self, quantum: Nanos, now: Nanos) {
        if let Some(packet) = self.current.take() {
            let work = self.done_at.since(now) + packet.work.since(quantum);
            self.turn = self.turn.wrapping_add(1);
            self.untake(Packet { work, is_begun: true, ..packet });
        }
    }

    /// It never took it: the next to be taken is this one.
    pub(super) fn untake(&mut self, packet: Packet) {
        self.ring.push_front(packet);
        self.progress.taken = self.progress.taken.wrapping_sub(1);
    }

    /// How long the oldest packet in the ring has waited.
    pub(super) fn oldest(&self, now: Nanos) -> Nanos {
        self.ring.front().map_or(Nanos::ZERO, |packet| now.since(packet.arrived))
    }

    /// Time goes to the step that ends now.
    pub(super) fn close(&mut self, now: Nanos) -> (Nanos, Nanos) {
        if self.has_core() {
            self.held += now.since(self.granted_at);
            self.granted_at = now;
        }
        if let Doing::Working(since) = &mut self.doing {
            self.busy += now.since(*since);
            *since = now;
        }
        (std::mem::take(&mut self.held), std::mem::take(&mut self.busy))
    }
}

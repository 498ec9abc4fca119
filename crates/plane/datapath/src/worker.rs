//! One worker: takes its packets in order, does its job on each, and hands groups over on barriers.
//!
//! A worker knows nothing of other workers, tables or policies. It owns the groups whose packets it
//! is sent. What must hold: a message is taken from the ring only when its work is complete and its
//! answer is in the outgoing ring, so a barrier is reached only when everything before it is done,
//! and a ring found after a worker's death holds exactly what was left undone.

use std::collections::VecDeque;

use base::{BURST, Nanos};
use shm::{Consumer, Handovers, Producer, Ticket};

use crate::counters::{CounterWriter, WorkerEvent};
use crate::job::{Job, Outlet, Refusal, Verdict};
use crate::message::{FromWorker, Moving, ToWorker};
use crate::steering::Caller;

/// The worker's side of one worker.
pub struct Worker<J> {
    job: J,
    inbox: Consumer<ToWorker>,
    outbox: Producer<FromWorker>,
    handovers: Handovers,
    /// Hand-overs won and not yet completely given up, oldest first. Usually empty: most jobs
    /// give everything up at once.
    detaching: VecDeque<(Ticket, Moving)>,
    caller: Caller,
    counters: CounterWriter,
    retired: bool,
}

/// What one turn of the loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerStep {
    /// Messages taken.
    pub messages: usize,
    /// The job has done something of its own accord.
    pub has_acted: bool,
    /// The worker has met its end: this step was the last.
    pub retired: bool,
}

/// What is left of a worker that ended: for the dispatcher to finish.
pub struct Remains {
    /// Everything sent to the worker that it did not complete, in order.
    pub inbox: Consumer<ToWorker>,
}

impl<J: Job> Worker<J> {
    /// A worker over its ends of the rings; `caller` is [`crate::Steering::caller`]'s.
    pub fn new(
        job: J,
        inbox: Consumer<ToWorker>,
        outbox: Producer<FromWorker>,
        handovers: Handovers,
        caller: Caller,
        counters: CounterWriter,
    ) -> Self {
        let detaching = VecDeque::with_capacity(handovers.slots());
        Self { job, inbox, outbox, handovers, detaching, caller, counters, retired: false }
    }

    /// Takes up to [`BURST`] messages. Bounded work, never waits: with a full outgoing ring it
    /// leaves the rest where it is.
    #[inline]
    pub fn step(&mut self, now: Nanos) -> WorkerStep {
        let mut messages = 0;
        let mut verdicts = Verdicts::default();
        if !self.detaching.is_empty() {
            self.finish_detaching(now);
        }
        // One message of answer per message taken, and one for a hand-over that ends.
        let mut room = self.outbox.room().saturating_sub(1);
        while messages < BURST && room > 0 {
            match self.inbox.peek() {
                None => break,
                Some(ToWorker::Packet(frame)) if frame.is_empty() => self.take_spare(),
                Some(ToWorker::Packet(frame)) => {
                    let verdict = self.job.packet(frame, now);
                    verdicts.count(verdict);
                    room -= self.answer(verdict);
                }
                Some(_) => {
                    self.turn(now);
                    room = self.outbox.room().saturating_sub(1);
                    if room == 0 || !self.control_message(now) {
                        break;
                    }
                    room -= 1;
                }
            }
            messages += 1;
        }
        self.inbox.release();
        let has_acted = !self.retired && self.turn(now);
        if self.outbox.publish() {
            self.caller.call();
        }
        verdicts.add_to(&mut self.counters);
        self.counters.add(WorkerEvent::Steps, 1);
        if messages == 0 && !has_acted {
            self.counters.add(WorkerEvent::IdleSteps, 1);
        }
        WorkerStep { messages, has_acted, retired: self.retired }
    }

    /// The job finishes what it has kept and sends what it has to say.
    #[inline]
    fn turn(&mut self, now: Nanos) -> bool {
        let mut outlet = Outlet::new(&mut self.outbox);
        let has_acted = self.job.turn(now, &mut outlet);
        let sent = outlet.sent();
        if sent > 0 {
            self.counters.add(WorkerEvent::Transmitted, sent as u64);
        }
        has_acted
    }

    /// Whether messages wait to be taken, a detaching to be finished, or the job is due.
    pub fn has_work(&self, now: Nanos) -> bool {
        !self.inbox.is_empty() || !self.detaching.is_empty() || self.next_deadline() <= now
    }

    /// When the next step is due although nothing arrives.
    pub fn next_deadline(&self) -> Nanos {
        self.job.next_deadline()
    }

    /// The worker is about to sleep; false: its job has something to do. To be followed by
    /// [`Self::disarm`].
    pub fn arm(&self) -> bool {
        self.job.arm()
    }

    /// The worker is awake.
    pub fn disarm(&self) {
        self.job.disarm();
    }

    /// Whether it may wait on a CPU for more to do.
    pub fn may_spin(&self) -> bool {
        self.job.may_spin()
    }

    /// Since when an application owes an answer to what the job has told it.
    pub fn owed_since(&self) -> Option<Nanos> {
        self.job.owed_since()
    }

    /// No more packets come: the job says good-bye with the next steps.
    pub fn close(&mut self) {
        self.job.close();
    }

    /// Ends the worker, in the middle of its work or after it.
    pub fn into_remains(self) -> Remains {
        let Self { inbox, mut outbox, .. } = self;
        // What it answered counts as answered.
        outbox.publish();
        Remains { inbox }
    }

    /// Returns how many messages it took.
    #[inline]
    fn answer(&mut self, verdict: Verdict) -> usize {
        let Some(ToWorker::Packet(mut frame)) = self.inbox.take() else {
            unreachable!("the caller has just looked at a packet there");
        };
        if verdict == Verdict::Keep {
            self.job.keep(frame);
            return 0;
        }
        frame.meta_mut().transmit = verdict == Verdict::Transmit;
        self.post(FromWorker::Packet(frame));
        1
    }

    #[cold]
    fn take_spare(&mut self) {
        if let Some(ToWorker::Packet(frame)) = self.inbox.take() {
            self.job.spare(frame);
        }
    }

    /// Room was made sure of before the message was taken.
    #[inline]
    fn post(&mut self, message: FromWorker) {
        let posted = self.outbox.stage(message);
        debug_assert!(
            posted.is_ok(),
            "`step` takes no more messages than there is room for answers"
        );
    }

    /// Whether the message was done; else there was no room, and it is still the next one.
    #[cold]
    fn control_message(&mut self, now: Nanos) -> bool {
        if matches!(self.inbox.peek(), Some(ToWorker::Retire)) && !self.surrender() {
            return false;
        }
        match self.inbox.take() {
            Some(ToWorker::Barrier { ticket, moving }) => {
                if self.handovers.detach(ticket) {
                    self.counters.add(WorkerEvent::Barriers, 1);
                    self.detaching.push_back((ticket, moving));
                    self.finish_detaching(now);
                } else {
                    self.counters.add(WorkerEvent::BarriersAborted, 1);
                }
            }
            Some(ToWorker::Attach(moving)) => {
                self.counters.add(WorkerEvent::Attaches, 1);
                self.job.attach(moving, now);
            }
            Some(ToWorker::Retire) => {
                self.retired = true;
                self.post(FromWorker::Retired);
            }
            Some(ToWorker::Packet(_)) | None => {
                unreachable!("the caller has just looked at a control message there");
            }
        }
        true
    }

    /// Gives every frame back that the job has; false when there is no room for all of them and the
    /// last message now.
    fn surrender(&mut self) -> bool {
        while self.outbox.room() > 1 {
            match self.job.surrender() {
                Some(mut frame) => {
                    frame.meta_mut().transmit = false;
                    self.post(FromWorker::Packet(frame));
                }
                None => return true,
            }
        }
        false
    }

    /// Goes on giving up what hand-overs move, oldest first, and tells the dispatcher of each end.
    fn finish_detaching(&mut self, now: Nanos) {
        while let Some(&(ticket, moving)) = self.detaching.front() {
            if self.outbox.room() == 0 || !self.job.detach(moving, now) {
                return;
            }
            self.detaching.pop_front();
            self.post(FromWorker::Passed(ticket));
        }
    }
}

/// Verdicts of one step, counted once at its end.
#[derive(Default)]
struct Verdicts {
    transmitted: u64,
    consumed: u64,
    refused: [u64; 4],
}

impl Verdicts {
    #[inline]
    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Transmit => self.transmitted += 1,
            Verdict::Consume | Verdict::Keep => self.consumed += 1,
            Verdict::Refuse(Refusal::NotUdp) => self.refused[0] += 1,
            Verdict::Refuse(Refusal::BadRequest) => self.refused[1] += 1,
            Verdict::Refuse(Refusal::StateFull) => self.refused[2] += 1,
            Verdict::Refuse(Refusal::FlowInTwoWorkers) => self.refused[3] += 1,
        }
    }

    #[inline]
    fn add_to(self, counters: &mut CounterWriter) {
        let Self { transmitted, consumed, refused } = self;
        let refused_all: u64 = refused.iter().sum();
        if transmitted + consumed + refused_all == 0 {
            return;
        }
        counters.add(WorkerEvent::Packets, transmitted + consumed + refused_all);
        counters.add(WorkerEvent::Transmitted, transmitted);
        counters.add(WorkerEvent::Consumed, consumed);
        if refused_all > 0 {
            counters.add(WorkerEvent::RefusedNotUdp, refused[0]);
            counters.add(WorkerEvent::RefusedBadRequest, refused[1]);
            counters.add(WorkerEvent::RefusedStateFull, refused[2]);
            counters.add(WorkerEvent::FlowInTwoWorkers, refused[3]);
        }
    }
}

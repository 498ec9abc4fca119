//! One worker: takes its packets in order, does its job on each, and hands groups over on marks.
//!
//! A worker knows nothing of other workers, tables or policies. It owns the groups whose packets
//! it is sent. What must hold: a message is taken from the ring only when its work is complete and
//! its answer is in the outgoing ring, so a mark is reached only when everything before it is done,
//! and a ring found after a worker's death holds exactly what was left undone.

use std::collections::VecDeque;

use base::{BURST, Nanos};
use shm::{Consumer, Handovers, Producer, Ticket};

use crate::counters::{CounterWriter, WorkerEvent};
use crate::job::{Job, Refusal, Verdict};
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
        let room = self.outbox.room().saturating_sub(1);
        let turns = room.min(BURST);
        while messages < turns {
            match self.inbox.peek() {
                None => break,
                Some(ToWorker::Packet(frame)) => {
                    let verdict = self.job.packet(frame, now);
                    verdicts.count(verdict);
                    self.answer(verdict);
                }
                Some(_) => self.control_message(now),
            }
            messages += 1;
        }
        self.inbox.release();
        if self.outbox.publish() {
            self.caller.call();
        }
        verdicts.add_to(&mut self.counters);
        self.counters.add(WorkerEvent::Steps, 1);
        if messages == 0 {
            self.counters.add(WorkerEvent::IdleSteps, 1);
        }
        WorkerStep { messages, retired: self.retired }
    }

    /// Whether messages wait to be taken, or a detaching to be finished.
    pub fn has_work(&self) -> bool {
        !self.inbox.is_empty() || !self.detaching.is_empty()
    }

    /// Ends the worker, in the middle of its work or after it.
    pub fn into_remains(self) -> Remains {
        let Self { inbox, mut outbox, .. } = self;
        // What it answered counts as answered.
        outbox.publish();
        Remains { inbox }
    }

    #[inline]
    fn answer(&mut self, verdict: Verdict) {
        let Some(ToWorker::Packet(mut frame)) = self.inbox.take() else {
            unreachable!("the caller has just looked at a packet there");
        };
        frame.meta_mut().transmit = verdict == Verdict::Transmit;
        self.post(FromWorker::Packet(frame));
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

    #[cold]
    fn control_message(&mut self, now: Nanos) {
        match self.inbox.take() {
            Some(ToWorker::Mark { ticket, moving }) => {
                if self.handovers.detach(ticket) {
                    self.counters.add(WorkerEvent::Marks, 1);
                    self.detaching.push_back((ticket, moving));
                    self.finish_detaching(now);
                } else {
                    self.counters.add(WorkerEvent::MarksAborted, 1);
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
            Verdict::Consume => self.consumed += 1,
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

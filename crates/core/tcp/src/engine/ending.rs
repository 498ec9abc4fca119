//! How a flow ends: what its user is told, which names and places are free again, and when.

use super::Engine;
use crate::State;
use crate::flow::{Flags, Flow};
use crate::io::{CloseReason, Event, FlowId, Output};
use crate::slow::Fate;
use base::Nanos;

impl Engine {
    /// Does with a flow what its file has decided.
    pub(super) fn settle<O: Output>(&mut self, index: u32, fate: Fate, out: &mut O) {
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        match fate {
            Fate::Keep => self.enqueue(index),
            Fate::Abort(reason) => {
                let is_explained = matches!(cold.reason, CloseReason::Unreachable(_));
                if reason != CloseReason::TimedOut || !is_explained {
                    cold.reason = reason;
                }
                flow.flags.set(Flags::ABORT);
                flow.flags.set(Flags::SLOW);
                self.enqueue(index);
            }
            Fate::TimeWait => {
                if flow.flags.has(Flags::ORPHAN) {
                    self.say_closed(index, CloseReason::Finished, out);
                    self.note_waiting(index);
                }
                self.enqueue(index);
            }
            Fate::Over(CloseReason::Finished)
                if cold.is_announced && !flow.flags.has(Flags::ORPHAN) =>
            {
                // The application may still have to read; its close is the end.
                flow.state = State::Closed;
                cold.timers.retransmit = Nanos::FAR_FUTURE;
                cold.timers.ack = Nanos::FAR_FUTURE;
                cold.timers.pace = Nanos::FAR_FUTURE;
                // The peer is through: nobody asks it whether it is there, nor ends for its silence
                // what may still be read.
                cold.timers.life = Nanos::FAR_FUTURE;
                self.note_ended(index);
                self.forget_name(index);
            }
            Fate::Over(reason) => self.finish(index, reason, out),
            // Only a segment can ask for it, and `receive_one` has seen to that.
            Fate::Reuse => {}
        }
    }

    /// Tells the application, once, that its flow is over; its number is void from now on.
    pub(super) fn say_closed<O: Output>(&mut self, index: u32, reason: CloseReason, out: &mut O) {
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        if cold.is_announced {
            cold.is_announced = false;
            // RFC 1122 section 4.2.3.9: what a router said explains the silence.
            let reason = match (reason, cold.reason) {
                (CloseReason::TimedOut, said @ CloseReason::Unreachable(_)) => said,
                (other, _) => other,
            };
            let flow_id = FlowId { index, generation: flow.generation };
            flow.generation = flow.generation.wrapping_add(1);
            out.event(Event::Closed { flow: flow_id, reason });
        }
    }

    pub(super) fn forget_name(&mut self, index: u32) {
        self.table.remove(self.cold[index as usize].hash, |other| other == index);
    }

    /// Nobody here knows flow `index` any more, which is in TIME-WAIT: from now on its place may be
    /// had by whoever needs one.
    pub(super) fn note_waiting(&mut self, index: u32) {
        if self.waiting.len() == self.waiting.capacity() {
            // At most half of them are not over, so that this is for as many as come next.
            let flows = &self.flows;
            self.waiting.retain(|waiting| is_waiting(flows, *waiting));
        }
        self.waiting.push_back((index, self.flows[index as usize].generation));
    }

    /// Gives the place of the flow away that is in TIME-WAIT for the longest time. Whether there
    /// was one. Each that is looked at is looked at once.
    pub(super) fn evict_waiting(&mut self) -> bool {
        while let Some(waiting) = self.waiting.pop_front() {
            if is_waiting(&self.flows, waiting) {
                self.shared.counters.time_wait_evicted += 1;
                self.release(waiting.0);
                return true;
            }
        }
        false
    }

    /// Flows whose places may be had by whoever needs one.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.iter().filter(|waiting| is_waiting(&self.flows, **waiting)).count()
    }

    pub(super) fn note_ended(&mut self, index: u32) {
        self.cold[index as usize].ended_at = self.ended.len() as u32;
        self.ended.push(index);
    }

    pub(super) fn forget_ended(&mut self, index: u32) {
        let at = std::mem::replace(&mut self.cold[index as usize].ended_at, u32::MAX) as usize;
        if at < self.ended.len() {
            self.ended.swap_remove(at);
            if let Some(moved) = self.ended.get(at) {
                self.cold[*moved as usize].ended_at = at as u32;
            }
        }
    }

    /// Ends a flow and gives its memory back.
    pub(super) fn finish<O: Output>(&mut self, index: u32, reason: CloseReason, out: &mut O) {
        self.say_closed(index, reason, out);
        self.release(index);
    }

    /// Gives a flow's memory back.
    pub(super) fn release(&mut self, index: u32) {
        self.forget_ended(index);
        self.forget_name(index);
        self.wheel.disarm(index);
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        if flow.state == State::SynReceived {
            self.listeners.half_open_ended(cold.listener);
        }
        self.shared.sent.clear(&mut flow.sent);
        cold.reassembly.clear(&mut self.shared.ranges);
        flow.generation = flow.generation.wrapping_add(1);
        // A place may be in the queue when it is given away; it must not get in twice.
        let is_queued = flow.flags.has(Flags::QUEUED);
        flow.flags = Flags::default();
        flow.flags.put(Flags::QUEUED, is_queued);
        self.free.push(index);
    }
}

/// Whether a flow that was noted as being in TIME-WAIT still is.
fn is_waiting(flows: &[Flow], (index, generation): (u32, u32)) -> bool {
    let flow = &flows[index as usize];
    flow.generation == generation && flow.state == State::TimeWait && flow.flags.has(Flags::LIVE)
}

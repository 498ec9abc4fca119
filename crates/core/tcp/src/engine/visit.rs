//! The second half of a round: every flow that something happened to is looked at once.

use base::Nanos;

use super::Engine;
use crate::flow::{Flags, State};
use crate::io::{Buffers, CloseReason, FlowId, Output};
use crate::reset::reset;
use crate::shared::Turn;
use crate::transmit::{self, Progress};
use crate::{emit, expire, handshake};

impl Engine {
    /// Sends what may be sent. Flows that the caller had no room for stay queued, as do those with
    /// very much to send, so that others get their turn.
    pub fn transmit<B: Buffers, O: Output>(&mut self, now: Nanos, buffers: &mut B, out: &mut O) {
        let mut work = std::mem::take(&mut self.queue);
        std::mem::swap(&mut self.queue, &mut self.spare);
        for index in &work {
            if self.visit(now, *index, buffers, out) == Progress::More {
                self.enqueue(*index);
            }
        }
        work.clear();
        self.spare = work;
    }

    fn visit<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        index: u32,
        buffers: &mut B,
        out: &mut O,
    ) -> Progress {
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        flow.flags.clear(Flags::SEEN);
        if !flow.flags.has(Flags::LIVE) {
            return Progress::Done;
        }
        let id = FlowId { index, generation: flow.generation };
        let mut turn = Turn { now, shared: &mut self.shared, buffers, out };
        if let Some(is_sent) = transmit::answer(&mut turn, id, flow, cold) {
            if !is_sent {
                return Progress::More;
            }
            if !expire::postpone(flow, cold, &self.shared, &self.wheel, index, now) {
                expire::catch_up(flow, cold, &self.shared);
                expire::arm(flow, cold, &self.shared, now);
                self.arm(index);
            }
            return Progress::Done;
        }
        expire::catch_up(flow, cold, &self.shared);
        let mut turn = Turn { now, shared: &mut self.shared, buffers, out };
        if flow.flags.has(Flags::ABORT) && flow.state == State::TimeWait {
            // All is done, so that there is nothing to abort: only its application is through with
            // it. Its name stays taken (RFC 1337), as in Linux.
            flow.flags.clear(Flags::ABORT);
            if !flow.flags.has(Flags::ORPHAN) {
                flow.flags.set(Flags::ORPHAN);
                self.say_closed(index, CloseReason::Finished, out);
                self.note_waiting(index);
            }
            return Progress::More;
        }
        if flow.flags.has(Flags::ABORT) {
            // A peer that has heard nothing of us needs no reset.
            let needs_reset = !matches!(flow.state, State::SynSent | State::Closed);
            if needs_reset && !reset(&mut turn, flow, cold) {
                return Progress::More;
            }
            let reason = cold.reason;
            self.finish(index, reason, out);
            return Progress::Done;
        }
        let progress = if flow.flags.has(Flags::SYN_OWED) {
            match handshake::emit_syn(&mut turn, flow, cold) {
                true => Progress::Done,
                false => Progress::More,
            }
        } else if flow.state.is_synchronized() && flow.state != State::Closed {
            transmit::run(&mut turn, id, flow, cold)
        } else if flow.state == State::SynReceived
            && flow.flags.has(Flags::ACK_NOW)
            && !emit::emit_ack(&mut turn, id, flow, cold)
        {
            Progress::More
        } else {
            Progress::Done
        };
        if progress == Progress::Done {
            expire::arm(flow, cold, &self.shared, now);
        }
        if crate::fast::is_slow(flow, cold) {
            flow.flags.set(Flags::SLOW);
        }
        self.arm(index);
        progress
    }

    #[inline]
    fn arm(&mut self, index: u32) {
        let deadline = self.cold[index as usize].timers.first();
        // An entry that fires too early finds that out and moves on: cheaper than moving it now.
        if deadline != Nanos::FAR_FUTURE
            && self.wheel.armed(index).is_none_or(|armed| armed > deadline)
        {
            self.wheel.arm(index, deadline);
        }
    }
}

//! What an application may change while a flow lives, and what comes from outside TCP.

use std::num::NonZeroU32;

use base::Nanos;
use wire::FlowKey;

use super::{CallError, Engine};
use crate::congestion::Congestion;
use crate::flow::{Flags, State};
use crate::io::{CloseReason, Output};
use crate::{Algorithm, FlowId, IpFields, KeepAlive, Regrow, Seq, data, pacing, pmtu, regrow};

impl Engine {
    /// Whether small segments leave at once (TCP_NODELAY). Switched on, it sends what waits, even
    /// what is corked, as in Linux.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_no_delay(&mut self, id: FlowId, on: bool) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let flow = &mut self.flows[at];
        flow.flags.put(Flags::NO_DELAY, on);
        if on {
            flow.flags.clear(Flags::HELD);
            flow.flags.put(Flags::FORCE, flow.unsent() > 0);
        }
        self.enqueue(id.index);
        Ok(())
    }

    /// Whether partial segments wait for more, at most for one retransmission timeout (TCP_CORK).
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_cork(&mut self, id: FlowId, on: bool) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.flows[at].flags.put(Flags::CORK, on);
        self.enqueue(id.index);
        Ok(())
    }

    /// Whether acknowledgements leave as soon as may be, from now until data goes out, or wait for
    /// data to ride on (TCP_QUICKACK). Switched on, it sends the one that waits, if all was read.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_quick_ack(&mut self, id: FlowId, on: bool) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&mut self.flows[at], &mut self.cold[at]);
        flow.flags.put(Flags::PING_PONG, !on);
        if on && data::hurry(cold) {
            flow.flags.set(Flags::READ);
            self.enqueue(id.index);
        }
        Ok(())
    }

    /// Whether [`Self::set_quick_ack`] is on, or what has happened since has the same effect.
    pub fn quick_ack(&self, id: FlowId) -> Option<bool> {
        self.place(id).map(|at| !self.flows[at].flags.has(Flags::PING_PONG))
    }

    /// Whether more will be written to the message that the next bytes belong to (MSG_MORE): its
    /// partial segment waits until that has come, something is acknowledged, or a retransmission
    /// timeout has passed.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_more(&mut self, id: FlowId, on: bool) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.flows[at].flags.put(Flags::MORE, on);
        self.flows[at].flags.put(Flags::HELD, on);
        Ok(())
    }

    /// Calls `visit` with the route of every flow: what is not named is in use no more.
    pub fn each_route(&self, visit: &mut dyn FnMut(u32)) {
        let live = self.flows.iter().filter(|flow| flow.flags.has(Flags::LIVE));
        live.for_each(|flow| visit(flow.route));
    }

    /// How segments leave from now on, until one comes by another route.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_route(&mut self, id: FlowId, route: u32) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.flows[at].route = route;
        Ok(())
    }

    /// Under which congestion control it goes on (TCP_CONGESTION). The window stays as it is; what
    /// the one before knew of the path is forgotten. ECN is as was agreed on.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_congestion(&mut self, id: FlowId, algorithm: Algorithm) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&mut self.flows[at], &mut self.cold[at]);
        if cold.options.congestion == algorithm {
            return Ok(());
        }
        cold.options.congestion = algorithm;
        cold.congestion = Congestion::new(algorithm);
        cold.timers.pace = Nanos::FAR_FUTURE;
        flow.flags.put(Flags::PACED, pacing::is_wanted(&cold.options));
        self.enqueue(id.index);
        Ok(())
    }

    /// What its packets have in their IP headers from now on (IP_TOS, IP_TTL and their like).
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_ip_fields(&mut self, id: FlowId, ip: IpFields) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.cold[at].options.ip = ip;
        Ok(())
    }

    /// Most bytes of payload in a second (SO_MAX_PACING_RATE); zero: as many as the window lets.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_rate_max(&mut self, id: FlowId, bytes_per_s: u32) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&mut self.flows[at], &mut self.cold[at]);
        if cold.options.rate_max == bytes_per_s {
            return Ok(());
        }
        cold.options.rate_max = bytes_per_s;
        // What waited for the old rate's time leaves now, and the next by the new one.
        cold.timers.pace = Nanos::FAR_FUTURE;
        flow.flags.put(Flags::PACED, pacing::is_wanted(&cold.options));
        self.enqueue(id.index);
        Ok(())
    }

    /// How often its SYN is sent again (TCP_SYNCNT); zero: as often as the engine's others.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_syn_retries(&mut self, id: FlowId, retries: u8) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.cold[at].options.syn_retries = retries;
        Ok(())
    }

    /// How long sent data may stay unacknowledged (RFC 5482); none: the timeouts decide.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_user_timeout(&mut self, id: FlowId, millis: Option<u32>) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.cold[at].options.user_timeout_ms = millis.and_then(NonZeroU32::new);
        Ok(())
    }

    /// Whether a silent peer is asked, from now on.
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn set_keep_alive(
        &mut self,
        now: Nanos,
        id: FlowId,
        keep_alive: Option<KeepAlive>,
    ) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&self.flows[at], &mut self.cold[at]);
        cold.options.keep_alive = keep_alive;
        if flow.may_be_asked()
            && let Some(keep_alive) = keep_alive
        {
            let first = cold.heard_at + Nanos::from_secs(u64::from(keep_alive.idle_s));
            cold.timers.life = cold.timers.life.min(first.max(now));
        }
        self.enqueue(id.index);
        Ok(())
    }

    /// Lets the receive ring grow to `1 << log2` bytes, at most [`crate::FlowOptions`]'s limit. The
    /// caller copies what the result says before anything else is asked of the engine, and shows
    /// the new ring from then on. Nothing: the ring stays as it is.
    pub fn grow_receive_ring(&mut self, id: FlowId, log2: u8) -> Option<Regrow> {
        let at = self.place(id)?;
        let regrow = regrow::receive(&self.flows[at], &mut self.cold[at], log2)?;
        self.flows[at].flags.set(Flags::READ);
        self.enqueue(id.index);
        Some(regrow)
    }

    /// The same for the send ring, of up to `1 << 30` bytes.
    pub fn grow_send_ring(&mut self, id: FlowId, log2: u8) -> Option<Regrow> {
        let at = self.place(id)?;
        regrow::send(&self.flows[at], &mut self.cold[at], log2)
    }

    /// The last byte that was sent is urgent (MSG_OOB).
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn mark_urgent(&mut self, id: FlowId) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        self.cold[at].snd_up = self.flows[at].snd_end;
        self.flows[at].flags.set(Flags::URGENT);
        self.enqueue(id.index);
        Ok(())
    }

    /// How many bytes of what can be read, or will be, come before the peer's urgent byte; nothing
    /// when there is none, or it was read.
    pub fn urgent(&self, id: FlowId) -> Option<u32> {
        let at = self.place(id)?;
        let (flow, mark) = (&self.flows[at], self.cold[at].rcv_up);
        let is_ahead = flow.flags.has(Flags::URGENT_HEARD) && !mark.is_before(flow.rcv_read);
        is_ahead.then(|| mark.since(flow.rcv_read))
    }

    /// A router, or the peer's host, says that a segment of the flow `key` (the peer is its source)
    /// did not arrive: it began at `sequence`, and the reason is `errno` by Linux's numbers. Ends a
    /// connection that is being opened; of one that stands it is only remembered, for the day that
    /// the peer does not answer (RFC 1122 section 4.2.3.9, RFC 5461). About a segment that is not
    /// on its way it is believed by nobody (RFC 5927 section 4.1).
    pub fn unreachable<O: Output>(
        &mut self,
        key: &FlowKey,
        sequence: Seq,
        errno: u16,
        out: &mut O,
    ) {
        let Some(index) = self.find(key) else {
            self.shared.counters.icmp_ignored += 1;
            return;
        };
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        let is_on_its_way = !sequence.is_before(flow.snd_una) && sequence.is_before(flow.snd_nxt);
        if !is_on_its_way || errno == 0 {
            self.shared.counters.icmp_ignored += 1;
            return;
        }
        cold.reason = CloseReason::Unreachable(errno);
        flow.flags.set(Flags::SLOW);
        self.shared.counters.icmp_heeded += 1;
        if matches!(flow.state, State::SynSent | State::SynReceived) {
            self.finish(index, CloseReason::Unreachable(errno), out);
        }
    }

    /// A router could not forward a segment of the flow `key` (the peer is its source): it began at
    /// `sequence`, and the router carries `mtu` bytes (ICMP fragmentation needed, ICMPv6 packet too
    /// big). What is too long is sent again in pieces, with the next transmit.
    pub fn too_big(&mut self, key: &FlowKey, sequence: Seq, mtu: u32) {
        let Some(index) = self.find(key) else {
            self.shared.counters.icmp_ignored += 1;
            return;
        };
        let (flow, cold) = (&mut self.flows[index as usize], &mut self.cold[index as usize]);
        if pmtu::too_big(flow, cold, &mut self.shared, sequence, mtu) {
            self.shared.counters.paths_narrowed += 1;
            self.enqueue(index);
        } else {
            self.shared.counters.icmp_ignored += 1;
        }
    }
}

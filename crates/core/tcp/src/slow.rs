//! Every segment that is not the expected one, in the order of RFC 9293 section 3.10.7. This file
//! only routes: what is to be done is in the file of each matter.

use base::{FlowHash, Nanos};
use wire::tcp;

use crate::acknowledge::{self, Facts, Verdict};
use crate::cold::Cold;
use crate::flow::{Flags, Flow, State};
use crate::io::{Buffers, CE, Event, FlowId, Output};
use crate::options::Parsed;
use crate::reset::{Unwanted, challenge, refuse};
use crate::shared::Turn;
use crate::{Algorithm, CloseReason, Seq, close, data, fast, handshake, urgent};

/// What becomes of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on.
    Keep,
    /// It is over, with nothing more to be said to the peer.
    Over(CloseReason),
    /// Both sides are through; its name stays for TIME-WAIT.
    TimeWait,
    /// It is to be reset.
    Abort(CloseReason),
    /// The segment is a new connection's and may have the name.
    Reuse,
}

/// A segment, read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub(crate) header: tcp::Header,
    pub(crate) options: Parsed,
    pub(crate) payload: &'a [u8],
    pub(crate) ecn: u8,
    pub(crate) hash: FlowHash,
    pub(crate) route: u32,
}

impl Arrived<'_> {
    fn has(&self, flag: u8) -> bool {
        self.header.flags & flag != 0
    }

    fn sequence(&self) -> Seq {
        Seq(self.header.sequence)
    }

    fn ack(&self) -> Seq {
        Seq(self.header.acknowledgement)
    }

    /// Behind its last number, SYN and FIN included.
    fn end(&self) -> Seq {
        self.sequence()
            + self.payload.len() as u32
            + u32::from(self.has(tcp::SYN))
            + u32::from(self.has(tcp::FIN))
    }

    /// Of a peer that was through and is gone now: it numbers its reset as if its FIN had none.
    /// Linux believes that too.
    fn is_reset_after_fin(&self, flow: &Flow) -> bool {
        self.has(tcp::RST)
            && self.sequence() + 1 == flow.rcv_nxt
            && matches!(flow.state, State::CloseWait | State::LastAck | State::Closing)
    }

    fn unwanted(&self, flow: &Flow) -> Unwanted {
        let payload_bytes = self.payload.len() as u32;
        Unwanted { key: flow.key, header: self.header, payload_bytes, route: self.route }
    }
}

/// A peer silent for longer may have restarted its clock (RFC 7323 section 5.5).
const CLOCK_GOOD_FOR: Nanos = Nanos::from_secs(24 * 86_400);

/// Takes any segment in.
pub(crate) fn receive<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) -> Fate {
    let fate = match flow.state {
        State::SynSent => in_syn_sent(turn, id, flow, cold, arrived),
        State::TimeWait => {
            let (header, options) = (&arrived.header, &arrived.options);
            let is_empty = arrived.end() == arrived.sequence();
            close::in_time_wait(flow, cold, turn.shared, header, options, is_empty, turn.now)
        }
        _ => synchronized(turn, id, flow, cold, arrived),
    };
    let is_slow = fast::is_slow(flow, cold);
    flow.flags.put(Flags::SLOW, is_slow);
    fate
}

/// RFC 9293 section 3.10.7.3.
fn in_syn_sent<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) -> Fate {
    let has_ack = arrived.has(tcp::ACK);
    if has_ack && arrived.ack() != flow.snd_nxt {
        turn.shared.counters.bad_ack += 1;
        refuse(turn, &arrived.unwanted(flow));
        return Fate::Keep;
    }
    if arrived.has(tcp::RST) {
        return if has_ack { Fate::Over(CloseReason::Refused) } else { Fate::Keep };
    }
    if !arrived.has(tcp::SYN) {
        return Fate::Keep;
    }
    let wants_ecn = handshake::wants_ecn(&cold.options);
    let (offered, agreed) = (tcp::ECE | tcp::CWR, tcp::ECE);
    let ecn_bits = arrived.header.flags & offered;
    let has_ecn = wants_ecn && ecn_bits == if has_ack { agreed } else { offered };
    let (header, options) = (&arrived.header, &arrived.options);
    handshake::learn(flow, cold, &turn.shared.config, header, options, has_ecn);
    cold.heard_at = turn.now;
    if !has_ack {
        // Both have opened at once (RFC 9293 figure 8). Anybody can say so: our answer goes where
        // our SYN went.
        flow.state = State::SynReceived;
        flow.flags.set(Flags::SYN_OWED);
        return Fate::Keep;
    }
    flow.route = arrived.route;
    connect(turn, id, flow, cold);
    flow.flags.set(Flags::ACK_NOW);
    // Data on a SYN-ACK is the peer's to repeat: it comes before its sender knows of a window.
    Fate::Keep
}

fn connect<B, O: Output>(turn: &mut Turn<'_, B, O>, id: FlowId, flow: &mut Flow, cold: &mut Cold) {
    handshake::establish(flow, cold, turn.shared, turn.now);
    if !cold.is_announced || flow.flags.has(Flags::ACTIVE) {
        cold.is_announced = true;
        turn.out.event(Event::Connected { flow: id, listener: cold.listener });
    }
    if flow.flags.has(Flags::FIN_QUEUED) {
        flow.state = State::FinWait1;
    }
}

/// RFC 9293 section 3.10.7.4, with RFC 5961 and RFC 7323.
fn synchronized<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) -> Fate {
    let now = turn.now;
    let (sequence, ack) = (arrived.sequence(), arrived.ack());
    if let Some(fate) = check_age_and_window(turn, flow, cold, arrived) {
        return fate;
    }
    if arrived.has(tcp::RST) {
        if sequence == flow.rcv_nxt || arrived.is_reset_after_fin(flow) {
            return Fate::Over(match flow.state {
                State::SynReceived if flow.flags.has(Flags::ACTIVE) => CloseReason::Refused,
                // Only the acknowledgement of our FIN is missing, and the peer is through.
                State::Closing | State::LastAck if flow.snd_una == flow.snd_end => {
                    CloseReason::Finished
                }
                _ => CloseReason::Reset,
            });
        }
        turn.shared.counters.inexact_reset += 1;
        challenge(flow, cold, turn.shared, now);
        return Fate::Keep;
    }
    let is_answer_to_ours = flow.state == State::SynReceived
        && arrived.has(tcp::SYN)
        && arrived.has(tcp::ACK)
        && sequence + 1 == flow.rcv_nxt
        && ack == flow.snd_nxt;
    if arrived.has(tcp::SYN) && !is_answer_to_ours {
        turn.shared.counters.late_syn += 1;
        challenge(flow, cold, turn.shared, now);
        return Fate::Keep;
    }
    if !arrived.has(tcp::ACK) {
        turn.shared.counters.no_ack_flag += 1;
        return Fate::Keep;
    }
    if flow.state == State::SynReceived {
        if ack != cold.iss + 1 {
            turn.shared.counters.bad_ack += 1;
            refuse(turn, &arrived.unwanted(flow));
            return Fate::Keep;
        }
        if handshake::is_left(turn, flow, cold, arrived.end() == flow.rcv_nxt) {
            return Fate::Keep;
        }
        connect(turn, id, flow, cold);
    }
    match acknowledge::judge(flow, cold, ack) {
        Verdict::Impossible => {
            turn.shared.counters.bad_ack += 1;
            challenge(flow, cold, turn.shared, turn.now);
            return Fate::Keep;
        }
        Verdict::Old => {}
        // Only now: who has guessed a number in the window must not hear the right ones.
        Verdict::Good => flow.route = arrived.route,
    }
    note_timestamp(flow, arrived);
    cold.heard_at = now;
    cold.probes = 0;
    if !flow.flags.has(Flags::ABORT) {
        cold.forget_unreachable();
    }
    if let Some(fate) = take_ack(turn, id, flow, cold, arrived) {
        return fate;
    }
    take_payload(turn, id, flow, cold, arrived)
}

/// Whether the segment is too old or outside the window, and what follows then.
fn check_age_and_window<B, O>(
    turn: &mut Turn<'_, B, O>,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) -> Option<Fate> {
    let now = turn.now;
    if let Some(stamps) = arrived.options.timestamps
        && flow.flags.has(Flags::TIMESTAMPS)
        && !arrived.has(tcp::RST)
        && stamps.value.wrapping_sub(flow.ts_recent).cast_signed() < 0
    {
        if now.since(cold.heard_at) < CLOCK_GOOD_FOR {
            turn.shared.counters.old_timestamp += 1;
            answer_stray(turn, flow, cold, arrived);
            return Some(Fate::Keep);
        }
        flow.ts_recent = stamps.value;
    }
    // From what was acknowledged last, not from what came last: a repetition of what is not yet
    // acknowledged may bear a new acknowledgement (as in Linux).
    let is_same_syn = flow.state == State::SynReceived
        && arrived.has(tcp::SYN)
        && !arrived.has(tcp::ACK)
        && arrived.sequence() + 1 == flow.rcv_nxt;
    if is_same_syn {
        // Our answer was lost.
        flow.route = arrived.route;
        flow.flags.set(Flags::SYN_OWED);
        return Some(Fate::Keep);
    }
    let is_inside =
        !arrived.end().is_before(flow.rcv_acked) && !arrived.sequence().is_after(flow.rcv_adv);
    if is_inside || arrived.is_reset_after_fin(flow) {
        return None;
    }
    turn.shared.counters.out_of_window += 1;
    if arrived.has(tcp::RST) {
        return Some(Fate::Keep);
    }
    answer_stray(turn, flow, cold, arrived);
    Some(Fate::Keep)
}

/// Something repeated is acknowledged at once, since its sender has missed that. What carries
/// nothing could make two peers answer each other for ever, so that is limited.
fn answer_stray<B, O>(
    turn: &mut Turn<'_, B, O>,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) {
    if arrived.end() == arrived.sequence() || arrived.has(tcp::SYN) {
        challenge(flow, cold, turn.shared, turn.now);
        return;
    }
    flow.flags.set(Flags::ACK_NOW);
    let end = arrived.sequence() + arrived.payload.len() as u32;
    if !arrived.payload.is_empty() && !end.is_after(flow.rcv_nxt) {
        turn.shared.counters.duplicate_bytes += arrived.payload.len() as u64;
        cold.duplicate = (arrived.sequence(), end);
    }
}

/// RFC 7323 section 4.3: the newest clock of what covers the number acknowledged last.
fn note_timestamp(flow: &mut Flow, arrived: &Arrived<'_>) {
    if let Some(stamps) = arrived.options.timestamps
        && flow.flags.has(Flags::TIMESTAMPS)
        && !arrived.sequence().is_after(flow.rcv_acked)
        && stamps.value.wrapping_sub(flow.ts_recent).cast_signed() >= 0
    {
        flow.ts_recent = stamps.value;
    }
}

/// The acknowledgement; something when the rest of the segment does not count.
fn take_ack<B, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) -> Option<Fate> {
    let ack = arrived.ack();
    let is_old = acknowledge::judge(flow, cold, ack) == Verdict::Old;
    if is_old && arrived.options.sack().is_empty() {
        return None;
    }
    let una = flow.snd_una;
    let window = arrived.header.window;
    let has_new_window = acknowledge::update_window(flow, cold, arrived.sequence(), ack, window);
    let facts = Facts {
        ack,
        flags: arrived.header.flags,
        options: &arrived.options,
        is_empty: arrived.end() == arrived.sequence(),
        has_new_window,
    };
    acknowledge::process(flow, cold, turn.shared, &facts, turn.now);
    if flow.snd_una != una && flow.flags.has(Flags::WANTS_ROOM) {
        flow.flags.clear(Flags::WANTS_ROOM);
        turn.out.event(Event::Writable { flow: id });
    }
    close::on_ack(flow, cold, turn.shared, turn.now).map(|reason| match flow.state {
        State::TimeWait => Fate::TimeWait,
        _ => Fate::Over(reason),
    })
}

/// Payload, FIN and congestion mark.
fn take_payload<B: Buffers, O: Output>(
    turn: &mut Turn<'_, B, O>,
    id: FlowId,
    flow: &mut Flow,
    cold: &mut Cold,
    arrived: &Arrived<'_>,
) -> Fate {
    note_mark(turn, flow, cold, arrived);
    let has_fin = arrived.has(tcp::FIN);
    if arrived.payload.is_empty() && !has_fin {
        return Fate::Keep;
    }
    if !flow.state.may_receive() {
        // Its FIN came before; this is a repetition.
        flow.flags.set(Flags::ACK_NOW);
        return Fate::Keep;
    }
    let is_new = arrived.end().is_after(flow.rcv_nxt + u32::from(has_fin));
    if flow.flags.has(Flags::ORPHAN) && is_new {
        // RFC 9293 section 3.10.4: what nobody will read must not seem delivered.
        refuse(turn, &arrived.unwanted(flow));
        return Fate::Over(CloseReason::DataAfterClose);
    }
    if arrived.has(tcp::URG) {
        urgent::note(turn, id, flow, cold, arrived.sequence(), arrived.header.urgent);
    }
    let sequence = arrived.sequence() + u32::from(arrived.has(tcp::SYN));
    if !data::receive(turn, id, flow, cold, sequence, arrived.payload, arrived.header.flags) {
        return Fate::Keep;
    }
    let fate = close::on_fin(flow, cold, turn.shared, turn.now);
    if !flow.flags.has(Flags::ORPHAN) {
        turn.out.event(Event::PeerClosed { flow: id });
    }
    if fate.is_some() { Fate::TimeWait } else { Fate::Keep }
}

/// Congestion marks on what comes in (RFC 3168 section 6.1.3), or exactly as they come (RFC 8257
/// section 3.2).
fn note_mark<B, O>(turn: &mut Turn<'_, B, O>, flow: &mut Flow, cold: &Cold, arrived: &Arrived<'_>) {
    if !flow.flags.has(Flags::ECN) {
        return;
    }
    let is_marked = arrived.ecn & CE == CE;
    turn.shared.counters.marked += u64::from(is_marked);
    if cold.options.congestion == Algorithm::Dctcp {
        if !arrived.payload.is_empty() && flow.flags.has(Flags::LAST_MARKED) != is_marked {
            flow.flags.put(Flags::LAST_MARKED, is_marked);
            flow.flags.put(Flags::ECHO_CONGESTION, is_marked);
            flow.flags.set(Flags::ACK_NOW);
        }
        return;
    }
    if arrived.has(tcp::CWR) {
        flow.flags.clear(Flags::ECHO_CONGESTION);
    }
    if is_marked {
        flow.flags.set(Flags::ECHO_CONGESTION);
        flow.flags.set(Flags::ACK_NOW);
    }
}

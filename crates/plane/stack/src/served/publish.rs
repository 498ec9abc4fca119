//! At the end of a turn: what has changed is written into the slots, and who waits is told.

use std::sync::atomic::{Ordering, fence};

use base::{AppId, Nanos, SlotId};
use shm::sockets::{Kind, Side, SlotState, SlotWords};
use tcp::{CloseReason, Engine};

use super::records::watch;
use super::{Client, Conn, Sockets, Traces};
use crate::rings::{Ring, Rings};

/// Errnos of asm-generic/errno.h that a socket's end is told by.
const EPIPE: u32 = 32;
const ECONNABORTED: u32 = 103;
const ECONNRESET: u32 = 104;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;

/// Time between two tries to say what the slow side has no room for.
const SAY_EVERY: Nanos = Nanos::from_millis(1);

impl Sockets {
    /// Shows every socket that something happened to, rings every poller once, and says what the
    /// slow side must know.
    pub(crate) fn publish(&mut self, engine: &mut Engine, rings: &mut Rings, now: Nanos) {
        let mut touched = std::mem::take(&mut self.touched);
        for (app, slot) in touched.drain(..) {
            let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
            let Some(client) = client else { continue };
            let Client { streams, conns, .. } = client;
            let one_in = streams.trace_one_in.load(Ordering::Relaxed);
            let Some(conn) = conns.get_mut(slot.index()).and_then(Option::as_mut) else {
                continue;
            };
            let Some(words) = streams.server.memory().slot(slot) else { continue };
            conn.is_touched = false;
            let received_before = conn.rx_tail;
            let traces = &mut self.stats.traces;
            let traces = (one_in != 0 && traces.is_on()).then_some(traces);
            let traced = traces.map(|traces| (traces, app, one_in));
            let is_news = publish(conn, words, engine, rings, now, traced);
            self.stats.bytes_received += conn.rx_tail - received_before;
            watch::look();
            if is_news {
                self.notify(app, slot);
                self.owed_since.get_or_insert(now);
            }
        }
        self.touched = touched;
        for client in self.clients.iter_mut().flatten() {
            if !std::mem::take(&mut client.has_rung) {
                continue;
            }
            for (word, bits) in client.pollers.iter_mut().enumerate() {
                let mut bits = std::mem::take(bits);
                while bits != 0 {
                    let poller = word as u32 * 64 + bits.trailing_zeros();
                    bits &= bits - 1;
                    client.streams.notifier.poller(Side::Zero, poller);
                }
            }
        }
        if self.post.has_news() {
            self.post.flush();
        }
        if self.post.has_news() {
            // The slow side is slow: nobody else may give this worker a turn when it has made room.
            self.paced.wake_at(now + SAY_EVERY);
        }
    }

    /// Marks a slot for every poller that wants to hear of it.
    pub(super) fn notify(&mut self, app: AppId, slot: SlotId) {
        let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
        let Some(client) = client else { return };
        let Client { streams, pollers, has_rung, .. } = client;
        let memory = streams.server.memory();
        let Some(words) = memory.slot(slot) else { return };
        // What was published before the look at who waits; who waits does it the other way round.
        fence(Ordering::SeqCst);
        for (at, word) in words.pollers.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(ready_bits) = memory.poller(Side::Zero, at as u32 * 64 + bit)
                    && ready_bits.set(slot)
                    && ready_bits.claim_wake()
                {
                    pollers[at] |= 1 << bit;
                    *has_rung = true;
                }
            }
        }
        if words.sleepers.load(Ordering::Relaxed) != 0 {
            words.sleepers.store(0, Ordering::Relaxed);
            words.notify_word.fetch_add(1, Ordering::Release);
            streams.notifier.futex(&words.notify_word);
        }
    }
}

/// Writes what is new; whether anybody should hear of it.
fn publish(
    conn: &mut Conn,
    words: &SlotWords,
    engine: &mut Engine,
    rings: &mut Rings,
    now: Nanos,
    traced: Option<(&mut Traces, AppId, u32)>,
) -> bool {
    let mut is_news = false;
    let mut flags = 0;
    if let Some(flow) = conn.flow.filter(|_| conn.is_connected && !conn.is_evicted) {
        if engine.holds_nothing(flow) && conn.outgrown.is_none() {
            // The application has said that it has read everything, so that nobody reads there.
            rings.rest(flow);
        }
        let pair = rings.of(flow);
        let desc = pair.and_then(|pair| pair.receive.desc()).unwrap_or_default();
        if desc != conn.rx_desc {
            (conn.rx_desc, conn.idle_since) = (desc, now);
            words.rx_ring.store(desc.word(), Ordering::Release);
        }
        let tail = conn.rx_head + u64::from(engine.readable(flow).bytes);
        if conn.deaf_from.is_some_and(|from| tail > from) {
            // RFC 9293 section 3.6.1, for who is as good as closed; Linux does so as well.
            conn.was_deaf = true;
            let _ = engine.abort(flow);
        } else if tail != conn.rx_tail {
            if let Some((traces, app, one_in)) = traced
                && words.rx_head.load(Ordering::Relaxed) == conn.rx_tail
            {
                let (socket, key) = ((app, conn.trace), engine.key(flow));
                let number = traces.request(socket, one_in, words, key, now);
                conn.trace = number.unwrap_or(conn.trace);
            }
            conn.rx_tail = tail;
            words.rx_tail.store(tail, Ordering::Release);
            is_news = true;
        }
        if let Some(offered) = conn.offered.as_ref().and_then(Ring::desc) {
            words.tx_ring.store(offered.word(), Ordering::Release);
        }
        let ring_bytes = pair.map_or(0, |pair| pair.send.len()) as u64;
        let room = u64::from(engine.room(flow).bytes);
        let head = (conn.tx_tail + room).saturating_sub(ring_bytes);
        if head != conn.tx_head {
            conn.tx_head = head;
            words.tx_head.store(head, Ordering::Release);
        }
        // Who waits for room is told once there is enough of it to be worth a wake-up, also when
        // that has come before the waiting was heard of.
        if conn.was_full && (conn.offered.is_some() || room * 3 >= ring_bytes) {
            conn.was_full = false;
            is_news = true;
        }
        if conn.was_full {
            engine.want_room(flow);
        }
        if conn.is_shut && head == conn.tx_tail {
            flags |= SlotState::SENT_ALL;
        }
        if let Some(ahead) = engine.urgent(flow) {
            // The urgent byte is the last of the urgent data, and the word says where they end,
            // plus one.
            let end = conn.rx_head + u64::from(ahead) + 2;
            is_news |= words.rx_urgent.swap(end, Ordering::AcqRel) != end;
        }
        if !conn.is_at_end && engine.has_peer_closed(flow) {
            conn.is_at_end = true;
            flags |= SlotState::PEER_CLOSED;
        }
    }
    if let Some(reason) = conn.reason
        && !conn.is_finished
    {
        conn.is_finished = true;
        flags |= SlotState::FINISHED;
        let error = match reason {
            // The end that it was shown is not true any more: bytes before it are missing.
            _ if conn.is_evicted || conn.was_deaf => ECONNRESET,
            // Who knows that the peer has ended writes into a broken pipe; Linux says so too.
            CloseReason::Reset if conn.is_at_end => EPIPE,
            CloseReason::Reset => ECONNRESET,
            CloseReason::Refused => ECONNREFUSED,
            CloseReason::TimedOut => ETIMEDOUT,
            CloseReason::Unreachable(errno) => u32::from(errno),
            CloseReason::Aborted => ECONNABORTED,
            CloseReason::Finished | CloseReason::DataAfterClose => 0,
        };
        if error != 0 {
            words.error.store(error, Ordering::Release);
            flags |= SlotState::BROKEN;
        } else {
            flags |= SlotState::PEER_CLOSED;
        }
    }
    let before = words.state.load(Ordering::Relaxed);
    let is_new = conn.is_connected && !std::mem::replace(&mut conn.was_shown, true);
    let after = before | flags;
    if after != before || is_new {
        let connecting =
            if conn.is_connected || conn.is_finished { SlotState::CONNECTING } else { 0 };
        words.state.store((after & !connecting & !0xf) | Kind::Stream as u32, Ordering::Release);
        is_news = true;
    }
    is_news
}

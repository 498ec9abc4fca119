//! Drains a slot that was marked: what the application has read, written and asked for.

use std::sync::atomic::Ordering;

use base::{AppId, Nanos, SlotId};
use shm::sockets::{Asks, Kind, RingDesc, SlotOption, SlotWords};
use tcp::{CallError, Engine, FlowId, Output};

use super::describe::describe;
use super::options::apply_options;
use super::{Conn, Sockets};
use crate::app_sockets::AppSockets;
use crate::bucket::PacketCost;
use crate::command_queue::SocketEvent;
use crate::rings::{Ring, Rings};

/// Round trips are not measured shorter than a host needs to answer at all.
const SHORTEST_ROUND_TRIP: Nanos = Nanos::from_micros(100);

/// The asks that end a socket.
const LAST_ASKS: u32 = Asks::CLOSE | Asks::ABORT;

/// Why a drain of what an application has written goes no further.
#[derive(Debug)]
enum Stop {
    /// The flow is over, and its socket has not heard so yet: whatever the application wrote in the
    /// meantime is as good as lost on its way. A peer, a router or a timer ends a flow at any
    /// moment, so this says nothing about the application.
    Gone,
    /// The application has gone beyond a position that this worker has published itself, or uses a
    /// ring that it was never offered. Nothing that a peer does, no timer and no hand-over leads
    /// there: published positions only ever grow.
    Violation,
}

impl Sockets {
    /// Looks at one slot; whether anything was new. One that is another worker's is passed on.
    pub(super) fn drain_slot<O: Output>(
        &mut self,
        app: AppId,
        slot: SlotId,
        engine: &mut Engine,
        rings: &mut Rings,
        now: Nanos,
        out: &mut O,
    ) -> bool {
        let client = self.clients.get_mut(app.index()).and_then(Option::as_deref_mut);
        let Some(client) = client else { return false };
        let memory = client.streams.server.memory();
        let Some(words) = memory.slot(slot) else { return false };
        let Some(conn) = client.conns.get_mut(slot.index()).and_then(Option::as_mut) else {
            if words.state().kind() == Kind::Listener {
                return self.listener_changed(app, slot, engine);
            }
            return self.drain_datagrams(app, slot);
        };
        let asks = words.asks();
        let mut is_news = asks.0 != 0 || conn.is_closing;
        if conn.flow.is_none() {
            conn.note_read(words.rx_head.load(Ordering::Acquire), now);
        }
        if let Some(flow) = conn.flow {
            let (read_before, sent_before) = (conn.rx_head, conn.tx_tail);
            let drained = consume(conn, words, flow, engine, rings, now)
                .and_then(|()| switch_rings(conn, words, &client.streams, flow, engine, rings))
                .and_then(|tail| take(conn, tail, &client.streams, flow, engine, rings, now));
            if conn.trace != 0
                && conn.tx_tail != sent_before
                && self.stats.traces.answered(conn.trace, words, now)
            {
                conn.trace = 0;
            }
            self.stats.bytes_sent += conn.tx_tail - sent_before;
            is_news |= conn.tx_tail != sent_before || conn.rx_head != read_before;
            match drained {
                Ok(None) | Err(Stop::Gone) => {}
                Ok(Some(again)) => {
                    self.paced.look_at(app, slot, again);
                }
                Err(Stop::Violation) => {
                    self.post.say(SocketEvent::Violation { app });
                    self.close(app, slot, true, engine, rings, out);
                    return true;
                }
            }
            let version = words.options_version.load(Ordering::Acquire);
            if version != conn.options_version {
                conn.options_version = version;
                is_news = true;
                if !apply_options(words, &client.streams, flow, engine, now) {
                    self.stats.congestion_denied += 1;
                }
                let quick_ack = words.option(SlotOption::QuickAck);
                if std::mem::replace(&mut conn.quick_ack, quick_ack) != quick_ack {
                    let _ = engine.set_quick_ack(flow, quick_ack & 1 != 0);
                }
                let more = words.option(SlotOption::More);
                if std::mem::replace(&mut conn.more, more) != more {
                    let _ = engine.set_more(flow, more & 1 != 0);
                }
            }
            if asks.has(Asks::URGENT) {
                words.asks.fetch_and(!Asks::URGENT, Ordering::AcqRel);
                let _ = engine.mark_urgent(flow);
            }
            if asks.grow() != 0 {
                words.asks.fetch_and(!Asks::GROW, Ordering::AcqRel);
                offer(conn, words, &client.streams, asks.grow(), rings, flow);
                conn.was_full = true;
            }
            if asks.has(Asks::SHUT_WRITE) && !conn.is_shut {
                // What was written before it was taken above, unless the rate did not allow it.
                conn.is_shut = conn.tx_tail == words.tx_tail.load(Ordering::Acquire);
                if conn.is_shut {
                    let _ = engine.shutdown(flow);
                }
            }
            if conn.is_shut && asks.has(Asks::SHUT_READ) {
                conn.deaf_from.get_or_insert(conn.rx_tail);
            }
        }
        if asks.has(Asks::INFO) {
            words.asks.fetch_and(!Asks::INFO, Ordering::AcqRel);
            if let Some(flow) = conn.flow {
                describe(words, conn, flow, engine, now);
            }
            words.info_version.fetch_add(1, Ordering::Release);
        }
        if asks.has(Asks::NAMED) {
            words.asks.fetch_and(!Asks::NAMED, Ordering::AcqRel);
            let cookie = words.cookie.load(Ordering::Relaxed);
            let generation = conn.generation;
            self.post.say(SocketEvent::Named { app, slot, generation, cookie });
        }
        if conn.is_closing || asks.0 & LAST_ASKS != 0 {
            let lingers_not = words.option(SlotOption::Linger) == 1;
            // What was written after the end of its side is never taken.
            let has_more = conn.flow.is_some()
                && !conn.is_shut
                && conn.tx_tail != words.tx_tail.load(Ordering::Acquire);
            let is_abort = conn.must_abort || asks.has(Asks::ABORT) || lingers_not;
            if has_more && !is_abort {
                // The rate does not allow the rest yet: it is closed when that has gone.
                return is_news;
            }
            self.close(app, slot, is_abort, engine, rings, out);
            return true;
        }
        self.touch(app, slot);
        is_news
    }
}

/// What the application has read is free.
fn consume(
    conn: &mut Conn,
    words: &SlotWords,
    flow: FlowId,
    engine: &mut Engine,
    rings: &mut Rings,
    now: Nanos,
) -> Result<(), Stop> {
    let head = words.rx_head.load(Ordering::Acquire);
    let read = head.wrapping_sub(conn.rx_head);
    if read == 0 {
        return Ok(());
    }
    if read > conn.rx_tail - conn.rx_head {
        return Err(Stop::Violation);
    }
    conn.rx_head = head;
    conn.idle_since = now;
    let consumed = engine.consume(flow, read as u32);
    debug_assert!(consumed != Err(CallError::TooMany), "no more was published than had come");
    consumed.map_err(|_| Stop::Gone)?;
    if let Some((_, until)) = &conn.outgrown
        && head >= *until
        && let Some((ring, _)) = conn.outgrown.take()
    {
        rings.return_shared(ring, flow);
    }
    widen(conn, flow, read as u32, engine, rings, now);
    Ok(())
}

/// The receive ring becomes four times as long when half of it was read within two round trips, of
/// which the application's own delay may be one: then the window is what holds the peer back (what
/// Linux calls right-sizing).
fn widen(
    conn: &mut Conn,
    flow: FlowId,
    bytes: u32,
    engine: &mut Engine,
    rings: &mut Rings,
    now: Nanos,
) {
    conn.read_bytes = conn.read_bytes.saturating_add(bytes);
    let ring_bytes = rings.lengths(flow).0;
    if (conn.read_bytes as usize) < ring_bytes / 2 || ring_bytes == 0 {
        return;
    }
    let took = now.since(conn.read_since);
    (conn.read_bytes, conn.read_since) = (0, now);
    let round_trip = engine.info(flow).and_then(|info| info.round_trip);
    let round_trip = round_trip.unwrap_or_default().max(SHORTEST_ROUND_TRIP);
    let larger = ring_bytes.trailing_zeros() as u8 + 2;
    if took.0 > 2 * round_trip.0 || conn.outgrown.is_some() || larger > rings.limits().receive_log2
    {
        return;
    }
    let has_room = rings.of(flow).and_then(|pair| pair.home.as_ref()).is_some_and(|app| {
        let heap = app.server.heap();
        heap.has_room(larger)
    });
    if !has_room {
        return;
    }
    // Another worker may take the room in between: then the window stays as it is. So the engine,
    // which counts on what it has agreed to, is asked when the memory is there.
    let old = rings.outgrow_receive(flow, larger, |old, new| {
        engine.grow_receive_ring(flow, larger).is_some_and(|regrow| regrow.copy(old, new))
    });
    if let Some(old) = old {
        conn.outgrown = Some((old, conn.rx_tail));
    }
}

/// The application writes to the larger send ring from now on: it has copied what is not
/// acknowledged. How far it had written before: what it writes meanwhile may lie in a ring that
/// comes after this one.
fn switch_rings(
    conn: &mut Conn,
    words: &SlotWords,
    app: &AppSockets,
    flow: FlowId,
    engine: &mut Engine,
    rings: &mut Rings,
) -> Result<u64, Stop> {
    // The tail first: whoever sees a new one sees the ring that it belongs to.
    let tail = words.tx_tail.load(Ordering::Acquire);
    let used = RingDesc::of_word(words.tx_ring_used.load(Ordering::Acquire));
    let present = rings.of(flow).and_then(|pair| pair.send.desc()).unwrap_or_default();
    if used == present {
        return Ok(tail);
    }
    let offered = conn.offered.take().ok_or(Stop::Violation)?;
    let log2 = offered.desc().filter(|desc| *desc == used).and_then(RingDesc::log2);
    let Some(log2) = log2 else {
        conn.offered = Some(offered);
        return Err(Stop::Violation);
    };
    if engine.grow_send_ring(flow, log2).is_none() {
        conn.offered = Some(offered);
        return Err(Stop::Gone);
    }
    if let Ring::Shared(old) = rings.replace_send(flow, offered) {
        app.server.heap().take_back(old);
    }
    Ok(tail)
}

/// What the application has written, up to `tail`, is to be sent. When there is more than it may
/// send now: when to look again.
fn take(
    conn: &mut Conn,
    tail: u64,
    app: &AppSockets,
    flow: FlowId,
    engine: &mut Engine,
    rings: &Rings,
    now: Nanos,
) -> Result<Option<Nanos>, Stop> {
    let written = tail.wrapping_sub(conn.tx_tail);
    if written == 0 || conn.is_shut {
        return Ok(None);
    }
    // What it was told to be free, not what the engine has by now.
    let room = (rings.lengths(flow).1 as u64).saturating_sub(conn.tx_tail - conn.tx_head);
    if !conn.is_connected || written > room {
        return Err(Stop::Violation);
    }
    let (bytes, again) = match &app.rate {
        None => (written, Nanos::FAR_FUTURE),
        Some(rate) => {
            let mss = engine.info(flow).map_or(1, |info| info.snd_mss);
            let is_ipv6 = engine.key(flow).is_some_and(|key| key.is_ipv6());
            rate.take_packets(written, PacketCost::of_segments(mss, is_ipv6), now)
        }
    };
    if bytes > 0 {
        // The peer may have closed everything meanwhile: what is written then is lost, as it would
        // be on its way.
        let sent = engine.send(flow, bytes as u32);
        debug_assert!(sent != Err(CallError::TooMany), "no more was published than was free");
        conn.tx_tail += bytes;
    }
    Ok((bytes < written).then_some(again))
}

/// Offers a send ring of at least `1 << log2` bytes, if it may have that.
fn offer(
    conn: &mut Conn,
    words: &SlotWords,
    app: &AppSockets,
    log2: u8,
    rings: &Rings,
    flow: FlowId,
) {
    let present = rings.lengths(flow).1.trailing_zeros() as u8;
    let most = words.tx_log2_max.load(Ordering::Relaxed).min(22) as u8;
    if conn.offered.is_some() || log2 <= present || present >= most {
        return;
    }
    if let Some(ring) = app.server.heap().lend(log2.min(most)) {
        // It is told at the end of the turn.
        conn.offered = Some(Ring::Shared(ring));
    }
}

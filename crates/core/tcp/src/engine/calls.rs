//! What applications ask for. Nothing here sends: segments leave with the next transmit.

use std::fmt;
use std::net::SocketAddr;

use base::Nanos;
use wire::{FlowKey, Protocol};

use super::{Engine, enqueue};
use crate::cold::Cold;
use crate::flow::{Flags, Flow, State};
use crate::handshake::MSS_MIN;
use crate::io::{CloseReason, FlowId, Output};
use crate::secret::Purpose;
use crate::{FlowInfo, FlowOptions, Seq, close, fast, handshake, info, urgent};

/// Bytes in a ring: they begin at `at` and may wrap around its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the first byte.
    pub at: usize,
    /// How many.
    pub bytes: u32,
}

/// Why a connection could not be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// One address is IPv4 and the other IPv6: a connection has one version.
    MixedVersions,
    /// There is such a connection, or its name is not free yet: use another local port.
    InUse,
    /// The remote port is zero.
    NoPort,
    /// All flows are in use: raise `Config::flows_max`, or close some.
    Full,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MixedVersions => {
                "one address is IPv4 and the other IPv6: a connection has one version"
            }
            Self::InUse => {
                "this connection exists, or its name is not free yet: use another local port"
            }
            Self::NoPort => "the remote port is zero: name one",
            Self::Full => "all flows are in use: raise `flows_max`, or close some",
        })
    }
}

impl std::error::Error for ConnectError {}

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The flow is over, or never was.
    Gone,
    /// The application had closed its side before.
    Closed,
    /// More bytes than there are, or than there is room for.
    TooMany,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "the flow is over: its last event told why",
            Self::Closed => "the flow was closed for sending before",
            Self::TooMany => "more bytes than the ring holds: ask for the span first",
        })
    }
}

impl std::error::Error for CallError {}

/// Ports that are chosen for connects (Linux's ip_local_port_range).
const PORTS: std::ops::Range<u16> = 32_768..61_000;

impl FlowOptions {
    /// Timeouts of a SYN-ACK until at least that many seconds are over, as Linux counts them: the
    /// first is a second, each is twice the one before, and none is more than two minutes.
    pub fn timeouts_in(seconds: u32) -> u8 {
        let (mut timeout, mut over, mut count) = (1_u32, 0_u32, 0_u8);
        while over < seconds && count < u8::MAX {
            over = over.saturating_add(timeout);
            timeout = (timeout * 2).min(120);
            count += 1;
        }
        count
    }

    /// With ring sizes that can be: what is outside 8 to 30 becomes the nearer of the two.
    pub(crate) fn mended(self) -> Self {
        Self {
            receive_ring_log2: self.receive_ring_log2.clamp(8, 30),
            receive_limit_log2: self
                .receive_limit_log2
                .clamp(self.receive_ring_log2.clamp(8, 30), 30),
            mss_max: self.mss_max.map(|mss| mss.max(MSS_MIN)),
            send_ring_log2: self.send_ring_log2.clamp(8, 30),
            ..self
        }
    }
}

/// Bytes that have come and were not read.
#[inline]
fn unread(flow: &Flow, cold: &Cold) -> u32 {
    // The peer's FIN has a number too, but no byte; who has one is slow.
    debug_assert!(cold.fin.is_none() || flow.flags.has(Flags::SLOW));
    let end = match flow.flags.has(Flags::SLOW) {
        true => cold.fin.map_or(flow.rcv_nxt, |fin| fin.earlier(flow.rcv_nxt)),
        false => flow.rcv_nxt,
    };
    end.since(flow.rcv_read)
}

impl Engine {
    /// Opens a connection. With a local port of zero one is chosen that nobody can guess (RFC 6056
    /// section 3.3.3). Segments leave by `route` until the peer has answered by another.
    ///
    /// # Errors
    /// The addresses are of two IP versions, the connection exists or its name is not free yet, the
    /// remote port is zero, or all flows are in use: see [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Nanos,
        local: SocketAddr,
        remote: SocketAddr,
        options: FlowOptions,
        route: u32,
    ) -> Result<FlowId, ConnectError> {
        if remote.port() == 0 {
            return Err(ConnectError::NoPort);
        }
        let key = FlowKey::new(Protocol::Tcp, remote, local).ok_or(ConnectError::MixedVersions)?;
        let key = if local.port() == 0 { self.choose_port(key, local, remote)? } else { key };
        if self.is_taken(&key) {
            return Err(ConnectError::InUse);
        }
        let iss = self.shared.secret.first_number(&key, now);
        let (mut flow, mut cold) = handshake::new_flow(
            &self.shared,
            key,
            State::SynSent,
            options.mended(),
            None,
            iss,
            now,
        );
        flow.flags.set(Flags::ACTIVE);
        flow.flags.set(Flags::SYN_OWED);
        flow.route = route;
        cold.is_announced = true;
        cold.hash = self.table.hash(&key);
        let index = self.add(flow, cold).ok_or(ConnectError::Full)?;
        Ok(FlowId { index, generation: self.flows[index as usize].generation })
    }

    pub(super) fn is_taken(&self, key: &FlowKey) -> bool {
        self.find(key).is_some()
    }

    fn choose_port(
        &mut self,
        key: FlowKey,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<FlowKey, ConnectError> {
        let count = u64::from(PORTS.end - PORTS.start);
        let start = self.shared.secret.hash(Purpose::Port, Some(&key), 0);
        for _ in 0..count {
            self.connects = self.connects.wrapping_add(1);
            let offset = start.wrapping_add(self.connects) % count;
            let port = PORTS.start + offset as u16;
            let local = SocketAddr::new(local.ip(), port);
            if let Some(key) = FlowKey::new(Protocol::Tcp, remote, local)
                && !self.is_taken(&key)
            {
                return Ok(key);
            }
        }
        Err(ConnectError::InUse)
    }

    /// The state of a flow; nothing when it is over.
    pub fn state(&self, id: FlowId) -> Option<State> {
        self.place(id).map(|at| self.flows[at].state)
    }

    /// What can be told about a flow; nothing when it is over.
    pub fn info(&self, id: FlowId) -> Option<FlowInfo> {
        let at = self.place(id)?;
        Some(info::describe(&self.flows[at], &self.cold[at], &self.shared))
    }

    /// The name of a flow, as segments that come in have it: the peer is the source.
    pub fn key(&self, id: FlowId) -> Option<FlowKey> {
        self.place(id).map(|at| self.flows[at].key)
    }

    /// Bytes in the receive ring that [`Self::consume`] has not been told of. Empty when the flow
    /// is over.
    #[inline]
    pub fn readable(&self, id: FlowId) -> Span {
        let Some(at) = self.place(id) else { return Span { at: 0, bytes: 0 } };
        let (flow, cold) = (&self.flows[at], &self.cold[at]);
        let first = (flow.rcv_read.0 & (cold.receive_ring() - 1)) as usize;
        Span { at: first, bytes: unread(flow, cold) }
    }

    /// The numbers of the next byte to be consumed and of the next byte to be sent: for whoever
    /// counts bytes of his own and wants to know where they lie.
    pub fn numbers(&self, id: FlowId) -> Option<(Seq, Seq)> {
        self.place(id).map(|at| (self.flows[at].rcv_read, self.flows[at].snd_end))
    }

    /// Whether nothing lies in the receive ring, neither unread nor before its turn: until the next
    /// byte comes the ring is not needed.
    #[inline]
    pub fn holds_nothing(&self, id: FlowId) -> bool {
        self.place(id).is_some_and(|at| {
            let (flow, cold) = (&self.flows[at], &self.cold[at]);
            unread(flow, cold) == 0 && cold.reassembly.is_empty()
        })
    }

    /// Whether the peer has closed its side and all before that has come.
    pub fn has_peer_closed(&self, id: FlowId) -> bool {
        self.place(id).is_some_and(|at| {
            self.cold[at].fin.is_some_and(|fin| fin.is_before(self.flows[at].rcv_nxt))
        })
    }

    /// Whether the peer has closed its side and everything before that was consumed.
    pub fn is_at_end(&self, id: FlowId) -> bool {
        self.has_peer_closed(id) && self.readable(id).bytes == 0
    }

    /// The application has read `bytes` of [`Self::readable`]: their place is free for others.
    ///
    /// # Errors
    /// [`CallError::Gone`]; [`CallError::TooMany`] for more bytes than can be read: nothing is
    /// taken then.
    #[inline]
    pub fn consume(&mut self, id: FlowId, bytes: u32) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&mut self.flows[at], &self.cold[at]);
        if bytes > unread(flow, cold) {
            return Err(CallError::TooMany);
        }
        flow.rcv_read += bytes;
        if flow.flags.has(Flags::URGENT_HEARD) {
            urgent::forget_read(flow, cold);
        }
        flow.flags.set(Flags::READ);
        enqueue(&mut self.queue, flow, id.index);
        Ok(())
    }

    /// Free room in the send ring. When there is none, [`crate::Event::Writable`] will come.
    #[inline]
    pub fn room(&mut self, id: FlowId) -> Span {
        let Some(at) = self.place(id) else { return Span { at: 0, bytes: 0 } };
        let (flow, cold) = (&mut self.flows[at], &self.cold[at]);
        let bytes = cold.send_ring() - flow.queued();
        flow.flags.put(Flags::WANTS_ROOM, bytes == 0);
        Span { at: (flow.snd_end.0 & (cold.send_ring() - 1)) as usize, bytes }
    }

    /// There is room, but less than somebody wants: [`crate::Event::Writable`] comes with the next
    /// acknowledgement.
    pub fn want_room(&mut self, id: FlowId) {
        if let Some(at) = self.place(id) {
            self.flows[at].flags.set(Flags::WANTS_ROOM);
        }
    }

    /// The application has written `bytes` into [`Self::room`]: they are to be sent. Before the
    /// connection stands they wait for it.
    ///
    /// # Errors
    /// [`CallError::Gone`]; [`CallError::Closed`] after [`Self::shutdown`] or [`Self::close`];
    /// [`CallError::TooMany`] for more bytes than there is room for: nothing is sent of them then.
    #[inline]
    pub fn send(&mut self, id: FlowId, bytes: u32) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&mut self.flows[at], &self.cold[at]);
        if flow.flags.has(Flags::FIN_QUEUED) {
            return Err(CallError::Closed);
        }
        if bytes > cold.send_ring() - flow.queued() {
            return Err(CallError::TooMany);
        }
        flow.snd_end += bytes;
        enqueue(&mut self.queue, flow, id.index);
        Ok(())
    }

    /// Sends no more: a FIN follows the last byte. What the peer sends can still be read.
    ///
    /// # Errors
    /// [`CallError::Gone`]; [`CallError::Closed`] when its side was closed before.
    pub fn shutdown(&mut self, id: FlowId) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        if !close::finish_sending(&mut self.flows[at]) {
            return Err(CallError::Closed);
        }
        self.enqueue(id.index);
        Ok(())
    }

    /// Closes both directions: nothing more is sent or read. [`crate::Event::Closed`] comes when
    /// the peer has everything. With bytes unread the peer gets a reset instead (RFC 9293 section
    /// 3.10.4, RFC 2525 section 2.17).
    ///
    /// # Errors
    /// [`CallError::Gone`]; [`CallError::Closed`] when it was closed before.
    pub fn close<O: Output>(&mut self, id: FlowId, out: &mut O) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let has_unread = self.readable(id).bytes > 0;
        let (flow, cold) = (&mut self.flows[at], &mut self.cold[at]);
        if flow.flags.has(Flags::ORPHAN) {
            return Err(CallError::Closed);
        }
        match flow.state {
            State::Closed => {
                self.finish(id.index, CloseReason::Finished, out);
                return Ok(());
            }
            State::TimeWait => {
                flow.flags.set(Flags::ORPHAN);
                self.say_closed(id.index, CloseReason::Finished, out);
                self.note_waiting(id.index);
                return Ok(());
            }
            State::SynSent => return self.abort(id),
            _ if has_unread => return self.abort(id),
            _ => {}
        }
        flow.flags.set(Flags::ORPHAN);
        close::finish_sending(flow);
        if flow.state == State::FinWait2 {
            // From now on nobody waits for the peer's FIN but us: for how long, the next look at it
            // says. The time to ask the peer has nothing to do with that.
            cold.timers.life = Nanos::FAR_FUTURE;
        }
        let is_slow = fast::is_slow(flow, cold);
        flow.flags.put(Flags::SLOW, is_slow);
        self.enqueue(id.index);
        Ok(())
    }

    /// Ends a flow at once with a reset (what closing with a linger time of zero does).
    ///
    /// # Errors
    /// [`CallError::Gone`].
    pub fn abort(&mut self, id: FlowId) -> Result<(), CallError> {
        let at = self.place(id).ok_or(CallError::Gone)?;
        let (flow, cold) = (&mut self.flows[at], &mut self.cold[at]);
        cold.reason = CloseReason::Aborted;
        flow.flags.set(Flags::ABORT);
        flow.flags.set(Flags::SLOW);
        self.enqueue(id.index);
        Ok(())
    }
}

//! Listeners: who may connect, and how many at once may have connected only half.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use piece::ReadPiece;
use wire::{FlowKey, tcp};

use super::{Engine, above};
use crate::flow::{Flags, State};
use crate::io::{Buffers, ListenerId, Output, Segment};
use crate::options::{DEFAULT_MSS_V4, DEFAULT_MSS_V6, OptionBytes, Timestamps};
use crate::slow::{Arrived, Fate};
use crate::{FlowOptions, Seq, cookie, emit, handshake, window};

/// A listener.
#[derive(Debug)]
struct Listener {
    name: Name,
    options: FlowOptions,
    backlog: u32,
    half_open: u32,
    /// Cookies may come back until then: for a while after one was last sent, or names came here.
    cookies_until: Nanos,
    is_open: bool,
}

/// A port, and an address; none: any.
type Name = (u16, Option<IpAddr>);

/// Cookies live for two of their periods; a little longer does no harm.
const COOKIES_COME_BACK_FOR: Nanos = Nanos::from_secs(180);

/// All listeners. No number is ever another one's, so that a stale one finds nothing.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// Those that are open, and those that something half open still knows.
    listeners: BTreeMap<u32, Listener>,
    /// The next one's number.
    next: u32,
    names: BTreeMap<Name, u32>,
}

impl Listeners {
    /// Whether it still listens.
    pub(super) fn is_open(&self, id: ListenerId) -> bool {
        self.listeners.get(&id.number()).is_some_and(|listener| listener.is_open)
    }

    fn find(&self, local: SocketAddr) -> Option<u32> {
        let exact = self.names.get(&(local.port(), Some(local.ip())));
        exact.or_else(|| self.names.get(&(local.port(), None))).copied()
    }

    /// The listener of that address, if one is open.
    pub(super) fn at(&self, local: SocketAddr) -> Option<ListenerId> {
        self.find(local).and_then(ListenerId::new)
    }

    /// One half-open connection of it more.
    pub(super) fn half_open_began(&mut self, listener: ListenerId) {
        if let Some(listener) = self.listeners.get_mut(&listener.number()) {
            listener.half_open += 1;
        }
    }

    /// One half-open connection of it less.
    pub(super) fn half_open_ended(&mut self, listener: Option<ListenerId>) {
        let Some(id) = listener else { return };
        if let Some(listener) = self.listeners.get_mut(&id.number()) {
            listener.half_open = listener.half_open.saturating_sub(1);
            self.forget_if_over(id.number());
        }
    }

    fn forget_if_over(&mut self, number: u32) {
        if self.listeners.get(&number).is_some_and(|of| !of.is_open && of.half_open == 0) {
            self.listeners.remove(&number);
        }
    }
}

/// Why a listener could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another one listens there: close it, or choose another port.
    InUse,
    /// The port is zero: name one.
    NoPort,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "another listener has this address: close it, or choose another port",
            Self::NoPort => "a listener needs a port: zero is none",
        })
    }
}

impl std::error::Error for ListenError {}

impl Engine {
    /// Accepts connections to `local`; to an unspecified address: to any, of both IP versions.
    /// When `backlog` of them are half open, others are answered with cookies.
    ///
    /// # Errors
    /// The port is zero, or has a listener at this address: see [`ListenError`].
    pub fn listen(
        &mut self,
        local: SocketAddr,
        backlog: u32,
        options: FlowOptions,
    ) -> Result<ListenerId, ListenError> {
        if local.port() == 0 {
            return Err(ListenError::NoPort);
        }
        let address = (!local.ip().is_unspecified()).then_some(local.ip());
        let name = (local.port(), address);
        if self.listeners.names.contains_key(&name) {
            return Err(ListenError::InUse);
        }
        let listener = Listener {
            name,
            options: options.mended(),
            backlog,
            half_open: 0,
            cookies_until: Nanos::ZERO,
            is_open: true,
        };
        let number = self.listeners.next;
        self.listeners.next = number.checked_add(1).ok_or(ListenError::InUse)?;
        self.listeners.listeners.insert(number, listener);
        self.listeners.names.insert(name, number);
        ListenerId::new(number).ok_or(ListenError::InUse)
    }

    /// Accepts no more. What was accepted goes on; what was half open is reset when it completes.
    pub fn unlisten(&mut self, id: ListenerId) {
        let Listeners { listeners, names, .. } = &mut self.listeners;
        if let Some(listener) = listeners.get_mut(&id.number())
            && std::mem::replace(&mut listener.is_open, false)
        {
            names.remove(&listener.name);
            self.listeners.forget_if_over(id.number());
        }
    }

    /// Listeners that are open, or that something half open still knows.
    pub fn listeners_known(&self) -> usize {
        self.listeners.listeners.len()
    }

    /// Names come here from another engine with the same secret. That one may have answered SYNs by
    /// cookies, of which nothing is kept that could come along: for a while they are taken here.
    pub fn expect_cookies(&mut self, now: Nanos) {
        for listener in self.listeners.listeners.values_mut() {
            listener.cookies_until = now + COOKIES_COME_BACK_FOR;
        }
    }

    /// Settings for the flows that `id` accepts from now on; whether they are others than before.
    pub fn set_listener_options(&mut self, id: ListenerId, options: FlowOptions) -> bool {
        let listener = self.listeners.listeners.get_mut(&id.number());
        let options = options.mended();
        listener
            .is_some_and(|listener| std::mem::replace(&mut listener.options, options) != options)
    }

    /// A segment that belongs to no flow (RFC 9293 section 3.10.7.1 and 3.10.7.2).
    pub(super) fn receive_for_nobody<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        key: FlowKey,
        arrived: &Arrived<'_>,
        floor: Option<Seq>,
        buffers: &mut B,
        out: &mut O,
    ) {
        let flags = arrived.header.flags;
        let has = |flag| flags & flag != 0;
        if !is_possible(&key) || !out.may_come(&key, arrived.route) {
            self.shared.counters.bad_source += 1;
            return;
        }
        if has(tcp::RST) {
            self.shared.counters.no_flow += 1;
            return;
        }
        let listener = self.listeners.find(key.destination());
        match listener {
            // Nobody has a reason to send both: some do to get past filters.
            Some(_) if has(tcp::SYN) && has(tcp::FIN) => self.shared.counters.no_flow += 1,
            Some(number) if has(tcp::SYN) && !has(tcp::ACK) => {
                self.accept_syn(now, key, arrived, number, floor, out);
            }
            Some(number) if has(tcp::ACK) && !has(tcp::SYN) => {
                if !self.accept_cookie(now, key, arrived, number, buffers, out) {
                    self.refuse(now, key, arrived, buffers, out);
                }
            }
            Some(_) if !has(tcp::ACK) => self.shared.counters.no_flow += 1,
            _ => self.refuse(now, key, arrived, buffers, out),
        }
    }

    /// Whether a SYN may have the name of flow `index`, which is in TIME-WAIT: only when somebody
    /// takes it, for else the name would be free before its time for nothing. If nobody listens it
    /// is answered like a segment of the old connection, as in Linux.
    pub(super) fn may_take_over<O: Output>(
        &mut self,
        index: u32,
        key: &FlowKey,
        arrived: &Arrived<'_>,
        out: &O,
    ) -> bool {
        if !out.may_come(key, arrived.route) {
            self.shared.counters.bad_source += 1;
            return false;
        }
        let is_whole = arrived.header.flags & tcp::FIN == 0;
        let Some(listener) = self.listeners.at(key.destination()).filter(|_| is_whole) else {
            self.flows[index as usize].flags.set(Flags::ACK_NOW);
            return false;
        };
        let has_room = out.may_accept(listener, arrived.hash);
        self.shared.counters.backlog_full += u64::from(!has_room);
        has_room
    }

    fn accept_syn<O: Output>(
        &mut self,
        now: Nanos,
        key: FlowKey,
        arrived: &Arrived<'_>,
        number: u32,
        floor: Option<Seq>,
        out: &mut O,
    ) {
        let asked = tcp::ECE | tcp::CWR;
        let has_ecn = arrived.header.flags & asked == asked;
        if ListenerId::new(number).is_some_and(|id| !out.may_accept(id, arrived.hash)) {
            self.shared.counters.backlog_full += 1;
            return;
        }
        let Some(listener) = self.listeners.listeners.get_mut(&number) else { return };
        let has_room = self.flows.len() - self.free.len() < self.shared.config.flows_max as usize;
        if listener.half_open >= listener.backlog || !has_room {
            listener.cookies_until = now + COOKIES_COME_BACK_FOR;
            let options = listener.options;
            self.send_cookie(now, key, arrived, &options, has_ecn, out);
            return;
        }
        let iss = above(self.shared.secret.first_number(&key, now), floor);
        let (id, state) = (ListenerId::new(number), State::SynReceived);
        let (mut flow, mut cold) =
            handshake::new_flow(&self.shared, key, state, listener.options, id, iss, now);
        let (header, options) = (&arrived.header, &arrived.options);
        handshake::learn(&mut flow, &mut cold, &self.shared.config, header, options, has_ecn);
        (flow.route, cold.hash) = (arrived.route, arrived.hash);
        flow.flags.set(Flags::SYN_OWED);
        listener.half_open += 1;
        if self.add(flow, cold).is_none() {
            self.listeners.half_open_ended(id);
        }
    }

    /// Answers a SYN without keeping anything.
    fn send_cookie<O: Output>(
        &mut self,
        now: Nanos,
        key: FlowKey,
        arrived: &Arrived<'_>,
        listener: &FlowOptions,
        has_ecn: bool,
        out: &mut O,
    ) {
        let (config, secret) = (&self.shared.config, &self.shared.secret);
        let offered = &arrived.options;
        let default = if key.is_ipv6() { DEFAULT_MSS_V6 } else { DEFAULT_MSS_V4 };
        let irs = Seq(arrived.header.sequence);
        let mut options = OptionBytes::NONE;
        options.mss(handshake::own_mss(config, &key, listener));
        let stamps = offered.timestamps.filter(|_| config.timestamps);
        // Only a timestamp can remember the rest, so without one nothing else is agreed on.
        if let Some(stamps) = stamps {
            let clock = crate::flow::timestamp_clock(now);
            let clock = clock.wrapping_add(secret.timestamp_offset(&key));
            let value = cookie::stamp(clock, offered, has_ecn);
            let has_sack = offered.sack_permitted && config.sack;
            options.syn_options(has_sack, Some(Timestamps { value, echo: stamps.value }));
            if offered.shift.is_some() && config.window_scaling {
                options.window_scale(window::shift_for(1 << listener.receive_limit_log2));
            }
        }
        let ring_bytes = 1_u32 << listener.receive_ring_log2;
        let ecn = if has_ecn && stamps.is_some() { tcp::ECE } else { 0 };
        let answer = Segment {
            key: key.reversed(),
            sequence: cookie::make(secret, &key, irs, offered.mss.unwrap_or(default), now),
            acknowledgement: irs + 1,
            flags: tcp::SYN | tcp::ACK | ecn,
            window: u16::try_from(ring_bytes).unwrap_or(u16::MAX),
            urgent: 0,
            options,
            payload: [ReadPiece::EMPTY; 2],
            ecn: 0,
            ip: listener.ip,
            route: arrived.route,
        };
        if emit::offer(out, &answer) {
            self.shared.counters.cookies_sent += 1;
            self.shared.counters.transmitted += 1;
        }
    }

    /// Makes a connection from the acknowledgement of a cookie; false when it is none.
    fn accept_cookie<B: Buffers, O: Output>(
        &mut self,
        now: Nanos,
        key: FlowKey,
        arrived: &Arrived<'_>,
        number: u32,
        buffers: &mut B,
        out: &mut O,
    ) -> bool {
        let Some(listener) = self.listeners.listeners.get(&number) else { return false };
        if now > listener.cookies_until {
            return false;
        }
        let (header, offered) = (&arrived.header, &arrived.options);
        let Some(remembered) = cookie::open(&self.shared.secret, &key, header, offered, now) else {
            self.shared.counters.cookies_rejected += 1;
            return false;
        };
        let id = ListenerId::new(number);
        if id.is_some_and(|id| !out.may_accept(id, arrived.hash)) {
            self.shared.counters.backlog_full += 1;
            return true;
        }
        let iss = Seq(header.acknowledgement) - 1;
        let state = State::SynReceived;
        let (mut flow, mut cold) =
            handshake::new_flow(&self.shared, key, state, listener.options, id, iss, now);
        (flow.route, cold.hash) = (arrived.route, arrived.hash);
        // Who pays with a cookie has waited already, and nothing would be sent again.
        cold.options.defer_accept = 0;
        // The SYN as it must have been.
        let syn = tcp::Header { sequence: header.sequence.wrapping_sub(1), ..*header };
        let mut options = *offered;
        options.mss = Some(remembered.mss);
        options.shift = remembered.shift;
        options.sack_permitted = remembered.has_sack;
        handshake::learn(
            &mut flow,
            &mut cold,
            &self.shared.config,
            &syn,
            &options,
            remembered.has_ecn,
        );
        flow.snd_nxt = iss + 1;
        flow.rcv_acked = flow.rcv_nxt;
        flow.rcv_adv = flow.rcv_nxt + u32::from(window::syn_field(&cold));
        // No round trip was measured, which `establish` must not take for one.
        cold.retries = 1;
        let Some(index) = self.add(flow, cold) else { return true };
        if let Some(id) = id {
            self.listeners.half_open_began(id);
        }
        self.shared.counters.cookies_accepted += 1;
        let fate = self.receive_slowly(now, index, arrived, buffers, out);
        let initial = self.shared.config.initial_window.max(1);
        self.flows[index as usize].window.segments = initial;
        self.settle(index, if fate == Fate::Reuse { Fate::Keep } else { fate }, out);
        true
    }
}

/// Whether a connection between these two can be (RFC 9293 section 3.9.2.3): between two hosts, and
/// not of an end with itself.
fn is_possible(key: &FlowKey) -> bool {
    let is_host = |address: IpAddr| match address {
        // Net zero, loopback, groups, and what is reserved (240.0.0.0/4, the broadcast in it).
        IpAddr::V4(v4) => !matches!(v4.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified() && !v6.is_loopback(),
    };
    let (source, destination) = (key.source(), key.destination());
    is_host(source.ip()) && is_host(destination.ip()) && source != destination
}

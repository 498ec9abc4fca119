//! Between frames and segments: what a frame carries, and a frame for each segment.

use std::net::SocketAddr;

use base::{FlowHash, NO_FRAGMENT, TxChecksum};
use shm::Frame;
use tcp::{Event, Incoming, IpFields, ListenerId, Output, Segment};
use wire::checksum::Sum;
use wire::icmp::ErrorMessage;
use wire::{FlowKey, Outcome, Protocol, ipv4, vlan};

use crate::counts::{SocketCounter, SocketCounts};
use crate::gso_batch::GsoBatch;
use crate::routes::{Route, Routes};
use crate::served::Sockets;
use crate::sources::Sources;
use datapath::job::Outlet;

/// What a frame is to the engine.
pub(crate) enum Arrival<'a> {
    Segment(Incoming<'a>),
    /// A UDP packet: its flow, what its IP header says, and what it carries.
    Datagram(FlowKey, IpFields, &'a [u8]),
    /// A router has something to say about a packet of ours, by this IP packet.
    Error(ErrorMessage, &'a [u8]),
    /// Nobody could be answered.
    NoRoute,
    NotTcp,
}

/// The segment that a frame carries. The dispatcher has classified it and verified what had to be.
#[inline]
pub(crate) fn arrival<'a>(frame: &'a Frame, routes: &mut Routes) -> Arrival<'a> {
    let bytes = frame.bytes();
    let Outcome::Flow(flow) = wire::classify(bytes) else {
        // No way is learned from it: who sends it is a router.
        let error = ErrorMessage::parse(bytes);
        let whole = error.and_then(|error| Some((error, ip_packet(bytes, error.l3_offset)?)));
        return whole.map_or(Arrival::NotTcp, |(error, packet)| Arrival::Error(error, packet));
    };
    let end = usize::from(flow.payload_offset) + usize::from(flow.payload_len);
    let segment = bytes.get(usize::from(flow.l4_offset)..end).unwrap_or_default();
    if flow.key.protocol() == Protocol::Udp {
        let payload = bytes.get(usize::from(flow.payload_offset)..end).unwrap_or_default();
        let ip = bytes.get(usize::from(flow.l3_offset)..).unwrap_or_default();
        return Arrival::Datagram(flow.key, fields_of(ip, flow.key.is_ipv6()), payload);
    }
    let Some(route) = routes.learn(frame) else { return Arrival::NoRoute };
    let class = bytes.get(usize::from(flow.l3_offset) + 1).copied().unwrap_or(0);
    Arrival::Segment(Incoming {
        key: flow.key,
        hash: frame.meta().flow_hash,
        segment,
        ecn: if flow.key.is_ipv6() { (class >> 4) & 0b11 } else { class & 0b11 },
        is_verified: true,
        route,
    })
}

/// Whether a frame is of a VLAN: the kernel gives it to the interface of that, or to nobody. Number
/// zero is none (IEEE 802.1Q).
#[inline]
pub(crate) fn is_of_vlan(frame: &Frame) -> bool {
    const NUMBER: u16 = 0x0fff;
    let names_one = |tci: u16| tci & NUMBER != 0;
    let (bytes, tag) = (frame.bytes(), usize::from(vlan::TAG_BYTES));
    names_one(frame.meta().vlan_tci)
        || vlan::outer_tci(bytes).is_some_and(|outer| {
            let inner = bytes.get(tag..).and_then(vlan::outer_tci);
            names_one(outer) || inner.is_some_and(names_one)
        })
}

/// The IP packet that begins there, without what the link has put behind it.
#[cold]
fn ip_packet(frame: &[u8], l3_offset: u16) -> Option<&[u8]> {
    let packet = frame.get(usize::from(l3_offset)..)?;
    let number = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let bytes = match packet.first()? >> 4 {
        4 => usize::from(number(2)?),
        _ => 40 + usize::from(number(4)?),
    };
    packet.get(..bytes)
}

/// What an IP header says beside addresses.
#[inline]
fn fields_of(ip: &[u8], is_ipv6: bool) -> IpFields {
    let byte = |at: usize| ip.get(at).copied().unwrap_or(0);
    match is_ipv6 {
        true => IpFields { class: byte(0) << 4 | byte(1) >> 4, hop_limit: byte(7) },
        false => IpFields { class: byte(1), hop_limit: byte(8) },
    }
}

/// Presses segments into empty frames and sends them; keeps events.
pub(crate) struct Press<'a, 'o> {
    pub(crate) routes: &'a Routes,
    pub(crate) spares: &'a mut Vec<Frame>,
    pub(crate) outlet: &'a mut Outlet<'o>,
    pub(crate) events: &'a mut Vec<Event>,
    pub(crate) counts: &'a SocketCounts,
    /// Segments that others may join; empty between two calls of the engine.
    pub(crate) gso_batch: Option<GsoBatch>,
    /// Whether the ports cut long segments.
    pub(crate) joins: bool,
    /// Where first packets may come from; none: it is not asked.
    pub(crate) sources: Option<&'a Sources>,
    /// Who takes connections; none: it is not asked.
    pub(crate) takers: Option<&'a Sockets>,
}

impl<'a, 'o> Press<'a, 'o> {
    /// For segments that leave one by one.
    pub(crate) fn plain(
        routes: &'a Routes,
        spares: &'a mut Vec<Frame>,
        outlet: &'a mut Outlet<'o>,
        events: &'a mut Vec<Event>,
        counts: &'a SocketCounts,
    ) -> Self {
        let (gso_batch, joins, sources, takers) = (None, false, None, None);
        Self { routes, spares, outlet, events, counts, gso_batch, joins, sources, takers }
    }
}

impl Press<'_, '_> {
    /// Room for one more frame, those of the GSO batch counted.
    #[inline]
    fn has_room(&self) -> bool {
        self.outlet.room() > self.gso_batch.as_ref().map_or(0, GsoBatch::len)
    }

    /// Sends the segments that were kept to be joined.
    #[inline]
    pub(crate) fn finish(&mut self) {
        if let Some(gso_batch) = self.gso_batch.take() {
            gso_batch.leave(self.outlet);
        }
    }

    /// Appends the segment to those before it. Nothing: it does not follow on them.
    fn join(&mut self, segment: &Segment<'_>) -> Option<bool> {
        let gso_batch = self.gso_batch.as_mut().filter(|gso_batch| gso_batch.takes(segment))?;
        // It may need a frame more.
        if self.outlet.room() <= gso_batch.len() || !gso_batch.push(segment, self.spares) {
            return None;
        }
        if gso_batch.has_ended() {
            self.finish();
        }
        Some(true)
    }
}

impl Output for Press<'_, '_> {
    // The engine offers plain segments from places of their own, where most of this can be left
    // out: some 45 instructions a request.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        if self.gso_batch.is_some() {
            if let Some(is_taken) = self.join(segment) {
                return is_taken;
            }
            self.finish();
        }
        if !self.has_room() {
            return false;
        }
        let Some(mut frame) = self.spares.pop() else { return false };
        let route = self.routes.get(segment.route);
        let Some(l4) = route.and_then(|route| write(route, segment, &mut frame)) else {
            // Nothing that the engine cuts is too long for a frame; a stranger's route is none.
            self.counts.add(SocketCounter::RoutesFull, 1);
            self.spares.push(frame);
            return true;
        };
        if !self.joins {
            self.outlet.send(frame);
            return true;
        }
        match GsoBatch::begin(segment, frame, l4) {
            Ok(gso_batch) => self.gso_batch = Some(gso_batch),
            Err(frame) => self.outlet.send(frame),
        }
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }

    fn may_come(&self, key: &FlowKey, route: u32) -> bool {
        let Some(sources) = self.sources else { return true };
        let port = self.routes.get(route).map(Route::port);
        port.is_none_or(|port| sources.may_come(key.source().ip(), port))
    }

    fn may_accept(&self, listener: ListenerId, hash: FlowHash) -> bool {
        self.takers.is_none_or(|takers| takers.may_accept(listener, hash))
    }
}

/// Link header, IP header, segment; returns where the segment begins.
#[inline]
pub(crate) fn write(route: &Route, segment: &Segment<'_>, frame: &mut Frame) -> Option<usize> {
    let link = route.header();
    let is_ipv6 = segment.key.is_ipv6();
    let ip_bytes = if is_ipv6 { 40 } else { 20 };
    let l4 = link.len() + ip_bytes;
    let segment_bytes = segment.len();
    if !frame.set_len(l4 + segment_bytes) {
        return None;
    }
    let bytes = frame.bytes_mut();
    let (head, tail) = bytes.split_at_mut_checked(l4)?;
    let (place, ip) = head.split_at_mut_checked(link.len())?;
    place.copy_from_slice(link);
    let IpFields { class, hop_limit } = segment.ip;
    let fields = IpFields { class: class | segment.ecn, hop_limit };
    if is_ipv6 {
        ipv6_header(&segment.key, fields, ipv4::TCP, segment_bytes, ip.first_chunk_mut()?)?;
    } else {
        ipv4_header(&segment.key, fields, ipv4::TCP, segment_bytes, ip.first_chunk_mut()?)?;
    }
    // The port completes the checksum, or has the device do it.
    segment.write_partial(tail)?;
    address(route, frame, l4, 16);
    Some(l4)
}

/// Bytes of a UDP header.
const UDP_BYTES: usize = 8;

/// Link header, IP header and UDP header of a datagram of `payload` bytes; returns where the
/// payload goes. One with an identification may be cut by routers.
pub(crate) fn write_datagram(
    route: &Route,
    from: SocketAddr,
    to: SocketAddr,
    (fields, identification): (IpFields, Option<u16>),
    payload: usize,
    frame: &mut Frame,
) -> Option<usize> {
    let key = FlowKey::new(Protocol::Udp, from, to)?;
    let link = route.header();
    let l4 = link.len() + if key.is_ipv6() { 40 } else { 20 };
    let udp_bytes = UDP_BYTES + payload;
    if !frame.set_len(l4 + udp_bytes) {
        return None;
    }
    let bytes = frame.bytes_mut();
    let (head, udp) = bytes.split_at_mut_checked(l4)?;
    let (place, ip) = head.split_at_mut_checked(link.len())?;
    place.copy_from_slice(link);
    if key.is_ipv6() {
        ipv6_header(&key, fields, ipv4::UDP, udp_bytes, ip.first_chunk_mut()?)?;
    } else {
        let ip = ip.first_chunk_mut()?;
        ipv4_header(&key, fields, ipv4::UDP, udp_bytes, ip)?;
        identification.into_iter().for_each(|number| allow_cuts(number, ip));
    }
    let length = u16::try_from(udp_bytes).ok()?;
    let sum = Sum::ZERO.pseudo_of(&key, length).fold();
    udp.get_mut(0..2)?.copy_from_slice(&from.port().to_be_bytes());
    udp.get_mut(2..4)?.copy_from_slice(&to.port().to_be_bytes());
    udp.get_mut(4..6)?.copy_from_slice(&length.to_be_bytes());
    udp.get_mut(6..8)?.copy_from_slice(&sum.to_be_bytes());
    address(route, frame, l4, 6);
    Some(l4 + UDP_BYTES)
}

/// Where a written packet leaves, and where its checksum is to be completed.
#[inline]
fn address(route: &Route, frame: &mut Frame, l4: usize, checksum_at: u16) {
    route.direct(frame);
    let meta = frame.meta_mut();
    meta.tx_checksum = TxChecksum::Partial;
    (meta.tx_checksum_start, meta.tx_checksum_offset) = (l4 as u16, checksum_at);
    (meta.l3_offset, meta.l4_offset) = (route.header().len() as u16, l4 as u16);
    (meta.tx_segment_bytes, meta.next_fragment) = (0, NO_FRAGMENT);
}

/// RFC 791; not to be fragmented, so that the identification may be zero (RFC 6864 section 4).
#[inline]
fn ipv4_header(
    key: &FlowKey,
    fields: IpFields,
    protocol: u8,
    bytes: usize,
    out: &mut [u8; 20],
) -> Option<()> {
    let (from, to) = key.ipv4()?;
    let total = u16::try_from(20 + bytes).ok()?.to_be_bytes();
    let [t0, t1] = total;
    let [a, b, c, d] = from;
    let [e, f, g, h] = to;
    let IpFields { class, hop_limit } = fields;
    *out = [0x45, class, t0, t1, 0, 0, 0x40, 0, hop_limit, protocol, 0, 0, a, b, c, d, e, f, g, h];
    let sum = wire::checksum::of(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Has routers cut the packet where it is too long (RFC 791 section 2.3).
#[cold]
fn allow_cuts(identification: u16, ip: &mut [u8; 20]) {
    ip[4..6].copy_from_slice(&identification.to_be_bytes());
    ip[6] = 0;
    ip[10..12].fill(0);
    let sum = wire::checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 8200 section 3.
#[inline]
fn ipv6_header(
    key: &FlowKey,
    fields: IpFields,
    protocol: u8,
    bytes: usize,
    out: &mut [u8; 40],
) -> Option<()> {
    let (from, to) = key.ipv6()?;
    let payload = u16::try_from(bytes).ok()?.to_be_bytes();
    *out = [0; 40];
    let IpFields { class, hop_limit } = fields;
    (out[0], out[1]) = (0x60 | class >> 4, class << 4);
    out[4..6].copy_from_slice(&payload);
    (out[6], out[7]) = (protocol, hop_limit);
    out[8..24].copy_from_slice(&from);
    out[24..40].copy_from_slice(&to);
    Some(())
}

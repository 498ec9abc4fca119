//! Between frames and segments: what a frame carries, and a frame for each segment.

use base::{NO_FRAGMENT, TxChecksum};
use shm::Frame;
use tcp::{Event, Incoming, Output, Segment};
use wire::{Outcome, Protocol, ipv4};

use super::counts::{StreamCounts, StreamEvent};
use super::routes::{Route, Routes};
use super::train::Train;
use crate::job::Outlet;

const HOP_LIMIT: u8 = 64;

/// What a frame is to the engine.
pub(super) enum Arrival<'a> {
    Segment(Incoming<'a>),
    /// Nobody could be answered.
    NoRoute,
    NotTcp,
}

/// The segment that a frame carries. The dispatcher has classified it and verified what had to be.
#[inline]
pub(super) fn arrival<'a>(frame: &'a Frame, routes: &mut Routes) -> Arrival<'a> {
    let bytes = frame.bytes();
    let Outcome::Flow(flow) = wire::classify(bytes) else { return Arrival::NotTcp };
    let end = usize::from(flow.payload_offset) + usize::from(flow.payload_len);
    let segment = bytes.get(usize::from(flow.l4_offset)..end).unwrap_or_default();
    if flow.key.protocol() != Protocol::Tcp {
        return Arrival::NotTcp;
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

/// Presses segments into empty frames and sends them; keeps events.
pub(super) struct Press<'a, 'o> {
    pub(super) routes: &'a Routes,
    pub(super) spares: &'a mut Vec<Frame>,
    pub(super) outlet: &'a mut Outlet<'o>,
    pub(super) events: &'a mut Vec<Event>,
    pub(super) counts: &'a StreamCounts,
    /// Segments that others may join; empty between two calls of the engine.
    pub(super) train: Option<Train>,
    /// Whether the ports cut long segments.
    pub(super) joins: bool,
}

impl Press<'_, '_> {
    /// Room for one more frame, those of the train counted.
    #[inline]
    fn has_room(&self) -> bool {
        self.outlet.room() > self.train.as_ref().map_or(0, Train::len)
    }

    /// Sends the segments that were kept to be joined.
    #[inline]
    pub(super) fn finish(&mut self) {
        if let Some(train) = self.train.take() {
            train.leave(self.outlet);
        }
    }

    /// Appends the segment to those before it. Nothing: it does not follow on them.
    fn join(&mut self, segment: &Segment<'_>) -> Option<bool> {
        let train = self.train.as_mut().filter(|train| train.takes(segment))?;
        // It may need a frame more.
        if self.outlet.room() <= train.len() || !train.push(segment, self.spares) {
            return None;
        }
        if train.has_ended() {
            self.finish();
        }
        Some(true)
    }
}

impl Output for Press<'_, '_> {
    // The engine offers plain segments from places of their own, where most of this can be left out:
    // some 45 instructions a request.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        if self.train.is_some() {
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
            self.counts.add(StreamEvent::RoutesFull, 1);
            self.spares.push(frame);
            return true;
        };
        if !self.joins {
            self.outlet.send(frame);
            return true;
        }
        match Train::begin(segment, frame, l4) {
            Ok(train) => self.train = Some(train),
            Err(frame) => self.outlet.send(frame),
        }
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Link header, IP header, segment; returns where the segment begins.
#[inline]
pub(super) fn write(route: &Route, segment: &Segment<'_>, frame: &mut Frame) -> Option<usize> {
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
    if is_ipv6 {
        ipv6_header(segment, segment_bytes, ip.first_chunk_mut()?)?;
    } else {
        ipv4_header(segment, segment_bytes, ip.first_chunk_mut()?)?;
    }
    // The port completes the checksum, or has the device do it.
    segment.write_partial(tail)?;
    route.direct(frame);
    let meta = frame.meta_mut();
    meta.tx_checksum = TxChecksum::Partial;
    (meta.tx_checksum_start, meta.tx_checksum_offset) = (l4 as u16, 16);
    (meta.l3_offset, meta.l4_offset) = (link.len() as u16, l4 as u16);
    (meta.tx_segment_bytes, meta.next_fragment) = (0, NO_FRAGMENT);
    Some(l4)
}

/// RFC 791; not to be fragmented, so that the identification may be zero (RFC 6864 section 4).
#[inline]
fn ipv4_header(segment: &Segment<'_>, segment_bytes: usize, out: &mut [u8; 20]) -> Option<()> {
    let (from, to) = segment.key.ipv4()?;
    let total = u16::try_from(20 + segment_bytes).ok()?.to_be_bytes();
    let [t0, t1] = total;
    let [a, b, c, d] = from;
    let [e, f, g, h] = to;
    *out = [
        0x45,
        segment.ecn,
        t0,
        t1,
        0,
        0,
        0x40,
        0,
        HOP_LIMIT,
        ipv4::TCP,
        0,
        0,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
    ];
    let sum = wire::checksum::of(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// RFC 8200 section 3.
#[inline]
fn ipv6_header(segment: &Segment<'_>, segment_bytes: usize, out: &mut [u8; 40]) -> Option<()> {
    let (from, to) = segment.key.ipv6()?;
    let payload = u16::try_from(segment_bytes).ok()?.to_be_bytes();
    *out = [0; 40];
    (out[0], out[1]) = (0x60, segment.ecn << 4);
    out[4..6].copy_from_slice(&payload);
    (out[6], out[7]) = (ipv4::TCP, HOP_LIMIT);
    out[8..24].copy_from_slice(&from);
    out[24..40].copy_from_slice(&to);
    Some(())
}

//! Between frames and segments: what a frame carries, and a frame for each segment.

use base::TxChecksum;
use shm::Frame;
use tcp::{Event, Incoming, Output, Segment};
use wire::{Outcome, Protocol, ipv4};

use super::counts::{StreamCounts, StreamEvent};
use super::routes::{Route, Routes};
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
}

impl Output for Press<'_, '_> {
    #[inline]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        if self.outlet.room() == 0 {
            return false;
        }
        let Some(mut frame) = self.spares.pop() else { return false };
        let route = self.routes.get(segment.route);
        match route.is_some_and(|route| write(route, segment, &mut frame).is_some()) {
            true => self.outlet.send(frame),
            false => {
                // Nothing that the engine cuts is too long for a frame; a stranger's route is none.
                self.counts.add(StreamEvent::RoutesFull, 1);
                self.spares.push(frame);
            }
        }
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Link header, IP header, segment.
#[inline]
fn write(route: &Route, segment: &Segment<'_>, frame: &mut Frame) -> Option<()> {
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
    Some(())
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

//! Copies of packets for whoever captures: the loop fills chunks, a thread of the host empties
//! them.
//!
//! All memory is made, and touched, before the loop hears of a capture. Chunks go round by two
//! rings: full ones to the thread, empty ones back. The loop never waits for the thread: a packet
//! that finds no chunk is counted and missing. While nothing is captured a batch costs one branch.

use std::net::{IpAddr, SocketAddr};

use base::Nanos;
use shm::{Consumer, Frame, Producer, ring};
use wire::icmp::ErrorMessage;
use wire::{FlowKey, Protocol};

use crate::app::AttachmentId;
use crate::listeners::Listeners;

mod ends;
mod of_dispatcher;

/// Captures at once, at most: each packet is looked at for each of them.
pub const CAPTURES_MAX: usize = 4;

/// Chunks of a capture and bytes in each: 16 MiB are 13 ms of 10 Gbit/s, and a thread that looks
/// every few milliseconds is late by less.
const CHUNKS: usize = 64;
const CHUNK_BYTES: usize = 256 << 10;

/// Packets of a chunk: traffic whose packets are shorter on the average fills chunks half.
const CHUNK_PACKETS: usize = CHUNK_BYTES / 128;

/// A chunk with a packet this old is handed over although there is room in it.
const HAND_OVER_AFTER: Nanos = Nanos::from_millis(5);

/// Which packets. All conditions that are there must be met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureFilter {
    /// One of its two addresses.
    pub host: Option<IpAddr>,
    /// One of its two ports.
    pub port: Option<u16>,
    /// Whose it is.
    pub app: Option<AttachmentId>,
}

impl CaptureFilter {
    /// Whether a packet meets it; `inward` is its flow as received packets have it.
    fn takes(&self, inward: &FlowKey, owner: Option<AttachmentId>) -> bool {
        let ends = [inward.source(), inward.destination()];
        self.host.is_none_or(|host| ends.iter().any(|end| end.ip() == host))
            && self.port.is_none_or(|port| ends.iter().any(|end| end.port() == port))
            && (self.app.is_none() || self.app == owner)
    }
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureDirection {
    /// It was received.
    In,
    /// It was sent.
    Out,
}

/// A packet in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Index of its port.
    pub port: u16,
    /// The turn in which it was received, or given to its port.
    pub time: Nanos,
    /// Which way it went.
    pub direction: CaptureDirection,
    /// Its flow as received packets have it: the destination is ours.
    pub flow: FlowKey,
    /// Bytes that it had.
    pub len: u32,
    /// Its first bytes.
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy)]
struct Record {
    time: Nanos,
    len: u32,
    kept: u32,
    port: u16,
    direction: CaptureDirection,
    flow: FlowKey,
}

/// Packets in their order. Neither vector ever grows beyond what it was made with.
pub struct CaptureChunk {
    records: Vec<Record>,
    bytes: Vec<u8>,
}

impl CaptureChunk {
    fn new() -> Self {
        let mut records = Vec::with_capacity(CHUNK_PACKETS);
        // Written once, so that the loop meets no page for the first time.
        let anywhere = SocketAddr::from(([255; 4], u16::MAX));
        let flow = FlowKey::new(Protocol::Udp, anywhere, anywhere);
        let record = |flow| Record {
            time: Nanos(1),
            len: 1,
            kept: 1,
            port: 1,
            direction: CaptureDirection::In,
            flow,
        };
        records.extend(flow.map(record).into_iter().cycle().take(CHUNK_PACKETS));
        let mut chunk = Self { records, bytes: vec![u8::MAX; CHUNK_BYTES] };
        chunk.clear();
        chunk
    }

    fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
    }

    fn has_room(&self, kept: usize) -> bool {
        self.records.len() < CHUNK_PACKETS && self.bytes.len() + kept <= CHUNK_BYTES
    }

    /// Its packets, oldest first.
    pub fn packets(&self) -> impl Iterator<Item = CapturedPacket<'_>> {
        let mut rest = &self.bytes[..];
        self.records.iter().map(move |record| {
            let Record { time, len, kept, port, direction, flow } = *record;
            let (bytes, behind) = rest.split_at(kept as usize);
            rest = behind;
            CapturedPacket { port, time, direction, flow, len, bytes }
        })
    }
}

/// The loop's end of a capture.
pub struct CaptureTap {
    filter: CaptureFilter,
    snaplen: usize,
    chunk: Option<CaptureChunk>,
    full: Producer<CaptureChunk>,
    empty: Consumer<CaptureChunk>,
    /// By port: packets that met the conditions and found no room.
    dropped: Vec<u64>,
}

/// The thread's end.
pub struct CaptureReader {
    full: Consumer<CaptureChunk>,
    empty: Producer<CaptureChunk>,
}

/// A capture that keeps `snaplen` bytes of each packet, at most: what
/// [`crate::Dispatcher::begin_capture`] takes, and where its packets come out.
pub fn capture(filter: CaptureFilter, snaplen: usize) -> (Box<CaptureTap>, CaptureReader) {
    let (full, full_there) = ring(CHUNKS);
    let (mut empty_there, empty) = ring(CHUNKS);
    for _ in 0..CHUNKS {
        // The ring holds all chunks that there are.
        let _ = empty_there.push(CaptureChunk::new());
    }
    let snaplen = snaplen.min(CHUNK_BYTES);
    let tap = CaptureTap { filter, snaplen, chunk: None, full, empty, dropped: Vec::new() };
    (Box::new(tap), CaptureReader { full: full_there, empty: empty_there })
}

impl CaptureTap {
    /// Only packets of this application from now on.
    pub fn restrict_to(&mut self, app: AttachmentId) {
        self.filter.app = Some(app);
    }

    /// The chunk that was not handed over yet, and by port how many packets found no room.
    pub fn into_rest(self) -> (Option<CaptureChunk>, Vec<u64>) {
        (self.chunk, self.dropped)
    }

    fn note(
        &mut self,
        port: usize,
        direction: CaptureDirection,
        flow: &FlowKey,
        now: Nanos,
        frames: &[Frame],
    ) {
        let len: usize = frames.iter().map(Frame::len).sum();
        let kept = len.min(self.snaplen);
        if self.chunk.as_ref().is_some_and(|chunk| !chunk.has_room(kept)) {
            self.hand_over();
        }
        if self.chunk.is_none() {
            self.chunk = self.empty.pop();
        }
        let Some(chunk) = &mut self.chunk else {
            if let Some(dropped) = self.dropped.get_mut(port) {
                *dropped += 1;
            }
            return;
        };
        let mut left = kept;
        for frame in frames {
            let bytes = &frame.bytes()[..frame.len().min(left)];
            chunk.bytes.extend_from_slice(bytes);
            left -= bytes.len();
        }
        let (len, kept, port) = (len as u32, kept as u32, port as u16);
        chunk.records.push(Record { time: now, len, kept, port, direction, flow: *flow });
    }

    fn hand_over(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            // The ring holds all chunks that there are.
            let _ = self.full.push(chunk);
        }
    }

    fn is_due(&self, now: Nanos) -> bool {
        let first = self.chunk.as_ref().and_then(|chunk| chunk.records.first());
        first.is_some_and(|first| now.since(first.time) >= HAND_OVER_AFTER)
    }
}

impl CaptureReader {
    /// The oldest chunk that is there, to be given back.
    pub fn next_chunk(&mut self) -> Option<CaptureChunk> {
        self.full.pop()
    }

    /// Gives a chunk back for packets to come.
    pub fn give_back(&mut self, mut chunk: CaptureChunk) {
        chunk.clear();
        let _ = self.empty.push(chunk);
    }
}

/// The captures that go on.
#[derive(Default)]
pub(crate) struct Captures {
    taps: Vec<(u64, Box<CaptureTap>)>,
}

impl Captures {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// A packet as it lies in `frames`, for all captures that take it.
    fn note(
        &mut self,
        inward: &FlowKey,
        owner: Option<AttachmentId>,
        mut note: impl FnMut(&mut CaptureTap),
    ) {
        for (_, tap) in &mut self.taps {
            if tap.filter.takes(inward, owner) {
                note(tap);
            }
        }
    }

    /// Packets that have come, if they are for somebody here.
    #[cold]
    pub(crate) fn received(&mut self, port: usize, batch: &[Frame], to: &Listeners, now: Nanos) {
        for frame in batch {
            let bytes = frame.bytes();
            let key = ends::flow(bytes).or_else(|| Some(ErrorMessage::parse(bytes)?.key));
            let Some(key) = key else { continue };
            let Some(owner) = to.owner(&key) else { continue };
            let frames = std::slice::from_ref(frame);
            self.note(&key, Some(owner), |tap| {
                tap.note(port, CaptureDirection::In, &key, now, frames)
            });
        }
    }

    /// Packets that are about to be given to their port, as they are given: a long one that the
    /// port cuts is one packet, and a checksum that the port completes is not complete.
    #[cold]
    pub(crate) fn sent(&mut self, port: usize, frames: &[Frame], of: &Listeners, now: Nanos) {
        let continues = |one: &Frame, next: &Frame| one.meta().next_fragment == next.desc().offset;
        for frames in frames.chunk_by(continues) {
            let Some(key) = frames.first().and_then(|head| ends::flow(head.bytes())) else {
                continue;
            };
            let inward = key.reversed();
            self.note(&inward, of.owner(&inward), |tap| {
                tap.note(port, CaptureDirection::Out, &inward, now, frames)
            });
        }
    }

    /// Hands over what has waited long enough.
    #[cold]
    pub(crate) fn hand_over_due(&mut self, now: Nanos) {
        for (_, tap) in &mut self.taps {
            if tap.is_due(now) {
                tap.hand_over();
            }
        }
    }

    /// One capture more, over `ports` ports; it comes back when there are [`CAPTURES_MAX`] already.
    fn begin(
        &mut self,
        id: u64,
        mut tap: Box<CaptureTap>,
        ports: usize,
    ) -> Result<(), Box<CaptureTap>> {
        if self.taps.len() == CAPTURES_MAX {
            return Err(tap);
        }
        tap.dropped.resize(ports, 0);
        self.taps.push((id, tap));
        Ok(())
    }

    fn end(&mut self, id: u64) -> Option<Box<CaptureTap>> {
        let index = self.taps.iter().position(|(of, _)| *of == id)?;
        Some(self.taps.remove(index).1)
    }
}

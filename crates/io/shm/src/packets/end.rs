//! The application's side of its memory.
//!
//! Received packets are [`Frame`]s, as in the daemon: the right to a buffer. Each goes back by the
//! end that gave it, sent or done; a ready bit is passed only when all of that end's have, so a
//! hand-over never overtakes a packet that is still being worked on.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use base::FrameMeta;

use crate::core_grant::CoreGrant;
use crate::doorbell;
use crate::frame::Frame;
use crate::handover::{Handovers, Moving, Ticket};
use crate::packets::layout::{
    self, CHUNK_HEADROOM_BYTES, HandoverWords, Map, PacketSizes, SharedCoreGrant, Towards,
};
use crate::packets::message::{FromApp, Packet, ToApp};
use crate::ready_set::ReadySet;
use crate::region::{MapError, Region, RegionKind};
use crate::slot_ring::{ProtocolViolation, SlotConsumer, SlotProducer};
use crate::sync::{Arc, AtomicU32, Ordering, fence};

/// The mapped region of this application.
#[derive(Debug)]
pub struct PacketMemory {
    map: Map,
    /// By worker: its end was given out.
    taken: Vec<bool>,
}

impl PacketMemory {
    /// Maps the region that the daemon sent.
    ///
    /// # Errors
    /// It is no region of this kind and version, or not the size that it says.
    pub fn open(file: OwnedFd) -> Result<Self, MapError> {
        let region = Region::map(file, RegionKind::App)?;
        let sizes = layout::read_sizes(&region).and_then(|sizes| sizes.checked().ok());
        let sizes = sizes.filter(|sizes| sizes.region_bytes() <= region.len_bytes());
        let sizes = sizes.ok_or(MapError::Sizes)?;
        let taken = vec![false; sizes.workers as usize];
        Ok(Self { map: Map::new(Arc::new(region), sizes), taken })
    }

    /// What it was made for.
    pub fn sizes(&self) -> &PacketSizes {
        &self.map.sizes
    }

    /// Zero while attached; then the number of the reason.
    pub fn state(&self) -> u32 {
        self.map.state().load(Ordering::Acquire)
    }

    /// Which workers have something to say to the daemon. Each end marks its own worker; for those
    /// who test what the daemon makes of forged bits.
    pub fn ready_to_daemon(&self) -> ReadySet {
        self.map.ready(Towards::Daemon)
    }

    /// Which of the workers that are watched ([`PacketEnd::watch`]) have something to receive: of
    /// one thread that waits for all of them.
    pub fn ready_to_app(&self) -> ReadySet {
        self.map.ready(Towards::App)
    }

    /// A worker's end, once.
    pub fn end(&mut self, worker: u32) -> Option<PacketEnd> {
        let taken = self.taken.get_mut(worker as usize)?;
        if std::mem::replace(taken, true) {
            return None;
        }
        let first = self.map.sizes.first_send_chunk(worker);
        let count = self.map.sizes.send_chunks;
        Some(PacketEnd {
            // SAFETY: each end is made once over a region whose rings were never used: the daemon
            // makes one for every attachment. The layout aligns the words and `map` keeps them.
            from_daemon: unsafe { SlotConsumer::new(self.map.ring_to(worker)) },
            // SAFETY: as for the other ring.
            to_daemon: unsafe { SlotProducer::new(self.map.ring_from(worker)) },
            handovers: Handovers::shared(HandoverWords::new(self.map.clone())),
            doorbell: self.map.worker_doorbell(worker),
            core_grant: CoreGrant::shared(SharedCoreGrant::new(self.map.clone(), worker)),
            watch: self.map.worker_watch(worker),
            ready: self.map.ready(Towards::Daemon),
            worker,
            held: vec![false; self.map.sizes.chunks() as usize],
            received: 0,
            taken: 0,
            free: (first..first + count).rev().collect(),
            sent: VecDeque::with_capacity(count as usize),
            first_send_chunk: first,
            passing: None,
            map: self.map.clone(),
        })
    }
}

/// One worker's ends of its rings.
#[derive(Debug)]
pub struct PacketEnd {
    from_daemon: SlotConsumer,
    to_daemon: SlotProducer,
    handovers: Handovers,
    doorbell: NonNull<AtomicU32>,
    core_grant: CoreGrant,
    watch: NonNull<AtomicU32>,
    /// The workers that have something to say.
    ready: ReadySet,
    worker: u32,
    /// By buffer: a frame of it is out of this end.
    held: Vec<bool>,
    /// Frames out that were received, and that were taken to send something new.
    received: u32,
    taken: u32,
    /// Buffers of its own that are free.
    free: Vec<u32>,
    /// Buffers of its own in the ring, each with its message's position, oldest first.
    sent: VecDeque<(u32, u32)>,
    first_send_chunk: u32,
    /// A hand-over whose groups the application was told to give up in the last call.
    passing: Option<Ticket>,
    map: Map,
}

// SAFETY: doorbell and watch are atomics in the mapping that `map` keeps.
unsafe impl Send for PacketEnd {}

/// What the daemon says next.
#[derive(Debug)]
pub enum Next {
    /// A packet of a group that the worker owns.
    Packet(Frame),
    /// The worker no longer owns these: whatever it keeps for them is given up before the next
    /// call, which tells the daemon.
    Detach(Moving),
    /// The worker owns these from now on.
    Attach(Moving),
    /// A hand-over waits until every received frame has gone back.
    FramesOut,
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    Retired,
}

impl PacketEnd {
    /// The next message. Frames that went back are shown to the daemon by [`Self::publish`].
    ///
    /// # Errors
    /// The rings are damaged: attach anew.
    #[inline]
    pub fn receive(&mut self) -> Result<Next, ProtocolViolation> {
        if let Some(ticket) = self.passing {
            if !self.to_daemon.stage(&FromApp::Passed(ticket).encode())? {
                return Ok(Next::Empty);
            }
            self.passing = None;
        }
        loop {
            let Some(slot) = self.from_daemon.peek()? else { return Ok(Next::Empty) };
            let next = match ToApp::decode(&slot)? {
                ToApp::Packet(packet) => Next::Packet(self.frame(&packet)?),
                ToApp::Barrier { .. } if self.received > 0 => return Ok(Next::FramesOut),
                ToApp::Barrier { ticket, moving } => {
                    self.from_daemon.advance();
                    if !self.handovers.detach(ticket) {
                        continue;
                    }
                    self.passing = Some(ticket);
                    return Ok(Next::Detach(moving));
                }
                ToApp::Attach(moving) => Next::Attach(moving),
                ToApp::Retire => {
                    if !self.to_daemon.stage(&FromApp::Retired.encode())? {
                        return Ok(Next::Empty);
                    }
                    Next::Retired
                }
            };
            self.from_daemon.advance();
            return Ok(next);
        }
    }

    /// An empty frame of this worker's own, for a packet that answers nothing; `None` when all are
    /// under way.
    ///
    /// # Errors
    /// The rings are damaged: attach anew.
    pub fn take(&mut self) -> Result<Option<Frame>, ProtocolViolation> {
        if self.free.is_empty() {
            let waiting = self.to_daemon.len()?;
            let consumed = self.to_daemon.produced().wrapping_sub(waiting);
            while let Some(&(position, chunk)) = self.sent.front()
                // Positions are compared as a distance, since they wrap.
                && (consumed.wrapping_sub(position) as i32) > 0
            {
                self.sent.pop_front();
                self.free.push(chunk);
            }
        }
        let Some(chunk) = self.free.pop() else { return Ok(None) };
        self.held[chunk as usize] = true;
        self.taken += 1;
        Ok(Some(self.new_frame(chunk)))
    }

    /// Has the packet sent. The frame comes back when the ring is full or it is not this end's.
    ///
    /// # Errors
    /// The frame, untouched.
    #[inline]
    pub fn send(&mut self, mut frame: Frame) -> Result<(), Frame> {
        frame.meta_mut().transmit = true;
        self.give(frame)
    }

    /// Gives a frame back that needs no answer. It comes back when the ring is full or it is not
    /// this end's.
    ///
    /// # Errors
    /// The frame, untouched.
    #[inline]
    pub fn done(&mut self, mut frame: Frame) -> Result<(), Frame> {
        frame.meta_mut().transmit = false;
        match self.chunk_of(&frame) {
            Some(chunk) if chunk >= self.first_send_chunk => {
                self.held[chunk as usize] = false;
                self.taken -= 1;
                self.free.push(chunk);
                Ok(())
            }
            _ => self.give(frame),
        }
    }

    /// Takes a frame back without telling the daemon, which is gone: the memory may be unmapped
    /// then. It comes back when it is not this end's.
    ///
    /// # Errors
    /// The frame, untouched.
    pub fn discard(&mut self, frame: Frame) -> Result<(), Frame> {
        let Some(chunk) = self.chunk_of(&frame) else { return Err(frame) };
        self.held[chunk as usize] = false;
        if chunk < self.map.sizes.receive_chunks {
            self.received -= 1;
        } else {
            self.taken -= 1;
        }
        Ok(())
    }

    fn give(&mut self, frame: Frame) -> Result<(), Frame> {
        let Some(chunk) = self.chunk_of(&frame) else { return Err(frame) };
        let position = self.to_daemon.produced().wrapping_add(self.to_daemon.staged());
        match self.to_daemon.stage(&FromApp::Packet(Packet(*frame.desc())).encode()) {
            Ok(true) => {}
            // A damaged ring shows in the next `receive`.
            Ok(false) | Err(_) => return Err(frame),
        }
        self.held[chunk as usize] = false;
        if chunk < self.map.sizes.receive_chunks {
            self.received -= 1;
        } else {
            self.taken -= 1;
            self.sent.push_back((position, chunk));
        }
        Ok(())
    }

    /// Shows the daemon what was given back and how far was read; true when the daemon sleeps and
    /// must be woken.
    #[inline]
    #[must_use]
    pub fn publish(&mut self) -> bool {
        self.from_daemon.release();
        if self.to_daemon.staged() > 0 {
            self.ready.prepare(self.worker);
        }
        if !self.to_daemon.publish() {
            return false;
        }
        self.ready.set_ready(self.worker);
        doorbell::ring(self.map.daemon_doorbell())
    }

    /// From now on the daemon marks this worker in [`PacketMemory::ready_to_app`] when it says
    /// something, rings the doorbell there and wakes worker `leader`, whose thread waits for both;
    /// `None`: it rings this worker's own doorbell again. What it said before is not marked: look
    /// once after this.
    pub fn watch(&self, leader: Option<u32>) {
        // SAFETY: an aligned word of the mapping that `map` keeps.
        let watch = unsafe { self.watch.as_ref() };
        watch.store(leader.map_or(0, |leader| leader + 1), Ordering::Relaxed);
        // Pairs with the fence of the ringer: it sees the word, or our next look what it has said.
        fence(Ordering::SeqCst);
    }

    /// Which worker of the application this is the end of.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// The worker is about to sleep: look once more whether [`Self::has_next`].
    pub fn arm(&self) {
        // SAFETY: an aligned word of the mapping that `map` keeps.
        doorbell::arm(unsafe { self.doorbell.as_ref() });
    }

    /// The worker is awake.
    pub fn disarm(&self) {
        // SAFETY: as for `arm`.
        doorbell::disarm(unsafe { self.doorbell.as_ref() });
    }

    /// Its word with the core control.
    #[inline]
    pub fn core_grant(&mut self) -> &mut CoreGrant {
        &mut self.core_grant
    }

    /// It has said something at its core grant; true when the daemon sleeps and must be woken.
    #[must_use]
    pub fn core_grant_spoke(&self) -> bool {
        // Release: whoever finds the bit finds what was said.
        self.map.core_grant_bits().fetch_or(1 << self.worker, Ordering::Release);
        doorbell::ring(self.map.daemon_doorbell())
    }

    /// Whether the daemon has said something that [`Self::receive`] would give.
    pub fn has_next(&self) -> bool {
        self.passing.is_some() || !self.from_daemon.is_empty()
    }

    /// Messages that the ring to the daemon takes now for certain.
    pub fn room(&mut self) -> usize {
        self.to_daemon.len().map_or(0, |len| (self.to_daemon.capacity() - len) as usize)
    }

    /// Received frames that are out.
    pub fn received_out(&self) -> u32 {
        self.received
    }

    /// Writes any words as a message: what a hostile application does. For tests of what
    /// the daemon makes of it.
    pub fn forge(&mut self, words: [u64; 8]) {
        if self.to_daemon.stage(&words) == Ok(true) {
            self.to_daemon.publish();
            self.ready.set_ready(self.worker);
        }
    }

    fn frame(&mut self, packet: &Packet) -> Result<Frame, ProtocolViolation> {
        let desc = &packet.0;
        let chunk = self.map.chunk_of(desc.offset, desc.len).ok_or(ProtocolViolation::Buffer)?;
        let held = self.held.get_mut(chunk as usize).ok_or(ProtocolViolation::Buffer)?;
        if chunk >= self.map.sizes.receive_chunks || std::mem::replace(held, true) {
            return Err(ProtocolViolation::NotHeld);
        }
        self.received += 1;
        let mut frame = self.new_frame(chunk);
        *frame.meta_mut() = FrameMeta { transmit: false, ..desc.meta };
        let placed = frame.place(desc.offset, desc.len);
        debug_assert!(placed, "`chunk_of` has found the packet inside the buffer");
        Ok(frame)
    }

    fn new_frame(&self, chunk: u32) -> Frame {
        debug_assert!(self.held[chunk as usize]);
        let (at, bytes) = (self.map.chunk_at(chunk), self.map.sizes.chunk_bytes);
        // SAFETY: the buffer was not held, so no other frame of it exists here; the daemon leaves
        // it alone until it is given back; `drop` keeps the mapping while any is out.
        unsafe { Frame::new(self.map.chunk(chunk), at, bytes, CHUNK_HEADROOM_BYTES) }
    }

    /// The buffer of a frame that is out of this end.
    #[inline]
    fn chunk_of(&self, frame: &Frame) -> Option<u32> {
        let chunk = self.map.chunk_of(frame.chunk_offset(), 0)?;
        let ours = self.map.chunk(chunk) == frame.chunk() && self.held[chunk as usize];
        ours.then_some(chunk)
    }
}

impl Drop for PacketEnd {
    fn drop(&mut self) {
        // A frame that is still out points into the mapping: keep it mapped for ever.
        if self.received + self.taken > 0 {
            std::mem::forget(Arc::clone(&self.map.region));
        }
    }
}

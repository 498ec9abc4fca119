//! The daemon's side of an application's memory: believes nothing.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

use piece::{Piece, ReadPiece};

use crate::core_grant::CoreGrantControl;
use crate::doorbell;
use crate::frame::Frame;
use crate::handover::Handovers;
use crate::packets::layout::{
    CHUNK_HEADROOM_BYTES, HandoverWords, Map, PacketSizes, SharedCoreGrant, Towards,
};
use crate::packets::message::{FromApp, Packet, ToApp};
use crate::ready_set::ReadySet;
use crate::region::{Region, RegionError, RegionKind};
use crate::slot_ring::{ProtocolViolation, SlotConsumer, SlotProducer};
use crate::sync::{Arc, AtomicU32, Ordering, fence};

/// Which buffers the daemon may fill, and which the application has.
#[derive(Debug)]
pub struct PacketServer {
    map: Map,
    /// Receive buffers that are here; last in, first out.
    home: Vec<u32>,
    /// By receive buffer: the application has it.
    held: Vec<bool>,
}

/// The daemon's ends of one worker's rings.
#[derive(Debug)]
pub struct PacketQueue {
    to_app: SlotProducer,
    from_app: SlotConsumer,
    doorbell: NonNull<AtomicU32>,
    watch: NonNull<AtomicU32>,
    /// Which workers are to look, for those that are watched.
    ready: ReadySet,
    worker: u32,
    /// Keeps the rings mapped.
    map: Map,
}

// SAFETY: doorbell and watch are atomics in a mapping that `map` keeps.
unsafe impl Send for PacketQueue {}

/// What became of a packet for an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the ring.
    Staged,
    /// The worker's ring is full.
    RingFull,
    /// The application has every buffer.
    NoBuffer,
    /// It is longer than a buffer.
    TooLong,
}

impl PacketServer {
    /// Makes the region and its rings: one worker queue for each worker. `sizes` must be
    /// [`PacketSizes::checked`].
    ///
    /// # Errors
    /// The region could not be made.
    pub fn create(sizes: PacketSizes) -> Result<(Self, Vec<PacketQueue>), RegionError> {
        let content = sizes.region_bytes() - size_of::<crate::region::RegionHeader>();
        let header = size_of::<crate::region::RegionHeader>();
        let region = Region::create("calisto-app", RegionKind::App, header, content)?;
        let map = Map::new(Arc::new(region), sizes);
        map.write_sizes();
        let worker_queue = |worker| PacketQueue {
            // SAFETY: the fresh region is zero, the layout aligns the words, `map` keeps it.
            to_app: unsafe { SlotProducer::new(map.ring_to(worker)) },
            // SAFETY: as for the other ring.
            from_app: unsafe { SlotConsumer::new(map.ring_from(worker)) },
            doorbell: map.worker_doorbell(worker),
            watch: map.worker_watch(worker),
            ready: map.ready(Towards::App),
            worker,
            map: map.clone(),
        };
        let worker_queues = (0..sizes.workers).map(worker_queue).collect();
        let home = (0..sizes.receive_chunks).rev().collect();
        let held = vec![false; sizes.receive_chunks as usize];
        Ok((Self { map, home, held }, worker_queues))
    }

    /// The sizes that it was made for.
    pub fn sizes(&self) -> &PacketSizes {
        &self.map.sizes
    }

    /// The words of the application's hand-overs.
    pub fn handovers(&self) -> Handovers {
        Handovers::shared(HandoverWords::new(self.map.clone()))
    }

    /// The control's side of a worker's core grant: to be made once for each.
    pub fn core_grant(&self, worker: u32) -> Option<CoreGrantControl> {
        let is_there = worker < self.map.sizes.workers;
        is_there.then(|| CoreGrantControl::shared(SharedCoreGrant::new(self.map.clone(), worker)))
    }

    /// Where its workers say that they have said something at their core grants.
    pub fn core_grant_bits(&self) -> CoreGrantBits {
        CoreGrantBits { map: self.map.clone() }
    }

    /// Which of the application's workers say that they have something to say. A ready bit that it
    /// forges is a look at an empty ring, one that it leaves out keeps its own messages waiting.
    pub fn ready(&self) -> ReadySet {
        self.map.ready(Towards::Daemon)
    }

    /// Receive buffers that the application has.
    pub fn held(&self) -> usize {
        self.held.len() - self.home.len()
    }

    /// Tells the application, in its own memory, that it is detached. `reason` is not zero.
    pub fn detach(&self, reason: u32) {
        debug_assert_ne!(reason, 0, "zero means attached");
        self.map.state().store(reason, Ordering::Release);
    }

    /// The daemon is about to sleep: look at every worker queue once more after this.
    pub fn arm(&self) {
        Self::arm_all([self]);
    }

    /// The same for many applications at the price of one.
    pub fn arm_all<'a>(servers: impl IntoIterator<Item = &'a Self>) {
        for server in servers {
            server.map.daemon_doorbell().store(1, Ordering::Relaxed);
        }
        // One for all of them; see `doorbell::arm`.
        fence(Ordering::SeqCst);
    }

    /// The daemon is awake.
    pub fn disarm(&self) {
        doorbell::disarm(self.map.daemon_doorbell());
    }

    /// Copies a packet into a buffer and stages it for the worker.
    ///
    /// # Errors
    /// The application violated the protocol.
    #[inline]
    pub fn deliver(
        &mut self,
        worker_queue: &mut PacketQueue,
        frame: &Frame,
    ) -> Result<Delivery, ProtocolViolation> {
        let room = self.map.sizes.chunk_bytes - CHUNK_HEADROOM_BYTES;
        if frame.len() > room as usize {
            return Ok(Delivery::TooLong);
        }
        let Some(&chunk) = self.home.last() else { return Ok(Delivery::NoBuffer) };
        let mut desc = *frame.desc();
        desc.offset = self.map.chunk_at(chunk) + CHUNK_HEADROOM_BYTES;
        if !worker_queue.to_app.stage(&ToApp::Packet(Packet(desc)).encode())? {
            return Ok(Delivery::RingFull);
        }
        self.home.pop();
        self.held[chunk as usize] = true;
        // SAFETY: headroom and packet fit into the buffer, as was checked above.
        let place = unsafe {
            let to = self.map.chunk(chunk).add(CHUNK_HEADROOM_BYTES as usize);
            Piece::new(to, frame.len())
        };
        place.copy_in(frame.bytes());
        Ok(Delivery::Staged)
    }

    /// The worker's oldest message, checked and taken. A buffer that comes with it is home again:
    /// copy its packet out before anything else is delivered.
    ///
    /// # Errors
    /// The application violated the protocol.
    #[inline]
    pub fn collect(
        &mut self,
        worker_queue: &mut PacketQueue,
    ) -> Result<Option<FromApp>, ProtocolViolation> {
        let Some(slot) = worker_queue.from_app.peek()? else { return Ok(None) };
        let message = FromApp::decode(&slot)?;
        if let FromApp::Packet(Packet(desc)) = &message {
            let chunk =
                self.map.chunk_of(desc.offset, desc.len).ok_or(ProtocolViolation::Buffer)?;
            match self.held.get_mut(chunk as usize) {
                Some(held) if *held => {
                    *held = false;
                    self.home.push(chunk);
                }
                Some(_) => return Err(ProtocolViolation::NotHeld),
                // Its own buffers are its own business, and there is nothing to give back.
                None if !desc.meta.transmit => return Err(ProtocolViolation::NotHeld),
                None => {}
            }
        }
        worker_queue.from_app.advance();
        Ok(Some(message))
    }

    /// Copies the packet that [`Self::collect`] gave into `frame`; false when that has no room.
    #[inline]
    #[must_use]
    pub fn copy_out(&self, packet: &Packet, frame: &mut Frame) -> bool {
        let desc = &packet.0;
        if self.map.chunk_of(desc.offset, desc.len).is_none() || !frame.set_len(desc.len as usize) {
            return false;
        }
        // SAFETY: `chunk_of` has found the whole range inside a buffer.
        let packet = unsafe {
            let from = self.map.region.base().add(desc.offset as usize);
            ReadPiece::new(from, desc.len as usize)
        };
        packet.copy_out(frame.bytes_mut());
        true
    }
}

/// Which workers of an application have said something at their core grants. A hint: the
/// application may write anything here.
#[derive(Clone, Debug)]
pub struct CoreGrantBits {
    map: Map,
}

impl CoreGrantBits {
    /// Whether there is any.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.map.core_grant_bits().load(Ordering::Relaxed) == 0
    }

    /// A bit for each worker that has spoken since the last call.
    pub fn take(&self) -> u64 {
        // Acquire: pairs with the Release in `PacketEnd::core_grant_spoke`.
        self.map.core_grant_bits().swap(0, Ordering::Acquire)
    }
}

impl AsFd for PacketServer {
    /// The region's memfd, to be sent to the application.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.region.as_fd()
    }
}

impl PacketQueue {
    /// Stages a control message; false when the ring is full.
    ///
    /// # Errors
    /// The application violated the protocol.
    pub fn control(&mut self, message: ToApp) -> Result<bool, ProtocolViolation> {
        self.to_app.stage(&message.encode())
    }

    /// Shows the worker what was staged; true when there was anything.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.to_app.publish()
    }

    /// After [`Self::publish`]: which worker's thread sleeps and must be woken, if one does; it is
    /// asked once per sleep. It is this worker queue's own, or the one that says to wait for it as
    /// well.
    #[inline]
    #[must_use]
    pub fn ring(&self) -> Option<u32> {
        // Pairs with the fences of whoever arms the doorbell or begins to watch, and looks after
        // that.
        fence(Ordering::SeqCst);
        // SAFETY: an aligned word of the mapping that `map` keeps.
        match unsafe { self.watch.as_ref() }.load(Ordering::Relaxed).checked_sub(1) {
            // SAFETY: as for `watch`.
            None => doorbell::take(unsafe { self.doorbell.as_ref() }).then_some(self.worker),
            Some(leader) => self.ring_leader(leader),
        }
    }

    fn ring_leader(&self, leader: u32) -> Option<u32> {
        // The word is the application's: it may name any worker.
        if leader >= self.map.sizes.workers {
            return None;
        }
        self.ready.set_ready(self.worker);
        self.ready.doorbell().ring().then_some(leader)
    }

    /// Whether the worker says that it sleeps.
    pub fn is_asleep(&self) -> bool {
        // SAFETY: as for `ring`.
        unsafe { self.doorbell.as_ref() }.load(Ordering::Relaxed) != 0
    }

    /// Tells the worker how many of its messages were taken.
    #[inline]
    pub fn release(&mut self) {
        self.from_app.release();
    }

    /// Whether the worker has said something.
    #[inline]
    pub fn has_messages(&self) -> bool {
        !self.from_app.is_empty()
    }

    /// Messages that the worker has not taken.
    ///
    /// # Errors
    /// The application violated the protocol.
    pub fn queued(&mut self) -> Result<usize, ProtocolViolation> {
        self.to_app.len().map(|len| len as usize)
    }

    /// The same as far as was seen last: never too few.
    pub fn queued_seen(&self) -> usize {
        self.to_app.len_seen() as usize
    }

    /// Messages that it was shown and has not taken, by what its ring says at this moment.
    #[inline]
    pub fn queued_now(&self) -> u32 {
        self.to_app.len_now()
    }

    /// Messages ever shown to the worker, modulo 2^32.
    pub fn produced(&self) -> u32 {
        self.to_app.produced()
    }

    /// Messages that its ring holds.
    pub fn capacity(&self) -> usize {
        self.to_app.capacity() as usize
    }
}

//! Packets longer than a frame: gathered from chains of descriptors, and cut for the link.
//!
//! In generic mode the program stands behind the place where a kernel of this host hands on whole
//! what a device would cut (TSO of a veth's other end) or has put together (GRO). The kernel copies
//! such a packet into as many frames as it needs, all but the last one marked as continued. TCP
//! segments become packets that the link takes, so nobody behind this knows of it, with one copy
//! and one sum more, which is far less than what the kernel spends on packets of their own.

use base::{BURST, ChecksumState, FrameMeta};
use shm::{Batch, Frame, FramePool};
use wire::checksum::Sum;
use wire::cut::{Cut, HEADERS_MAX};

use crate::PortCounters;

/// Bytes of the longest packet: of IP (RFC 791 section 3.1), and two tags in front of it.
const PACKET_BYTES_MAX: usize = 65_535 + 22;

/// What pieces are made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Bytes of its largest IP packet.
    pub(super) mtu: u32,
    /// Nobody is to look at checksums.
    pub(super) is_trusted: bool,
}

/// A packet of several frames, of which some may be missing still, or some of it cut already.
pub(super) struct Chain {
    /// As many as [`Self::new`] made room for, at most.
    frames: Vec<Frame>,
    /// Frames of a packet that is too long have been dropped, and more of it are to come.
    is_lost: bool,
    cut: Option<Cut>,
    /// The byte that goes into the next piece: which frame, and how far in.
    at: (usize, usize),
}

impl Chain {
    /// None yet, of frames that take `frame_bytes` each.
    pub(super) fn new(frame_bytes: u32) -> Self {
        let frames = PACKET_BYTES_MAX.div_ceil(frame_bytes.max(1) as usize);
        Self { frames: Vec::with_capacity(frames), is_lost: false, cut: None, at: (0, 0) }
    }

    /// Whether the next descriptor begins a packet.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.is_lost
    }

    /// Whether pieces of a whole packet wait for room in a batch.
    #[inline]
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Adds a frame. Of a packet that is whole then, pieces can be had; one that cannot be cut for
    /// the link, or has a wrong checksum there, is dropped and counted.
    #[cold]
    pub(super) fn add(
        &mut self,
        frame: Frame,
        is_last: bool,
        link: Link,
        pool: &mut FramePool,
        counters: &mut PortCounters,
    ) {
        if self.is_lost || self.frames.len() == self.frames.capacity() {
            pool.give(frame);
            self.give_back(pool);
            self.is_lost = !is_last;
            // Once for each packet.
            counters.rx_oversize += u64::from(is_last);
            return;
        }
        self.frames.push(frame);
        if !is_last {
            return;
        }
        match self.begin(link.mtu as usize) {
            Some(cut)
                if link.is_trusted || cut.is_right(|| self.sum_from(cut.payload_offset())) =>
            {
                counters.rx_cut += 1;
                self.at = self.place_of(cut.payload_offset());
                self.cut = Some(cut);
            }
            Some(_) => {
                counters.rx_bad_checksum += 1;
                self.give_back(pool);
            }
            None => {
                counters.rx_oversize += 1;
                self.give_back(pool);
            }
        }
    }

    fn begin(&self, mtu: usize) -> Option<Cut> {
        let bytes = self.frames.iter().map(Frame::len).sum();
        let mut head = [0; HEADERS_MAX];
        let mut head_bytes = 0;
        // All headers are in the first frame but for that of a chunk of a few hundred bytes.
        for frame in &self.frames {
            let room = head.get_mut(head_bytes..).unwrap_or_default();
            let copied = room.len().min(frame.len());
            room[..copied].copy_from_slice(&frame.bytes()[..copied]);
            head_bytes += copied;
        }
        Cut::new(&head[..head_bytes], bytes, mtu)
    }

    /// Sums everything from `offset` on. Frames but the last one have an even number of bytes, so
    /// that their sums add up; if they have not, the sum is wrong, and so is the checksum.
    fn sum_from(&self, offset: usize) -> Sum {
        let (first, skip) = self.place_of(offset);
        let parts = self.frames.iter().enumerate().skip(first).map(|(number, frame)| {
            let bytes = frame.bytes();
            if number == first { bytes.get(skip..).unwrap_or_default() } else { bytes }
        });
        // Headers are of whole words (RFC 791, RFC 9293) behind an Ethernet header of fourteen
        // bytes, so that each part begins at an even place.
        parts.fold(Sum::ZERO, Sum::bytes)
    }

    /// In which frame the byte at `offset` is, and where there.
    fn place_of(&self, mut offset: usize) -> (usize, usize) {
        for (number, frame) in self.frames.iter().enumerate() {
            if offset < frame.len() {
                return (number, offset);
            }
            offset -= frame.len();
        }
        (self.frames.len(), 0)
    }

    /// Appends pieces to `batch` until it is full or there are no more, each with what `meta` says
    /// of a received packet; how many.
    #[cold]
    pub(super) fn cut_into(
        &mut self,
        batch: &mut Batch,
        meta: FrameMeta,
        pool: &mut FramePool,
        counters: &mut PortCounters,
    ) -> usize {
        let before = batch.len();
        let Some(mut cut) = self.cut.take() else { return 0 };
        while let Some(bytes) = cut.next_bytes() {
            if batch.is_full() {
                self.cut = Some(cut);
                return batch.len() - before;
            }
            let Some(mut piece) = pool.take() else {
                // The sender sends the rest again.
                counters.rx_no_frame += 1;
                break;
            };
            if !self.copy(&mut piece, cut.payload_offset(), bytes) || !cut.write(piece.bytes_mut())
            {
                counters.rx_oversize += 1;
                pool.give(piece);
                break;
            }
            *piece.meta_mut() = FrameMeta { checksum: ChecksumState::Verified, ..meta };
            counters.rx_bytes += piece.len() as u64;
            batch.push(piece);
        }
        self.give_back(pool);
        batch.len() - before
    }

    /// Puts the next `bytes` of payload into `piece`, behind `headers` bytes; false: it is too
    /// small.
    fn copy(&mut self, piece: &mut Frame, headers: usize, bytes: usize) -> bool {
        if !piece.set_len(headers + bytes) {
            return false;
        }
        let mut room = piece.bytes_mut().get_mut(headers..).unwrap_or_default();
        while !room.is_empty() {
            let (number, from) = self.at;
            let Some(frame) = self.frames.get(number) else { return false };
            let rest = frame.bytes().get(from..).unwrap_or_default();
            let copied = rest.len().min(room.len());
            let (place, behind) = room.split_at_mut(copied);
            place.copy_from_slice(&rest[..copied]);
            room = behind;
            self.at = if copied == rest.len() { (number + 1, 0) } else { (number, from + copied) };
        }
        true
    }

    /// Gives all frames back, and begins anew.
    pub(super) fn give_back(&mut self, pool: &mut FramePool) {
        self.frames.drain(..).for_each(|frame| pool.give(frame));
        (self.cut, self.at) = (None, (0, 0));
    }
}

/// A batch is no smaller than what one packet becomes on a usual link, so that few are cut in two
/// calls.
const _: () = assert!(BURST * 1448 > PACKET_BYTES_MAX);

#[cfg(test)]
mod tests;

//! The transmitting half of a queue: frames into the ring, kicks, and long segments beside it.

use base::{NO_FRAGMENT, TxChecksum};
use shm::{Batch, Frame, FramePool};

use super::{Common, Queue};
use crate::Fault;
use crate::finish::finish;
use crate::xdp::if_xdp::{XDP_TX_METADATA, XdpDesc, checksum_request};
use crate::xdp::segments::Sent;
use crate::xdp::socket::Kick;

/// Kicks that one call may need: before Linux 6.17 each sends 32 frames at most, and the ring may
/// hold what an earlier call left. More progress than that waits for the next call.
const KICKS_MAX: u32 = 4;

impl Queue {
    /// Has the kernel send what is in the tx ring.
    #[inline]
    pub(in crate::xdp) fn kick(&mut self) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        let mut before = socket.tx.pending();
        for _ in 0..KICKS_MAX {
            if before == 0 {
                break;
            }
            self.counters.kicks += 1;
            match socket.kick_tx() {
                Kick::Taken => {}
                Kick::Again => self.counters.kicks_busy += 1,
                Kick::Down => {
                    self.fault = Some(Fault::Down);
                    self.kick_owed = true;
                    return;
                }
                Kick::Gone => {
                    self.fault = Some(Fault::Vanished);
                    self.kick_owed = false;
                    return;
                }
            }
            if self.fault == Some(Fault::Down) {
                self.fault = None;
            }
            let after = socket.tx.pending();
            // A zero-copy driver sends in its own time: it has heard us, and that is enough.
            if socket.zero_copy || after == before {
                before = if socket.zero_copy { 0 } else { after };
                break;
            }
            before = after;
        }
        self.kick_owed = before > 0;
    }

    /// Takes frames from the front of `batch` in order; how many.
    #[inline]
    pub(in crate::xdp) fn send(
        &mut self,
        common: &Common,
        pool: &mut FramePool,
        batch: &mut Batch,
    ) -> usize {
        if self.segments.is_some() && batch.iter().any(is_long) {
            return self.send_mixed(common, pool, batch);
        }
        self.send_plain(common, pool, batch, batch.len())
    }

    /// Sends the first `count` frames of `batch`, each a packet; how many are done with.
    #[inline]
    fn send_plain(
        &mut self,
        common: &Common,
        pool: &mut FramePool,
        batch: &mut Batch,
        count: usize,
    ) -> usize {
        let Some(socket) = &mut self.socket else {
            return 0;
        };
        if self.fault == Some(Fault::Vanished) || count == 0 {
            return 0;
        }
        let room = socket.tx.acquire(count as u32);
        if (room as usize) < count {
            self.counters.tx_full += 1;
        }
        let mut placed = 0;
        let mut bytes = 0;
        for mut frame in batch.drain(..room as usize) {
            let asks = common.completes_checksums && ask_for_checksum(&mut frame);
            let options = if asks { XDP_TX_METADATA } else { 0 };
            if !finish(&mut frame, common.frame_bytes_max, &mut self.counters) {
                pool.give(frame);
                continue;
            }
            let len = frame.len() as u32;
            let Some(addr) = self.lent.lend(pool, frame) else {
                continue;
            };
            socket.tx.write(placed, XdpDesc { addr, len, options });
            placed += 1;
            bytes += u64::from(len);
        }
        if placed > 0 {
            socket.tx.release(placed);
            self.counters.tx_packets += u64::from(placed);
            self.counters.tx_bytes += bytes;
        }
        if placed > 0 && (common.needs_wakeup || socket.tx.needs_wakeup()) || self.kick_owed {
            self.kick();
        }
        room as usize
    }

    /// Sends packets among which there are long segments, in order.
    fn send_mixed(&mut self, common: &Common, pool: &mut FramePool, batch: &mut Batch) -> usize {
        let mut done = 0;
        while let Some(first) = batch.first() {
            if !is_long(first) {
                let run = batch.iter().take_while(|frame| !is_long(frame)).count();
                let sent = self.send_plain(common, pool, batch, run);
                done += sent;
                if sent < run {
                    break;
                }
                continue;
            }
            if self.kick_owed {
                self.kick();
            }
            let Some(segments) = self.segments.as_ref().filter(|_| !self.kick_owed) else { break };
            let pieces = pieces(batch);
            // What says that more of it follows, and nothing does, would leave cut off.
            let is_whole = batch[pieces - 1].meta().next_fragment == NO_FRAGMENT;
            let bytes: usize = batch[..pieces].iter().map(Frame::len).sum();
            let segment_bytes = usize::from(first.meta().tx_segment_bytes);
            let sent = if is_whole { segments.send(&batch[..pieces]) } else { Sent::Refused };
            match sent {
                Sent::Whole => {
                    self.counters.tx_packets += bytes.div_ceil(segment_bytes) as u64;
                    self.counters.tx_bytes += bytes as u64;
                }
                Sent::Full => {
                    self.counters.tx_full += 1;
                    break;
                }
                Sent::Refused => self.counters.tx_refused += 1,
            }
            batch.drain(..pieces).for_each(|frame| pool.give(frame));
            done += pieces;
        }
        done
    }
}

/// Whether a packet begins here that is to be cut.
#[inline]
fn is_long(frame: &Frame) -> bool {
    frame.meta().tx_segment_bytes != 0
}

/// Frames of the packet that begins the batch: each names the one behind it.
fn pieces(batch: &Batch) -> usize {
    let pairs = batch.iter().zip(batch.iter().skip(1));
    let joined = pairs.take_while(|(one, next)| one.meta().next_fragment == next.desc().offset);
    1 + joined.count()
}

/// Turns the wish for a checksum in a frame's meta into a request to the kernel, if there is one.
#[inline]
fn ask_for_checksum(frame: &mut Frame) -> bool {
    let meta = frame.meta();
    // A tag that is still to be put in would move what the request names.
    if meta.tx_checksum != TxChecksum::Partial || meta.vlan_tci != 0 {
        return false;
    }
    let (start, offset) = (meta.tx_checksum_start, meta.tx_checksum_offset);
    // What the kernel would refuse is refused, and counted, by `finish`.
    if usize::from(start) + usize::from(offset) + 2 > frame.len() {
        return false;
    }
    let Some(place) = frame.before_mut() else { return false };
    *place = checksum_request(start, offset);
    frame.meta_mut().tx_checksum = TxChecksum::Complete;
    true
}

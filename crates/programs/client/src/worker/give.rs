//! Giving packets back: to be sent, or done with.

use attach::Detached;
use shm::packets::PacketEnd;
use shm::{Batch, Frame};

use super::{Verdict, Worker};

impl Worker {
    /// Has the packets of `batch` sent, from its front, as many as fit; returns how many. The rest
    /// stays in `batch`: the daemon is slow, or the frames are another worker's. [`Self::flush`]
    /// shows them to the daemon.
    ///
    /// # Errors
    /// The attachment has ended.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> Result<usize, Detached> {
        self.give(batch, Verdict::Send)
    }

    /// Gives the frames of `batch` back unsent, as many as fit; returns how many. The rest stays,
    /// as with [`Self::send`].
    ///
    /// # Errors
    /// The attachment has ended.
    #[inline]
    pub fn done(&mut self, batch: &mut Batch) -> Result<usize, Detached> {
        self.give(batch, Verdict::Done)
    }

    #[inline]
    fn give(&mut self, batch: &mut Batch, verdict: Verdict) -> Result<usize, Detached> {
        self.shared.glance()?;
        // Own frames that are not sent need no room. Packets to be sent are not offered beyond it:
        // room that comes meanwhile would let a later one overtake.
        let fits = match verdict {
            Verdict::Send => self.end.room().min(batch.len()),
            Verdict::Done => batch.len(),
        };
        let mut kept = Batch::new();
        for frame in batch.drain(..fits) {
            if let Err(frame) = give_one(&mut self.end, frame, verdict) {
                kept.push(frame);
            }
        }
        let given = fits - kept.len();
        match verdict {
            Verdict::Send => self.counters.sent += given as u64,
            Verdict::Done => self.counters.done += given as u64,
        }
        // They came out of this batch, so it has room for them.
        batch.extend(kept);
        if given == 0 {
            self.flush();
            self.idle()?;
        }
        Ok(given)
    }

    /// Receives a batch, has `packet` decide on each packet, gives them back and shows that to the
    /// daemon: one turn of the usual program. Returns how many packets there were; zero also while
    /// the daemon is slow to take answers.
    ///
    /// # Errors
    /// The attachment has ended.
    #[inline]
    pub fn step(
        &mut self,
        mut packet: impl FnMut(&mut Frame) -> Verdict,
    ) -> Result<usize, Detached> {
        self.retry_unsent();
        if !self.unsent.is_empty() {
            self.shared.glance()?;
            self.flush();
            self.idle()?;
            return Ok(0);
        }
        let mut inbox = Batch::new();
        let received = self.receive(&mut inbox);
        for mut frame in inbox.drain(..) {
            let verdict = packet(&mut frame);
            if let Err(frame) = self.give_counted(frame, verdict) {
                self.unsent.push(frame);
            }
        }
        if received.as_ref().is_ok_and(|&count| count > 0) {
            self.flush();
        }
        received
    }

    fn give_counted(&mut self, frame: Frame, verdict: Verdict) -> Result<(), Frame> {
        // Behind one that waits, all wait: answers keep their order.
        if !self.unsent.is_empty() {
            let mut frame = frame;
            frame.meta_mut().transmit = verdict == Verdict::Send;
            return Err(frame);
        }
        give_one(&mut self.end, frame, verdict)?;
        match verdict {
            Verdict::Send => self.counters.sent += 1,
            Verdict::Done => self.counters.done += 1,
        }
        Ok(())
    }

    /// Offers again what the ring had no room for.
    pub(super) fn retry_unsent(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        let mut unsent = std::mem::take(&mut self.unsent);
        for frame in unsent.drain(..) {
            let verdict = if frame.meta().transmit { Verdict::Send } else { Verdict::Done };
            if let Err(frame) = self.give_counted(frame, verdict) {
                self.unsent.push(frame);
            }
        }
    }
}

#[inline]
fn give_one(end: &mut PacketEnd, frame: Frame, verdict: Verdict) -> Result<(), Frame> {
    match verdict {
        Verdict::Send => end.send(frame),
        Verdict::Done => end.done(frame),
    }
}

//! One worker's packets: in from its ring, sorted; out in the order of the program's sends.

use std::cell::RefCell;
use std::collections::VecDeque;

use attach::Detached;
use base::Nanos;
use shm::{Batch, Frame};

use crate::rt::listener::Listener;
use crate::rt::packet::Packet;
use crate::rt::stats::Counters;
use crate::worker::Worker;

/// The worker of this thread, and frames on their way back to it.
#[derive(Debug)]
pub(crate) struct Packets {
    worker: RefCell<Worker>,
    /// As many as there are frames, at most.
    to_send: RefCell<VecDeque<Frame>>,
    to_finish: RefCell<VecDeque<Frame>>,
}

impl Packets {
    pub(crate) fn new(worker: Worker) -> Self {
        Self {
            worker: RefCell::new(worker),
            to_send: RefCell::default(),
            to_finish: RefCell::default(),
        }
    }

    /// Takes a batch from the ring and puts each packet where its socket looks; how many there
    /// were.
    ///
    /// # Errors
    /// The attachment has ended.
    pub(crate) fn receive(
        &self,
        index: usize,
        listeners: &[Listener],
        counters: &Counters,
        now: Nanos,
    ) -> Result<usize, Detached> {
        let mut batch = Batch::new();
        let count = self.worker.borrow_mut().receive(&mut batch)?;
        counters.received.add(count as u64);
        for frame in batch.drain(..) {
            let group = frame.meta().group;
            let packet = match Packet::read(frame) {
                Ok(packet) => packet,
                Err(frame) => {
                    counters.dropped_stray.add(1);
                    self.finish(frame);
                    continue;
                }
            };
            let listener = listeners.iter().find(|listener| listener.covers(packet.to));
            let (refused, counter) = match listener {
                Some(listener) => match listener.inboxes[index].put(group, now, packet) {
                    Ok(()) => continue,
                    Err(packet) => (packet, &counters.dropped_full),
                },
                None => (packet, &counters.dropped_stray),
            };
            counter.add(1);
            self.finish(refused.frame);
        }
        Ok(count)
    }

    /// Has a frame sent with the next [`Self::flush`].
    pub(crate) fn send(&self, frame: Frame) {
        self.to_send.borrow_mut().push_back(frame);
    }

    /// Gives a frame back with the next [`Self::flush`].
    pub(crate) fn finish(&self, frame: Frame) {
        self.to_finish.borrow_mut().push_back(frame);
    }

    /// An empty frame of this worker's own.
    pub(crate) fn take(&self) -> Option<Frame> {
        self.worker.borrow_mut().take()
    }

    /// Gives the daemon what was sent and finished, as far as the ring has room; how many were
    /// sent.
    ///
    /// # Errors
    /// The attachment has ended.
    pub(crate) fn flush(&self) -> Result<usize, Detached> {
        let mut worker = self.worker.borrow_mut();
        // Answers first: a frame that is given back is in no hurry.
        let sent = give(&mut self.to_send.borrow_mut(), |batch| worker.send(batch))?;
        give(&mut self.to_finish.borrow_mut(), |batch| worker.done(batch))?;
        worker.flush();
        Ok(sent)
    }

    /// Whether the ring to the daemon had no room for something.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.to_send.borrow().is_empty() || !self.to_finish.borrow().is_empty()
    }

    /// Whether the daemon has taken everything that was flushed.
    pub(crate) fn are_all_taken(&self) -> bool {
        self.to_send.borrow().is_empty() && self.worker.borrow_mut().is_all_taken()
    }

    /// Works with the worker itself.
    pub(crate) fn with_worker<R>(&self, work: impl FnOnce(&mut Worker) -> R) -> R {
        work(&mut self.worker.borrow_mut())
    }
}

fn give(
    frames: &mut VecDeque<Frame>,
    mut offer: impl FnMut(&mut Batch) -> Result<usize, Detached>,
) -> Result<usize, Detached> {
    let mut given = 0;
    while !frames.is_empty() {
        let mut batch: Batch = frames.drain(..frames.len().min(base::BURST)).collect();
        let result = offer(&mut batch);
        let is_full = !batch.is_empty();
        for frame in batch.into_iter().rev() {
            frames.push_front(frame);
        }
        given += result?;
        if is_full {
            break;
        }
    }
    Ok(given)
}

//! One direction of a bad wire: a queue before a bottleneck, then a delay line.
//!
//! What must hold: every frame that enters comes out once or goes back to the pool, and its fate
//! depends on the settings, the seed, the order of calls and `now`, on nothing else.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use base::Nanos;
use shm::{Batch, Frame, FramePool};

use super::ecn::{self, Mark};
use super::rng::Rng;
use super::{EcnThreshold, ImpairmentError, Impairments, LineCounters};

/// One direction of a bad wire.
#[derive(Debug)]
pub struct Line {
    config: Impairments,
    chance: Chances,
    /// Packets under way, the next one due on top.
    held: BinaryHeap<Held>,
    /// Packets before the bottleneck: when each leaves it, and its bytes. Oldest first.
    queue: VecDeque<(Nanos, u32)>,
    queue_bytes: u64,
    /// When the bottleneck has sent all that is queued. Idle: in the past.
    busy_until: Nanos,
    /// When the last packet in order comes out: none after it may be earlier.
    last_due: Nanos,
    entered: u64,
    counters: LineCounters,
}

#[derive(Debug)]
struct Chances {
    loss: Rng,
    duplicate: Rng,
    corrupt: Rng,
    reorder: Rng,
    jitter: Rng,
}

#[derive(Debug)]
struct Held {
    due: Nanos,
    /// Keeps the order of packets that are due together.
    sequence: u64,
    frame: Frame,
}

impl Line {
    /// A line with these impairments.
    ///
    /// # Errors
    /// They are not possible.
    pub fn new(config: Impairments) -> Result<Self, ImpairmentError> {
        config.check()?;
        let stream = |number| Rng::new(config.seed, number);
        let chance = Chances {
            loss: stream(1),
            duplicate: stream(2),
            corrupt: stream(3),
            reorder: stream(4),
            jitter: stream(5),
        };
        let held_max = config.held_max as usize;
        Ok(Self {
            config,
            chance,
            held: BinaryHeap::with_capacity(held_max),
            queue: VecDeque::with_capacity(held_max),
            queue_bytes: 0,
            busy_until: Nanos::ZERO,
            last_due: Nanos::ZERO,
            entered: 0,
            counters: LineCounters::default(),
        })
    }

    /// A frame enters at `now`.
    pub fn offer(&mut self, pool: &mut FramePool, frame: Frame, now: Nanos) {
        self.counters.offered += 1;
        if self.chance.loss.chance(self.config.loss) {
            self.counters.lost += 1;
            pool.give(frame);
            return;
        }
        let copy = if self.chance.duplicate.chance(self.config.duplicate) {
            let copy = duplicate(pool, &frame);
            match copy {
                Some(_) => self.counters.duplicated += 1,
                None => self.counters.duplicate_no_frame += 1,
            }
            copy
        } else {
            None
        };
        self.enter(pool, frame, now);
        if let Some(copy) = copy {
            self.enter(pool, copy, now);
        }
    }

    /// Appends the frames that come out by `now` to `batch`, up to its capacity; how many.
    pub fn release(&mut self, batch: &mut Batch, now: Nanos) -> usize {
        let mut count = 0;
        while !batch.is_full() && self.held.peek().is_some_and(|held| held.due <= now) {
            let Some(Held { frame, .. }) = self.held.pop() else {
                break;
            };
            batch.push(frame);
            count += 1;
        }
        self.counters.delivered += count as u64;
        count
    }

    /// When the next frame comes out; [`Nanos::FAR_FUTURE`]: nothing is under way.
    pub fn next_deadline(&self) -> Nanos {
        self.held.peek().map_or(Nanos::FAR_FUTURE, |held| held.due)
    }

    /// Frames under way.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What it did so far.
    pub fn counters(&self) -> &LineCounters {
        &self.counters
    }

    /// Its settings.
    pub fn config(&self) -> &Impairments {
        &self.config
    }

    /// Gives what is under way back to the pool.
    pub fn clear(&mut self, pool: &mut FramePool) {
        self.held.drain().for_each(|held| pool.give(held.frame));
        self.queue.clear();
        self.queue_bytes = 0;
    }

    fn enter(&mut self, pool: &mut FramePool, mut frame: Frame, now: Nanos) {
        if self.chance.corrupt.chance(self.config.corrupt) && !frame.is_empty() {
            let bit = self.chance.corrupt.below(frame.len() as u64 * 8);
            frame.bytes_mut()[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        if self.held.len() >= self.config.held_max as usize {
            self.counters.held_dropped += 1;
            pool.give(frame);
            return;
        }
        let departure = match self.config.rate_bits_per_second {
            None => now,
            Some(rate) => {
                self.leave_queue(now);
                if self.queue_is_full(frame.len()) {
                    self.counters.queue_dropped += 1;
                    pool.give(frame);
                    return;
                }
                self.mark_above_threshold(&mut frame);
                self.enter_queue(frame.len(), rate, now)
            }
        };
        let jitter = Nanos(self.chance.jitter.below(self.config.jitter.0.saturating_add(1)));
        let due = departure + self.config.delay + jitter;
        let due = if self.chance.reorder.chance(self.config.reorder) {
            self.counters.reordered += 1;
            due + self.config.reorder_delay
        } else {
            self.last_due = self.last_due.max(due);
            self.last_due
        };
        self.held.push(Held { due, sequence: self.entered, frame });
        self.entered += 1;
    }

    /// Forgets packets that have passed the bottleneck.
    fn leave_queue(&mut self, now: Nanos) {
        while let Some(&(departure, bytes)) = self.queue.front()
            && departure <= now
        {
            self.queue.pop_front();
            self.queue_bytes -= u64::from(bytes);
        }
    }

    fn queue_is_full(&self, frame_bytes: usize) -> bool {
        let packets = self.config.queue_packets.is_some_and(|max| self.queue.len() >= max as usize);
        let bytes = self.queue_bytes + frame_bytes as u64;
        packets || self.config.queue_bytes.is_some_and(|max| bytes > max)
    }

    fn mark_above_threshold(&mut self, frame: &mut Frame) {
        let (queued, threshold) = match self.config.ecn {
            None => return,
            Some(EcnThreshold::Packets(max)) => (self.queue.len() as u64, u64::from(max)),
            Some(EcnThreshold::Bytes(max)) => (self.queue_bytes, max),
        };
        self.counters.ecn_far_above += u64::from(queued >= threshold.saturating_mul(2));
        if queued >= threshold {
            match ecn::mark(frame.bytes_mut()) {
                Mark::Marked => self.counters.ecn_marked += 1,
                Mark::NotCapable => self.counters.ecn_not_capable += 1,
            }
        }
    }

    /// When a packet of `frame_bytes` that enters now has passed the bottleneck.
    fn enter_queue(&mut self, frame_bytes: usize, rate: u64, now: Nanos) -> Nanos {
        let bits = frame_bytes as u128 * 8;
        let sending = (bits * 1_000_000_000).div_ceil(u128::from(rate));
        let sending = Nanos(u64::try_from(sending).unwrap_or(u64::MAX));
        self.busy_until = self.busy_until.max(now) + sending;
        self.queue.push_back((self.busy_until, frame_bytes as u32));
        self.queue_bytes += frame_bytes as u64;
        self.counters.queue_packets_max =
            self.counters.queue_packets_max.max(self.queue.len() as u64);
        self.busy_until
    }
}

fn duplicate(pool: &mut FramePool, frame: &Frame) -> Option<Frame> {
    let mut copy = pool.take()?;
    if !copy.fill(frame.bytes()) {
        pool.give(copy);
        return None;
    }
    *copy.meta_mut() = *frame.meta();
    Some(copy)
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    /// The heap's top is its greatest: the earliest due, and of those the first that entered.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.sequence).cmp(&(self.due, self.sequence))
    }
}

#[cfg(test)]
mod tests;

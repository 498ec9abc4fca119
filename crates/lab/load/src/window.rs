//! What is known of the requests that may still be answered: written by who sends, read by who
//! receives, on one thread or two.
//!
//! A ring by index: a request leaves when one that is `capacity` younger is sent, and a reply that
//! comes after that is counted as expired. Everything is an atomic word, so no lock and no
//! `unsafe`.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use base::Nanos;

use crate::Request;

/// The requests of one shard that may still be answered.
pub struct Window {
    slots: Box<[Slot]>,
}

/// 40 bytes of a request: index plus one (zero: none), both times, flow, work.
#[derive(Default)]
struct Slot {
    tag: AtomicU64,
    intended: AtomicU64,
    sent: AtomicU64,
    flow: AtomicU64,
    iterations: AtomicU64,
}

/// What the window knows of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was sent then.
    Sent {
        /// The request.
        request: Request,
        /// When it left.
        at: Nanos,
    },
    /// It was sent so long ago that nothing is known of it any more.
    Expired,
    /// No such request was sent.
    Never,
}

impl Window {
    /// With room for `capacity` requests, rounded up to a power of two.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_power_of_two();
        Self { slots: (0..capacity).map(|_| Slot::default()).collect() }
    }

    /// Requests that it has room for.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Notes that `request` leaves now. Called before it does, so that no reply can come earlier.
    #[inline]
    pub(crate) fn note(&self, request: &Request, now: Nanos) {
        let slot = self.slot(request.index);
        // A seqlock with one writer (Boehm, "Can seqlocks get along with programming language
        // memory models?", 2012): whoever sees a new field sees the tag change too.
        slot.tag.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        slot.intended.store(request.intended.0, Ordering::Relaxed);
        slot.sent.store(now.0, Ordering::Relaxed);
        slot.flow.store(u64::from(request.flow), Ordering::Relaxed);
        slot.iterations.store(request.iterations, Ordering::Relaxed);
        slot.tag.store(request.index.wrapping_add(1), Ordering::Release);
    }

    /// What is known of `index`.
    #[inline]
    pub(crate) fn find(&self, index: u64) -> Known {
        let slot = self.slot(index);
        let tag = slot.tag.load(Ordering::Acquire);
        let request = Request {
            index,
            intended: Nanos(slot.intended.load(Ordering::Relaxed)),
            flow: slot.flow.load(Ordering::Relaxed) as u32,
            iterations: slot.iterations.load(Ordering::Relaxed),
        };
        let at = Nanos(slot.sent.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let unchanged = slot.tag.load(Ordering::Relaxed) == tag;
        let wanted = index.wrapping_add(1);
        // A slot that is being overwritten had an older request: only that can have been meant.
        match tag {
            _ if !unchanged => Known::Expired,
            tag if tag == wanted && wanted != 0 => Known::Sent { request, at },
            tag if tag > wanted && wanted != 0 => Known::Expired,
            _ => Known::Never,
        }
    }

    #[inline]
    fn slot(&self, index: u64) -> &Slot {
        // The capacity is a power of two, and at least one.
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(index: u64) -> Request {
        Request { index, intended: Nanos(index * 10), flow: index as u32, iterations: index * 3 }
    }

    #[test]
    fn a_request_is_known_until_a_younger_one_takes_its_place() {
        let window = Window::new(4);
        for index in 0..6 {
            assert_eq!(window.find(index), Known::Never);
            window.note(&request(index), Nanos(index * 10 + 1));
        }
        assert_eq!(window.find(1), Known::Expired);
        for index in 2..6 {
            let at = Nanos(index * 10 + 1);
            assert_eq!(window.find(index), Known::Sent { request: request(index), at });
        }
        assert_eq!(window.find(6), Known::Never);
    }

    #[test]
    fn an_index_that_a_hostile_server_invents_is_never_found() {
        let window = Window::new(4);
        for index in [u64::MAX, u64::MAX - 1, 1 << 63] {
            assert_eq!(window.find(index), Known::Never);
        }
    }

    #[test]
    fn a_reader_on_another_thread_never_sees_parts_of_two_requests() {
        let window = Window::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for index in 0..200_000 {
                    window.note(&request(index), Nanos(index));
                }
            });
            for index in (0..200_000).step_by(7) {
                if let Known::Sent { request: found, at } = window.find(index) {
                    assert_eq!((found, at), (request(index), Nanos(index)));
                }
            }
        });
    }
}

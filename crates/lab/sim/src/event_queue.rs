//! What is to happen, in the order of time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use base::Nanos;

/// Events by time; those of one time in the order in which they were put in, so that a run does not
/// depend on how the queue is made.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    /// Events ever put in.
    put: u64,
    now: Nanos,
}

#[derive(Debug)]
struct Entry<E> {
    at: Nanos,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives the greatest first: the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), put: 0, now: Nanos::ZERO }
    }
}

impl<E> EventQueue<E> {
    /// The time of the event that was taken last.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Events ever put in.
    pub fn put_count(&self) -> u64 {
        self.put
    }

    /// Events ever taken.
    pub fn taken_count(&self) -> u64 {
        self.put - self.heap.len() as u64
    }

    /// Something is to happen at `at`; what is already past happens next.
    #[inline]
    pub fn put(&mut self, at: Nanos, event: E) {
        self.put += 1;
        self.heap.push(Entry { at: at.max(self.now), number: self.put, event });
    }

    /// The next event; the clock is at its time then.
    #[inline]
    pub fn take(&mut self) -> Option<E> {
        let Entry { at, event, .. } = self.heap.pop()?;
        self.now = at;
        Some(event)
    }

    /// When the next event is.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_putting() {
        let mut queue = EventQueue::default();
        for (at, event) in [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b'), (30, 'e')] {
            queue.put(Nanos(at), event);
        }
        let mut order = String::new();
        while let Some(event) = queue.take() {
            order.push(event);
        }
        assert_eq!((order.as_str(), queue.now()), ("abcde", Nanos(30)));
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut queue = EventQueue::default();
        queue.put(Nanos(100), 1);
        queue.take();
        queue.put(Nanos(50), 2);
        assert_eq!(
            (queue.next_at(), queue.take(), queue.now()),
            (Some(Nanos(100)), Some(2), Nanos(100))
        );
        assert_eq!(queue.put_count(), 2);
    }
}

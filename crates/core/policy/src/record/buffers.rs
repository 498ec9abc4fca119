//! Buffers between a loop that must not wait and the thread that writes them.

use std::collections::VecDeque;

/// A fixed number of buffers of a fixed size. All their memory is there, and touched, from the
/// start.
#[derive(Debug)]
pub(crate) struct Buffers<E> {
    current: Vec<E>,
    full: VecDeque<Vec<E>>,
    empty: Vec<Vec<E>>,
    /// Events that found no room. From the first one on nothing is kept: a replay could not pass
    /// the hole.
    lost: u64,
}

impl<E: Clone> Buffers<E> {
    /// `buffers` buffers of `events` events like this one.
    pub(crate) fn new(buffers: usize, events: usize, any: &E) -> Self {
        let buffers = buffers.max(2);
        let touched = |_| {
            let mut buffer = vec![any.clone(); events.max(1)];
            buffer.clear();
            buffer
        };
        let mut empty: Vec<Vec<E>> = (0..buffers).map(touched).collect();
        Self {
            current: empty.pop().unwrap_or_default(),
            full: VecDeque::with_capacity(buffers),
            empty,
            lost: 0,
        }
    }

    /// A buffer that is full, the oldest first.
    pub(crate) fn take_full(&mut self) -> Option<Vec<E>> {
        self.full.pop_front()
    }

    /// A buffer that was taken, to be filled again.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<E>) {
        buffer.clear();
        // A stranger's buffer without room would be full at once, for ever.
        if buffer.capacity() > 0 && self.empty.len() < self.empty.capacity() {
            self.empty.push(buffer);
        }
    }

    /// Makes a buffer that is not full yet ready to be taken.
    pub(crate) fn flush(&mut self) {
        if !self.current.is_empty() {
            self.rotate();
        }
    }

    /// Events that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// What is left, oldest first.
    pub(crate) fn into_rest(self) -> impl Iterator<Item = Vec<E>> {
        self.full.into_iter().chain((!self.current.is_empty()).then_some(self.current))
    }

    /// Keeps the event, if there is room and no hole before it.
    pub(crate) fn push(&mut self, event: E) {
        if self.lost > 0 || (self.current.len() == self.current.capacity() && !self.rotate()) {
            self.lost += 1;
            return;
        }
        self.current.push(event);
    }

    /// An event that cannot be kept: nothing after it is.
    pub(crate) fn lose(&mut self) {
        self.lost += 1;
    }

    /// The latest event of the buffer that is being filled, unless there is a hole after it.
    pub(crate) fn last_mut(&mut self) -> Option<&mut E> {
        if self.lost > 0 { None } else { self.current.last_mut() }
    }

    fn rotate(&mut self) -> bool {
        let Some(empty) = self.empty.pop() else { return false };
        self.full.push_back(std::mem::replace(&mut self.current, empty));
        true
    }
}

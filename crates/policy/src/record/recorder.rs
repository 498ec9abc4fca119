//! Buffers of events between the data loop and the thread that writes them.

use std::collections::VecDeque;

use base::Nanos;

use super::event::{Event, What};
use super::snapshot::Snapshot;

/// Takes the events of one control loop. All its memory is there from the start.
///
/// The data loop calls [`Recorder::take_full`] once a turn and hands what it gets to the writing
/// thread, which sends empty buffers back for [`Recorder::give_back`].
#[derive(Debug)]
pub struct Recorder {
    current: Vec<Event>,
    full: VecDeque<Vec<Event>>,
    empty: Vec<Vec<Event>>,
    /// Events that found no room. From the first one on nothing is kept: a replay could not pass
    /// the hole.
    lost: u64,
    room: Snapshot,
}

impl Recorder {
    /// `buffers` buffers of `events` events, 24 bytes each, for a loop over `groups` groups,
    /// virtual ones included. A busy loop of four workers fills some 100,000 events a second, and
    /// every load sample adds up to 4096. Make it outside the data loop: here memory is touched.
    pub fn new(groups: usize, buffers: usize, events: usize) -> Self {
        let buffers = buffers.max(2);
        let mut empty: Vec<Vec<Event>> = (0..buffers).map(|_| touched(events.max(1))).collect();
        Self {
            current: empty.pop().unwrap_or_default(),
            full: VecDeque::with_capacity(buffers),
            empty,
            lost: 0,
            room: Snapshot::with_room(groups),
        }
    }

    /// A buffer that is full, the oldest first.
    pub fn take_full(&mut self) -> Option<Vec<Event>> {
        self.full.pop_front()
    }

    /// A buffer that was taken, to be filled again.
    pub fn give_back(&mut self, mut buffer: Vec<Event>) {
        buffer.clear();
        // A stranger's buffer without room would be full at once, for ever.
        if buffer.capacity() > 0 && self.empty.len() < self.empty.capacity() {
            self.empty.push(buffer);
        }
    }

    /// Makes a buffer that is not full yet ready to be taken, so that what is seen outside is no
    /// older than the last call. Nothing happens when there is no event or no other buffer.
    pub fn flush(&mut self) {
        if !self.current.is_empty() {
            self.rotate();
        }
    }

    /// Events that found no room since the recording began. When there are any, the recording is
    /// at its end: take what is there and stop.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The buffers that are left when the recording has ended, oldest first.
    pub fn into_rest(self) -> impl Iterator<Item = Vec<Event>> {
        self.full.into_iter().chain((!self.current.is_empty()).then_some(self.current))
    }

    pub(crate) fn take_room(&mut self) -> Snapshot {
        std::mem::take(&mut self.room)
    }

    pub(crate) fn push(&mut self, what: What) {
        let hole = self.lost > 0 || matches!(what, What::Unknown);
        if hole || (self.current.len() == self.current.capacity() && !self.rotate()) {
            self.lost += 1;
            return;
        }
        self.current.push(Event(what));
    }

    /// A tick that could change nothing and did not: counted with those right before it.
    pub(crate) fn push_idle(&mut self, now: Nanos) {
        if self.lost == 0
            && let Some(Event(What::Idle { ticks, last })) = self.current.last_mut()
            && *ticks < u32::MAX
        {
            (*ticks, *last) = (*ticks + 1, now);
            return;
        }
        self.push(What::Idle { ticks: 1, last: now });
    }

    fn rotate(&mut self) -> bool {
        let Some(empty) = self.empty.pop() else { return false };
        self.full.push_back(std::mem::replace(&mut self.current, empty));
        true
    }
}

/// A buffer whose pages are there: the data loop is to meet no page fault.
fn touched(events: usize) -> Vec<Event> {
    let mut buffer = vec![Event(What::EpochFinished); events];
    buffer.clear();
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(buffers: impl Iterator<Item = Vec<Event>>) -> usize {
        buffers.map(|buffer| buffer.len()).sum()
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_is_kept_after_it() {
        let mut recorder = Recorder::new(0, 2, 3);
        for _ in 0..8 {
            recorder.push(What::EpochFinished);
        }
        assert_eq!(recorder.lost(), 2);
        let full = recorder.take_full().expect("it is full");
        recorder.give_back(full);
        recorder.push(What::EpochFinished);
        assert_eq!(recorder.lost(), 3, "there is room, but a hole before it");
        assert_eq!(count(recorder.into_rest()), 3);
    }

    #[test]
    fn a_buffer_given_back_is_filled_again() {
        let mut recorder = Recorder::new(0, 2, 3);
        for _ in 0..100 {
            recorder.push(What::EpochFinished);
            if let Some(full) = recorder.take_full() {
                recorder.give_back(full);
            }
        }
        assert_eq!(recorder.lost(), 0);
    }

    #[test]
    fn ticks_without_news_share_one_event_and_a_flush_parts_them() {
        let mut recorder = Recorder::new(0, 3, 3);
        for now in 0..50 {
            recorder.push_idle(Nanos(now));
        }
        recorder.flush();
        recorder.push_idle(Nanos(50));
        let buffers: Vec<_> = recorder.into_rest().collect();
        assert!(matches!(buffers[0][..], [Event(What::Idle { ticks: 50, last: Nanos(49) })]));
        assert!(matches!(buffers[1][..], [Event(What::Idle { ticks: 1, .. })]));
    }
}

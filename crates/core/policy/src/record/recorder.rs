//! Buffers of events between the data loop and the thread that writes them.

use base::Nanos;

use super::buffers::Buffers;
use super::event::{Event, What};
use super::recorded::Recorded;
use super::snapshot::Snapshot;

/// Takes the events of one loop, whose recording begins with an `S`. All its memory is there from
/// the start.
///
/// The data loop calls [`Recorder::take_full`] once a turn and hands what it gets to the writing
/// thread, which sends empty buffers back for [`Recorder::give_back`].
#[derive(Debug)]
pub struct Recorder<S: Recorded = Snapshot> {
    buffers: Buffers<S::Event>,
    room: S::Room,
}

impl Recorder {
    /// `buffers` buffers of `events` events, 24 bytes each, for a control loop over `groups`
    /// groups, virtual ones included. A busy loop of four workers fills some 100,000 events a
    /// second, and every load sample adds up to 4096. Make it outside the data loop: here memory is
    /// touched.
    pub fn new(groups: usize, buffers: usize, events: usize) -> Self {
        Self::with_room(Snapshot::with_room(groups), buffers, events)
    }

    pub(crate) fn take_room(&mut self) -> Snapshot {
        std::mem::take(&mut self.room)
    }

    /// Notes what happened. What cannot be written down ends the recording.
    pub(crate) fn note(&mut self, what: What) {
        if matches!(what, What::Unknown) {
            return self.buffers.lose();
        }
        self.push(Event(what));
    }
}

impl<S: Recorded> Recorder<S> {
    pub(crate) fn with_room(room: S::Room, buffers: usize, events: usize) -> Self {
        Self { buffers: Buffers::new(buffers, events, &S::idle(0, Nanos(0))), room }
    }

    /// A buffer that is full, the oldest first.
    pub fn take_full(&mut self) -> Option<Vec<S::Event>> {
        self.buffers.take_full()
    }

    /// A buffer that was taken, to be filled again.
    pub fn give_back(&mut self, buffer: Vec<S::Event>) {
        self.buffers.give_back(buffer);
    }

    /// Makes a buffer that is not full yet ready to be taken, so that what is seen outside is no
    /// older than the last call. Nothing happens when there is no event or no other buffer.
    pub fn flush(&mut self) {
        self.buffers.flush();
    }

    /// Events that found no room since the recording began. When there are any, the recording is
    /// at its end: take what is there and stop.
    pub fn lost(&self) -> u64 {
        self.buffers.lost()
    }

    /// The buffers that are left when the recording has ended, oldest first.
    pub fn into_rest(self) -> impl Iterator<Item = Vec<S::Event>> {
        self.buffers.into_rest()
    }

    pub(crate) fn push(&mut self, event: S::Event) {
        self.buffers.push(event);
    }

    /// A tick that could change nothing and did not: counted with those right before it.
    pub(crate) fn push_idle(&mut self, now: Nanos) {
        if let Some((ticks, last)) = self.buffers.last_mut().and_then(S::as_idle)
            && *ticks < u32::MAX
        {
            (*ticks, *last) = (*ticks + 1, now);
            return;
        }
        self.push(S::idle(1, now));
    }
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
            recorder.note(What::EpochFinished);
        }
        assert_eq!(recorder.lost(), 2);
        let full = recorder.take_full().expect("it is full");
        recorder.give_back(full);
        recorder.note(What::EpochFinished);
        assert_eq!(recorder.lost(), 3, "there is room, but a hole before it");
        assert_eq!(count(recorder.into_rest()), 3);
    }

    #[test]
    fn a_buffer_given_back_is_filled_again() {
        let mut recorder = Recorder::new(0, 2, 3);
        for _ in 0..100 {
            recorder.note(What::EpochFinished);
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

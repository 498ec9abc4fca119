//! Where a slice's thread writes its figures when it is asked to, for the control thread to read.
//!
//! The thread looks at one word between two batches and never waits here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use port::Fault;

/// What one thread has counted.
#[derive(Debug, Default)]
pub(crate) struct Board {
    asked: AtomicU64,
    answered: AtomicU64,
    written: Mutex<Written>,
}

/// What is written there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) groups: Vec<Group>,
    /// By port: why its packets do not come into the hook; nothing: there is none.
    pub(crate) hooks: Vec<Result<(), String>>,
}

/// Counters of the slice, of a port or of a function.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) of: &'static str,
    pub(crate) name: String,
    pub(crate) fault: Option<Fault>,
    /// Name, what it counts, value.
    pub(crate) counters: Vec<(Label, Label, u64)>,
}

/// A word or a sentence that a slice's thread hands over without making it.
#[derive(Clone, Debug)]
pub(crate) enum Label {
    Fixed(&'static str),
    Made(Arc<str>),
}

impl AsRef<str> for Label {
    fn as_ref(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl From<&'static str> for Label {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<&Arc<str>> for Label {
    fn from(text: &Arc<str>) -> Self {
        Self::Made(Arc::clone(text))
    }
}

impl Board {
    /// Asks for figures that are not older than this call; what to wait for.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Release) + 1
    }

    /// Whether a question was answered.
    pub(crate) fn is_answered(&self, question: u64) -> bool {
        self.answered.load(Ordering::Acquire) >= question
    }

    /// What was written last.
    pub(crate) fn read(&self) -> Written {
        // A thread that panicked while it wrote leaves what it had written.
        self.written.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// For the slice's thread, between two batches: writes if somebody asks.
    #[inline]
    pub(crate) fn answer(&self, write: impl FnOnce(&mut Written)) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != self.answered.load(Ordering::Relaxed) {
            self.write(asked, write);
        }
    }

    #[cold]
    fn write(&self, asked: u64, write: impl FnOnce(&mut Written)) {
        // Whoever reads holds the lock for a moment: then after the next batch.
        if let Ok(mut written) = self.written.try_lock() {
            write(&mut written);
            drop(written);
            // Release pairs with the Acquire of `is_answered`.
            self.answered.store(asked, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_until_somebody_asks_and_then_once() {
        let board = Board::default();
        let mut writes = 0;
        board.answer(|_| writes += 1);
        let question = board.ask();
        assert!(!board.is_answered(question));
        board.answer(|written| {
            writes += 1;
            let (name, counters) = ("edge".to_owned(), vec![("read".into(), "Read.".into(), 7)]);
            written.groups = vec![Group { of: "slice", name, fault: None, counters }];
        });
        board.answer(|_| writes += 1);
        assert!(board.is_answered(question));
        assert_eq!((writes, board.read().groups[0].counters[0].2), (1, 7));
    }
}

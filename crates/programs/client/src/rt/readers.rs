//! Sockets of one worker that wait for a packet.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use crate::rt::class_guard::ClassGuard;

/// A socket, as what wakes it has it.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Set while it waits.
    waker: RefCell<Option<Waker>>,
    is_queued: Cell<bool>,
    /// A class of another worker that it is to work on.
    given: RefCell<Option<ClassGuard>>,
}

impl Reader {
    /// What it was given while it waited.
    pub(crate) fn take_given(&self) -> Option<ClassGuard> {
        self.given.borrow_mut().take()
    }

    /// It does not wait any more, whether it was woken or not.
    pub(crate) fn leave(&self) {
        let waker = self.waker.borrow_mut().take();
        drop(waker);
    }
}

/// By listener: those that wait, longest first. Some of them may have left.
#[derive(Debug)]
pub(crate) struct Readers(Box<[RefCell<VecDeque<Rc<Reader>>>]>);

impl Readers {
    pub(crate) fn new(listeners: usize) -> Self {
        Self((0..listeners).map(|_| RefCell::default()).collect())
    }

    /// `reader` waits for a packet of `listener`.
    pub(crate) fn join(&self, listener: usize, reader: &Rc<Reader>, waker: &Waker) {
        *reader.waker.borrow_mut() = Some(waker.clone());
        if !reader.is_queued.replace(true) {
            self.0[listener].borrow_mut().push_back(Rc::clone(reader));
        }
    }

    /// Wakes one that waits, if there is one.
    pub(crate) fn wake_one(&self, listener: usize) {
        if let Some((_, waker)) = self.next(listener) {
            waker.wake();
        }
    }

    /// Gives the class to one that waits; false, and it is let go, when there is none.
    pub(crate) fn give(&self, listener: usize, class_guard: ClassGuard) -> bool {
        let Some((reader, waker)) = self.next(listener) else { return false };
        let before = reader.given.borrow_mut().replace(class_guard);
        drop(before);
        waker.wake();
        true
    }

    /// Wakes all of them.
    pub(crate) fn wake_all(&self) {
        for listener in 0..self.0.len() {
            while let Some((_, waker)) = self.next(listener) {
                waker.wake();
            }
        }
    }

    /// Whether one waits.
    pub(crate) fn is_waited(&self, listener: usize) -> bool {
        self.0[listener].borrow().iter().any(|reader| reader.waker.borrow().is_some())
    }

    fn next(&self, listener: usize) -> Option<(Rc<Reader>, Waker)> {
        loop {
            let reader = self.0[listener].borrow_mut().pop_front()?;
            reader.is_queued.set(false);
            let waker = reader.waker.borrow_mut().take();
            if let Some(waker) = waker {
                return Some((reader, waker));
            }
        }
    }
}

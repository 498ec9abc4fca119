//! Code of our own libraries while a call of the program is served: it may close our own
//! descriptors, and a signal handler that has interrupted it must leave it alone.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of our own libraries, which may close our own descriptors.
pub(crate) fn run<T>(run: impl FnOnce() -> T) -> T {
    let was = IS_INSIDE.replace(true);
    let result = run();
    IS_INSIDE.set(was);
    result
}

/// A value of our own libraries that closes descriptors when it is dropped, wherever that is.
pub(crate) struct Inner<T>(ManuallyDrop<T>);

impl<T> Inner<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Inner<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        run(|| {
            // SAFETY: once, and nobody looks at it again.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        });
    }
}

/// Whether the calling thread runs code of our own libraries.
pub(crate) fn is_running() -> bool {
    IS_INSIDE.get()
}

//! The end of a task, as its spawner learns it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Why a task has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// It was cancelled, or the runtime has ended.
    Cancelled,
    /// It has panicked, with these words.
    Panicked(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled before its end"),
            Self::Panicked(words) => write!(f, "the task has panicked: {words}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl JoinError {
    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let words = payload
            .downcast_ref::<&str>()
            .map(|words| (*words).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panicked(words.unwrap_or_else(|| "without words".to_owned()))
    }
}

/// The right to a task's result: a future of it.
///
/// Dropped, it lets go: the task goes on. [`Self::cancel`] ends the task instead. A task that has
/// not ended when the runtime ends is cancelled.
#[must_use = "the task goes on without it; `drop` it to say so"]
pub struct JoinHandle<T> {
    join: Arc<Join<T>>,
    task: Arc<dyn Cancel + Send + Sync>,
}

/// What a handle can do to its task.
pub(crate) trait Cancel {
    fn cancel(self: Arc<Self>);
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(join: Arc<Join<T>>, task: Arc<dyn Cancel + Send + Sync>) -> Self {
        Self { join, task }
    }

    /// Ends the task where it waits, the next time that its worker comes to it: its future is
    /// dropped. One that has ended, or that ends in the poll that it is in, keeps its result.
    pub fn cancel(&self) {
        Arc::clone(&self.task).cancel();
    }

    /// The result of a task that has ended and was not fetched before.
    pub(crate) fn fetch(&self) -> Result<T, JoinError> {
        self.join.fetch().unwrap_or(Err(JoinError::Cancelled))
    }

    /// Whether the task has ended, by whatever means.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.join.lock(), State::Running(_))
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.join.poll(context)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

/// Where a result goes to and is fetched from.
#[derive(Debug)]
pub(crate) struct Join<T>(Mutex<State<T>>);

#[derive(Debug)]
enum State<T> {
    Running(Option<Waker>),
    Ended(Result<T, JoinError>),
    Fetched,
}

impl<T> Join<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Running(None)))
    }

    /// The task has ended; what comes after the first end is ignored.
    pub(crate) fn end(&self, result: Result<T, JoinError>) {
        let mut state = self.lock();
        let State::Running(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = State::Ended(result);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The result, if there is one and it was not fetched before.
    pub(crate) fn fetch(&self) -> Option<Result<T, JoinError>> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Fetched) {
            State::Ended(result) => Some(result),
            other => {
                *state = other;
                None
            }
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        if let Some(result) = self.fetch() {
            return Poll::Ready(result);
        }
        match &mut *self.lock() {
            State::Running(waker) => *waker = Some(context.waker().clone()),
            // It ended between the two looks, or was fetched: a future that is polled after its
            // end.
            State::Ended(_) => context.waker().wake_by_ref(),
            State::Fetched => return Poll::Ready(Err(JoinError::Cancelled)),
        }
        Poll::Pending
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's end without a result, whatever that would have been.
pub(crate) trait Abandon {
    fn abandon(&self, why: JoinError);
}

impl<T> Abandon for Join<T> {
    fn abandon(&self, why: JoinError) {
        self.end(Err(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_counts_and_is_fetched_once() {
        let join = Join::new();
        assert_eq!(join.fetch(), None);
        join.end(Ok(7));
        join.abandon(JoinError::Cancelled);
        assert_eq!(join.fetch(), Some(Ok(7)));
        assert_eq!(join.fetch(), None);
    }

    #[test]
    fn the_words_of_a_panic_are_kept() {
        let words: [Box<dyn Any + Send>; 3] =
            [Box::new("one"), Box::new("two".to_owned()), Box::new(3)];
        let errors = words.map(|words| JoinError::panicked(words.as_ref()).to_string());
        for (error, part) in errors.iter().zip([": one", ": two", "without words"]) {
            assert!(error.ends_with(part), "{error}");
        }
    }
}

//! The means by which a consumer sleeps and is woken, chosen by what else it waits for.
//!
//! A futex is the cheapest for both sides, and waits for one word only. Whoever waits for sockets
//! too (AF_XDP, eventfds of applications) polls them together with an eventfd of its own.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU32;

use base::Nanos;

use crate::eventfd::EventFd;
use crate::futex::{self, Scope};
use crate::poll::Waiter;

/// One consumer's means.
#[derive(Debug)]
pub enum Sleeper<'fd> {
    /// futex(2) on the word of its doorbell.
    Futex(Scope),
    /// ppoll(2) on its eventfd and everything else.
    Poll {
        /// The eventfd that whoever rings the doorbell writes to.
        wake: &'fd EventFd,
        /// All of them, the eventfd first.
        waiter: Waiter<'fd>,
    },
}

impl<'fd> Sleeper<'fd> {
    /// Polls when there are descriptors to wait for, else sleeps on the word. `None`: there are
    /// more descriptors than can be polled at once ([`crate::poll::WAIT_MAX`], one of them the
    /// eventfd).
    pub fn choose(
        scope: Scope,
        wake: &'fd EventFd,
        others: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) -> Option<Self> {
        let mut others = others.into_iter().peekable();
        if others.peek().is_none() {
            return Some(Self::Futex(scope));
        }
        let mut waiter = Waiter::new();
        let all = std::iter::once(wake.as_fd()).chain(others).all(|fd| waiter.add(fd));
        all.then_some(Self::Poll { wake, waiter })
    }

    /// The name, for people and programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Futex(_) => "futex",
            Self::Poll { .. } => "poll",
        }
    }

    /// Sleeps while `word` is 1, for at most so long ([`Nanos::FAR_FUTURE`]: for ever).
    pub fn sleep(&mut self, word: &AtomicU32, most: Nanos) {
        match self {
            Self::Futex(scope) => {
                futex::wait(word, 1, *scope, most);
            }
            Self::Poll { wake, waiter } => {
                waiter.wait(most);
                wake.drain();
            }
        }
    }
}

/// Wakes a consumer whose doorbell said that it sleeps. The ringer needs to know its means only.
pub fn wake(word: &AtomicU32, scope: Scope, wake: Option<&EventFd>) {
    match wake {
        Some(eventfd) => eventfd.ring(),
        None => {
            futex::wake(word, scope, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn is_woken(others: bool) {
        let (own, other) = (EventFd::new().expect("fds"), EventFd::new().expect("fds"));
        let word = AtomicU32::new(1);
        let fds = others.then_some(other.as_fd());
        let mut sleeper = Sleeper::choose(Scope::Private, &own, fds).expect("few descriptors");
        assert_eq!(sleeper.name(), if others { "poll" } else { "futex" });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                word.store(0, Ordering::Release);
                wake(&word, Scope::Private, others.then_some(&own));
            });
            // A futex that has changed already does not sleep; an eventfd remembers.
            sleeper.sleep(&word, Nanos::from_secs(30));
            assert_eq!(word.load(Ordering::Acquire), 0, "woken, and not timed out");
        });
        assert_eq!(own.drain(), 0, "the wake-up is used up");
    }

    #[test]
    fn a_sleeper_is_woken_by_its_own_means() {
        is_woken(false);
        is_woken(true);
    }

    #[test]
    fn a_sleeper_with_descriptors_is_woken_by_any_of_them() {
        let (own, other) = (EventFd::new().expect("fds"), EventFd::new().expect("fds"));
        let fds = [other.as_fd()];
        let mut sleeper = Sleeper::choose(Scope::Private, &own, fds).expect("few descriptors");
        other.ring();
        sleeper.sleep(&AtomicU32::new(1), Nanos::FAR_FUTURE);
    }

    #[test]
    fn more_descriptors_than_can_be_polled_are_refused() {
        let event = EventFd::new().expect("fds");
        let many = std::iter::repeat_n(event.as_fd(), crate::poll::WAIT_MAX);
        assert!(Sleeper::choose(Scope::Private, &event, many).is_none());
    }
}

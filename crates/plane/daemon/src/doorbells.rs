//! The descriptors by which applications with sockets wake workers: every sleeper hears all of
//! them.
//!
//! Each sleeper has an epoll of its own over all of them, edge by edge: who shared one could have a
//! ringing taken away by another who did not need it. Nothing is ever read from a descriptor whose
//! flags an application can change.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::AppId;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use sys::eventfd::EventFd;

/// All doorbells, and every thread that listens; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Doorbells {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    doorbells: Vec<(AppId, Arc<EventFd>)>,
    listeners: Vec<Arc<OwnedFd>>,
}

impl Doorbells {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on an application can wake workers.
    pub(crate) fn add(&self, app: AppId, doorbell: Arc<EventFd>) {
        let mut state = self.state();
        state.listeners.retain(|listener| Arc::strong_count(listener) > 1);
        for listener in &state.listeners {
            listen(listener, app, &doorbell);
        }
        state.doorbells.push((app, doorbell));
    }

    /// It is gone.
    pub(crate) fn remove(&self, app: AppId) {
        let mut state = self.state();
        let State { doorbells, listeners } = &mut *state;
        for (_, doorbell) in doorbells.extract_if(.., |(other, _)| *other == app) {
            for listener in &*listeners {
                let _ = epoll::delete(&**listener, &*doorbell);
            }
        }
    }

    /// For one more sleeper.
    pub(crate) fn listener(&self) -> rustix::io::Result<Listener> {
        let all = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let mut state = self.state();
        for (app, doorbell) in &state.doorbells {
            listen(&all, *app, doorbell);
        }
        state.listeners.push(Arc::clone(&all));
        Ok(Listener { all })
    }
}

fn listen(all: &OwnedFd, app: AppId, doorbell: &EventFd) {
    let data = EventData::new_u64(u64::from(app.0));
    // Without it the application is heard when the sleeper wakes for other reasons.
    let _ = epoll::add(all, doorbell, data, EventFlags::IN | EventFlags::ET);
}

/// What one sleeper waits for.
pub(crate) struct Listener {
    all: Arc<OwnedFd>,
}

impl Listener {
    /// Takes the ringings that woke us.
    pub(crate) fn drain(&self) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 16];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        while epoll::wait(&*self.all, &mut events, Some(&at_once)).is_ok_and(|n| n == events.len())
        {
        }
    }
}

impl AsFd for Listener {
    /// Readable when somebody has rung.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }
}

//! Many sockets of one thread behind one epoll(7): servers and clients of Linux.

use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// Events of one look, at most.
const EVENTS: usize = 256;

/// The sockets, each by a number of its own.
pub struct Watch {
    epoll: OwnedFd,
    /// What the last look found.
    events: Vec<(usize, EventFlags)>,
    timeout: Timespec,
}

impl Watch {
    /// Of nothing yet; a look waits so long for something to happen.
    ///
    /// # Errors
    /// The kernel gives no epoll.
    pub fn new(timeout: Duration) -> Result<Self> {
        let timeout = Timespec::try_from(timeout).map_err(Error::other)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS), timeout })
    }

    /// Watches a socket for `flags`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number as u64), flags)?)
    }

    /// From now on for other flags.
    ///
    /// # Errors
    /// It is not watched.
    pub fn change(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(number as u64), flags)?)
    }

    /// Looks once: how many sockets something has happened to. [`Self::event`] tells which.
    ///
    /// # Errors
    /// The kernel refuses.
    #[inline]
    pub fn look(&mut self) -> Result<usize> {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        self.events.clear();
        match epoll::wait(&self.epoll, &mut room, Some(&self.timeout)) {
            // A signal: whoever looks next sees what it was.
            Err(Errno::INTR) => {}
            found => {
                let events = found?.0.iter();
                let events = events.map(|event| (event.data.u64() as usize, event.flags));
                self.events.extend(events);
            }
        }
        Ok(self.events.len())
    }

    /// The number of a socket that the last look found, and what has happened to it.
    #[inline]
    pub fn event(&self, at: usize) -> (usize, EventFlags) {
        self.events[at]
    }
}

//! Tasks that wait for sockets, for any executor: a poller, and which task to wake for each of its
//! sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use base::{RegionId, SlotId};
use rustix::io::Errno;

use super::poller::Poller;
use super::readiness::Readiness;
use super::session::Session;
use super::socket::Socket;

/// Sockets that are looked at in one turn.
const TURN: usize = 256;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Bytes, a connection, or the end.
    Read,
    /// Room.
    Write,
}

/// The tasks. Their executor calls [`Self::turn`] whenever [`Self::fd`] is readable, and before it
/// sleeps.
pub(crate) struct Reactor {
    session: Session,
    poller: Poller,
    sockets: Mutex<BTreeMap<(RegionId, SlotId), Waiting>>,
}

struct Waiting {
    socket: Socket,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Reactor {
    pub(crate) fn new(session: &Session) -> io::Result<Self> {
        let poller = session.poller().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { session: session.clone(), poller, sockets: Mutex::default() })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Takes part in the waiting for a socket.
    pub(crate) fn watch(&self, socket: &Socket) -> Result<(), Errno> {
        let waiting = Waiting { socket: socket.clone(), reader: None, writer: None };
        // Known before it is heard of; and not known if it will not be.
        self.sockets().insert(socket.key(), waiting);
        self.poller.add(socket).inspect_err(|_| _ = self.sockets().remove(&socket.key()))
    }

    pub(crate) fn forget(&self, socket: &Socket) {
        self.poller.remove(socket);
        self.sockets().remove(&socket.key());
    }

    /// Does a call that may find that it has to wait; the task is woken to try again then.
    pub(crate) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        socket: &Socket,
        direction: Direction,
        mut call: impl FnMut() -> Result<T, Errno>,
    ) -> Poll<Result<T, Errno>> {
        match call() {
            Err(Errno::AGAIN) => {}
            result => return Poll::Ready(result),
        }
        if let Some(waiting) = self.sockets().get_mut(&socket.key()) {
            let waker = match direction {
                Direction::Read => &mut waiting.reader,
                Direction::Write => &mut waiting.writer,
            };
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
        }
        // News may have come, and been heard, before there was anybody to wake.
        match call() {
            Err(Errno::AGAIN) => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    /// Wakes the tasks whose sockets have news; whether there was any.
    pub(crate) fn turn(&self) -> bool {
        let mut found = Vec::new();
        self.poller.take(&mut found, TURN);
        for key in &found {
            let wakers = self.sockets().get_mut(key).map(Waiting::due);
            // Woken without the lock: a waker may do as it likes.
            wakers.into_iter().flatten().flatten().for_each(Waker::wake);
        }
        !found.is_empty()
    }

    /// Readable, after [`Self::arm`], when there is news.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// Before sleeping on [`Self::fd`]. False: there is news already.
    pub(crate) fn arm(&self) -> bool {
        self.poller.arm()
    }

    /// After sleeping.
    pub(crate) fn disarm(&self) {
        self.poller.disarm();
    }

    /// Once [`Self::fd`] was found readable.
    pub(crate) fn drain(&self) {
        self.poller.drain();
    }

    fn sockets(&self) -> MutexGuard<'_, BTreeMap<(RegionId, SlotId), Waiting>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The tasks to wake for what the socket is ready for.
    fn due(&mut self) -> [Option<Waker>; 2] {
        if self.reader.is_none() && self.writer.is_none() {
            return [None, None];
        }
        let ready = self.socket.readiness();
        let reads = ready.intersects(Readiness::IN | Readiness::RDHUP | Readiness::ALWAYS);
        let writes = ready.intersects(Readiness::OUT | Readiness::ALWAYS);
        let reader = if reads { self.reader.take() } else { None };
        let writer = if writes { self.writer.take() } else { None };
        [reader, writer]
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("poller", &self.poller.number()).finish_non_exhaustive()
    }
}

//! One socket, whatever process or thread holds it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use attach::DetachReason;
use base::{Generation, RegionId, SlotId};
use rustix::io::Errno;
use shm::sockets::{Asks, Backlog, Kind, SlotOption, SlotState, SlotWords};

use super::lock::GIVEN_TO_KERNEL;
use super::readiness::Readiness;
use super::region::{Region, ring_notify_word};
use super::session::Session;
use super::slot::Slot;
use super::verdict::Verdict;

/// A TCP connection, a TCP listener or a UDP socket that the daemon serves. Clones are the same
/// socket; dropping them closes nothing, [`Socket::close`] does.
///
/// No call waits except [`Socket::wait`]: what would wait returns EAGAIN.
#[derive(Clone)]
pub struct Socket(Arc<Core>);

struct Core {
    session: Session,
    region: Arc<Region>,
    slot: SlotId,
    /// Another one: the socket is no more, and its slot another socket's.
    generation: Generation,
    kind: Kind,
}

/// The directions that shutdown(2) ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing more is read.
    Read,
    /// Nothing more is written; the peer sees the end of the stream.
    Write,
    /// Both.
    Both,
}

impl Socket {
    pub(crate) fn new(session: Session, region: Arc<Region>, slot: SlotId) -> Option<Self> {
        let words = region.memory.slot(slot)?;
        let generation = Generation(words.generation.load(Ordering::Acquire));
        let kind = words.state().kind();
        Some(Self(Arc::new(Core { session, region, slot, generation, kind })))
    }

    /// Its region and its place there: equal for all holders, in every process.
    pub fn key(&self) -> (RegionId, SlotId) {
        (self.0.region.id, self.0.slot)
    }

    /// Whether it is a TCP listener.
    pub fn is_listener(&self) -> bool {
        self.0.kind == Kind::Listener
    }

    /// Whether it is a UDP socket.
    pub fn is_datagram(&self) -> bool {
        self.0.kind == Kind::Datagram
    }

    /// Whether both ends are programs on this machine.
    pub fn is_local(&self) -> bool {
        self.0.region.is_local_pair()
    }

    /// Whether it is another application's, which it has come from.
    pub fn is_foreign(&self) -> bool {
        self.0.region.is_foreign
    }

    /// Whether the daemon that served it is gone: another one may serve it as a new socket.
    pub fn is_orphaned(&self) -> bool {
        matches!(
            self.0.region.detach_reason(),
            Some(DetachReason::DaemonGone | DetachReason::Stopping)
        )
    }

    /// Its words.
    ///
    /// # Errors
    /// It was closed, and is no more.
    #[inline]
    pub(crate) fn slot(&self) -> Result<Slot<'_>, Errno> {
        let words = self.words();
        if words.generation.load(Ordering::Relaxed) != self.0.generation.0 {
            return Err(Errno::NOTCONN);
        }
        Ok(Slot::new(&self.0.region, self.0.slot, words))
    }

    fn words(&self) -> &SlotWords {
        let words = self.0.region.memory.slot(self.0.slot);
        words.expect("a socket is made only of a slot that its region has")
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.0.region
    }

    /// The session of this process.
    pub fn session(&self) -> &Session {
        self.0.session.current()
    }

    /// What it is ready for. Costs no system call.
    pub fn readiness(&self) -> Readiness {
        let Ok(slot) = self.slot() else {
            return Readiness::IN | Readiness::OUT | Readiness::HUP | Readiness::RDHUP;
        };
        match self.0.kind {
            // Whoever looks finds out that the descriptor is the one to ask.
            Kind::Stream if slot.is_kernels() => !Readiness::EMPTY,
            Kind::Datagram => {
                let view = slot.datagram_view();
                if !view.lacks_room() {
                    return view.readiness();
                }
                slot.wait_for_room();
                slot.datagram_view().readiness()
            }
            _ => {
                let view = slot.view();
                if !view.lacks_room() {
                    return view.readiness();
                }
                // Whoever finds no room here may go to sleep on it: he is to be told of it. What
                // came before that was said is seen by a second look.
                slot.wait_for_room();
                slot.view().readiness()
            }
        }
    }

    /// Takes a connection that waits to be accepted. Give it a descriptor and [`Self::name`] it.
    ///
    /// # Errors
    /// EAGAIN: there is none. EINVAL: it does not listen, or not any more. ENOTCONN: it was closed.
    /// ECONNABORTED: it can be had no more. EMFILE and the like: it can when there are more
    /// descriptors, and goes on waiting.
    pub fn accept(&self) -> Result<Self, Errno> {
        let slot = self.slot()?;
        loop {
            match slot.view().accept() {
                Verdict::Copy => {}
                Verdict::Error => match slot.take_error() {
                    Some(error) => return Err(error),
                    None => continue,
                },
                Verdict::Fail(error) => return Err(error),
                Verdict::End | Verdict::Wait => return Err(Errno::AGAIN),
            }
            // Another thread or process may be faster: then look again.
            let memory = &slot.region.memory;
            let Some(next) = Backlog::oldest(memory, slot.words) else { continue };
            let session = self.session();
            session.reach(next.region, self.is_foreign())?;
            let Some(entry) = Backlog::take(memory, slot.words) else { continue };
            let region = session.region(entry.region);
            let region = region.map_err(|_| Errno::CONNABORTED)?;
            let accepted = Self::new(session.clone(), region, entry.slot);
            let accepted = accepted.ok_or(Errno::CONNABORTED)?;
            accepted.slot()?.ask(Asks::ACCEPTED);
            return Ok(accepted);
        }
    }

    /// Whether it is a listener, for the daemon too, at which a connection waits to be accepted.
    pub fn has_callers(&self) -> bool {
        let has_any = |slot: Slot<'_>| {
            let is_over = slot.words.state().has(SlotState::BROKEN | SlotState::FINISHED);
            !is_over && Backlog::has_any(&slot.region.memory, slot.words)
        };
        self.is_listener() && self.slot().is_ok_and(has_any)
    }

    /// Says which descriptor stands for it, by its SO_COOKIE: when the last copy of that descriptor
    /// is closed, in any process, the daemon closes the connection.
    pub fn name(&self, cookie: u64) {
        if let Ok(slot) = self.slot() {
            slot.words.cookie.store(cookie, Ordering::Release);
            slot.ask(Asks::NAMED);
        }
    }

    /// shutdown(2).
    ///
    /// # Errors
    /// ENOTCONN: it is not connected. [`GIVEN_TO_KERNEL`].
    pub fn shutdown(&self, how: Shutdown) -> Result<(), Errno> {
        let slot = self.slot()?;
        let asks = match how {
            Shutdown::Read => Asks::SHUT_READ,
            Shutdown::Write => Asks::SHUT_WRITE,
            Shutdown::Both => Asks::SHUT_READ | Asks::SHUT_WRITE,
        };
        let is_over = match self.0.kind {
            Kind::Stream => slot.view().is_closed(),
            _ => false,
        };
        if self.0.kind == Kind::Stream && slot.view().connect() == Verdict::Wait {
            // Of an attempt nothing is left, as in `inet_shutdown` of Linux.
            slot.break_off(Errno::CONNRESET);
            slot.ask(Asks::ABORT);
            self.tell_own(&slot);
            return Ok(());
        }
        let _lock = match self.0.kind {
            // Under the lock it is heard before the connection is given away, or not at all.
            Kind::Stream => match slot.hold(&slot.words.tx_lock) {
                Err(GIVEN_TO_KERNEL) => return Err(GIVEN_TO_KERNEL),
                other => other.ok(),
            },
            _ => None,
        };
        slot.ask(asks);
        self.tell_own(&slot);
        if is_over { Err(Errno::NOTCONN) } else { Ok(()) }
    }

    /// How many bytes have come, ever, and the position of the last urgent one among them: two
    /// looks tell whether something came in between.
    pub fn came(&self) -> (u64, u64) {
        let Ok(slot) = self.slot() else { return (0, 0) };
        (slot.unread().map_or(0, |unread| unread.tail), slot.urgent_mark())
    }

    /// The last descriptor was closed: what was written is still sent, as with close(2).
    pub fn close(&self) {
        self.finish(Asks::CLOSE);
    }

    /// Ends the connection at once; the peer is told by a reset.
    pub fn abort(&self) {
        self.finish(Asks::ABORT | Asks::CLOSE);
    }

    fn finish(&self, asks: u32) {
        if let Ok(slot) = self.slot() {
            slot.ask(asks);
            self.tell_own(&slot);
        }
    }

    /// Wakes the threads of this application that wait for the socket: it was changed from here.
    fn tell_own(&self, slot: &Slot<'_>) {
        ring_notify_word(slot.words);
        if slot.region.is_foreign {
            return;
        }
        let pollers = self.session().pollers();
        let side = slot.region.side(slot.slot);
        slot.region.call_pollers(slot.slot, slot.words, side, |poller| pollers.poke(poller));
    }

    /// Its own address; `None` if it has none.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.slot().ok()?.words.local.get()
    }

    /// The peer's address; `None` if it is not connected.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.slot().ok()?.words.remote.get()
    }

    /// Takes the waiting error, if there is one: SO_ERROR of socket(7).
    pub fn take_error(&self) -> Option<Errno> {
        let slot = self.slot().ok()?;
        slot.settle();
        slot.take_error()
    }

    /// The result of a connect(2) that has begun.
    ///
    /// # Errors
    /// EAGAIN: the attempt goes on. ENOTCONN: the socket was closed. Otherwise the error with which
    /// the attempt has failed, such as ECONNREFUSED.
    pub fn connected(&self) -> Result<(), Errno> {
        let slot = self.slot()?;
        match slot.view().connect() {
            Verdict::Copy | Verdict::End => Ok(()),
            Verdict::Error => Err(slot.take_error().unwrap_or(Errno::CONNABORTED)),
            Verdict::Fail(error) => Err(error),
            Verdict::Wait => Err(Errno::AGAIN),
        }
    }

    /// Whether a TCP connection stands: the peer has answered, and it is not over. Takes no error.
    pub fn is_connected(&self) -> bool {
        self.slot().is_ok_and(|slot| slot.view().connect() == Verdict::Copy)
    }

    /// Whether an attempt to connect was given up by shutdown(2): its descriptor may begin another.
    pub fn was_given_up(&self) -> bool {
        let gave_up = |slot: Slot<'_>| {
            let asks = slot.words.asks();
            asks.has(Asks::ABORT) && !asks.has(Asks::CLOSE)
        };
        self.0.kind == Kind::Stream && self.slot().is_ok_and(gave_up)
    }

    /// Whether the daemon has given the connection to the kernel: its descriptor stands for it from
    /// now on, and every call here fails with [`GIVEN_TO_KERNEL`](super::GIVEN_TO_KERNEL).
    #[inline]
    pub fn is_kernels(&self) -> bool {
        self.0.kind == Kind::Stream && self.slot().is_ok_and(|slot| slot.is_kernels())
    }

    /// Says that whoever holds it heeds [`Self::is_kernels`]. Without that the daemon keeps the
    /// connection, and resets it when it ends.
    pub fn follow_to_kernel(&self) {
        if let Ok(slot) = self.slot() {
            slot.words.follows.store(1, Ordering::Release);
        }
    }

    /// Takes that back: this process can take nothing from the daemon any more. Makes no system
    /// call.
    pub fn follow_no_more(&self) {
        if let Ok(slot) = self.slot() {
            slot.words.follows.store(0, Ordering::Release);
        }
    }

    /// Whether it is of no use any more: it was closed, or the daemon is gone.
    pub fn is_over(&self) -> bool {
        self.slot().map_or(true, |slot| match self.0.kind {
            Kind::Datagram => slot.datagram_view().is_closed,
            _ => slot.view().is_closed(),
        })
    }

    /// Sets an option that the daemon carries out or all holders share; how each is counted stands
    /// at [`SlotOption`].
    pub fn set_option(&self, option: SlotOption, value: u32) {
        if let Ok(slot) = self.slot() {
            slot.words.set_option(option, value);
            match self.is_listener() {
                true => slot.region.tell_all(slot.slot),
                false => slot.tell(),
            }
        }
    }

    /// The value of an option; zero is the default.
    pub fn option(&self, option: SlotOption) -> u32 {
        self.slot().map_or(0, |slot| slot.words.option(option))
    }

    /// The file status flags (O_NONBLOCK and the like) of all descriptors that stand for it.
    pub fn flags(&self) -> u32 {
        self.slot().map_or(0, |slot| slot.words.file_flags.load(Ordering::Relaxed))
    }

    /// Sets the file status flags of all descriptors that stand for it.
    pub fn set_flags(&self, flags: u32) {
        if let Ok(slot) = self.slot() {
            slot.words.file_flags.store(flags, Ordering::Relaxed);
        }
    }

    /// Other processes may have descriptors of it from now on: a close here is not the last.
    pub fn mark_shared(&self) {
        if let Ok(slot) = self.slot() {
            slot.words.is_shared.store(1, Ordering::Release);
        }
    }

    /// Whether [`Self::mark_shared`] was called, by any process.
    pub fn is_shared(&self) -> bool {
        self.slot().is_ok_and(|slot| slot.words.is_shared.load(Ordering::Acquire) != 0)
    }
}

impl PartialEq for Socket {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key() && self.0.generation == other.0.generation
    }
}

impl Eq for Socket {}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (region, slot) = self.key();
        write!(f, "{:?} {} of region {}", self.0.kind, slot.0, region.0)
    }
}

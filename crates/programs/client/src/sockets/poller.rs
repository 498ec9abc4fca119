//! The poller of a thread that waits for many sockets at once.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attach::{AttachError, Call, Reply};
use base::{RegionId, SlotId};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use shm::sockets::Side;
use sys::SysError;
use sys::descriptor;

use super::answer::unusable;
use super::pollers::TAG;
use super::region::Region;
use super::session::Session;
use super::socket::Socket;
use super::watcher::Watcher;

/// Hears of all its sockets: each one that has news is marked in shared memory, and [`Poller::fd`]
/// becomes readable if the poller is armed.
///
/// The usual turn: [`Poller::take`]; if that gives nothing, [`Poller::arm`]; if that is true, poll
/// [`Poller::fd`]; then [`Poller::disarm`] and [`Poller::drain`]. What is taken is a hint to look
/// at the socket's readiness. When the daemon dies, all sockets are taken once.
#[derive(Debug)]
pub struct Poller {
    session: Session,
    number: u32,
    /// Readable by the pipe, by the doorbells of local pairs, when it is poked, and when the daemon
    /// is gone.
    epoll: Arc<OwnedFd>,
    /// The daemon writes a byte to it.
    pipe: OwnedFd,
    cursor: AtomicU32,
    /// There are local pairs among the members, or were.
    has_local_pairs: AtomicBool,
    /// Threads in [`Self::sleep_beside`].
    sleepers: AtomicU32,
    /// All members were taken because the daemon is gone.
    has_told_end: AtomicBool,
    members: Mutex<Members>,
    /// Sockets of other applications that may have news.
    from_afar: Arc<Mutex<BTreeSet<Key>>>,
}

type Key = (RegionId, SlotId);

#[derive(Debug, Default)]
struct Members {
    sockets: BTreeMap<Key, Socket>,
    local_pairs: Vec<LocalPair>,
    /// Those that belong to other applications.
    watchers: BTreeMap<Key, Watcher>,
}

/// Local connections of one kind: with one other application, opened by the same side.
#[derive(Debug)]
struct LocalPair {
    region: Arc<Region>,
    side: Side,
    cursor: u32,
    sockets: u32,
}

impl Poller {
    pub(crate) fn new(session: Session) -> Result<Self, AttachError> {
        let (reply, descriptors) = session.call(&Call::Poller, None)?;
        let number = match reply {
            Reply::Poller { poller } => poller,
            Reply::Errno { .. } => {
                return Err(AttachError::Refused("the application has no more pollers".to_owned()));
            }
            _ => return Err(unusable("it answers another question")),
        };
        let pipe = descriptors.into_iter().next();
        let pipe = pipe.ok_or_else(|| unusable("a poller came without its pipe"))?;
        let pipe = descriptor::out_of_the_way(pipe);
        let failed = |errno| SysError::new("listen to sockets", errno, "raise `ulimit -n`");
        set_nonblocking(&pipe).map_err(failed)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let epoll = descriptor::out_of_the_way(epoll);
        let add = |fd: BorrowedFd<'_>, flags| epoll::add(&epoll, fd, TAG, flags);
        let at_edges = epoll::EventFlags::ET;
        add(pipe.as_fd(), epoll::EventFlags::IN)
            .and_then(|()| add(session.link(), at_edges | epoll::EventFlags::RDHUP))
            .and_then(|()| add(session.pollers().lit(), at_edges | epoll::EventFlags::IN))
            .map_err(failed)?;
        let epoll = Arc::new(epoll);
        let known = (number, Arc::clone(&epoll), pipe.as_raw_fd());
        session.pollers().change(|list| {
            list.retain(|(known, ..)| *known != number);
            list.push(known);
        });
        let poller = Self {
            session,
            number,
            epoll,
            pipe,
            cursor: AtomicU32::new(0),
            has_local_pairs: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            has_told_end: AtomicBool::new(false),
            members: Mutex::default(),
            from_afar: Arc::default(),
        };
        // What was always lit was just heard of.
        poller.drain_edges();
        Ok(poller)
    }

    /// Its number in the application.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Readable, after [`Self::arm`], when a socket has news. Do not read it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Hears of `socket` from now on; it is taken at once, in case it has news already.
    ///
    /// # Errors
    /// ENOTCONN: it was closed. ENOMEM and the like: the kernel cannot watch its local pair.
    pub fn add(&self, socket: &Socket) -> Result<(), Errno> {
        let slot = socket.slot()?;
        let region = socket.region();
        let side = region.side(slot.slot);
        let mut members = self.members();
        if members.sockets.contains_key(&socket.key()) {
            return Ok(());
        }
        if region.is_foreign {
            let watcher = self.watch_from_afar(socket).ok_or(Errno::NOMEM)?;
            members.watchers.insert(socket.key(), watcher);
            members.sockets.insert(socket.key(), socket.clone());
            return Ok(());
        }
        if let Some(wake) = region.wake_of(side) {
            match members.local_pair(region, side) {
                Some(local_pair) => local_pair.sockets += 1,
                None => {
                    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                    epoll::add(&self.epoll, wake, TAG, flags)?;
                    let region = Arc::clone(region);
                    members.local_pairs.push(LocalPair { region, side, cursor: 0, sockets: 1 });
                    self.has_local_pairs.store(true, Ordering::Release);
                }
            }
        }
        members.sockets.insert(socket.key(), socket.clone());
        let bit = 1 << (self.number % 64);
        slot.words.pollers[(self.number / 64) as usize].fetch_or(bit, Ordering::AcqRel);
        if let Some(ready_bits) = region.poller(side, self.number)
            && ready_bits.set(slot.slot)
        {
            self.session.pollers().poke(self.number);
        }
        Ok(())
    }

    fn watch_from_afar(&self, socket: &Socket) -> Option<Watcher> {
        let (key, number) = (socket.key(), self.number);
        let (from_afar, pollers) =
            (Arc::clone(&self.from_afar), Arc::clone(self.session.pollers()));
        Watcher::start(socket.clone(), move || {
            from_afar.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
            pollers.poke(number);
        })
    }

    /// Hears of it no more.
    pub fn remove(&self, socket: &Socket) {
        let mut members = self.members();
        if members.sockets.remove(&socket.key()).is_none()
            || members.watchers.remove(&socket.key()).is_some()
        {
            return;
        }
        self.forget(socket);
        // Even of one that was closed meanwhile the local pair is to know.
        let (region, side) = (socket.region(), socket.region().side(socket.key().1));
        if let Some(local_pair) = members.local_pair(region, side) {
            local_pair.sockets -= 1;
            if let (0, Some(wake)) = (local_pair.sockets, region.wake_of(side)) {
                // It fails only for what is not in it.
                let _ = epoll::delete(&self.epoll, wake);
                members.local_pairs.retain(|local_pair| local_pair.sockets > 0);
            }
        }
    }

    fn forget(&self, socket: &Socket) {
        if let Ok(slot) = socket.slot()
            && !slot.region.is_foreign
        {
            let bit = 1_u64 << (self.number % 64);
            slot.words.pollers[(self.number / 64) as usize].fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Adds the sockets that have had news to `found`, about `limit` at most; the rest is there the
    /// next time. Costs no system call.
    pub fn take(&self, found: &mut Vec<(RegionId, SlotId)>, limit: usize) {
        let own = self.session.own_region();
        if let Some(ready_bits) = own.poller(Side::Zero, self.number) {
            let mut cursor = self.cursor.load(Ordering::Relaxed);
            ready_bits.take(&mut cursor, limit, |slot| found.push((own.id, slot)));
            self.cursor.store(cursor, Ordering::Relaxed);
        }
        if self.has_local_pairs.load(Ordering::Acquire) {
            for local_pair in &mut self.members().local_pairs {
                let LocalPair { region, side, cursor, .. } = local_pair;
                if let Some(ready_bits) = region.poller(*side, self.number) {
                    ready_bits.take(cursor, limit, |slot| found.push((region.id, slot)));
                }
            }
        }
        found.extend(std::mem::take(&mut *self.news_from_afar()));
        if own.is_over() && !self.has_told_end.swap(true, Ordering::AcqRel) {
            found.extend(self.members().sockets.keys());
        }
    }

    /// Has [`Self::fd`] become readable with the next news. False: there is some already, so do not
    /// sleep.
    #[must_use = "a thread that sleeps although there is news sleeps too long"]
    pub fn arm(&self) -> bool {
        let own = self.session.own_region();
        let is_quiet = |region: &Region, side| {
            region.poller(side, self.number).is_none_or(|ready_bits| ready_bits.arm())
        };
        let mut may_sleep = is_quiet(own, Side::Zero);
        if self.has_local_pairs.load(Ordering::Acquire) {
            for local_pair in &self.members().local_pairs {
                may_sleep &= is_quiet(&local_pair.region, local_pair.side);
            }
        }
        let has_end_to_tell = own.is_over() && !self.has_told_end.load(Ordering::Acquire);
        if has_end_to_tell || !self.news_from_afar().is_empty() {
            may_sleep = false;
        }
        if !may_sleep {
            self.disarm();
        }
        may_sleep
    }

    /// No thread sleeps on [`Self::fd`] any more: takes back [`Self::arm`].
    pub fn disarm(&self) {
        let disarm = |region: &Region, side| {
            if let Some(ready_bits) = region.poller(side, self.number) {
                ready_bits.disarm();
            }
        };
        disarm(self.session.own_region(), Side::Zero);
        if self.has_local_pairs.load(Ordering::Acquire) {
            for local_pair in &self.members().local_pairs {
                disarm(&local_pair.region, local_pair.side);
            }
        }
    }

    /// Sleeps until there is news or `other` is readable, for at most `most`. It is for pollers of
    /// one socket, which is looked at after that anyway. Several threads may; each calls
    /// [`Self::pass_on`] when it goes.
    pub(crate) fn sleep_beside(&self, other: impl AsFd, most: &Timespec) -> Result<(), Errno> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let result = if self.arm() {
            let poller = self.fd();
            let mut fds = [PollFd::new(&other, PollFlags::IN), PollFd::new(&poller, PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(most)).map(drop)
        } else {
            Ok(())
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        // It may stay armed: that costs a byte in the pipe.
        self.drain();
        self.take(&mut Vec::new(), usize::MAX);
        result
    }

    /// A thread goes away that may have been called: the others that sleep are called if there is
    /// more, and else with what comes.
    pub(crate) fn pass_on(&self, has_more: impl FnOnce() -> bool) {
        if self.sleepers.load(Ordering::SeqCst) > 0 && (has_more() || !self.arm()) {
            self.poke();
        }
    }

    /// Wakes a thread that sleeps on [`Self::fd`] as if there were news: for a thread that goes
    /// away with something left for the others.
    pub fn poke(&self) {
        self.session.pollers().poke(self.number);
    }

    /// Makes [`Self::fd`] quiet again, after it was found readable.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        loop {
            match rustix::io::read(&self.pipe, &mut bytes) {
                Ok(0) => {
                    // The daemon is gone, and the pipe would be readable for ever.
                    let _ = epoll::delete(&self.epoll, &self.pipe);
                    self.session.is_alive();
                }
                Ok(count) if count == bytes.len() => continue,
                Ok(_) => return,
                // Nothing from the daemon: it was something else.
                Err(_) => {}
            }
            return self.drain_edges();
        }
    }

    fn drain_edges(&self) {
        let mut events = Vec::with_capacity(16);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        while epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once))
            .is_ok_and(|count| count == 16)
        {
            events.clear();
        }
        if !self.session.own_region().is_over() {
            self.session.is_alive();
        }
    }

    fn news_from_afar(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.from_afar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn local_pair(&mut self, region: &Arc<Region>, side: Side) -> Option<&mut LocalPair> {
        let is_it = |local_pair: &&mut LocalPair| {
            local_pair.region.id == region.id && local_pair.side == side
        };
        self.local_pairs.iter_mut().find(is_it)
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // In a forked child it is still the parent's.
        if !self.session.is_current() {
            return;
        }
        self.session.pollers().change(|list| list.retain(|(number, ..)| *number != self.number));
        let sockets = std::mem::take(&mut self.members().sockets);
        sockets.values().for_each(|socket| self.forget(socket));
        let _ = self.session.call(&Call::DropPoller { poller: self.number }, None);
    }
}

fn set_nonblocking(pipe: &OwnedFd) -> Result<(), Errno> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    fcntl_getfl(pipe).and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK))
}

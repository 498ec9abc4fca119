//! The daemon's side: it has guardians started, and tells them what to hold.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{AppId, Nanos};
use config::Config;
use port::Opener;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use sys::SysError;
use sys::pidfd::PidFd;

use super::lock::Lock;
use super::message::{Kind, Message, send};
use super::starter::Starter;

/// A guardian that does not read for this long counts as dead.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// One that was told that the daemon ends has nothing more to do.
const ENDS_WITHIN: Nanos = Nanos::from_secs(5);

/// How often another guardian is started in the place of one that has ended: by then it is no
/// accident.
const AGAIN_MAX: usize = 7;

/// How long the first of them is waited for; the next ones twice as long each.
const AGAIN_AFTER: Nanos = Nanos::from_secs(1);

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardianState {
    /// It lives, and knows everything.
    Well,
    /// It has ended, and another one will be started.
    Ended,
    /// It has ended so often that no other one will be.
    GivenUp,
}

/// The guardian, as the daemon has it; clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Guardian(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    starter: Starter,
    /// The ways to the guardian and to those before it; one that could not be started has none.
    channels: [OnceLock<OwnedFd>; 1 + AGAIN_MAX],
    /// How many were started.
    started: AtomicUsize,
    /// What each is told first.
    first: OnceLock<Vec<(Message, Vec<OwnedFd>)>>,
    keys: AtomicU64,
    /// It has ended, or does not read.
    is_lost: AtomicBool,
    /// That was said.
    has_told_loss: AtomicBool,
    /// When another one is due, in nanoseconds.
    again_at: AtomicU64,
}

impl Guardian {
    /// Starts this program as the guardian.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let guardian = Self(Arc::new(Shared {
            starter: Starter::start()?,
            channels: Default::default(),
            started: AtomicUsize::new(0),
            first: OnceLock::new(),
            keys: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            has_told_loss: AtomicBool::new(false),
            again_at: AtomicU64::new(Nanos::FAR_FUTURE.0),
        }));
        guardian.start_one()?;
        Ok(guardian)
    }

    fn start_one(&self) -> io::Result<()> {
        let Shared { starter, channels, started, .. } = &*self.0;
        let place = channels.get(started.fetch_add(1, Ordering::Relaxed));
        let channel = starter.start_guardian()?;
        set_socket_timeout(&channel, Timeout::Send, Some(TOLD_WITHIN))?;
        let is_new = place.is_some_and(|place| place.set(channel).is_ok());
        if is_new { Ok(()) } else { Err(ErrorKind::AlreadyExists.into()) }
    }

    /// Tells it what the start has opened; `lock` is of the daemon's place.
    ///
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn begin(
        &self,
        opener: &Opener,
        lock: &Lock,
        config: &Config,
    ) -> Result<(), SysError> {
        let copied = |descriptors: &[BorrowedFd<'_>]| {
            let copies = descriptors.iter().map(BorrowedFd::try_clone_to_owned);
            copies.collect::<io::Result<Vec<_>>>().map_err(|error| {
                let errno = rustix::io::Errno::from_io_error(&error);
                let errno = errno.unwrap_or(rustix::io::Errno::MFILE);
                SysError::new("copy descriptors for the guardian", errno, "")
            })
        };
        let mut first = Vec::new();
        for interface in opener.interfaces() {
            let link = interface.link_fd()?;
            let maps = [interface.ours().as_fd(), interface.flows().as_fd()];
            let more = [Some(interface.sockets_fd()), link.as_ref().map(AsFd::as_fd)];
            let all: Vec<_> = maps.into_iter().chain(more.into_iter().flatten()).collect();
            let text = interface.name().to_owned();
            first.push((Message { text, ..Message::of(Kind::Interface) }, copied(&all)?));
        }
        for socket in opener.umem().copies() {
            first.push((Message::of(Kind::Socket), copied(&[socket.as_fd()])?));
        }
        let pid = std::process::id();
        let own = PidFd::open(pid)?;
        let beside: Vec<_> = [Some(own.as_fd()), lock.descriptor()].into_iter().flatten().collect();
        let (key, app) = (pid.into(), AppId(config.confine.into()));
        let number = config.sockets.hang_ms.into();
        first.push((Message { key, app, number, ..Message::of(Kind::Begin) }, copied(&beside)?));
        let _ = self.0.first.set(first);
        self.tell_first();
        Ok(())
    }

    fn tell_first(&self) {
        for (message, descriptors) in self.0.first.get().into_iter().flatten() {
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            self.tell(message, &descriptors);
        }
    }

    /// Has it hold something for as long as the result lives, or until there is another one, which
    /// has to be told again.
    pub(crate) fn hold(
        &self,
        kind: Kind,
        app: AppId,
        number: u64,
        descriptors: &[BorrowedFd<'_>],
    ) -> Guarded {
        let key = self.0.keys.fetch_add(1, Ordering::Relaxed) + 1;
        self.tell(&Message { key, app, number, ..Message::of(kind) }, descriptors);
        Guarded { guardian: self.clone(), key }
    }

    fn tell(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) {
        if self.0.is_lost.load(Ordering::Relaxed) {
            return;
        }
        let is_told = self.descriptor_of_present();
        let is_told = is_told.is_some_and(|to| send(to, message, descriptors).is_ok());
        if !is_told {
            // It does not know of something: what it would do is not what it should.
            self.0.is_lost.store(true, Ordering::Relaxed);
        }
    }

    fn descriptor_of_present(&self) -> Option<BorrowedFd<'_>> {
        let at = self.0.started.load(Ordering::Relaxed).checked_sub(1)?;
        self.0.channels.get(at)?.get().map(AsFd::as_fd)
    }

    /// Whether it was found to be lost since the last call, at `now`. It says nothing, so what can
    /// be read is its end.
    pub(crate) fn has_just_ended(&self, now: Nanos) -> bool {
        let Shared { is_lost, has_told_loss, .. } = &*self.0;
        if !is_lost.load(Ordering::Relaxed) {
            let channel = self.descriptor_of_present();
            let has_ended = channel.is_none_or(|one| sys::poll::wait_readable(one, Nanos::ZERO));
            is_lost.store(has_ended, Ordering::Relaxed);
        }
        let is_lost = is_lost.load(Ordering::Relaxed);
        let has_just_ended = is_lost && !has_told_loss.swap(true, Ordering::Relaxed);
        if has_just_ended {
            // It may only be slow.
            self.0.starter.end_guardian();
            self.0.again_at.store(self.due(now).0, Ordering::Relaxed);
        }
        has_just_ended
    }

    fn due(&self, now: Nanos) -> Nanos {
        match self.0.started.load(Ordering::Relaxed) {
            started @ 1..=AGAIN_MAX => now + Nanos(AGAIN_AFTER.0 << (started - 1)),
            _ => Nanos::FAR_FUTURE,
        }
    }

    /// When another one is to be started.
    pub(crate) fn again_at(&self) -> Nanos {
        Nanos(self.0.again_at.load(Ordering::Relaxed))
    }

    /// Starts another one if that is due at `now`. Whether there is one: it has heard of no
    /// program yet.
    pub(crate) fn is_started_again(&self, now: Nanos) -> bool {
        if now < self.again_at() {
            return false;
        }
        self.0.again_at.store(Nanos::FAR_FUTURE.0, Ordering::Relaxed);
        let is_started = self.start_one().is_ok();
        self.0.has_told_loss.store(false, Ordering::Relaxed);
        self.0.is_lost.store(!is_started, Ordering::Relaxed);
        self.tell_first();
        is_started
    }

    /// How it is, as far as is known.
    pub(crate) fn state(&self) -> GuardianState {
        match self.0.is_lost.load(Ordering::Relaxed) {
            false => GuardianState::Well,
            true if self.again_at() == Nanos::FAR_FUTURE => GuardianState::GivenUp,
            true => GuardianState::Ended,
        }
    }

    /// Says that the daemon's loop goes round.
    pub(crate) fn say_alive(&self) {
        self.tell_if_it_hears(Kind::Alive);
    }

    /// Says that the daemon ends in order, and need not answer meanwhile.
    pub(crate) fn say_ending(&self) {
        self.tell_if_it_hears(Kind::Ending);
    }

    /// What is said again, or means nothing to one that has just begun.
    fn tell_if_it_hears(&self, kind: Kind) {
        if let Some(to) = self.descriptor_of_present() {
            let _ = send(to, &Message::of(kind), &[]);
        }
    }

    /// Readable when it has ended, unless that is known.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let is_told = self.0.has_told_loss.load(Ordering::Relaxed);
        self.descriptor_of_present().filter(|_| !is_told)
    }

    /// The daemon ends in order: the guardian lets go of everything. Waits for that, not for ever.
    pub(crate) fn end(&self) {
        self.tell(&Message::of(Kind::Bye), &[]);
        if let Some(channel) = self.descriptor() {
            sys::poll::wait_readable(channel, ENDS_WITHIN);
        }
    }
}

/// Something that the guardian holds.
#[derive(Debug)]
pub(crate) struct Guarded {
    guardian: Guardian,
    key: u64,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let Self { guardian, key } = self;
        guardian.tell(&Message { key: *key, ..Message::of(Kind::Gone) }, &[]);
    }
}

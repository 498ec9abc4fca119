//! A socket that the data plane serves, as this process knows it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use calisto_client::sockets::{Readiness, Socket, SocketOption, Watcher, is_confined};
use libc::c_int;

use crate::entry::memberships::Memberships;
use crate::system::fork;
use crate::system::lock::Lock;

/// What kind of socket it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A TCP connection, also one that is being opened.
    Stream,
    /// A TCP listener: beside the kernel's own behind the same descriptor.
    Listener,
    /// A UDP socket.
    Datagram,
}

/// A socket of the data plane behind a descriptor.
pub(crate) struct File {
    /// The data plane's side.
    pub(crate) socket: Socket,
    /// What it is.
    pub(crate) kind: Kind,
    /// AF_INET or AF_INET6, as the program has asked for: how addresses look.
    pub(crate) family: c_int,
    /// How many children this process had had when the socket was made: those know nothing of it.
    forks: u32,
    /// A writer found no room: a thread that waits for room at an edge is told once there is some.
    lacks_room: AtomicBool,
    /// A connection was asked for, and the program has not been told what became of it.
    is_opening: AtomicBool,
    /// Its descriptors stand for another socket by now: one of the daemon that was started since.
    was_renewed: AtomicBool,
    /// See [`Self::cookie`].
    cookie: AtomicU64,
    /// The kernel's half has the beginning of a datagram, which the next calls go on with.
    has_begun: AtomicBool,
    /// Each message says how many bytes are left (TCP_INQ).
    tells_unread: AtomicBool,
    /// See [`Self::leads_to`]: whether it is of IPv6 alone; zero: nobody has asked.
    v6_only: AtomicU8,
    /// The thread that sends signals when there is news, if the program wants them.
    alarm: Lock<Option<Watcher>>,
    /// The sets of epoll(7) that it is a member of.
    pub(crate) memberships: Memberships,
}

impl File {
    /// A socket of this process, of which other processes know nothing yet.
    pub(crate) fn new(socket: Socket, kind: Kind, family: c_int) -> Self {
        if kind == Kind::Stream && !is_confined() {
            socket.follow_to_kernel();
        }
        Self {
            socket,
            kind,
            family,
            forks: fork::forks(),
            lacks_room: AtomicBool::new(false),
            is_opening: AtomicBool::new(false),
            was_renewed: AtomicBool::new(false),
            cookie: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            tells_unread: AtomicBool::new(false),
            v6_only: AtomicU8::new(0),
            alarm: Lock::new(None),
            memberships: Memberships::default(),
        }
    }

    /// What the data plane's side is ready for. A side that has come to its end, because the daemon
    /// has, says nothing where the kernel has the other half: that goes on.
    pub(crate) fn readiness(&self) -> Readiness {
        let ready = self.socket.readiness();
        let has_ended = match self.kind {
            Kind::Stream => false,
            // A listener has no error but the one that it ends with.
            Kind::Listener => ready.intersects(Readiness::ERR | Readiness::HUP),
            // What ICMP says of a datagram is an error that a later call tells, and more may be
            // there.
            Kind::Datagram => ready.contains(Readiness::HUP) || self.socket.is_over(),
        };
        if has_ended { Readiness::EMPTY } else { ready }
    }

    /// Whether calls that cannot be served at once fail instead of waiting.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.socket.flags() & libc::O_NONBLOCK as u32 != 0
    }

    /// Makes calls wait, or not.
    pub(crate) fn set_nonblocking(&self, yes: bool) {
        let flags = self.socket.flags() & !(libc::O_NONBLOCK as u32);
        self.socket.set_flags(if yes { flags | libc::O_NONBLOCK as u32 } else { flags });
    }

    /// Whether other processes may have the socket too, so that its last close is only the kernel's
    /// to know.
    pub(crate) fn is_shared(&self) -> bool {
        self.forks != fork::forks() || self.socket.is_shared()
    }

    /// Whether the program is to be told what became of its connection.
    pub(crate) fn is_opening(&self) -> bool {
        self.is_opening.load(Ordering::Relaxed)
    }

    /// See [`Self::is_opening`].
    pub(crate) fn set_opening(&self, yes: bool) {
        self.is_opening.store(yes, Ordering::Relaxed);
    }

    /// Whether its descriptors stand for another socket by now, so that calls which wait for this
    /// one begin anew.
    pub(crate) fn was_renewed(&self) -> bool {
        self.was_renewed.load(Ordering::Acquire)
    }

    /// See [`Self::was_renewed`].
    pub(crate) fn set_renewed(&self) {
        self.was_renewed.store(true, Ordering::Release);
    }

    /// Whether its connection was given to the kernel, and its numbers stand for it still.
    #[inline]
    pub(crate) fn is_to_leave(&self) -> bool {
        self.kind == Kind::Stream && self.socket.is_kernels() && !self.was_renewed()
    }

    /// SO_COOKIE of its kernel's socket, by `ask` if it is not known yet; zero: it has none.
    pub(crate) fn cookie(&self, ask: impl FnOnce() -> Option<u64>) -> u64 {
        let known = self.cookie.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let cookie = ask().unwrap_or(0);
        self.cookie.store(cookie, Ordering::Relaxed);
        cookie
    }

    /// Says whether the datagram that is being sent goes on with the next call (MSG_MORE); whether
    /// this call goes on with one.
    pub(crate) fn goes_on(&self, more: bool) -> bool {
        if !more && !self.has_begun.load(Ordering::Relaxed) {
            return false;
        }
        self.has_begun.swap(more, Ordering::Relaxed)
    }

    /// Whether each message that is received says how many bytes are left: TCP_INQ of linux/tcp.h.
    pub(crate) fn tells_unread(&self) -> bool {
        self.tells_unread.load(Ordering::Relaxed)
    }

    /// See [`Self::tells_unread`].
    pub(crate) fn set_tells_unread(&self, yes: bool) {
        self.tells_unread.store(yes, Ordering::Relaxed);
    }

    /// Whether datagrams may go to `to` at all: a socket of IPv6 that is bound to an address of
    /// either family has no way to the other one, and one of IPv6 alone, as `ask` says of it
    /// (IPV6_V6ONLY, which stays what it is once there is a port), none to IPv4.
    pub(crate) fn leads_to(&self, to: SocketAddr, ask: impl FnOnce() -> bool) -> bool {
        if self.family != libc::AF_INET6 {
            return true;
        }
        let own = self.socket.local_address().map(|own| own.ip().to_canonical());
        if let Some(own) = own.filter(|own| !own.is_unspecified()) {
            return own.is_ipv4() == to.is_ipv4();
        }
        const ALONE: u8 = 1;
        const BOTH: u8 = 2;
        !to.is_ipv4()
            || match self.v6_only.load(Ordering::Relaxed) {
                0 => {
                    let is_alone = ask();
                    self.v6_only.store(if is_alone { ALONE } else { BOTH }, Ordering::Relaxed);
                    !is_alone
                }
                known => known == BOTH,
            }
    }

    /// Its kernel's half sends, of which an error may be told (IP_RECVERR).
    pub(crate) fn expects_kernel_error(&self) {
        if self.socket.option(SocketOption::TellsErrors) != 0 {
            self.socket.expect_kernel_error();
        }
    }

    /// Whether signals tell of its news.
    pub(crate) fn has_alarm(&self) -> bool {
        self.alarm.lock().is_some_and(|alarm| alarm.is_some())
    }

    /// Has signals tell of its news, by what `start` starts if there is none yet, or not.
    pub(crate) fn set_alarm(&self, yes: bool, start: impl FnOnce() -> Option<Watcher>) {
        let Some(mut alarm) = self.alarm.lock() else { return };
        match (yes, alarm.is_some()) {
            (true, false) => *alarm = start(),
            (false, true) => *alarm = None,
            _ => {}
        }
    }

    /// Remembers that there was no room.
    pub(crate) fn note_no_room(&self) {
        self.lacks_room.store(true, Ordering::Relaxed);
    }

    /// Whether there was no room since the last look.
    pub(crate) fn took_no_room(&self) -> bool {
        self.lacks_room.load(Ordering::Relaxed) && self.lacks_room.swap(false, Ordering::Relaxed)
    }

    /// How long a call that reads may wait.
    pub(crate) fn receive_timeout(&self) -> Option<Duration> {
        time_limit(self.socket.option(SocketOption::ReceiveTimeout))
    }

    /// How long a call that writes or connects may wait.
    pub(crate) fn send_timeout(&self) -> Option<Duration> {
        time_limit(self.socket.option(SocketOption::SendTimeout))
    }
}

/// A time limit that stands in an option is counted in milliseconds, and not in microseconds.
pub(crate) const IN_MILLISECONDS: u32 = 1 << 31;

/// A time limit that stands in an option; zero is none.
pub(crate) fn time_limit(value: u32) -> Option<Duration> {
    let limit = match value & IN_MILLISECONDS {
        0 => Duration::from_micros(value.into()),
        _ => Duration::from_millis((value & !IN_MILLISECONDS).into()),
    };
    (value != 0).then_some(limit)
}

//! How long a call may wait, and how it waits for one socket.

use std::time::Duration;

use base::Nanos;
use calisto_client::sockets::{Readiness, Waited};
use libc::{c_int, timespec, timeval};
use rustix::io::Errno;

use crate::entry::Held;
use crate::file::Kind;
use crate::{cancel, copy, descriptors, faults, poll, session};

/// When a call must return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deadline {
    /// At once.
    Now,
    /// At this time.
    At(Nanos),
    /// When something comes.
    Never,
}

impl Deadline {
    /// So much later than now.
    pub(crate) fn after(time: Duration) -> Self {
        if time.is_zero() { Self::Now } else { Self::At(sys::clock::now() + Nanos::from(time)) }
    }

    /// Whether the call does not wait at all.
    pub(crate) fn is_now(self) -> bool {
        self == Self::Now
    }

    /// Whether the time is up.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Now => true,
            Self::At(time) => sys::clock::now() >= time,
            Self::Never => false,
        }
    }

    /// What is left; `None`: there is no end.
    pub(crate) fn left(self) -> Option<Duration> {
        match self {
            Self::Now => Some(Duration::ZERO),
            Self::At(time) => Some(Duration::from_nanos(time.since(sys::clock::now()).0)),
            Self::Never => None,
        }
    }

    /// What is left, for poll(2): rounded up, so that nobody wakes up too early again and again.
    pub(crate) fn milliseconds_left(self) -> c_int {
        let Some(left) = self.left() else { return -1 };
        let milliseconds = left.as_nanos().div_ceil(1_000_000);
        c_int::try_from(milliseconds).unwrap_or(c_int::MAX)
    }

    /// What is left, for ppoll(2).
    pub(crate) fn timespec_left(self) -> Option<timespec> {
        self.left().map(|left| timespec {
            tv_sec: left.as_secs() as _,
            tv_nsec: left.subsec_nanos().into(),
        })
    }
}

/// The deadline of an option such as SO_RCVTIMEO.
pub(crate) fn deadline(timeout: Option<Duration>) -> Deadline {
    timeout.map_or(Deadline::Never, Deadline::after)
}

/// As poll(2) counts: negative for ever.
pub(crate) fn after_milliseconds(timeout: c_int) -> Deadline {
    match u64::try_from(timeout) {
        Ok(timeout) => Deadline::after(Duration::from_millis(timeout)),
        Err(_) => Deadline::Never,
    }
}

/// As ppoll(2) counts: null for ever.
///
/// # Safety
/// Reading it is the program's wish.
pub(crate) unsafe fn after_timespec(timeout: *const timespec) -> Result<Deadline, Errno> {
    if timeout.is_null() {
        return Ok(Deadline::Never);
    }
    faults::watch();
    // SAFETY: the caller's promise.
    let timespec { tv_sec, tv_nsec, .. } = unsafe { copy::get(timeout)? };
    let seconds = u64::try_from(tv_sec).map_err(|_| Errno::INVAL)?;
    let nanoseconds = u32::try_from(tv_nsec).ok().filter(|&part| part < 1_000_000_000);
    Ok(long(seconds, nanoseconds.ok_or(Errno::INVAL)?))
}

/// As select(2) counts: null for ever.
///
/// # Safety
/// Reading it is the program's wish.
pub(crate) unsafe fn after_timeval(timeout: *const timeval) -> Result<Deadline, Errno> {
    if timeout.is_null() {
        return Ok(Deadline::Never);
    }
    faults::watch();
    // SAFETY: the caller's promise.
    let timeval { tv_sec, tv_usec } = unsafe { copy::get(timeout)? };
    let seconds = u64::try_from(tv_sec).map_err(|_| Errno::INVAL)?;
    let microseconds = u64::try_from(tv_usec).map_err(|_| Errno::INVAL)?;
    // Linux takes more than a second here.
    let seconds = seconds.saturating_add(microseconds / 1_000_000);
    Ok(long(seconds, (microseconds % 1_000_000) as u32 * 1000))
}

fn long(seconds: u64, nanoseconds: u32) -> Deadline {
    // Longer than a machine runs is for ever, and would not fit into a time.
    const FOR_EVER: u64 = 1 << 32;
    if seconds >= FOR_EVER {
        return Deadline::Never;
    }
    Deadline::after(Duration::new(seconds, nanoseconds))
}

/// Lets others run for as long as the profile says, before a sleep.
pub(crate) struct YieldPolicy {
    until: Option<Nanos>,
    yield_for: Nanos,
}

impl YieldPolicy {
    pub(crate) fn new() -> Self {
        let profile = session::current().map(calisto_client::sockets::Session::profile);
        let microseconds = profile.map_or(0, calisto_client::sockets::Profile::yield_us);
        Self { until: None, yield_for: Nanos::from_micros(microseconds.into()) }
    }

    /// Whether to give way to others once more.
    pub(crate) fn may_yield(&mut self) -> bool {
        if self.yield_for == Nanos::ZERO {
            return false;
        }
        let now = sys::clock::now();
        now < *self.until.get_or_insert(now + self.yield_for)
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Look again.
    Look,
    /// The time is up.
    TimedOut,
    /// The descriptor is another file's by now, or none's. The call ends as that of a closed descriptor
    /// (EBADF, or what it has done so far): it was made of the file that the number had when it began,
    /// and must not touch the one that has it now. Linux would let it wait on for the old file, as long
    /// as that takes; here the file ends with its last number.
    Replaced,
}

/// Waits for one socket, and for its kernel half if it has one.
///
/// # Errors
/// EINTR: a signal was handled whose handler ends calls.
pub(crate) fn on(
    fd: c_int,
    held: &Held,
    want: Readiness,
    deadline: Deadline,
) -> Result<Ended, Errno> {
    let Some(file) = held.file() else { return Ok(Ended::Replaced) };
    cancel::point();
    let waited = match file.kind {
        Kind::Stream => {
            let left = deadline.left();
            let step = left.map_or(cancel::LOOK_EVERY, |left| left.min(cancel::LOOK_EVERY));
            file.socket.wait(want, Some(step))
        }
        Kind::Listener | Kind::Datagram => poll::both_halves(fd, held, want, deadline),
    };
    cancel::point();
    if !descriptors::is_still(fd, held) {
        return Ok(Ended::Replaced);
    }
    match waited {
        Ok(Waited::Ready) => Ok(Ended::Look),
        Ok(Waited::TimedOut) if !deadline.is_over() => Ok(Ended::Look),
        Ok(Waited::TimedOut) => Ok(Ended::TimedOut),
        // A call with a time limit is never begun again.
        Ok(Waited::Interrupted) if deadline != Deadline::Never || faults::ends_calls() => {
            Err(Errno::INTR)
        }
        Ok(Waited::Interrupted) => Ok(Ended::Look),
        // It is over, which the next look finds out.
        Err(_) => Ok(Ended::Look),
    }
}

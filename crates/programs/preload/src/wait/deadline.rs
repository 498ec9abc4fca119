//! When a call must return.

use std::time::Duration;

use base::Nanos;
use libc::{c_int, timespec, timeval};
use rustix::io::Errno;

use crate::system::{copy, faults};

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

    /// What is left, for poll(2): rounded up, so that no thread wakes up too early again and again.
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

    /// This one, or one that is sooner: so much later than now.
    pub(crate) fn or_after(self, most: Option<Duration>) -> Self {
        match (self, most.map(Self::after)) {
            (Self::Never, Some(sooner)) => sooner,
            (Self::At(time), Some(Self::At(sooner))) => Self::At(time.min(sooner)),
            _ => self,
        }
    }

    /// The deadline of an option such as SO_RCVTIMEO.
    pub(crate) fn of_option(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::Never, Self::after)
    }

    /// As poll(2) counts: negative for ever.
    pub(crate) fn after_milliseconds(timeout: c_int) -> Self {
        match u64::try_from(timeout) {
            Ok(timeout) => Self::after(Duration::from_millis(timeout)),
            Err(_) => Self::Never,
        }
    }

    /// As ppoll(2) counts: null for ever.
    ///
    /// # Safety
    /// Reading it is the program's wish.
    pub(crate) unsafe fn after_timespec(timeout: *const timespec) -> Result<Self, Errno> {
        if timeout.is_null() {
            return Ok(Self::Never);
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
    pub(crate) unsafe fn after_timeval(timeout: *const timeval) -> Result<Self, Errno> {
        if timeout.is_null() {
            return Ok(Self::Never);
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
}

fn long(seconds: u64, nanoseconds: u32) -> Deadline {
    // Longer than a machine runs is for ever, and would not fit into a time.
    const FOR_EVER: u64 = 1 << 32;
    if seconds >= FOR_EVER {
        return Deadline::Never;
    }
    Deadline::after(Duration::new(seconds, nanoseconds))
}

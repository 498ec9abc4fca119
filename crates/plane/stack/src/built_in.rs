//! The jobs that a worker can be started with.

use base::Nanos;
use datapath::message::Moving;
use datapath::{Echo, Job, Outlet, Sink, Synthetic, Verdict};
use shm::Frame;

use crate::socket_job::SocketJob;

/// A built-in job chosen at start: one match per packet, no pointer.
#[derive(Debug)]
pub enum BuiltIn {
    /// See [`Echo`].
    Echo(Echo),
    /// See [`Sink`].
    Sink(Sink),
    /// See [`Synthetic`].
    Synthetic(Synthetic),
    /// See [`SocketJob`].
    SocketJob(Box<SocketJob>),
}

/// The same call for whichever job it is.
macro_rules! each {
    ($job:expr, $name:ident $(, $argument:expr)*) => {
        match $job {
            BuiltIn::Echo(job) => job.$name($($argument),*),
            BuiltIn::Sink(job) => job.$name($($argument),*),
            BuiltIn::Synthetic(job) => job.$name($($argument),*),
            BuiltIn::SocketJob(job) => job.$name($($argument),*),
        }
    };
}

impl Job for BuiltIn {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, now: Nanos) -> Verdict {
        each!(self, packet, frame, now)
    }

    #[inline]
    fn keep(&mut self, frame: Frame) {
        each!(self, keep, frame);
    }

    fn spare(&mut self, frame: Frame) {
        each!(self, spare, frame);
    }

    #[inline]
    fn turn(&mut self, now: Nanos, outlet: &mut Outlet<'_>) -> bool {
        each!(self, turn, now, outlet)
    }

    #[inline]
    fn next_deadline(&self) -> Nanos {
        each!(self, next_deadline)
    }

    fn arm(&self) -> bool {
        each!(self, arm)
    }

    fn disarm(&self) {
        each!(self, disarm);
    }

    fn may_spin(&self) -> bool {
        each!(self, may_spin)
    }

    fn owed_since(&self) -> Option<Nanos> {
        each!(self, owed_since)
    }

    fn close(&mut self) {
        each!(self, close);
    }

    fn surrender(&mut self) -> Option<Frame> {
        each!(self, surrender)
    }

    fn detach(&mut self, moving: Moving, now: Nanos) -> bool {
        each!(self, detach, moving, now)
    }

    fn attach(&mut self, moving: Moving, now: Nanos) {
        each!(self, attach, moving, now);
    }
}

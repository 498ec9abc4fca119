//! What a worker does with the packets of its flows.

mod echo;
mod sink;
mod synthetic;

use std::fmt;
use std::str::FromStr;

use base::Nanos;
use shm::Frame;

pub use echo::Echo;
pub use sink::Sink;
pub use synthetic::{ITERATIONS_MAX, REQUEST_BYTES, Synthetic, SyntheticState, work};

use crate::message::Moving;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it, changed in place, out of the port named in its meta.
    Transmit,
    /// Done with it.
    Consume,
    /// Refused, and counted by reason.
    Refuse(Refusal),
}

/// Why a job refused a packet. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job answers another protocol.
    NotUdp,
    /// The payload is not a request of this job.
    BadRequest,
    /// There is no room for the state of another flow.
    StateFull,
    /// Another worker was touching the same flow: the one-owner invariant is broken.
    FlowInTwoWorkers,
}

/// Work on the packets of some flow groups: the interface that every kind of worker implements.
///
/// Calls come from one thread at a time. Between [`Job::attach`] of a group and the end of
/// [`Job::detach`] of it, and only then, the job may touch the group's flows.
pub trait Job {
    /// One packet of an owned group. `frame.meta()` names group, hash and header offsets.
    fn packet(&mut self, frame: &mut Frame, now: Nanos) -> Verdict;

    /// Gives up everything held for what moves: timers, commands, pending output. Returns true
    /// when all is given up; false asks to be called again (a bounded part was done), and
    /// packets of groups that stay are processed in between.
    fn detach(&mut self, moving: Moving, now: Nanos) -> bool;

    /// From now on what moves is ours.
    fn attach(&mut self, moving: Moving, now: Nanos);
}

/// The jobs that workers of the daemon itself can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Send every UDP packet back.
    Echo,
    /// Swallow every packet.
    Sink,
    /// Do the work that the request asks for and answer it.
    Synthetic,
}

impl JobKind {
    /// All kinds, with a sentence of help each.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Echo, "echo", "send every UDP packet back to its sender"),
        (Self::Sink, "sink", "count every packet and swallow it"),
        (
            Self::Synthetic,
            "synthetic",
            "16-byte requests {iterations, index}, both u64 big endian: do that many iterations of \
             square roots, touch the flow's state, answer",
        ),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Sink => "sink",
            Self::Synthetic => "synthetic",
        }
    }
}

impl FromStr for JobKind {
    type Err = UnknownJob;

    fn from_str(name: &str) -> Result<Self, UnknownJob> {
        let known = Self::ALL.iter().find(|(_, known, _)| *known == name);
        known.map(|(kind, _, _)| *kind).ok_or_else(|| UnknownJob(name.to_owned()))
    }
}

/// No job has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownJob(String);

impl fmt::Display for UnknownJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no worker job is called \"{}\"; there are echo, sink and synthetic", self.0)
    }
}

impl std::error::Error for UnknownJob {}

/// A built-in job chosen at start: one match per packet, no pointer.
#[derive(Debug)]
pub enum BuiltIn {
    /// See [`Echo`].
    Echo(Echo),
    /// See [`Sink`].
    Sink(Sink),
    /// See [`Synthetic`].
    Synthetic(Synthetic),
}

impl Job for BuiltIn {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, now: Nanos) -> Verdict {
        match self {
            Self::Echo(job) => job.packet(frame, now),
            Self::Sink(job) => job.packet(frame, now),
            Self::Synthetic(job) => job.packet(frame, now),
        }
    }

    fn detach(&mut self, moving: Moving, now: Nanos) -> bool {
        match self {
            Self::Echo(job) => job.detach(moving, now),
            Self::Sink(job) => job.detach(moving, now),
            Self::Synthetic(job) => job.detach(moving, now),
        }
    }

    fn attach(&mut self, moving: Moving, now: Nanos) {
        match self {
            Self::Echo(job) => job.attach(moving, now),
            Self::Sink(job) => job.attach(moving, now),
            Self::Synthetic(job) => job.attach(moving, now),
        }
    }
}

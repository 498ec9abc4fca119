//! l2: forwards frames from one port to another, as a wire does.
//!
//! WHAT IT DOES
//!   Every frame that comes in at a port leaves by the port that it is linked to, unchanged, or
//!   with the link addresses that are given for that direction. Nothing is learned, and no frame is
//!   ever copied: whatever the frame holds (IP or not, tagged or not, to one host or to all) goes
//!   the same way, so that hosts on both sides see one link.
//!
//! PARAMETERS
//!   links         pairs of ports; each pair is joined in both directions. A port is in one pair at most.
//!   source        link address that frames get as their source when they leave by a port; as it is
//!   destination   link address that they get as their destination; as it is
//!
//! COUNTERS
//!   forwarded     Frames sent on by the port that theirs is linked to.
//!   no_link       Frames of a port that is linked to none, dropped.
//!   truncated     Frames shorter than an Ethernet header, dropped.
//!
//! STANDARDS
//!   IEEE 802.3 clause 3 (frames). It is no bridge of IEEE 802.1D: frames to that standard's
//!   reserved addresses (spanning tree, pause, LLDP) pass like all others.
//!
//! LIMITS
//!   Two links that close a loop outside forward for ever: there is no spanning tree. A frame
//!   longer than the link takes that it is to leave by is dropped and counted by that port
//!   (tx_oversize).

use std::fmt;

use base::{Nanos, PortId};
use shm::{Batch, Frame};
use wire::ethernet;

use crate::{Function, Verdict, Verdicts, checksum};

/// One direction: what comes in here leaves there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where frames come in.
    pub from: PortId,
    /// Where they leave.
    pub to: PortId,
    /// The source that they get; `None`: as it is.
    pub source: Option<[u8; 6]>,
    /// The destination that they get; `None`: as it is.
    pub destination: Option<[u8; 6]>,
}

/// The function.
#[derive(Debug, Default)]
pub struct L2 {
    /// By the number of the port that a frame came from.
    links: Vec<Option<Link>>,
    counters: L2Counters,
}

counters! {
    /// What an [`L2`] has counted.
    L2Counters {
        /// Frames sent on by the port that theirs is linked to.
        forwarded,
        /// Frames of a port that is linked to none, dropped.
        no_link,
        /// Frames shorter than an Ethernet header, dropped.
        truncated,
    }
}

impl L2 {
    /// Forwards along `links`, one for each direction.
    ///
    /// # Errors
    /// A port is linked twice, or a source is a group address, which nobody can send from.
    pub fn new(links: &[Link]) -> Result<Self, L2Error> {
        let mut table: Vec<Option<Link>> = Vec::new();
        for link in links {
            if let Some(source) = link.source
                && ethernet::is_group(source)
            {
                return Err(L2Error::GroupSource(source));
            }
            let index = usize::from(link.from.0);
            if table.len() <= index {
                table.resize(index + 1, None);
            }
            if table[index].replace(*link).is_some() {
                return Err(L2Error::LinkedTwice(link.from));
            }
        }
        Ok(Self { links: table, counters: L2Counters::default() })
    }

    /// Goes on counting where `before`, whose place it takes, has come to.
    pub fn take_over(&mut self, before: &Self) {
        self.counters = before.counters;
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &L2Counters {
        &self.counters
    }

    #[inline]
    fn forward(&mut self, frame: &mut Frame) -> Verdict {
        let port = usize::from(frame.meta().port.0);
        let Some(Some(link)) = self.links.get(port) else {
            self.counters.no_link += 1;
            return Verdict::Drop;
        };
        let Some(header) = frame.bytes_mut().first_chunk_mut::<14>() else {
            self.counters.truncated += 1;
            return Verdict::Drop;
        };
        if let Some(destination) = link.destination {
            header[..6].copy_from_slice(&destination);
        }
        if let Some(source) = link.source {
            header[6..12].copy_from_slice(&source);
        }
        checksum::complete_if_open(frame);
        self.counters.forwarded += 1;
        Verdict::Out(link.to)
    }
}

impl Function for L2 {
    fn name(&self) -> &'static str {
        "l2"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, _now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            *verdict = self.forward(frame);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
    }
}

/// Links that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2Error {
    /// Frames of a port can leave by one other port only.
    LinkedTwice(PortId),
    /// A frame must not come from a group address.
    GroupSource([u8; 6]),
}

impl fmt::Display for L2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkedTwice(port) => {
                write!(f, "port number {} is linked twice: a port is in one pair at most", port.0)
            }
            Self::GroupSource([a, b, c, d, e, g]) => write!(
                f,
                "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x} is a group address, which cannot be a source: \
                 use one whose first byte is even"
            ),
        }
    }
}

impl std::error::Error for L2Error {}

#[cfg(test)]
mod tests;

//! mirror: sends copies of packets out by another port.
//!
//! WHAT IT DOES
//!   A packet that is of the kind that was chosen is copied as it is here, and the copy leaves by
//!   the port `to`; the packet itself goes on to the next function. Of `every` such packets one is
//!   copied, drawn at random, so that no pattern of traffic hides from it. What was
//!   dropped before it is not seen; put it first to see all that comes.
//!
//! PARAMETERS
//!   to             the port by which copies leave. What listens there gets them as they came on the
//!                  link, addresses and all
//!   every          one of how many, 1 to 1,000,000; 1
//!   bytes          the longest copy: of longer packets it has the first bytes, 64 to 4096; 4096
//!   source, destination, protocol, source_port, destination_port
//!                  which packets: as for acl. Without any of them: all packets, IP or not
//!
//! COUNTERS
//!   mirrored, unchosen, no_room. Each has a sentence in the statistics.
//!
//! STANDARDS
//!   None: what switches call port mirroring, or SPAN. RFC 5475 section 5.2 (random n-out-of-N
//!   sampling, here with a chance of 1/N each).
//!
//! LIMITS
//!   A copy is lost, and counted, where the slice has no free frame, more than 64 wait, or the port
//!   `to` has no room: no packet waits for a copy. A copy that is longer than that port can send is
//!   cut to what it can. What comes by the port `to` is not copied: copies that
//!   somebody sends back make no loop. Checksums that a sender on this host left open are complete
//!   in a copy.

use base::{BURST, Nanos, PortId};
use shm::{Batch, Frame};

use crate::headers::Headers;
use crate::selector::{Compiled, Key};
use crate::track::hash_of;
use crate::{Function, Selector, SelectorError, Verdicts, checksum};

/// Bytes of the longest copy.
pub const BYTES_MAX: usize = 4096;
/// Bytes of a VLAN tag, which the port puts back in.
const TAG_BYTES: usize = 4;
/// Packets of which one is copied, at most.
pub const EVERY_MAX: u32 = 1_000_000;

/// What is copied, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorSettings {
    /// By which port copies leave.
    pub to: PortId,
    /// One of how many.
    pub every: u32,
    /// Bytes of the longest copy, [`BYTES_MAX`] at most.
    pub bytes: usize,
    /// Which packets.
    pub selector: Selector,
    /// Anything that others cannot know: keeps them from choosing what is not copied.
    pub seed: u64,
}

/// The function.
#[derive(Debug)]
pub struct Mirror {
    settings: MirrorSettings,
    selector: Compiled,
    copies: Copies,
    counters: MirrorCounters,
}

counters! {
    /// What a [`Mirror`] has counted.
    MirrorCounters {
        /// Packets of which a copy was sent.
        mirrored,
        /// Packets of the kind that was chosen that were not drawn.
        unchosen,
        /// Packets whose copy found no room, and was not sent.
        no_room,
    }
}

/// Copies that wait for frames.
#[derive(Debug)]
struct Copies {
    /// One after the other, each in [`MirrorSettings::bytes`].
    bytes: Box<[u8]>,
    lengths: [usize; BURST],
    /// VLAN tags that ports took off; 0: none.
    tags: [u16; BURST],
    count: usize,
}

impl Mirror {
    /// Copies by these settings.
    ///
    /// # Errors
    /// No packet is of that kind.
    pub fn new(settings: &MirrorSettings) -> Result<Self, SelectorError> {
        let mut settings = *settings;
        settings.every = settings.every.clamp(1, EVERY_MAX);
        settings.bytes = settings.bytes.clamp(1, BYTES_MAX);
        let bytes = vec![0; settings.bytes * BURST].into();
        Ok(Self {
            selector: settings.selector.compile()?,
            copies: Copies { bytes, lengths: [0; BURST], tags: [0; BURST], count: 0 },
            counters: MirrorCounters::default(),
            settings,
        })
    }

    /// Goes on counting where `before`, whose place it takes, has come to. What waits there is
    /// lost.
    pub fn take_over(&mut self, before: &Self) {
        self.counters = before.counters;
        self.counters.no_room += before.copies.count as u64;
        self.counters.mirrored -= before.copies.count as u64;
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &MirrorCounters {
        &self.counters
    }

    /// Moves copies that wait into frames that `take` gives, and those into `batch`, each with the
    /// port by which it is to leave, which takes `most` bytes.
    pub fn release(
        &mut self,
        batch: &mut Batch,
        most: usize,
        take: &mut dyn FnMut() -> Option<Frame>,
    ) {
        let Self { settings, copies, counters, .. } = self;
        let waiting = std::mem::take(&mut copies.count);
        let kept = copies.lengths.iter().zip(copies.tags);
        for (bytes, (&len, tag)) in copies.bytes.chunks(settings.bytes).zip(kept).take(waiting) {
            let frame = if batch.is_full() { None } else { take() };
            let filled = frame.map(|mut frame| {
                // What is longer than a frame or the link is cut to it.
                let room =
                    most.min(frame.room()).saturating_sub(if tag == 0 { 0 } else { TAG_BYTES });
                let fits = frame.fill(&bytes[..len.min(room)]);
                debug_assert!(fits, "as long as there is room at most");
                let meta = frame.meta_mut();
                (meta.port, meta.transmit, meta.vlan_tci) = (settings.to, true, tag);
                batch.push(frame);
            });
            if filled.is_none() {
                counters.no_room += 1;
                counters.mirrored -= 1;
            }
        }
    }

    /// The port by which copies that wait are to leave; nothing: none wait.
    #[inline]
    pub const fn copies_to(&self) -> Option<PortId> {
        if self.copies.count > 0 { Some(self.settings.to) } else { None }
    }

    /// The port did not take this many copies of the last release: they are lost.
    pub const fn lose(&mut self, copies: usize) {
        self.counters.no_room += copies as u64;
        self.counters.mirrored -= copies as u64;
    }

    #[inline]
    fn see(&mut self, frame: &mut Frame) {
        if frame.meta().port == self.settings.to {
            return;
        }
        if !self.selector.is_any() {
            let key = Headers::read(frame.bytes()).ok().map(|headers| Key::from(&headers));
            if !key.is_some_and(|key| self.selector.matches(&key)) {
                return;
            }
        }
        if !self.draws() {
            self.counters.unchosen += 1;
            return;
        }
        if self.copies.count == BURST {
            self.counters.no_room += 1;
            return;
        }
        checksum::complete_here(frame);
        let (at, len) = (self.copies.count, frame.len().min(self.settings.bytes));
        let start = at * self.settings.bytes;
        self.copies.bytes[start..start + len].copy_from_slice(&frame.bytes()[..len]);
        self.copies.lengths[at] = len;
        self.copies.tags[at] = frame.meta().vlan_tci;
        self.copies.count += 1;
        self.counters.mirrored += 1;
    }

    /// Whether this packet is the one drawn among `every`.
    #[inline]
    fn draws(&self) -> bool {
        if self.settings.every == 1 {
            return true;
        }
        let MirrorCounters { mirrored, unchosen, no_room } = self.counters;
        let drawn = hash_of(self.settings.seed, &[mirrored + unchosen + no_room]);
        // Even to one in 2^44, which is less than anybody sees.
        drawn.is_multiple_of(u64::from(self.settings.every))
    }
}

impl Function for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, _now: Nanos) {
        for (_, frame, _) in verdicts.undecided(batch) {
            self.see(frame);
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
    }
}

#[cfg(test)]
mod tests;

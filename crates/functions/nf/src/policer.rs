//! policer: drops what a kind of traffic has more of than it may.
//!
//! WHAT IT DOES
//!   Traffic is put into classes: the first one that a packet matches is its class. A class has a
//!   token bucket: it fills at the class's rate and holds its burst, both counted in bytes of
//!   frames. A packet that finds as many bytes in it passes to the next function; another one is
//!   dropped. With per_source the class has a bucket for each source prefix instead of one for all.
//!   Packets of no class pass. All slices of a chain share the buckets: a rate is that of the whole
//!   chain.
//!
//! PARAMETERS
//!   classes            in order, at most 256, each with
//!     rate_mbit        megabits a second, from 0.001 to 1,000,000
//!     burst_kib        KiB at once after a pause, from 2 to 4,194,304; what the rate brings in 50 ms, at
//!                      least 16
//!     source, destination, protocol, source_port, destination_port
//!                      which packets: as for acl. Without any of them: all packets, IP or not
//!     per_source       bits of the prefix that has a bucket of its own, as [IPv4, IPv6]: [32, 64] is each
//!                      IPv4 host and each IPv6 network of a site
//!
//! COUNTERS
//!   passed, exceeded, unmatched, sources_shared. Each has a sentence in the statistics.
//!
//! STANDARDS
//!   RFC 2697's single rate with one bucket and two colours: passed and dropped.
//!
//! LIMITS
//!   It counts what no function before it has sent on or dropped: put it before router and l2.
//!   65,536 sources of all classes are remembered at a time. One that has paused long enough for
//!   its bucket to be full again is forgotten for another; while there are more busy ones than
//!   that, those that find no place share one bucket for each class (sources_shared). A fragment
//!   after the first has no ports and is in the first class that asks for none. A packet whose
//!   headers cannot be read is in the first class that asks for nothing.

mod sources;

use std::fmt;
use std::sync::Arc;

use base::Nanos;
use shm::Batch;

use crate::bucket::{Bucket, Rate};
use crate::headers::Headers;
use crate::prefix::mask6;
use crate::selector::{Compiled, Key};
use crate::{Function, Selector, SelectorError, Verdict, Verdicts};

use sources::{Source, Sources};

/// The most classes that are taken.
pub const CLASSES_MAX: usize = 256;

/// A kind of traffic and how much of it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Which packets.
    pub selector: Selector,
    /// Bytes of frames a second.
    pub bytes_per_second: u64,
    /// Bytes at once after a pause, [`Class::BURST_MAX`] at most. A longer packet never passes.
    pub burst_bytes: u64,
    /// A bucket for each source prefix of this many bits; `None`: one for all.
    pub per_source: Option<PerSource>,
}

impl Class {
    /// The largest burst.
    pub const BURST_MAX: u64 = 1 << 32;
}

/// Bits of a source address that make up a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSource {
    /// Of IPv4: at most 32.
    pub ipv4_bits: u8,
    /// Of IPv6: at most 128.
    pub ipv6_bits: u8,
}

/// The function.
#[derive(Debug)]
pub struct Policer {
    limits: Arc<Limits>,
    counters: PolicerCounters,
}

/// What policers of several threads share.
#[derive(Debug)]
struct Limits {
    classes: Vec<CompiledClass>,
    sources: Sources,
}

#[derive(Debug)]
struct CompiledClass {
    selector: Compiled,
    rate: Rate,
    /// Of the whole class; with `masks`, of the sources that found no place.
    bucket: Bucket,
    /// What counts of an IPv4 and an IPv6 source.
    masks: Option<[u128; 2]>,
}

counters! {
    /// What a [`Policer`] has counted.
    PolicerCounters {
        /// Packets of a class that had enough in their bucket.
        passed,
        /// Packets of a class that had not, dropped.
        exceeded,
        /// Packets of no class.
        unmatched,
        /// Packets whose source had to share a bucket, because too many others were busy.
        sources_shared,
    }
}

impl Policer {
    /// Limits the classes. `seed` keeps others from choosing sources that collide in the table of
    /// them.
    ///
    /// # Errors
    /// Too many classes, or one that makes no sense, with its place among them (from zero).
    pub fn new(classes: &[Class], seed: u64) -> Result<Self, PolicerError> {
        if classes.len() > CLASSES_MAX {
            return Err(PolicerError::TooMany(classes.len()));
        }
        let compile = |(index, class): (usize, &Class)| {
            compile(class).map_err(|error| PolicerError::Class { index, error })
        };
        let classes: Vec<_> = classes.iter().enumerate().map(compile).collect::<Result<_, _>>()?;
        let has_sources = classes.iter().any(|class| class.masks.is_some());
        let sources = if has_sources { Sources::new(seed) } else { Sources::none() };
        let limits = Arc::new(Limits { classes, sources });
        Ok(Self { limits, counters: PolicerCounters::default() })
    }

    /// One for another thread, with counters of its own: what both let pass together stays within
    /// the limits.
    #[must_use]
    pub fn sharing_limits(&self) -> Self {
        Self { limits: Arc::clone(&self.limits), counters: PolicerCounters::default() }
    }

    /// Goes on counting where `before`, whose place it takes, has come to. Its buckets are its own,
    /// and begin full.
    pub fn take_over(&mut self, before: &Self) {
        self.counters = before.counters;
    }

    /// What has been counted so far.
    pub fn counts(&self) -> &PolicerCounters {
        &self.counters
    }

    /// Whether the packet passes.
    #[inline]
    fn admits(&mut self, frame: &[u8], now: Nanos) -> bool {
        let key = Headers::read(frame).ok().map(|headers| Key::from(&headers));
        let Limits { classes, sources } = &*self.limits;
        let class = classes.iter().enumerate().find(|(_, class)| match &key {
            Some(key) => class.selector.matches(key),
            None => class.selector.is_any(),
        });
        let Some((number, class)) = class else {
            self.counters.unmatched += 1;
            return true;
        };
        let bucket = match (class.masks, &key) {
            (Some([four, six]), Some(key)) => {
                let mask = if key.is_ipv6 { six } else { four };
                let source = Source { address: key.source & mask, class: number as u16 };
                let rate_of = |class: usize| classes.get(class).map(|class| &class.rate);
                match sources.bucket(source, rate_of, now) {
                    Some(bucket) => bucket,
                    None => {
                        self.counters.sources_shared += 1;
                        &class.bucket
                    }
                }
            }
            _ => &class.bucket,
        };
        let admits = bucket.take(&class.rate, frame.len() as u64, now);
        let counter = if admits { &mut self.counters.passed } else { &mut self.counters.exceeded };
        *counter += 1;
        admits
    }
}

fn compile(class: &Class) -> Result<CompiledClass, ClassError> {
    let Class { selector, bytes_per_second, burst_bytes, per_source } = class;
    if *bytes_per_second == 0 {
        return Err(ClassError::Rate);
    }
    if *burst_bytes == 0 || *burst_bytes > Class::BURST_MAX {
        return Err(ClassError::Burst(*burst_bytes));
    }
    let masks = match *per_source {
        Some(PerSource { ipv4_bits, ipv6_bits }) if ipv4_bits > 32 || ipv6_bits > 128 => {
            return Err(ClassError::Bits { ipv4_bits, ipv6_bits });
        }
        Some(PerSource { ipv4_bits, ipv6_bits }) => Some([mask6(96 + ipv4_bits), mask6(ipv6_bits)]),
        None => None,
    };
    let rate = Rate::new(*bytes_per_second, *burst_bytes);
    Ok(CompiledClass {
        selector: selector.compile().map_err(ClassError::Selector)?,
        bucket: Bucket::full(&rate, Nanos::ZERO),
        rate,
        masks,
    })
}

impl Function for Policer {
    fn name(&self) -> &'static str {
        "policer"
    }

    fn process(&mut self, batch: &mut Batch, verdicts: &mut Verdicts, now: Nanos) {
        for (_, frame, verdict) in verdicts.undecided(batch) {
            if !self.admits(frame.bytes(), now) {
                *verdict = Verdict::Drop;
            }
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.counters.each(each);
    }
}

/// Classes that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicerError {
    /// More than [`CLASSES_MAX`].
    TooMany(usize),
    /// One of them.
    Class {
        /// Its place, from zero.
        index: usize,
        /// Why.
        error: ClassError,
    },
}

/// Why a class makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassError {
    /// No packet is of it.
    Selector(SelectorError),
    /// Nothing would ever pass.
    Rate,
    /// Nothing, or more than [`Class::BURST_MAX`].
    Burst(u64),
    /// More bits than an address has.
    Bits {
        /// Of IPv4.
        ipv4_bits: u8,
        /// Of IPv6.
        ipv6_bits: u8,
    },
}

impl fmt::Display for PolicerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(classes) => {
                write!(f, "{classes} classes are too many: {CLASSES_MAX} at most")
            }
            Self::Class { index, error } => write!(f, "class {}: {error}", index + 1),
        }
    }
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selector(error) => error.fmt(f),
            Self::Rate => f.write_str("a rate of nothing lets nothing pass: deny it by an acl"),
            Self::Burst(bytes) => {
                write!(f, "a burst of {bytes} bytes is not possible: 1 to {}", Class::BURST_MAX)
            }
            Self::Bits { ipv4_bits, ipv6_bits } => write!(
                f,
                "a source of {ipv4_bits} bits of IPv4 and {ipv6_bits} of IPv6 is not possible: at most 32 and 128"
            ),
        }
    }
}

impl std::error::Error for PolicerError {}

#[cfg(test)]
mod tests;

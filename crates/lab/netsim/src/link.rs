//! A link: a queue of bounded length, and a wire of one rate and delay behind it.
//!
//! The queue is first come, first served and the wire never pauses while something waits, so the
//! whole state is when the wire will be free: how much waits follows from it, and no event is
//! needed for a packet that leaves.

use base::Nanos;
use load::Random;

use crate::Refused;
use crate::refused::check;

/// What a frame takes of a wire besides the IP packet: Ethernet's header and check sequence,
/// preamble and the gap between frames.
pub const FRAMING_BYTES: u32 = 38;

/// A link as a plan describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    /// Bits a second.
    pub rate: u64,
    /// From a packet's last bit on the wire to its arrival.
    pub delay: Nanos,
    /// Bytes that may wait, the packet on the wire included; who finds no room is dropped.
    pub queue_bytes: u32,
    /// A packet that finds at least this many bytes waiting is marked, if it may be (RFC 3168).
    pub mark_bytes: Option<u32>,
    /// Of a million packets this many are lost on the wire.
    pub lost_ppm: u32,
    /// Of a million packets this many arrive later than their turn ...
    pub late_ppm: u32,
    /// ... by so much: others overtake them.
    pub late_by: Nanos,
}

impl Default for LinkPlan {
    /// 10 Gbit/s, a microsecond, 512 KiB, marks from 65 full packets on as the DCTCP paper sets it
    /// for that rate.
    fn default() -> Self {
        Self {
            rate: 10_000_000_000,
            delay: Nanos::from_micros(1),
            queue_bytes: 512 << 10,
            mark_bytes: Some(65 * 1500),
            lost_ppm: 0,
            late_ppm: 0,
            late_by: Nanos::ZERO,
        }
    }
}

impl LinkPlan {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let rates = 1_000_000..=1_000_000_000_000;
        check(rates.contains(&self.rate), "rate", self.rate, "from 1 Mbit/s to 1 Tbit/s")?;
        let delay = self.delay <= Nanos::from_secs(10);
        check(delay, "delay", self.delay, "at most 10 s")?;
        let queue = (2_000..=1 << 30).contains(&self.queue_bytes);
        check(queue, "queue_bytes", self.queue_bytes, "from 2000 (a packet) to 1 GiB")?;
        check(self.lost_ppm < 1_000_000, "lost_ppm", self.lost_ppm, "less than a million")?;
        check(self.late_ppm <= 1_000_000, "late_ppm", self.late_ppm, "at most a million")
    }
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Packets that came.
    pub packets: u64,
    /// Packets that found no room.
    pub dropped: u64,
    /// Packets that were lost on the wire.
    pub lost: u64,
    /// Packets that were marked.
    pub marked: u64,
    /// Packets that others could overtake.
    pub late: u64,
}

impl LinkCounts {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            dropped: self.dropped + other.dropped,
            lost: self.lost + other.lost,
            marked: self.marked + other.marked,
            late: self.late + other.late,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It never arrives.
    Gone,
    /// It arrives.
    Arrives {
        /// When.
        at: Nanos,
        /// It bears a mark now.
        is_marked: bool,
    },
}

/// A link in use.
#[derive(Clone, Debug)]
pub struct Link {
    plan: LinkPlan,
    /// Picoseconds that a byte is on the wire.
    byte_ps: u64,
    /// When the wire is free, in picoseconds.
    free_at: u64,
    counts: LinkCounts,
}

const MILLION: u32 = 1_000_000;

impl Link {
    /// A link on which nothing is.
    pub fn new(plan: LinkPlan) -> Self {
        let byte_ps = (8_000_000_000_000 / plan.rate.max(1)).max(1);
        Self { plan, byte_ps, free_at: 0, counts: LinkCounts::default() }
    }

    /// Bytes that wait, what is left of the packet on the wire included.
    #[inline]
    pub fn waiting(&self, now: Nanos) -> u32 {
        let ahead = self.free_at.saturating_sub(picos(now)) / self.byte_ps;
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }

    /// When no more than `bytes` wait.
    pub fn waits_at_most(&self, bytes: u32) -> Nanos {
        let spared = u64::from(bytes) * self.byte_ps;
        Nanos(self.free_at.saturating_sub(spared).div_ceil(1000))
    }

    /// A packet of that many bytes on the wire comes to the queue.
    #[inline]
    pub fn offer(&mut self, now: Nanos, bytes: u32, may_mark: bool, random: &mut Random) -> Fate {
        self.counts.packets += 1;
        let waiting = self.waiting(now);
        if waiting.saturating_add(bytes) > self.plan.queue_bytes {
            self.counts.dropped += 1;
            return Fate::Gone;
        }
        self.free_at = self.free_at.max(picos(now)) + u64::from(bytes) * self.byte_ps;
        if happens(self.plan.lost_ppm, random) {
            // It has had its time on the wire.
            self.counts.lost += 1;
            return Fate::Gone;
        }
        let is_marked = may_mark && self.plan.mark_bytes.is_some_and(|from| waiting >= from);
        self.counts.marked += u64::from(is_marked);
        let mut at = Nanos(self.free_at.div_ceil(1000)) + self.plan.delay;
        if happens(self.plan.late_ppm, random) {
            self.counts.late += 1;
            at += self.plan.late_by;
        }
        Fate::Arrives { at, is_marked }
    }

    /// What it has done so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }
}

#[inline]
fn picos(at: Nanos) -> u64 {
    at.0.saturating_mul(1000)
}

#[inline]
fn happens(ppm: u32, random: &mut Random) -> bool {
    ppm > 0 && random.below(MILLION) < ppm
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gigabit() -> LinkPlan {
        LinkPlan {
            rate: 1_000_000_000,
            queue_bytes: 4000,
            mark_bytes: Some(2500),
            ..LinkPlan::default()
        }
    }

    fn arrives(at: u64, is_marked: bool) -> Fate {
        Fate::Arrives { at: Nanos(at), is_marked }
    }

    #[test]
    fn packets_leave_one_after_the_other_and_the_queue_is_what_has_not_left() {
        let (mut link, mut random) = (Link::new(gigabit()), Random::new(1));
        // A byte takes 8 ns; the delay is 1000 ns.
        assert_eq!(link.offer(Nanos(0), 1000, true, &mut random), arrives(9_000, false));
        assert_eq!(link.offer(Nanos(4_000), 1000, true, &mut random), arrives(17_000, false));
        assert_eq!(link.waiting(Nanos(4_000)), 1500);
        assert_eq!(link.waits_at_most(500), Nanos(12_000));
        assert_eq!(link.waiting(Nanos(20_000)), 0);
        assert_eq!(link.offer(Nanos(20_000), 100, true, &mut random), arrives(21_800, false));
    }

    #[test]
    fn a_full_queue_drops_and_a_long_one_marks_what_may_be_marked() {
        let (mut link, mut random) = (Link::new(gigabit()), Random::new(1));
        let mut offer = |may_mark| link.offer(Nanos(0), 1000, may_mark, &mut random);
        offer(true);
        offer(true);
        offer(true);
        assert_eq!(offer(true), arrives(33_000, true));
        assert_eq!(offer(true), Fate::Gone);
        let counts = LinkCounts { packets: 5, dropped: 1, marked: 1, ..LinkCounts::default() };
        assert_eq!(link.counts(), counts);
    }

    #[test]
    fn so_many_are_lost_and_late_as_was_said() {
        let plan = LinkPlan {
            lost_ppm: 100_000,
            late_ppm: 200_000,
            late_by: Nanos(5),
            ..LinkPlan::default()
        };
        let (mut link, mut random) = (Link::new(plan), Random::new(9));
        for packet in 0..10_000 {
            link.offer(Nanos::from_micros(2 * packet), 1000, true, &mut random);
        }
        let counts = link.counts();
        assert!((900..1100).contains(&counts.lost), "{counts:?}");
        assert!((1600..2000).contains(&counts.late), "{counts:?}");
    }

    #[test]
    fn a_link_that_cannot_be_is_refused_by_its_field() {
        for (plan, field) in [
            (LinkPlan { rate: 0, ..LinkPlan::default() }, "rate"),
            (LinkPlan { queue_bytes: 10, ..LinkPlan::default() }, "queue_bytes"),
            (LinkPlan { lost_ppm: 1_000_000, ..LinkPlan::default() }, "lost_ppm"),
        ] {
            assert_eq!(plan.check().expect_err("it cannot be").field, field);
        }
        assert_eq!(LinkPlan::default().check(), Ok(()));
    }
}

//! Segments on their way, and what became of each: the SACK scoreboard (RFC 2018, RFC 6675) and
//! RACK's loss detection over it (RFC 8985 section 6).
//!
//! A record per segment, oldest first. Without SACK each duplicate acknowledgement stands for one
//! segment that arrived, nobody knows which (RFC 6582).
//!
//! What an acknowledgement costs depends on what it says, not on what is out. A reported range is
//! found by `index.rs`; those of its records that were reported before are stepped over in one.
//! What is in flight is also a chain by time of sending, so that RACK looks at those only that
//! count as lost now, and at one more; what is due to be sent again is a chain by number. Only a
//! timeout and a path that carries less look at all records.

mod chain;
mod delivery;
mod index;
mod losses;
mod record;
#[cfg(test)]
mod tests;
mod ways;

use std::cmp::Ordering;

use base::Nanos;

use crate::Seq;
use crate::pool::List;
use crate::rtt::Rtt;
use crate::shared::SentPool;
pub(crate) use delivery::Delivery;
pub(crate) use record::Sent;
use record::{AGAIN, EVER_AGAIN, LINKED, LOST, PARDONED, PUSHED, SACKED};
use ways::{Ways, is_later};

/// No record.
const NONE: u32 = u32::MAX;
/// Counts over a flow's records, and what RACK knows.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Scoreboard {
    pub(crate) sacked: u32,
    pub(crate) lost: u32,
    /// Lost ones that are on their way again.
    pub(crate) again: u32,
    /// Behind the highest number that the peer has reported.
    highest: Seq,
    /// When the segment was sent that was sent last of those delivered.
    newest_at: Nanos,
    round_trip: Nanos,
    newest_end: Seq,
    /// Segments by which one that was not lost was overtaken at most; zero: none was.
    reordering: u8,
    /// Quarters of the shortest round trip that reordering is given (RFC 8985 section 6.2 step 4).
    reorder_wait: u8,
    /// Recoveries after which that is forgotten.
    reo_wnd_persist: u8,
}

/// Duplicate acknowledgements that stand for a loss (RFC 5681 section 3.2).
pub(crate) const DUPLICATES: u32 = 3;

impl Scoreboard {
    /// That of a flow whose first number is `iss`.
    pub(crate) fn new(iss: Seq) -> Self {
        Self { highest: iss, newest_end: iss, ..Self::default() }
    }

    /// Segments thought to be in the network: RFC 6675's pipe.
    #[inline]
    pub(crate) fn in_flight(&self, sent: &List) -> u32 {
        (sent.len() + self.again).saturating_sub(self.sacked + self.lost)
    }

    /// Segments by which a late one was overtaken at most, three at least.
    pub(crate) fn reordering(&self) -> u32 {
        u32::from(self.reordering).max(DUPLICATES)
    }

    /// Whether nothing but the expected is going on.
    #[inline]
    pub(crate) const fn is_clean(&self) -> bool {
        self.sacked == 0 && self.lost == 0
    }

    /// Records a new segment behind all others; false when the flow may have no more.
    #[inline]
    #[must_use]
    pub(crate) fn push(pool: &mut SentPool, sent: &mut List, record: Sent) -> bool {
        if !sent.is_empty() {
            return Self::push_behind(pool, sent, record);
        }
        let write = |place: &mut Sent, record: Sent| {
            let Sent { start, end, at, marks, .. } = record;
            (place.start, place.end, place.at, place.marks) = (start, end, at, marks);
        };
        pool.push_only(sent, record, write)
    }

    /// The same behind others. Apart, so that requests and responses do not pay for it.
    #[inline(never)]
    fn push_behind(pool: &mut SentPool, sent: &mut List, mut record: Sent) -> bool {
        let mut ways = Ways::of(pool, sent);
        ways.index.append(pool, sent, &mut record);
        record.marks |= LINKED;
        let Some(index) = pool.append(sent, record) else { return false };
        ways.flying.push_back(pool, index);
        ways.keep(pool, sent);
        true
    }

    /// Takes over records from another engine's pool, which are in `sent` already.
    pub(crate) fn adopt(&mut self, pool: &mut SentPool, sent: &List) {
        let mut ways = Ways::EMPTY;
        let mut flying = Vec::new();
        let (mut before, mut at) = (List::EMPTY, sent.first());
        while let Some(index) = at {
            at = pool.next(index);
            let mut record = *pool.get(index);
            (record.left, record.right) = (NONE, NONE);
            record.marks |= LINKED;
            ways.index.append(pool, &before, &mut record);
            *pool.get_mut(index) = record;
            before = before.and(index);
            if record.is_due() {
                ways.due.push_back(pool, index);
            } else if record.is_flying() {
                flying.push(index);
            }
        }
        flying.sort_by(|one, other| match is_later(pool.get(*one).key(), pool.get(*other).key()) {
            true => Ordering::Greater,
            false => Ordering::Less,
        });
        for index in flying {
            ways.flying.push_back(pool, index);
        }
        ways.overtake(pool, self.newest());
        ways.keep(pool, sent);
    }

    /// What was sent last of those delivered.
    const fn newest(&self) -> (Nanos, Seq) {
        (self.newest_at, self.newest_end)
    }

    /// The common case of [`Self::acknowledge`]: `ack` ends the oldest segment, which was sent once
    /// and never reported. Returns the round trip; nothing, and nothing has changed, when it is any
    /// other case.
    #[inline]
    pub(crate) fn acknowledge_oldest(
        &mut self,
        pool: &mut SentPool,
        sent: &mut List,
        ack: Seq,
        now: Nanos,
    ) -> Option<Nanos> {
        let index = sent.first()?;
        let oldest = pool.get(index);
        let is_plain = oldest.end == ack && oldest.marks & !(PUSHED | LINKED) == 0;
        if !is_plain || ack.is_before(self.highest) {
            return None;
        }
        let at = oldest.at;
        match sent.len() {
            1 => pool.pop_only(sent),
            _ => Self::leave(pool, sent, self.newest()),
        }
        let round_trip = now.since(at);
        self.round_trip = round_trip;
        if is_later((at, ack), self.newest()) {
            (self.newest_at, self.newest_end) = (at, ack);
        }
        self.highest = ack;
        Some(round_trip)
    }

    /// Takes the oldest record out, which was sent once, and before others. Apart, so that requests
    /// and responses do not pay for it.
    #[inline(never)]
    fn leave(pool: &mut SentPool, sent: &mut List, newest: (Nanos, Seq)) {
        let Some(index) = sent.first() else { return };
        let oldest = *pool.get(index);
        let mut ways = oldest.ways;
        ways.unlink(pool, index, &oldest);
        ways.index.note_left(&oldest);
        pool.pop_front(sent);
        if is_later(oldest.key(), newest) {
            // Nothing that is on its way was sent before it.
            ways.overtaken = NONE;
        }
        ways.keep(pool, sent);
    }

    /// Takes out what `ack` covers.
    #[inline]
    pub(crate) fn acknowledge(
        &mut self,
        pool: &mut SentPool,
        sent: &mut List,
        ack: Seq,
        now: Nanos,
        rtt: &Rtt,
        delivery: &mut Delivery,
    ) {
        let mut ways = Ways::of(pool, sent);
        while let Some(index) = sent.first() {
            let segment = pool.get_mut(index);
            if segment.end.is_after(ack) {
                if ack.is_after(segment.start) {
                    segment.start = ack;
                }
                break;
            }
            let segment = *segment;
            delivery.acked += 1;
            if segment.has(SACKED) {
                self.sacked -= 1;
            } else {
                delivery.delivered += 1;
                delivery.note_copies(segment.end, segment.has(EVER_AGAIN));
                self.deliver(pool, &mut ways, index, &segment, now, rtt);
            }
            ways.index.note_left(&segment);
            pool.pop_front(sent);
            self.lost -= u32::from(segment.has(LOST));
            self.again -= u32::from(segment.has(AGAIN));
            if segment.has(EVER_AGAIN | LOST) {
                delivery.again_at = delivery.again_at.max(Some(segment.at));
            } else if !segment.has(SACKED) {
                delivery.round_trip.get_or_insert(now.since(segment.at));
            }
        }
        ways.keep(pool, sent);
        self.highest = self.highest.later(ack);
    }

    /// Marks what the peer reports in `blocks`; those outside `una` to `nxt` were checked before.
    pub(crate) fn report(
        &mut self,
        pool: &mut SentPool,
        sent: &List,
        blocks: &[(Seq, Seq)],
        now: Nanos,
        rtt: &Rtt,
        delivery: &mut Delivery,
    ) {
        let Some(highest) = blocks.iter().map(|(_, end)| *end).reduce(Seq::later) else { return };
        // What was sent first is delivered first, as far as anybody knows.
        let mut ways = Ways::of(pool, sent);
        let mut last = None;
        for _ in blocks {
            let behind =
                blocks.iter().filter(|block| last.is_none_or(|last| is_behind(**block, last)));
            let next =
                behind.reduce(|one, other| if is_behind(*other, *one) { one } else { other });
            let Some(block) = next else { break };
            self.report_block(pool, sent, &mut ways, *block, (now, rtt), delivery);
            last = Some(*block);
        }
        ways.keep(pool, sent);
        self.highest = self.highest.later(highest);
    }

    /// Marks what one block reports.
    fn report_block(
        &mut self,
        pool: &mut SentPool,
        sent: &List,
        ways: &mut Ways,
        (start, end): (Seq, Seq),
        (now, rtt): (Nanos, &Rtt),
        delivery: &mut Delivery,
    ) {
        let mut at = ways.index.find_from(pool, sent, start);
        let first = at;
        let mut last = None;
        while let Some(index) = at {
            let segment = *pool.get(index);
            if segment.end.is_after(end) {
                break;
            }
            last = Some(index);
            if segment.has(SACKED) {
                at = beyond(pool, index);
                continue;
            }
            self.deliver(pool, ways, index, &segment, now, rtt);
            let record = pool.get_mut(index);
            record.marks = (record.marks | SACKED) & !(LOST | AGAIN | PARDONED);
            record.right = NONE;
            self.lost -= u32::from(segment.has(LOST));
            self.again -= u32::from(segment.has(AGAIN));
            self.sacked += 1;
            delivery.delivered += 1;
            delivery.reported += 1;
            delivery.note_copies(segment.end, segment.has(EVER_AGAIN));
            at = pool.next(index);
        }
        // Most blocks come again and again: the next time this one is one step.
        if let (Some(first), Some(last)) = (first, last)
            && first != last
        {
            pool.get_mut(first).right = last;
        }
    }

    /// A record has arrived: RACK takes note, and it is in no chain any more.
    #[inline]
    fn deliver(
        &mut self,
        pool: &mut SentPool,
        ways: &mut Ways,
        index: u32,
        segment: &Sent,
        now: Nanos,
        rtt: &Rtt,
    ) {
        let is_newest = self.note_delivered(segment, now, rtt);
        let before = match is_newest && segment.is_flying() {
            true => ways.flying.before(pool, index),
            false => ways.overtaken(),
        };
        ways.unlink(pool, index, segment);
        if is_newest {
            ways.overtaken = before.unwrap_or(NONE);
            ways.overtake(pool, self.newest());
        }
    }

    /// RFC 8985 section 6.2 steps 2 and 3. Whether nothing that was sent later has arrived before.
    #[inline]
    fn note_delivered(&mut self, segment: &Sent, now: Nanos, rtt: &Rtt) -> bool {
        let round_trip = now.since(segment.at);
        if segment.has(EVER_AGAIN) {
            // Sooner than any round trip: that was the first copy, not the one sent again.
            if rtt.shortest().is_some_and(|shortest| round_trip < shortest) {
                return false;
            }
        } else if segment.end.is_before(self.highest) {
            let bytes = segment.end.since(segment.start).max(1);
            let segments = self.highest.since(segment.start).div_ceil(bytes);
            self.reordering = self.reordering.max(u8::try_from(segments).unwrap_or(u8::MAX));
        }
        // Of what is delivered at once, the last one's counts, as in Linux.
        self.round_trip = round_trip;
        let is_newest = is_later(segment.key(), self.newest());
        if is_newest {
            (self.newest_at, self.newest_end) = segment.key();
        }
        is_newest
    }
}

/// The first record behind `index`, which was reported, that may not have been. The way there is
/// made shorter by half for whoever comes next.
fn beyond(pool: &mut SentPool, index: u32) -> Option<u32> {
    let mut at = index;
    loop {
        let next = step(pool, at)?;
        if !pool.get(next).has(SACKED) {
            return Some(next);
        }
        let after = step(pool, next)?;
        if !pool.get(after).has(SACKED) {
            return Some(after);
        }
        pool.get_mut(at).right = after;
        at = after;
    }
}

/// One step over records that were reported.
fn step(pool: &SentPool, index: u32) -> Option<u32> {
    match pool.get(index).right {
        NONE => pool.next(index),
        right => Some(right),
    }
}

/// Whether a block comes behind another, by their starts, then by their ends.
fn is_behind(one: (Seq, Seq), other: (Seq, Seq)) -> bool {
    one.0.is_after(other.0) || (one.0 == other.0 && one.1.is_after(other.1))
}

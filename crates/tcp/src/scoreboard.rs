//! Segments on their way, and what became of each: the SACK scoreboard (RFC 2018, RFC 6675) and
//! RACK's loss detection over it (RFC 8985 section 6).
//!
//! A record per segment, oldest first. Without SACK each duplicate acknowledgement stands for one
//! segment that arrived, nobody knows which (RFC 6582).

use base::Nanos;

use crate::Seq;
use crate::pool::List;
use crate::rtt::Rtt;
use crate::shared::SentPool;

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) start: Seq,
    /// Behind its last number, that of a FIN included.
    pub(crate) end: Seq,
    /// When it was sent last.
    pub(crate) at: Nanos,
    marks: u8,
}

/// The peer has it, out of order.
const SACKED: u8 = 1;
/// It counts as lost.
const LOST: u8 = 2;
/// It was lost and is on its way again.
const AGAIN: u8 = 4;
/// It was sent more than once.
const EVER_AGAIN: u8 = 8;
/// It ends what the application had written.
const PUSHED: u8 = 16;

impl Sent {
    pub(crate) const fn new(start: Seq, end: Seq, at: Nanos, is_pushed: bool) -> Self {
        Self { start, end, at, marks: if is_pushed { PUSHED } else { 0 } }
    }

    const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether it bears PSH.
    pub(crate) const fn is_pushed(&self) -> bool {
        self.has(PUSHED)
    }

    /// Whether it waits to be sent again.
    pub(crate) const fn is_due(&self) -> bool {
        self.has(LOST) && !self.has(AGAIN)
    }
}

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
}

/// What one acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    /// Segments newly known to have arrived.
    pub(crate) delivered: u32,
    /// Those of them acknowledged in order.
    pub(crate) acked: u32,
    /// Time since the oldest acknowledged one was sent, if it was sent once (RFC 6298 section 3).
    pub(crate) round_trip: Option<Nanos>,
    /// When the last was sent of those acknowledged that were lost or sent again: until then what
    /// is acknowledged may have waited for that, not for the network.
    pub(crate) again_at: Option<Nanos>,
    /// The peer had some of it twice (RFC 2883).
    pub(crate) duplicate: bool,
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
        let oldest = pool.get(sent.first()?);
        let is_plain = oldest.end == ack && oldest.marks & !PUSHED == 0;
        if !is_plain || ack.is_before(self.highest) {
            return None;
        }
        let at = oldest.at;
        pool.pop_front(sent);
        let round_trip = now.since(at);
        self.round_trip = round_trip;
        if is_later((at, ack), (self.newest_at, self.newest_end)) {
            (self.newest_at, self.newest_end) = (at, ack);
        }
        self.highest = ack;
        Some(round_trip)
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
        while let Some(index) = sent.first() {
            let segment = pool.get_mut(index);
            if segment.end.is_after(ack) {
                if ack.is_after(segment.start) {
                    segment.start = ack;
                }
                break;
            }
            let segment = *segment;
            pool.pop_front(sent);
            delivery.acked += 1;
            if segment.has(SACKED) {
                self.sacked -= 1;
            } else {
                delivery.delivered += 1;
                self.note_delivered(&segment, now, rtt);
            }
            self.lost -= u32::from(segment.has(LOST));
            self.again -= u32::from(segment.has(AGAIN));
            if segment.has(EVER_AGAIN | LOST) {
                delivery.again_at = delivery.again_at.max(Some(segment.at));
            } else if !segment.has(SACKED) {
                delivery.round_trip.get_or_insert(now.since(segment.at));
            }
        }
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
        let mut at = sent.first();
        while let Some(index) = at {
            let segment = pool.get_mut(index);
            if !segment.start.is_before(highest) {
                break;
            }
            let is_covered = blocks.iter().any(|(start, end)| {
                !segment.start.is_before(*start) && !segment.end.is_after(*end)
            });
            if is_covered && !segment.has(SACKED) {
                let before = *segment;
                segment.marks = (segment.marks | SACKED) & !(LOST | AGAIN);
                self.lost -= u32::from(before.has(LOST));
                self.again -= u32::from(before.has(AGAIN));
                self.sacked += 1;
                delivery.delivered += 1;
                self.note_delivered(&before, now, rtt);
            }
            at = pool.next(index);
        }
        self.highest = self.highest.later(highest);
    }

    /// RFC 8985 section 6.2 steps 2 and 3.
    #[inline]
    fn note_delivered(&mut self, segment: &Sent, now: Nanos, rtt: &Rtt) {
        let round_trip = now.since(segment.at);
        if segment.has(EVER_AGAIN) {
            // Sooner than any round trip: that was the first copy, not the one sent again.
            if rtt.shortest().is_some_and(|shortest| round_trip < shortest) {
                return;
            }
        } else if segment.end.is_before(self.highest) {
            let bytes = segment.end.since(segment.start).max(1);
            let segments = self.highest.since(segment.start).div_ceil(bytes);
            self.reordering = self.reordering.max(u8::try_from(segments).unwrap_or(u8::MAX));
        }
        // Of what is delivered at once, the last one's counts, as in Linux.
        self.round_trip = round_trip;
        if is_later((segment.at, segment.end), (self.newest_at, self.newest_end)) {
            (self.newest_at, self.newest_end) = (segment.at, segment.end);
        }
    }

    /// A duplicate acknowledgement from a peer without SACK: one more has arrived.
    pub(crate) fn count_duplicate(&mut self, sent: &List, delivery: &mut Delivery) {
        if self.sacked + self.lost < sent.len() {
            self.sacked += 1;
            delivery.delivered += 1;
        }
    }

    /// Segments acknowledged in order were counted before, one each, as duplicates.
    pub(crate) fn discount_duplicates(&mut self, sent: &List, acked: u32) {
        self.sacked = self.sacked.saturating_sub(acked.saturating_sub(1));
        self.sacked = self.sacked.min(sent.len().saturating_sub(self.lost));
    }

    /// The peer reported a duplicate: reordering needs more patience (RFC 8985 section 6.2 step 4).
    pub(crate) fn grow_patient(&mut self) {
        self.reorder_wait = self.reorder_wait.saturating_add(1).min(20);
    }

    /// Marks as lost what was sent long enough before something that has arrived (RFC 8985 section
    /// 6.2 step 5). Returns how many, and how long the next waits for its turn.
    pub(crate) fn detect(
        &mut self,
        pool: &mut SentPool,
        sent: &List,
        window: Nanos,
        now: Nanos,
    ) -> (u32, Option<Nanos>) {
        let (mut newly_lost, mut wait) = (0, None);
        let newest = (self.newest_at, self.newest_end);
        let mut at = sent.first();
        while let Some(index) = at {
            at = pool.next(index);
            let segment = pool.get_mut(index);
            let is_settled = segment.has(SACKED) || segment.is_due();
            if is_settled || !is_later(newest, (segment.at, segment.end)) {
                continue;
            }
            let due = segment.at + self.round_trip + window;
            if due <= now {
                newly_lost += 1;
                self.mark_lost(segment);
            } else {
                wait = wait.max(Some(due.since(now)));
            }
        }
        (newly_lost, wait)
    }

    /// How long RACK waits for segments that may only be late (RFC 8985 section 6.2 step 4).
    pub(crate) fn reordering_window(
        &self,
        is_recovering: bool,
        shortest: Option<Nanos>,
        smoothed: Option<Nanos>,
    ) -> Nanos {
        if self.reordering == 0 && (is_recovering || self.sacked >= DUPLICATES) {
            return Nanos::ZERO;
        }
        let quarter = Nanos(shortest.unwrap_or_default().0 / 4);
        Nanos(quarter.0 * (u64::from(self.reorder_wait) + 1)).min(smoothed.unwrap_or_default())
    }

    fn mark_lost(&mut self, segment: &mut Sent) {
        self.again -= u32::from(segment.has(AGAIN));
        self.lost += u32::from(!segment.has(LOST));
        segment.marks = (segment.marks | LOST) & !AGAIN;
    }

    /// Marks the oldest segment as lost; false when it is marked already or there is none.
    pub(crate) fn mark_first_lost(&mut self, pool: &mut SentPool, sent: &List) -> bool {
        let Some(index) = sent.first() else { return false };
        let segment = pool.get_mut(index);
        if segment.has(SACKED) || segment.has(LOST) {
            return false;
        }
        self.mark_lost(segment);
        // A duplicate that stood for this one does so no longer.
        self.sacked = self.sacked.min(sent.len() - self.lost);
        true
    }

    /// Marks as lost what is longer than `bytes`: the path cannot carry it. How many.
    pub(crate) fn mark_longer_lost(&mut self, pool: &mut SentPool, sent: &List, bytes: u32) -> u32 {
        let mut count = 0;
        let mut at = sent.first();
        while let Some(index) = at {
            let segment = pool.get_mut(index);
            if segment.end.since(segment.start) > bytes && !segment.has(SACKED) {
                self.mark_lost(segment);
                count += 1;
            }
            at = pool.next(index);
        }
        // Without SACK the duplicates stood for segments of which too little is known now.
        self.sacked = self.sacked.min(sent.len() - self.lost);
        count
    }

    /// A timeout: everything that the peer has not reported is lost. A peer that reported the
    /// oldest segment and never acknowledged it has thrown away what it had (RFC 2018 section 8).
    pub(crate) fn mark_all_lost(&mut self, pool: &mut SentPool, sent: &List, has_sack: bool) {
        let is_reneging = sent.first().is_some_and(|index| pool.get(index).has(SACKED));
        if is_reneging || !has_sack {
            self.sacked = 0;
        }
        let mut at = sent.first();
        while let Some(index) = at {
            let segment = pool.get_mut(index);
            if is_reneging {
                segment.marks &= !SACKED;
            }
            if !segment.has(SACKED) {
                self.mark_lost(segment);
            }
            at = pool.next(index);
        }
    }

    /// Nothing was lost after all.
    pub(crate) fn clear_lost(&mut self, pool: &mut SentPool, sent: &List) {
        let mut at = sent.first();
        while let Some(index) = at {
            let segment = pool.get_mut(index);
            segment.marks &= !(LOST | AGAIN);
            at = pool.next(index);
        }
        (self.lost, self.again) = (0, 0);
    }

    /// The segment at `index` has been sent again.
    pub(crate) fn sent_again(&mut self, pool: &mut SentPool, index: u32, now: Nanos) {
        let segment = pool.get_mut(index);
        if segment.is_due() {
            segment.marks |= AGAIN;
            self.again += 1;
        }
        segment.marks |= EVER_AGAIN;
        segment.at = now;
    }

    /// Cuts the segment at `index`, so that it ends at `end`; false when the pool is empty.
    pub(crate) fn split(
        &mut self,
        pool: &mut SentPool,
        sent: &mut List,
        index: u32,
        end: Seq,
    ) -> bool {
        let mut rest = *pool.get(index);
        rest.start = end;
        if !pool.insert_after(sent, Some(index), rest) {
            return false;
        }
        self.sacked += u32::from(rest.has(SACKED));
        self.lost += u32::from(rest.has(LOST));
        self.again += u32::from(rest.has(AGAIN));
        let first = pool.get_mut(index);
        first.end = end;
        first.marks &= !PUSHED;
        true
    }
}

/// Whether `one` was sent after `other`: the clock decides, then the numbers.
fn is_later(one: (Nanos, Seq), other: (Nanos, Seq)) -> bool {
    one.0 > other.0 || (one.0 == other.0 && one.1.is_after(other.1))
}

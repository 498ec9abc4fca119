//! What counts as lost, what is sent again, and what is cut for that.

use base::Nanos;

use super::chain::Chain;
use super::index::Index;
use super::record::{AGAIN, EVER_AGAIN, LINKED, LOST, PARDONED, PUSHED, SACKED};
use super::ways::{Ways, is_later};
use super::{DUPLICATES, Delivery, NONE, Scoreboard};
use crate::Seq;
use crate::pool::List;
use crate::shared::SentPool;

/// Recoveries after which the reordering window is the first again (RFC 8985 section 6.2 step 4).
const REO_WND_PERSIST: u8 = 16;

impl Scoreboard {
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

    /// The peer reported a duplicate: reordering needs more time (RFC 8985 section 6.2 step 4).
    pub(crate) fn grow_patient(&mut self) {
        self.reorder_wait = self.reorder_wait.saturating_add(1).min(20);
        self.reo_wnd_persist = REO_WND_PERSIST;
    }

    /// A recovery was for nothing: that lasts longer.
    pub(crate) fn stay_patient(&mut self) {
        self.reo_wnd_persist = (self.reo_wnd_persist + 1).min(REO_WND_PERSIST);
    }

    /// A recovery is over, and was not for nothing: after this many in a row, late segments get no
    /// more time than at first.
    pub(crate) fn recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reorder_wait = 0;
        }
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

    /// Marks as lost what was sent long enough before something that has arrived (RFC 8985 section
    /// 6.2 step 5). Returns how many, and how long the next waits for its turn.
    pub(crate) fn detect(
        &mut self,
        pool: &mut SentPool,
        sent: &List,
        window: Nanos,
        now: Nanos,
    ) -> (u32, Option<Nanos>) {
        let mut ways = Ways::of(pool, sent);
        let (mut newly_lost, mut near, mut wait) = (0, None, None);
        let grace = self.round_trip + window;
        while let Some(last) = ways.overtaken()
            && let Some(index) = ways.flying.first(pool)
        {
            if pool.get(index).at + grace > now {
                // The last of them waits longest, and then all are looked at.
                wait = Some((pool.get(last).at + grace).since(now));
                break;
            }
            self.mark_lost(pool, &mut ways, index, near);
            newly_lost += 1;
            near = Some(index);
        }
        ways.keep(pool, sent);
        (newly_lost, wait)
    }

    /// Marks a record as lost that was not reported. For `near` see [`Ways::due_place`].
    fn mark_lost(&mut self, pool: &mut SentPool, ways: &mut Ways, index: u32, near: Option<u32>) {
        let segment = *pool.get(index);
        if segment.is_due() {
            return;
        }
        ways.unlink(pool, index, &segment);
        self.again -= u32::from(segment.has(AGAIN));
        self.lost += u32::from(!segment.has(LOST));
        let record = pool.get_mut(index);
        record.marks = (record.marks | LOST) & !(AGAIN | PARDONED);
        let place = ways.due_place(pool, segment.start, near);
        ways.due.insert(pool, place, index);
    }

    /// The oldest segment that is to be sent again.
    #[inline]
    pub(crate) fn first_due(pool: &SentPool, sent: &List) -> Option<u32> {
        let first = pool.get(sent.first()?);
        if first.has(LINKED) { first.ways.due.first(pool) } else { None }
    }

    /// Whether the segment that begins at `start` is to be sent again.
    pub(crate) fn is_due(pool: &SentPool, sent: &List, start: Seq) -> bool {
        let first = sent.first().map(|first| pool.get(first)).filter(|first| first.has(LINKED));
        let at = first.and_then(|first| first.ways.index.find_from(pool, sent, start));
        at.is_some_and(|index| {
            let segment = pool.get(index);
            segment.start == start && segment.is_due()
        })
    }

    /// Marks the oldest segment as lost; false when it is marked already or there is none.
    pub(crate) fn mark_first_lost(&mut self, pool: &mut SentPool, sent: &List) -> bool {
        let Some(index) = sent.first() else { return false };
        if pool.get(index).has(SACKED | LOST) {
            return false;
        }
        let mut ways = Ways::of(pool, sent);
        self.mark_lost(pool, &mut ways, index, None);
        ways.keep(pool, sent);
        // A duplicate that stood for this one does so no longer.
        self.sacked = self.sacked.min(sent.len() - self.lost);
        true
    }

    /// Marks as lost what is longer than `bytes`: the path cannot carry it. How many.
    pub(crate) fn mark_longer_lost(&mut self, pool: &mut SentPool, sent: &List, bytes: u32) -> u32 {
        let mut ways = Ways::of(pool, sent);
        let (mut count, mut near) = (0, None);
        let mut at = sent.first();
        while let Some(index) = at {
            let segment = pool.get(index);
            if segment.end.since(segment.start) > bytes && !segment.has(SACKED) {
                self.mark_lost(pool, &mut ways, index, near);
                count += 1;
            }
            if pool.get(index).is_due() {
                near = Some(index);
            }
            at = pool.next(index);
        }
        ways.keep(pool, sent);
        // Without SACK the duplicates stood for segments of which too little is known now.
        self.sacked = self.sacked.min(sent.len() - self.lost);
        count
    }

    /// Whether the peer has reported the oldest segment and not acknowledged it: it has thrown away
    /// what it had (RFC 2018 section 8), or is about to say more.
    #[inline]
    pub(crate) fn is_reneging(&self, pool: &SentPool, sent: &List) -> bool {
        self.sacked > 0 && sent.first().is_some_and(|index| pool.get(index).has(SACKED))
    }

    /// A timeout: everything that the peer has not reported is lost, and of one that reneges all.
    pub(crate) fn mark_all_lost(&mut self, pool: &mut SentPool, sent: &List, has_sack: bool) {
        let is_reneging = self.is_reneging(pool, sent);
        if is_reneging || !has_sack {
            self.sacked = 0;
        }
        let index = Ways::of(pool, sent).index;
        let mut ways = Ways { index, ..Ways::EMPTY };
        (self.lost, self.again) = (0, 0);
        let mut at = sent.first();
        while let Some(index) = at {
            let segment = pool.get_mut(index);
            if is_reneging {
                segment.marks &= !SACKED;
            }
            if !segment.has(SACKED) {
                segment.marks = (segment.marks | LOST) & !(AGAIN | PARDONED);
                self.lost += 1;
                ways.due.push_back(pool, index);
            }
            at = pool.next(index);
        }
        ways.keep(pool, sent);
    }

    /// Nothing was lost after all. What a timeout has found lost is on its way as before.
    pub(crate) fn clear_lost(&mut self, pool: &mut SentPool, sent: &List, is_timeout: bool) {
        let mut ways = Ways::of(pool, sent);
        // Those that are on their way again were sent since the fall began: they are near the end.
        let mut at = ways.flying.last();
        while self.again > 0
            && let Some(index) = at
        {
            at = ways.flying.before(pool, index);
            let segment = pool.get_mut(index);
            self.again -= u32::from(segment.has(AGAIN));
            segment.marks &= !(LOST | AGAIN);
        }
        let earliest = ways.flying.first(pool).map(|first| pool.get(first).key());
        let mut resumed = Chain::EMPTY;
        let mut latest = None;
        while let Some(index) = ways.due.first(pool) {
            let segment = *pool.get(index);
            ways.due.remove(pool, index, &segment);
            let is_in_order = latest.is_none_or(|latest| is_later(segment.key(), latest))
                && earliest.is_none_or(|earliest| is_later(earliest, segment.key()));
            let record = pool.get_mut(index);
            record.marks &= !LOST;
            if is_timeout && is_in_order {
                resumed.push_back(pool, index);
                latest = Some(segment.key());
            } else {
                record.marks |= PARDONED;
            }
        }
        ways.flying.prepend(pool, resumed);
        self.lost = 0;
        if is_timeout {
            ways.overtaken = NONE;
            ways.overtake(pool, self.newest());
        }
        ways.keep(pool, sent);
    }

    /// The segment at `index` has been sent again.
    pub(crate) fn sent_again(&mut self, pool: &mut SentPool, sent: &List, index: u32, now: Nanos) {
        let mut ways = Ways::of(pool, sent);
        let segment = *pool.get(index);
        ways.unlink(pool, index, &segment);
        let record = pool.get_mut(index);
        if segment.is_due() {
            record.marks |= AGAIN;
            self.again += 1;
        }
        record.marks = (record.marks | EVER_AGAIN) & !PARDONED;
        record.at = now;
        let record = *record;
        if record.is_flying() {
            // Behind everything but what has left at the same time with higher numbers.
            let mut place = ways.flying.last();
            while let Some(at) = place
                && is_later(pool.get(at).key(), record.key())
            {
                place = ways.flying.before(pool, at);
            }
            ways.flying.insert(pool, place, index);
            ways.overtake(pool, self.newest());
        }
        ways.keep(pool, sent);
    }

    /// Cuts the segment at `index`, so that it ends at `end`; false when the flow may have no more
    /// records.
    pub(crate) fn split(
        &mut self,
        pool: &mut SentPool,
        sent: &mut List,
        index: u32,
        end: Seq,
    ) -> bool {
        let mut ways = Ways::of(pool, sent);
        let mut rest = *pool.get(index);
        rest.start = end;
        Index::note_cut(pool, index, &mut rest);
        if !pool.insert_after(sent, Some(index), rest) {
            return false;
        }
        self.sacked += u32::from(rest.has(SACKED));
        self.lost += u32::from(rest.has(LOST));
        self.again += u32::from(rest.has(AGAIN));
        let first = pool.get_mut(index);
        first.end = end;
        first.marks &= !PUSHED;
        let Some(behind) = pool.next(index) else { return true };
        if rest.is_flying() {
            ways.flying.insert(pool, Some(index), behind);
            ways.overtake(pool, self.newest());
        } else if rest.is_due() {
            ways.due.insert(pool, Some(index), behind);
        }
        ways.keep(pool, sent);
        true
    }
}

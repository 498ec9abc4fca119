//! Deadlines of all flows: a hierarchical timer wheel (Varghese and Lauck, 1987), one entry a flow.
//!
//! Arming, moving and disarming are constant time. A deadline may fire up to a tick late, and never
//! early, unless it is days away. The engine leaves an entry where it is when a flow's deadline
//! moves away, and looks at the flow when the entry fires: most acknowledgements then cost the
//! wheel nothing.

use base::Nanos;

/// A tick is 2^16 ns, some 66 us: finer than any timer of TCP has to be.
const TICK_SHIFT: u32 = 16;
const SLOT_SHIFT: u32 = 6;
const SLOTS: usize = 1 << SLOT_SHIFT;
/// Levels of 64 slots that together count all the ticks in 64 bits of nanoseconds.
const LEVELS: usize = 8;
const NONE: u32 = u32::MAX;
/// A deadline farther away, some 39 hours, fires then, and its thing is armed again.
const TICKS_AHEAD_MAX: u64 = 1 << 31;
const OFF: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The low half of its tick; the high half is the present one's, or one more.
    tick: u32,
    previous: u32,
    next: u32,
    /// Level times 64 plus slot, or [`OFF`].
    place: u16,
}

/// What a thing costs.
pub(crate) const ENTRY_BYTES: usize = size_of::<Entry>();

/// Deadlines of numbered things.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// Everything before it has fired.
    tick: u64,
    /// No slot with something in it begins before.
    soonest: u64,
    occupied: [u64; LEVELS],
    heads: [[u32; SLOTS]; LEVELS],
    entries: Vec<Entry>,
}

impl Wheel {
    /// A wheel for things numbered below `limit`, whose memory is touched when first used.
    pub(crate) fn new(limit: u32, now: Nanos) -> Self {
        Self {
            tick: now.0 >> TICK_SHIFT,
            soonest: u64::MAX,
            occupied: [0; LEVELS],
            heads: [[NONE; SLOTS]; LEVELS],
            entries: Vec::with_capacity(limit as usize),
        }
    }

    /// Makes room for thing `index`.
    pub(crate) fn grow(&mut self, index: u32) {
        while self.entries.len() <= index as usize {
            self.entries.push(Entry { tick: 0, previous: NONE, next: NONE, place: OFF });
        }
    }

    /// Whether thing `index` fires at `deadline` at the latest; that is less than a day away.
    #[inline]
    pub(crate) fn is_armed_by(&self, index: u32, deadline: Nanos) -> bool {
        let entry = &self.entries[index as usize];
        // The low halves of ticks that are no farther apart compare like sequence numbers.
        let ahead = ((deadline.0 >> TICK_SHIFT) as u32).wrapping_sub(entry.tick);
        entry.place != OFF && ahead.cast_signed() >= 0
    }

    /// When thing `index` fires.
    #[inline]
    pub(crate) fn armed(&self, index: u32) -> Option<Nanos> {
        let entry = &self.entries[index as usize];
        (entry.place != OFF).then(|| Nanos(self.whole(entry.tick) << TICK_SHIFT))
    }

    /// Looks at the entry of thing `index`, and returns something of it.
    #[inline]
    pub(crate) fn touch(&self, index: u32) -> u64 {
        self.entries.get(index as usize).map_or(0, |entry| u64::from(entry.tick))
    }

    /// Arms thing `index`, whether it was armed or not. What is due already fires at the next tick.
    #[inline]
    pub(crate) fn arm(&mut self, index: u32, deadline: Nanos) {
        self.disarm(index);
        let whole = deadline.0 >> TICK_SHIFT;
        let tick = whole + u64::from(whole << TICK_SHIFT != deadline.0);
        let last = (self.tick + TICKS_AHEAD_MAX).min(u64::MAX >> TICK_SHIFT);
        self.insert(index, tick.clamp(self.tick + 1, last.max(self.tick + 1)));
    }

    /// The tick whose low half is `low`; none that is in the wheel lies before the present one.
    #[inline]
    const fn whole(&self, low: u32) -> u64 {
        self.tick + low.wrapping_sub(self.tick as u32) as u64
    }

    fn insert(&mut self, index: u32, tick: u64) {
        // The level is where the tick first differs from the present one, seen from the top.
        let difference = (tick ^ self.tick) | 1;
        let level = ((63 - difference.leading_zeros()) / SLOT_SHIFT) as usize;
        let shift = SLOT_SHIFT as usize * level;
        let slot = (tick >> shift) as usize % SLOTS;
        self.soonest = self.soonest.min(tick >> shift << shift);
        let head = self.heads[level][slot];
        self.entries[index as usize] = Entry {
            tick: tick as u32,
            previous: NONE,
            next: head,
            place: (level * SLOTS + slot) as u16,
        };
        if head != NONE {
            self.entries[head as usize].previous = index;
        }
        self.heads[level][slot] = index;
        self.occupied[level] |= 1 << slot;
    }

    /// Takes thing `index` out, if it is in.
    #[inline]
    pub(crate) fn disarm(&mut self, index: u32) {
        let entry = self.entries[index as usize];
        if entry.place == OFF {
            return;
        }
        let (level, slot) = (usize::from(entry.place) / SLOTS, usize::from(entry.place) % SLOTS);
        if entry.next != NONE {
            self.entries[entry.next as usize].previous = entry.previous;
        }
        if entry.previous == NONE {
            self.heads[level][slot] = entry.next;
            if entry.next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            self.entries[entry.previous as usize].next = entry.next;
        }
        self.entries[index as usize].place = OFF;
    }

    /// The first slot with something in it: level, slot, the tick at which it begins.
    #[inline]
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        // Of slots that begin at once the highest level's comes first: it is not emptied yet.
        let slots = (0..LEVELS).rev().filter_map(|level| {
            let shift = SLOT_SHIFT as usize * level;
            let present = (self.tick >> shift) as usize % SLOTS;
            let ahead = self.occupied[level] >> present << present;
            if ahead == 0 {
                return None;
            }
            let slot = ahead.trailing_zeros() as usize;
            let above = self.tick >> shift >> SLOT_SHIFT << SLOT_SHIFT;
            Some((level, slot, (above | slot as u64) << shift))
        });
        slots.min_by_key(|(_, _, tick)| *tick)
    }

    /// When [`Self::pop`] has to be called next: not after the first deadline, perhaps before.
    #[inline]
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.next_slot().map(|(_, _, tick)| Nanos(tick << TICK_SHIFT))
    }

    /// Takes one thing whose deadline is reached at `now`; to be called until there is none. Each
    /// look at an entry is a step, and without one left there is nothing: [`Self::next`] says then
    /// that it is to be called again.
    pub(crate) fn pop(&mut self, now: Nanos, steps: &mut u32) -> Option<u32> {
        let target = now.0 >> TICK_SHIFT;
        if self.soonest > target {
            self.tick = self.tick.max(target);
            return None;
        }
        loop {
            let next = self.next_slot();
            self.soonest = next.map_or(u64::MAX, |(_, _, tick)| tick);
            let Some((level, slot, tick)) = next.filter(|(_, _, tick)| *tick <= target) else {
                self.tick = self.tick.max(target);
                return None;
            };
            self.tick = self.tick.max(tick);
            *steps = steps.checked_sub(1)?;
            let index = self.heads[level][slot];
            let tick = self.whole(self.entries[index as usize].tick);
            self.disarm(index);
            if level == 0 {
                return Some(index);
            }
            // It goes down at least one level, so that every entry is moved at most seven times.
            self.insert(index, tick);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: u64 = 1 << TICK_SHIFT;

    proptest! {
        #[test]
        fn everything_fires_once_within_a_tick_of_its_deadline(
            start in 0_u64..1 << 60,
            steps in prop::collection::vec((0_u32..20, 0_u32..50, 0_u8..8, any::<u64>()), 1..300),
        ) {
            let mut now = Nanos(start);
            let mut wheel = Wheel::new(20, now);
            wheel.grow(19);
            let mut oracle = [None::<Nanos>; 20];
            for (index, bits, kind, random) in steps {
                match kind {
                    0 => {
                        wheel.disarm(index);
                        oracle[index as usize] = None;
                    }
                    1..5 => {
                        // Forty bits of nanoseconds are eighteen minutes.
                        let deadline = now + Nanos(random >> (64 - bits.min(40)).min(63));
                        wheel.arm(index, deadline);
                        oracle[index as usize] = Some(deadline);
                    }
                    _ => {
                        now += Nanos(random >> (64 - bits).min(63));
                        while let Some(index) = wheel.pop(now, &mut { u32::MAX }) {
                            let deadline = oracle[index as usize].take();
                            prop_assert!(deadline.is_some_and(|deadline| deadline <= now));
                        }
                        for deadline in oracle.iter().flatten() {
                            prop_assert!(deadline.0 + 2 * TICK > now.0, "overdue");
                        }
                    }
                }
                let first = oracle.iter().flatten().min();
                match (wheel.next(), first) {
                    (None, None) => {}
                    (Some(next), Some(first)) => prop_assert!(next.0 <= first.0.max(now.0) + 2 * TICK),
                    (next, first) => prop_assert!(false, "{next:?} {first:?}"),
                }
            }
            // Going from one wake-up to the next ends, and fires the rest.
            for _ in 0..20 * LEVELS {
                let Some(next) = wheel.next() else { break };
                now = now.max(next);
                while let Some(index) = wheel.pop(now, &mut { u32::MAX }) {
                    prop_assert!(oracle[index as usize].take().is_some_and(|due| due <= now));
                }
            }
            prop_assert_eq!(oracle, [None; 20]);
        }
    }
}

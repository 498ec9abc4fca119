//! The entries, found by key from both directions.

use base::Nanos;
use wire::ipv4;

use super::tcp::Tcp;
use super::tuple::{Key, Tuple, hash_of};

/// Entries that one [`Table::sweep`] looks at.
const SWEPT: usize = 16;
/// Entries that are looked at when the table is full, for one that may give way.
const DRAWN: usize = 32;
/// No entry.
const NONE: u32 = u32::MAX;

/// A connection, for as long as it is there: its number is not given again before 2^32 others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    place: u32,
    /// Of the entry: one that has another is another connection.
    generation: u32,
}

/// One connection.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    key: Key,
    /// Milliseconds since the table was made, wrapping: it is over then. No timeout is longer than
    /// five days, and the count goes round after 49.
    deadline: u32,
    /// The next entry of the same bucket, or the next free one.
    next: u32,
    generation: u32,
    /// What whoever opened it wants to find again.
    pub(super) mark: u64,
    pub(super) tcp: Tcp,
    pub(super) source_slot: u16,
    is_used: bool,
    /// Whether the first packet went from the lesser end to the greater one.
    is_upward: bool,
    /// Whether a packet has come back.
    pub(super) has_reply: bool,
    /// Whether one went on after that.
    pub(super) is_lasting: bool,
    protocol: u8,
}

impl Entry {
    pub(super) fn new(tuple: &Tuple, source_slot: u16, mark: u64) -> Self {
        let (key, is_upward) = Key::of(tuple);
        Self {
            key,
            deadline: 0,
            next: NONE,
            generation: 0,
            mark,
            tcp: Tcp::default(),
            source_slot,
            is_used: true,
            is_upward,
            has_reply: false,
            is_lasting: false,
            protocol: tuple.protocol,
        }
    }

    pub(super) const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether its first packet did not lie about where it comes from: a packet has come back, or,
    /// since an open port answers anything, TCP's handshake is over. It stays so.
    pub(super) const fn is_answered(&self) -> bool {
        if self.protocol == ipv4::TCP {
            self.is_lasting && self.tcp.is_established()
        } else {
            self.has_reply
        }
    }

    /// Whether it may end where there is no room for another. An open UDP port answers a liar too:
    /// one answer does not keep its connection.
    const fn gives_way(&self) -> bool {
        !self.is_answered() || !self.is_lasting || self.tcp.is_ending()
    }

    const fn is_over(&self, now: u32) -> bool {
        now.wrapping_sub(self.deadline) as i32 >= 0
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Table {
    /// Places that were ever used, of which there are at most `limit`.
    entries: Vec<Entry>,
    limit: usize,
    /// First entries, by hash; twice as many as entries.
    buckets: Box<[u32]>,
    /// The first free place.
    free: u32,
    len: usize,
    /// The next place that [`Self::sweep`] looks at.
    hand: usize,
    seed: u64,
    /// How often places were drawn.
    random: u64,
    /// Entries in use that gave way to an owner with fewer.
    pub(super) given: u64,
}

impl Table {
    pub(super) fn new(limit: usize, seed: u64) -> Self {
        let buckets = (limit * 2).next_power_of_two();
        Self {
            entries: Vec::with_capacity(limit),
            limit,
            // Zeros, which the kernel maps when they are first written: places are kept plus one.
            buckets: vec![0; buckets].into(),
            free: NONE,
            len: 0,
            hand: 0,
            seed,
            random: 0,
            given: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Whether all places are in use.
    pub(super) const fn is_full(&self) -> bool {
        self.len == self.limit
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Entry> {
        let entry = self.entries.get(id.place as usize)?;
        (entry.is_used && entry.generation == id.generation).then_some(entry)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(id.place as usize)?;
        (entry.is_used && entry.generation == id.generation).then_some(entry)
    }

    /// The connection of a packet with these ends, unless it has run out, and whether the packet is
    /// a reply.
    #[inline]
    pub(super) fn find(&self, tuple: &Tuple, now: Nanos) -> Option<(ConnectionId, bool)> {
        let found = self.peek(tuple)?;
        let is_over = self.get(found.0)?.is_over(millis(now));
        (!is_over).then_some(found)
    }

    /// The same for one that may have run out a moment ago.
    pub(super) fn peek(&self, tuple: &Tuple) -> Option<(ConnectionId, bool)> {
        let (key, is_upward) = Key::of(tuple);
        let mut next = self.buckets[self.bucket(&key)];
        while let Some(place) = next.checked_sub(1) {
            let entry = self.entries.get(place as usize)?;
            if entry.key == key {
                let id = ConnectionId { place, generation: entry.generation };
                return Some((id, is_upward != entry.is_upward));
            }
            next = entry.next.wrapping_add(1);
        }
        None
    }

    /// Puts a connection in, of which there is none like it that has not run out; nothing when
    /// there is no room.
    pub(super) fn insert(&mut self, mut entry: Entry, until: Nanos) -> Option<ConnectionId> {
        entry.deadline = millis(until);
        let place = match self.free {
            NONE if self.entries.len() == self.limit => return None,
            NONE => {
                self.entries.push(entry.clone());
                self.entries.len() as u32 - 1
            }
            free => {
                self.free = self.entries[free as usize].next;
                free
            }
        };
        let bucket = self.bucket(&entry.key);
        entry.generation = self.entries[place as usize].generation.wrapping_add(1);
        entry.next = self.buckets[bucket].wrapping_sub(1);
        let id = ConnectionId { place, generation: entry.generation };
        self.entries[place as usize] = entry;
        self.buckets[bucket] = place + 1;
        self.len += 1;
        Some(id)
    }

    pub(super) fn extend(&mut self, id: ConnectionId, until: Nanos) {
        if let Some(entry) = self.get_mut(id) {
            entry.deadline = millis(until);
        }
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Entry> {
        let gone = self.get(id)?.clone();
        let bucket = self.bucket(&gone.key);
        if self.buckets[bucket] == id.place + 1 {
            self.buckets[bucket] = gone.next.wrapping_add(1);
        } else {
            let mut at = self.buckets[bucket].checked_sub(1)?;
            while self.entries[at as usize].next != id.place {
                at = self.entries[at as usize].next;
                if at == NONE {
                    return None;
                }
            }
            self.entries[at as usize].next = gone.next;
        }
        let entry = &mut self.entries[id.place as usize];
        (entry.is_used, entry.next) = (false, self.free);
        self.free = id.place;
        self.len -= 1;
        Some(gone)
    }

    /// Ends some of those that have run out.
    pub(super) fn sweep(&mut self, now: Nanos) -> [Option<Entry>; SWEPT] {
        let mut gone = [const { None }; SWEPT];
        for gone in gone.iter_mut().take(self.entries.len()) {
            self.hand = if self.hand + 1 < self.entries.len() { self.hand + 1 } else { 0 };
            *gone = self.remove_if(self.hand, |entry| entry.is_over(millis(now)));
        }
        gone
    }

    /// Where all places are in use: ends, of some that are drawn, those that have run out, or else
    /// one that gives way, or else one of whoever has most, `heavier` than whoever asks.
    pub(super) fn make_room(
        &mut self,
        heavier: impl Fn(&Entry) -> u32,
        now: Nanos,
    ) -> [Option<Entry>; DRAWN] {
        let mut gone = [const { None }; DRAWN];
        let drawn = self.draw();
        self.random = self.random.wrapping_add(1);
        for (place, gone) in drawn.clone().zip(&mut gone) {
            *gone = self.remove_if(place, |entry| entry.is_over(millis(now)));
        }
        if self.free == NONE
            && let Some((place, is_in_use)) = self.least(drawn, heavier)
        {
            self.given += u64::from(is_in_use);
            gone[0] = self.remove_if(place, |_| true);
        }
        gone
    }

    /// Whether that would end one.
    pub(super) fn may_make_room(&self, heavier: impl Fn(&Entry) -> u32, now: Nanos) -> bool {
        let is_over = |place| {
            let entry: Option<&Entry> = self.entries.get(place);
            entry.is_some_and(|entry| entry.is_used && entry.is_over(millis(now)))
        };
        let drawn = self.draw();
        drawn.clone().any(is_over) || self.least(drawn, heavier).is_some()
    }

    /// Places far from each other, because those that came together stand together.
    fn draw(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let first = hash_of(self.seed, &[self.random.wrapping_add(1)]) as usize;
        let (limit, step) = (self.limit, (self.limit / DRAWN).max(1));
        (0..DRAWN.min(limit)).map(move |number| (first % limit + number * step) % limit)
    }

    /// Which of these is to go, and whether it is in use.
    fn least(
        &self,
        drawn: impl Iterator<Item = usize>,
        heavier: impl Fn(&Entry) -> u32,
    ) -> Option<(usize, bool)> {
        let mut heaviest = (None, 0);
        for place in drawn {
            let Some(entry) = self.entries.get(place).filter(|entry| entry.is_used) else {
                continue;
            };
            if entry.gives_way() {
                return Some((place, false));
            }
            let more = heavier(entry);
            if more > heaviest.1 {
                heaviest = (Some(place), more);
            }
        }
        heaviest.0.map(|place| (place, true))
    }

    fn remove_if(&mut self, place: usize, is_to_go: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let entry = self.entries.get(place).filter(|entry| entry.is_used && is_to_go(entry))?;
        self.remove(ConnectionId { place: place as u32, generation: entry.generation })
    }

    #[inline]
    fn bucket(&self, key: &Key) -> usize {
        key.hash(self.seed) as usize & (self.buckets.len() - 1)
    }
}

/// Milliseconds, wrapping.
const fn millis(at: Nanos) -> u32 {
    (at.0 / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_connections_take_less_than_three_hundred_mebibytes() {
        let bytes = size_of::<Entry>() * 1_000_000 + (2_000_000_usize).next_power_of_two() * 4;
        assert!(bytes < 300 << 20, "{bytes}");
        assert!(size_of::<Entry>() <= 112, "{}", size_of::<Entry>());
    }
}

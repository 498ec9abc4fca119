//! The memory of all programs' rings: what there is, and what is done when it runs short.
//!
//! In this order, for the whole, for a user's part (three quarters) and for a program's (half):
//! 1. rings do not grow any more: the last quarter of the whole is for short ones;
//! 2. above three quarters, pages of rings that nobody has are discarded;
//! 3. above seven eighths, connections that nobody reads are reset, those that are idle longest
//!    first, and their rings' pages are discarded: of the program that has most;
//! 4. what is full lends no further ring. A connection whose ring is refused waits, and is accepted
//!    when there is memory; a socket for datagrams is left to the kernel.
//!
//! Whether it runs short or not, what nobody has had for some time is discarded as well
//! ([`Heap::trim_unused`](shm::sockets::Heap::trim_unused)): a crowd that was there once does not
//! stay in memory until its program ends.
//!
//! A program that has left keeps its region until the last of its connections is over, two minutes
//! at most after it: what its other rings have in memory is discarded, short or not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use base::{AppId, Nanos, SlotId};
use shm::sockets::{Budget, SPARE_LOOK_EVERY};
use stack::{AppSockets, Evicted};

/// Time between two looks whether memory is short.
const LOOK_EVERY: Nanos = SPARE_LOOK_EVERY;

/// A connection that was read from within this time is never reset, however short memory is.
const IDLE_MIN: Nanos = Nanos::from_secs(5);

/// Those that are idle this long are reset first; each further look halves it.
const IDLE_FIRST: Nanos = Nanos::from_secs(80);

/// Time between two lines of the log about it.
const SAY_EVERY: Nanos = Nanos::from_secs(60);

/// The budget, and when it was looked at.
pub(super) struct RingMemory {
    budget: Arc<Budget>,
    look_at: Nanos,
    /// Refused rings when it was looked at last.
    refused: u64,
    /// Connections that are idle this long are reset at the next look that finds too little.
    idle: Nanos,
    /// Rings that were taken from connections whose sockets are not closed yet.
    evicted: Vec<Evicted>,
    /// Programs that have left, whose connections still have bytes to bring to their peers.
    left: VecDeque<Weak<AppSockets>>,
    say_at: Nanos,
}

/// What a program has in memory, and how much it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) app: AppId,
    pub(super) uid: u32,
    /// Bytes of it, of all programs of its user, and the most of both.
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
    pub(super) user_bytes: u64,
    pub(super) user_bytes_max: u64,
}

impl RingMemory {
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            budget: Arc::new(budget),
            look_at: Nanos::ZERO,
            refused: 0,
            idle: IDLE_FIRST,
            evicted: Vec::new(),
            left: VecDeque::new(),
            say_at: Nanos::ZERO,
        }
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Whether it is to be looked at now; then not again for a while.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let is_due = now >= self.look_at;
        if is_due {
            self.look_at = now + LOOK_EVERY;
        }
        is_due
    }

    /// Whether pages are to be discarded: three quarters of something are taken, or somebody was
    /// refused since the last look.
    pub(super) fn is_short(&mut self, usage: &[Usage]) -> bool {
        let refused = self.budget.refused();
        let was_refused = std::mem::replace(&mut self.refused, refused) != refused;
        let is_above = |bytes: u64, most: u64| bytes > most / 4 * 3;
        was_refused
            || is_above(self.budget.bytes(), self.budget.bytes_max())
            || usage.iter().any(|of| {
                is_above(of.bytes, of.bytes_max) || is_above(of.user_bytes, of.user_bytes_max)
            })
    }

    /// From which programs how many bytes are to be taken, and from connections that are idle for
    /// how long.
    pub(super) fn evictions(&mut self, usage: &[Usage]) -> (Nanos, BTreeMap<AppId, u64>) {
        let wanted = wanted(usage, self.budget.bytes(), self.budget.bytes_max());
        let idle = self.idle;
        self.idle = match wanted.is_empty() {
            true => IDLE_FIRST,
            false => Nanos(idle.0 / 2).max(IDLE_MIN),
        };
        (idle, wanted)
    }

    /// Discards the pages of rings that workers have taken; those of closed sockets can be lent
    /// again. How many bytes were discarded.
    pub(super) fn settle(&mut self, new: Vec<Evicted>) -> u64 {
        let discarded = new.iter().map(|of| of.app.server.heap().discard(&of.ring)).sum();
        self.evicted.extend(new);
        let is_over = |of: &mut Evicted| {
            let server = &of.app.server;
            !server.is_taken(of.slot) || server.generation(of.slot) != of.generation
        };
        for Evicted { app, ring, .. } in self.evicted.extract_if(.., is_over) {
            app.server.heap().take_back(ring);
        }
        discarded
    }

    /// A program has left.
    pub(super) fn note_left(&mut self, app: &Arc<AppSockets>) {
        self.left.push_back(Arc::downgrade(app));
    }

    /// Discards the pages that nobody needs of one program that has left, of `rings_max` at most,
    /// and of another one at the next call. How many bytes were discarded.
    pub(super) fn trim_left(&mut self, rings_max: usize) -> u64 {
        self.left.retain(|app| app.strong_count() > 0);
        let Some(app) = self.left.pop_front().and_then(|app| app.upgrade()) else { return 0 };
        self.note_left(&app);
        app.server.heap().trim(rings_max)
    }

    /// Whether the connection in a slot of a program's own region was reset for want of memory.
    pub(super) fn has_evicted(&self, app: AppId, slot: SlotId) -> bool {
        self.evicted.iter().any(|of| (of.app.app, of.slot) == (app, slot))
    }

    /// Whether something may be said in the log again.
    pub(super) fn may_say(&mut self, now: Nanos) -> bool {
        let may = now >= self.say_at;
        if may {
            self.say_at = now + SAY_EVERY;
        }
        may
    }

    /// When to look next, as long as anybody has rings.
    pub(super) fn next_deadline(&self) -> Nanos {
        let is_idle = self.budget.bytes() == 0 && self.evicted.is_empty();
        if is_idle { Nanos::FAR_FUTURE } else { self.look_at }
    }
}

/// Bytes to be taken from each program, when `bytes` of `bytes_max` are taken by all.
fn wanted(usage: &[Usage], bytes: u64, bytes_max: u64) -> BTreeMap<AppId, u64> {
    // Down to three quarters, where the next thing to do would begin.
    let surplus = |bytes: u64, most: u64| {
        (bytes > most / 8 * 7).then(|| bytes - most / 4 * 3).filter(|surplus| *surplus > 0)
    };
    let mut wanted = BTreeMap::<AppId, u64>::new();
    let mut want = |app: AppId, bytes: u64| {
        let of = wanted.entry(app).or_default();
        *of = bytes.max(*of);
    };
    for of in usage {
        surplus(of.bytes, of.bytes_max).into_iter().for_each(|bytes| want(of.app, bytes));
    }
    let largest = |uid: Option<u32>| {
        let meant = usage.iter().filter(|of| uid.is_none_or(|uid| of.uid == uid));
        meant.max_by_key(|of| of.bytes)
    };
    for of in usage {
        if let Some(bytes) = surplus(of.user_bytes, of.user_bytes_max)
            && let Some(largest) = largest(Some(of.uid))
        {
            want(largest.app, bytes);
        }
    }
    if let Some(bytes) = surplus(bytes, bytes_max)
        && let Some(largest) = largest(None)
    {
        want(largest.app, bytes);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use shm::sockets::{Quota, SocketServer, SocketSizes};

    use super::*;

    fn usage(app: AppId, uid: u32, bytes: u64, user_bytes: u64) -> Usage {
        Usage { app, uid, bytes, bytes_max: 400, user_bytes, user_bytes_max: 600 }
    }

    #[test]
    fn memory_is_short_when_most_is_taken_or_a_ring_was_refused_since_the_last_look() {
        let mut memory = RingMemory::new(Budget::new(1 << 20));
        assert_eq!(memory.next_deadline(), Nanos::FAR_FUTURE);
        let sizes = SocketSizes { slots: 8, pollers: 1, sides: 1, workers: 1, ring_bytes: 4 << 20 };
        let [one, other] = [0; 2].map(|_| {
            let budget = Arc::clone(memory.budget());
            let quota = Arc::new(Quota::within(8, u64::MAX, budget, u64::MAX));
            SocketServer::within("test", sizes, quota).expect("addresses are left")
        });
        let at = |looks: u64| Nanos::from_secs(1) + Nanos(looks * LOOK_EVERY.0);
        let ring = one.heap().lend(18).expect("a quarter");
        assert!(memory.is_due(at(0)) && !memory.is_due(at(0)), "too early");
        assert!(!memory.is_short(&[]));
        assert!(other.heap().lend(20).is_none(), "more than there is");
        assert!(memory.is_short(&[]) && !memory.is_short(&[]), "said once");
        let rings: Vec<_> = std::iter::from_fn(|| other.heap().lend(16)).collect();
        assert_eq!(rings.len(), 8);
        assert!(memory.is_short(&[]), "somebody was refused");
        one.heap().take_back(ring);
        let more: Vec<_> = std::iter::from_fn(|| one.heap().lend(14)).collect();
        assert_eq!(more.len(), 16, "the pages of the longer ring still count");
        assert!(memory.is_short(&[]) && memory.is_short(&[]), "it stays short");
        assert_eq!(memory.next_deadline(), at(1));
        let mut other = RingMemory::new(Budget::new(1000));
        assert!(!other.is_short(&[usage(AppId(1), 7, 300, 450)]));
        assert!(other.is_short(&[usage(AppId(1), 7, 301, 301)]), "of a program's part");
        assert!(other.is_short(&[usage(AppId(1), 7, 100, 451)]), "of a user's part");
    }

    #[test]
    fn whoever_is_nearly_full_gives_down_to_three_quarters() {
        assert!(wanted(&[usage(AppId(1), 7, 350, 350)], 350, 800).is_empty());
        assert_eq!(
            wanted(&[usage(AppId(1), 7, 351, 351)], 351, 800),
            BTreeMap::from([(AppId(1), 51)])
        );
        let two = [
            usage(AppId(1), 7, 200, 530),
            usage(AppId(2), 7, 330, 530),
            usage(AppId(3), 8, 340, 340),
        ];
        assert_eq!(
            wanted(&two, 600, 800),
            BTreeMap::from([(AppId(2), 80)]),
            "the larger of the user's"
        );
        assert_eq!(
            wanted(&two, 780, 800),
            BTreeMap::from([(AppId(2), 80), (AppId(3), 180)]),
            "the largest"
        );
        assert!(wanted(&[], 800, 800).is_empty(), "there is nobody");
    }

    #[test]
    fn what_is_idle_longest_goes_first_and_what_was_just_read_never_goes() {
        let mut memory = RingMemory::new(Budget::new(800));
        let full = [usage(AppId(1), 7, 400, 400)];
        let idle: Vec<u64> = (0..6).map(|_| memory.evictions(&full).0.0 / 1_000_000_000).collect();
        assert_eq!(idle, [80, 40, 20, 10, 5, 5]);
        assert!(memory.evictions(&[usage(AppId(1), 7, 100, 100)]).1.is_empty());
        assert_eq!(memory.evictions(&full).0, IDLE_FIRST, "it begins anew");
    }
}

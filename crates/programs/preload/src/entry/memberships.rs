//! Which sets a socket is a member of: so that its last close can tell them, from a signal handler
//! even.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// How many sets are kept by name; a socket in more of them tells all sets.
const PLACES: usize = 4;

/// Counts on when a socket is closed that is in more sets than there are places: then every set
/// looks through all its members.
static SWEEPS: AtomicU32 = AtomicU32::new(0);

/// The sets of one socket.
#[derive(Default)]
pub(crate) struct Memberships {
    /// Addresses of the sets' entries. One may have ended, or have got another use: a set that is
    /// told without need finds no such member.
    sets: [AtomicUsize; PLACES],
    has_more: AtomicBool,
}

impl Memberships {
    /// One more set; `is_over` says of an address whether there is no set behind it any more. Only
    /// the set's own thread calls this, under its lock, but several sets may.
    pub(crate) fn add(&self, set: usize, is_over: impl Fn(usize) -> bool) {
        let names = |place: &AtomicUsize| place.load(Ordering::Relaxed) == set;
        if self.sets.iter().any(names) {
            return;
        }
        for place in &self.sets {
            let known = place.load(Ordering::Relaxed);
            let is_free = known == 0 || is_over(known);
            if is_free
                && place.compare_exchange(known, set, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
        self.has_more.store(true, Ordering::Release);
    }

    /// The addresses of the sets that are kept by name.
    pub(crate) fn sets(&self) -> impl Iterator<Item = usize> {
        let places = self.sets.iter().map(|place| place.load(Ordering::Acquire));
        places.filter(|&known| known != 0)
    }

    /// The socket is closed: `tell` is called with the address of each set that is kept by name,
    /// and all sets look through their members if there are more.
    pub(crate) fn end(&self, mut tell: impl FnMut(usize)) {
        for place in &self.sets {
            let known = place.swap(0, Ordering::AcqRel);
            if known != 0 {
                tell(known);
            }
        }
        if self.has_more.load(Ordering::Acquire) {
            SWEEPS.fetch_add(1, Ordering::Release);
        }
    }
}

/// Sockets of one set that were closed and are still among its members.
pub(crate) struct ClosedMembers {
    entries: [AtomicUsize; 32],
    /// There were more than there is place for: look through all members.
    is_full: AtomicBool,
    any: AtomicBool,
    seen_sweeps: AtomicU32,
}

impl ClosedMembers {
    pub(crate) fn new() -> Self {
        Self {
            entries: [const { AtomicUsize::new(0) }; 32],
            is_full: AtomicBool::new(false),
            any: AtomicBool::new(false),
            seen_sweeps: AtomicU32::new(SWEEPS.load(Ordering::Relaxed)),
        }
    }

    /// The socket behind `entry` is closed.
    pub(crate) fn add(&self, entry: usize) {
        let free = self.entries.iter().any(|place| {
            place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        if !free {
            self.is_full.store(true, Ordering::Release);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Whether there is something to reap: two loads.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
            || self.seen_sweeps.load(Ordering::Relaxed) != SWEEPS.load(Ordering::Relaxed)
    }

    /// Takes the closed sockets' entries; true: look through all members as well.
    pub(crate) fn take(&self, mut reap: impl FnMut(usize)) -> bool {
        self.any.store(false, Ordering::Release);
        let sweeps = SWEEPS.load(Ordering::Acquire);
        let has_swept = self.seen_sweeps.swap(sweeps, Ordering::Relaxed) != sweeps;
        for place in &self.entries {
            let entry = place.swap(0, Ordering::AcqRel);
            if entry != 0 {
                reap(entry);
            }
        }
        self.is_full.swap(false, Ordering::AcqRel) || has_swept
    }
}

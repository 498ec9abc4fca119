//! What the core control has done, and what was done to it.

/// An event worth counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum CoreEvent {
    /// Looks of the control.
    Ticks,
    /// Ticks in which an application asked for a core more.
    Asks,
    /// Cores granted.
    Grants,
    /// Cores given back by workers with nothing to do.
    Parks,
    /// Cores asked back for somebody else.
    Revokes,
    /// Cores taken from workers that did not give them back.
    Takes,
    /// Workers interrupted because they did not give a core back soon.
    Nudges,
    /// Parked workers woken to do their part of a hand-over.
    Drains,
    /// Workers whose groups moved because they were parked for long.
    Rests,
    /// Workers that said that they parked and used CPU time all the same.
    RanWhileParked,
    /// Workers that named a thread that is not theirs, or whose thread has ended.
    StrayThreads,
}

impl CoreEvent {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Ticks,
        Self::Asks,
        Self::Grants,
        Self::Parks,
        Self::Revokes,
        Self::Takes,
        Self::Nudges,
        Self::Drains,
        Self::Rests,
        Self::RanWhileParked,
        Self::StrayThreads,
    ];

    /// The name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::Asks => "asks",
            Self::Grants => "grants",
            Self::Parks => "parks",
            Self::Revokes => "revokes",
            Self::Takes => "takes",
            Self::Nudges => "nudges",
            Self::Drains => "drains",
            Self::Rests => "rests",
            Self::RanWhileParked => "ran_while_parked",
            Self::StrayThreads => "stray_threads",
        }
    }

    /// A sentence for people.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Ticks => "looks of the core control",
            Self::Asks => "looks in which an application asked for a core more",
            Self::Grants => "cores granted",
            Self::Parks => "cores given back by workers with nothing to do",
            Self::Revokes => "cores asked back because somebody else needs them",
            Self::Takes => "cores taken from workers that did not give them back in time",
            Self::Nudges => "workers interrupted because they did not give a core back soon",
            Self::Drains => "parked workers woken for their part of a hand-over",
            Self::Rests => "workers whose groups moved because they were parked for long",
            Self::RanWhileParked => "workers that said they parked and used CPU time all the same",
            Self::StrayThreads => "workers that named a thread that is not theirs or has ended",
        }
    }
}

/// A count of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts([u64; CoreEvent::ALL.len()]);

impl CoreCounts {
    #[inline]
    pub(super) fn add(&mut self, event: CoreEvent) {
        self.0[event as usize] += 1;
    }

    /// How often it has happened.
    pub fn get(&self, event: CoreEvent) -> u64 {
        self.0[event as usize]
    }
}

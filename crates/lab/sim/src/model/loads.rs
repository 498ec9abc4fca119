//! What the groups of an application have had to do: a policy that decides by the load looks at it.

use base::{FlowGroup, Nanos};
use policy::sample::GROUPS_PER_STEP;
use policy::{GroupLoad, LoadSample};

/// What each group has had lately.
pub(super) struct Loads {
    /// Packets since the last look, and when the last one came.
    groups: Vec<(u32, Nanos)>,
    next: usize,
    sample: LoadSample,
}

impl Loads {
    pub(super) fn new(groups: usize) -> Self {
        let groups = vec![(0, Nanos::FAR_FUTURE); groups];
        Self { groups, next: 0, sample: LoadSample::default() }
    }

    #[inline]
    pub(super) fn note(&mut self, group: FlowGroup, now: Nanos) {
        let (packets, last) = &mut self.groups[group.index()];
        (*packets, *last) = (*packets + 1, now);
    }

    /// The next slice of groups; their counts start over.
    pub(super) fn sample(&mut self, now: Nanos) -> &LoadSample {
        let first = self.next;
        let end = (first + GROUPS_PER_STEP).min(self.groups.len());
        self.next = if end == self.groups.len() { 0 } else { end };
        self.sample.now = now;
        self.sample.first = FlowGroup(first as u32);
        self.sample.groups.clear();
        self.sample.groups.extend(self.groups[first..end].iter_mut().map(|(packets, last)| {
            let idle = if *last == Nanos::FAR_FUTURE { *last } else { now.since(*last) };
            GroupLoad { packets: std::mem::take(packets), idle }
        }));
        &self.sample
    }
}

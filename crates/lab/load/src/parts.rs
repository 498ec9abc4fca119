//! The parts of a run that are measured each for itself: the steps of a sweep.

use base::Nanos;

use crate::Plan;

/// Steps that a sweep may have: each costs a shard a histogram of a quarter of a megabyte.
pub(crate) const PARTS_MAX: usize = 100;

/// Where each part ends; none: the run is measured as a whole only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    ends: Vec<Nanos>,
}

impl Parts {
    /// Those of a run that starts at `start`.
    pub(crate) fn new(plan: &Plan, start: Nanos) -> Self {
        if !plan.by_piece {
            return Self::default();
        }
        let mut end = start + plan.warmup;
        let ends = plan.profile.measured().iter().map(|piece| {
            end += piece.length;
            end
        });
        Self { ends: ends.collect() }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The one that a request belongs to which is measured.
    #[inline]
    pub(crate) fn of(&self, intended: Nanos) -> Option<usize> {
        if self.ends.is_empty() {
            return None;
        }
        let part = self.ends.partition_point(|end| *end <= intended);
        (part < self.ends.len()).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Piece, Profile};

    #[test]
    fn a_request_belongs_to_the_step_in_which_it_was_due() {
        let steps = (1..=3).map(|step| Piece::level(f64::from(step), Nanos(100))).collect();
        let profile = Profile::new(steps).expect("it is possible");
        let profile = profile.after(vec![Piece::level(1.0, Nanos(50))]);
        let plan = Plan { by_piece: true, ..Plan::default() }.with_profile(profile);
        let parts = Parts::new(&plan, Nanos(1000));
        assert_eq!(parts.len(), 3);
        for (intended, part) in
            [(1050, Some(0)), (1149, Some(0)), (1150, Some(1)), (1349, Some(2)), (1350, None)]
        {
            assert_eq!(parts.of(Nanos(intended)), part, "{intended}");
        }
        let whole = Parts::new(&Plan { by_piece: false, ..plan }, Nanos(1000));
        assert_eq!((whole.len(), whole.of(Nanos(1100))), (0, None));
    }
}

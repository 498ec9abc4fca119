//! Exact-match exceptions to the groups: flows that an operator (or an elephant detector) pinned.
//!
//! Bounded and set associative. A slot is a *virtual group*: the flow's packets are steered by
//! that group's entry in the owner table instead of their hashed group's. A miss, and a flow that
//! found no slot, falls back to the group: nothing is lost, only less exact.

use base::FlowGroup;

/// Ways of a set: a miss compares this many ids, on one cache line.
const WAYS: usize = 4;

/// Flow ids that have a virtual group of their own.
#[derive(Clone, Debug)]
pub struct Overrides {
    sets: Vec<[Option<u64>; WAYS]>,
    /// The first virtual group.
    base: u32,
    used: usize,
}

impl Overrides {
    /// Room for about `slots` flows (rounded up to a power of two), with virtual groups from
    /// `base` on.
    pub fn new(slots: u32, base: u32) -> Self {
        let sets = (slots as usize).div_ceil(WAYS).next_power_of_two();
        Self { sets: vec![[None; WAYS]; sets], base, used: 0 }
    }

    /// Virtual groups that it can give out.
    pub fn slots(&self) -> u32 {
        (self.sets.len() * WAYS) as u32
    }

    /// Whether no flow has an override: the check that spares the lookup.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Flows that have one.
    pub fn len(&self) -> usize {
        self.used
    }

    /// The virtual group of a flow.
    #[inline]
    pub fn find(&self, flow: u64) -> Option<FlowGroup> {
        let set = self.set_of(flow);
        let way = self.sets[set].iter().position(|&id| id == Some(flow))?;
        Some(self.group(set, way))
    }

    /// Gives a flow a virtual group, or finds the one that it has; `None` when its set is full.
    pub fn insert(&mut self, flow: u64) -> Option<FlowGroup> {
        if let Some(group) = self.find(flow) {
            return Some(group);
        }
        let set = self.set_of(flow);
        let way = self.sets[set].iter().position(Option::is_none)?;
        self.sets[set][way] = Some(flow);
        self.used += 1;
        Some(self.group(set, way))
    }

    /// Takes a flow's virtual group away.
    pub fn remove(&mut self, flow: u64) -> Option<FlowGroup> {
        let set = self.set_of(flow);
        let way = self.sets[set].iter().position(|&id| id == Some(flow))?;
        self.sets[set][way] = None;
        self.used -= 1;
        Some(self.group(set, way))
    }

    #[inline]
    fn set_of(&self, flow: u64) -> usize {
        (flow >> 32) as usize & (self.sets.len() - 1)
    }

    fn group(&self, set: usize, way: usize) -> FlowGroup {
        FlowGroup(self.base + (set * WAYS + way) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_set_refuses_and_the_flow_falls_back() {
        let mut overrides = Overrides::new(4, 128);
        for flow in 0..4 {
            assert!(overrides.insert(flow).is_some());
        }
        assert_eq!(overrides.insert(99), None);
        assert_eq!(overrides.find(99), None);
        assert!(overrides.remove(2).is_some());
        assert!(overrides.insert(99).is_some());
    }

    proptest! {
        #[test]
        fn it_is_a_map_that_may_refuse_and_never_shares_a_group(
            steps in proptest::collection::vec((any::<bool>(), 0..40_u64), 0..200),
        ) {
            let mut overrides = Overrides::new(16, 1000);
            let mut oracle = BTreeMap::new();
            for (insert, flow) in steps {
                let flow = flow << 30;
                if insert {
                    if let Some(group) = overrides.insert(flow) {
                        prop_assert!((1000..1016).contains(&group.0));
                        oracle.insert(flow, group);
                    }
                } else {
                    prop_assert_eq!(overrides.remove(flow), oracle.remove(&flow));
                }
                prop_assert_eq!(overrides.len(), oracle.len());
                let mut groups: Vec<u32> = oracle.values().map(|group| group.0).collect();
                groups.sort_unstable();
                prop_assert!(groups.windows(2).all(|pair| pair[0] != pair[1]));
                for (flow, group) in &oracle {
                    prop_assert_eq!(overrides.find(*flow), Some(*group));
                }
            }
        }
    }
}

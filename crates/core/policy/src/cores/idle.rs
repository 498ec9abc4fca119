//! The idle cores in the order in which they fell idle; any of them is taken out in constant time.

/// No core: the end of the list.
const NONE: u16 = u16::MAX;

/// A linked list through an array. Cores are places in the list of all cores.
#[derive(Clone, Debug)]
pub(super) struct IdleList {
    links: Vec<Link>,
    oldest: u16,
    newest: u16,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u16,
    newer: u16,
    is_in: bool,
}

impl IdleList {
    /// No core of `cores` is idle.
    pub(super) fn new(cores: usize) -> Self {
        let link = Link { older: NONE, newer: NONE, is_in: false };
        Self { links: vec![link; cores], oldest: NONE, newest: NONE }
    }

    /// The core that has been idle for longest: the one whose cache is worth least to its last
    /// worker.
    #[inline]
    pub(super) fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(usize::from(self.oldest))
    }

    #[inline]
    pub(super) fn contains(&self, core: usize) -> bool {
        self.links[core].is_in
    }

    /// The core has just fallen idle.
    pub(super) fn push(&mut self, core: usize) {
        debug_assert!(!self.contains(core), "a core falls idle once");
        self.links[core] = Link { older: self.newest, newer: NONE, is_in: true };
        match self.newest {
            NONE => self.oldest = core as u16,
            newest => self.links[usize::from(newest)].newer = core as u16,
        }
        self.newest = core as u16;
    }

    /// The core is not idle any more.
    pub(super) fn remove(&mut self, core: usize) {
        let Link { older, newer, is_in } = self.links[core];
        debug_assert!(is_in, "only an idle core is given out");
        match older {
            NONE => self.oldest = newer,
            older => self.links[usize::from(older)].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[usize::from(newer)].older = older,
        }
        self.links[core].is_in = false;
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let next = |&core: &usize| match self.links[core].newer {
            NONE => None,
            newer => Some(usize::from(newer)),
        };
        std::iter::successors(self.oldest(), next)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue_from_which_any_core_can_leave(
            steps in proptest::collection::vec(0..8_usize, 0..200),
        ) {
            let mut list = IdleList::new(8);
            let mut queue = VecDeque::new();
            for core in steps {
                match queue.iter().position(|&idle| idle == core) {
                    Some(at) => {
                        queue.remove(at);
                        list.remove(core);
                    }
                    None => {
                        queue.push_back(core);
                        list.push(core);
                    }
                }
                prop_assert_eq!(list.iter().collect::<Vec<_>>(), Vec::from(queue.clone()));
                prop_assert_eq!(list.oldest(), queue.front().copied());
                prop_assert_eq!(list.contains(core), queue.contains(&core));
            }
        }
    }
}

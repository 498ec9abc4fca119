//! Whose turn it is: users first, then what each of them has.
//!
//! Whatever a user has more of than others, programs or sockets, it has no more turns for it.

use std::collections::VecDeque;

/// What waits for a turn, by user. Who has waited stays in front over all turns of the worker.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    /// Users in the order of their first turn; one without anything to do keeps its place, and
    /// costs one look a turn. As many as users that have programs here.
    users: Vec<(u32, VecDeque<T>)>,
    next: usize,
    len: usize,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self { users: Vec::new(), next: 0, len: 0 }
    }
}

impl<T> Rounds<T> {
    /// Something of a user waits, behind what it has already.
    pub(super) fn push(&mut self, user: u32, what: T) {
        self.len += 1;
        match self.users.iter_mut().find(|(other, _)| *other == user) {
            Some((_, waiting)) => waiting.push_back(what),
            None => self.users.push((user, VecDeque::from([what]))),
        }
    }

    /// The next user's oldest, and whose it is.
    pub(super) fn pop(&mut self) -> Option<(u32, T)> {
        for _ in 0..self.users.len() {
            self.next = (self.next + 1) % self.users.len();
            let (user, waiting) = &mut self.users[self.next];
            if let Some(what) = waiting.pop_front() {
                self.len -= 1;
                return Some((*user, what));
            }
        }
        None
    }

    /// How much waits.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Users for whom nothing waits are forgotten.
    pub(super) fn forget_idle(&mut self) {
        self.users.retain(|(_, waiting)| !waiting.is_empty());
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns_whatever_each_has_and_nobody_is_left_out() {
        let mut rounds = Rounds::default();
        (0..60).for_each(|number| rounds.push(7, number));
        rounds.push(8, 100);
        rounds.push(9, 200);
        let mut turns = std::collections::BTreeMap::new();
        for _ in 0..300 {
            let (user, what) = rounds.pop().expect("all want more");
            *turns.entry((user, what)).or_insert(0) += 1;
            rounds.push(user, what);
        }
        assert_eq!((turns[&(8, 100)], turns[&(9, 200)]), (100, 100));
        assert!((0..60).all(|number| (1..=2).contains(&turns[&(7, number)])));
        assert_eq!(rounds.len(), 62);
    }

    #[test]
    fn who_is_alone_has_every_turn() {
        let mut rounds = Rounds::default();
        rounds.push(8, 0);
        rounds.pop();
        rounds.push(7, 1);
        assert_eq!((rounds.pop(), rounds.pop()), (Some((7, 1)), None));
        rounds.forget_idle();
        assert!(rounds.users.is_empty());
    }
}

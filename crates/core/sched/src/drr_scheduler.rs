//! The order in which one consumer serves the queues that it has claimed.
//!
//! Strict priority between classes, and deficit round robin within one (Shreedhar and Varghese): a
//! queue's turn gives it its quantum of credit, what it does not use is kept while it has more, and
//! lost when it runs empty. So queues share a class in proportion to their quanta whatever the size
//! of their items, and a turn costs the same for any number of queues.
//!
//! A queue that ran empty a moment ago is looked at directly for some more turns before it is
//! armed: for a busy queue that is cheaper than a ready bit for every batch.

use std::collections::VecDeque;

/// Classes: 0 is served first.
pub const CLASSES: usize = 4;

/// Claimed queues in their order. All its memory is there from the start.
#[derive(Clone, Debug)]
pub struct DrrScheduler {
    turns: [VecDeque<u32>; CLASSES],
    /// By queue.
    lines: Vec<Line>,
    linger: u16,
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    quantum: u32,
    credit: u32,
    class: u8,
    is_waiting: bool,
    /// Looks in a row that found nothing.
    misses: u16,
}

/// A queue's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which queue.
    pub queue: u32,
    /// So much it may use: items or bytes, as the quanta are.
    pub credit: u32,
}

/// What to do with a queue after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing: its next turn will come.
    Waits,
    /// Arm it; if something came in between, [`DrrScheduler::push`] it again.
    Arm,
}

impl DrrScheduler {
    /// For queues below `queues`, all of class 0 with `quantum` (at least 1) a turn. A queue found
    /// empty is looked at `linger` more times before it is to be armed.
    pub fn new(queues: u32, quantum: u32, linger: u16) -> Self {
        let line =
            Line { quantum: quantum.max(1), credit: 0, class: 0, is_waiting: false, misses: 0 };
        Self {
            turns: std::array::from_fn(|_| VecDeque::with_capacity(queues as usize)),
            lines: vec![line; queues as usize],
            linger,
            waiting: 0,
        }
    }

    /// Sets a queue's class (the last one for any beyond) and its quantum (at least 1), from its
    /// next turn on.
    pub fn set(&mut self, queue: u32, class: usize, quantum: u32) {
        if let Some(line) = self.lines.get_mut(queue as usize) {
            line.class = class.min(CLASSES - 1) as u8;
            line.quantum = quantum.max(1);
        }
    }

    /// The queue was claimed. One that waits already, or that there is not, is left as it is: a bit
    /// that somebody forged.
    pub fn push(&mut self, queue: u32) {
        if let Some(line) = self.lines.get_mut(queue as usize)
            && !line.is_waiting
        {
            line.is_waiting = true;
            line.misses = 0;
            self.waiting += 1;
            self.turns[usize::from(line.class)].push_back(queue);
        }
    }

    /// Whose turn it is; [`Self::served`] follows.
    pub fn next_turn(&mut self) -> Option<Turn> {
        if self.waiting == 0 {
            return None;
        }
        let queue = self.turns.iter_mut().find_map(VecDeque::pop_front)?;
        self.waiting -= 1;
        let line = &mut self.lines[queue as usize];
        line.is_waiting = false;
        line.credit = line.credit.saturating_add(line.quantum);
        Some(Turn { queue, credit: line.credit })
    }

    /// The turn is over: `used` of the credit, and whether more is in the queue.
    pub fn served(&mut self, turn: Turn, used: u32, has_more: bool) -> After {
        let Some(line) = self.lines.get_mut(turn.queue as usize) else { return After::Arm };
        if has_more {
            line.credit = turn.credit.saturating_sub(used);
            line.misses = 0;
        } else {
            line.credit = 0;
            line.misses = if used > 0 { 0 } else { line.misses.saturating_add(1) };
            if line.misses >= self.linger {
                return After::Arm;
            }
        }
        line.is_waiting = true;
        self.waiting += 1;
        self.turns[usize::from(line.class)].push_back(turn.queue);
        After::Waits
    }

    /// Whether no queue waits for a turn.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Queues that wait for a turn.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_lower_class_waits_as_long_as_a_higher_one_has_anything() {
        let mut scheduler = DrrScheduler::new(4, 10, 0);
        scheduler.set(2, 1, 10);
        scheduler.set(3, 99, 10);
        [3, 2, 0, 1, 0].into_iter().for_each(|queue| scheduler.push(queue));
        let mut order = Vec::new();
        for round in 0..8 {
            let turn = scheduler.next_turn().expect("somebody waits");
            order.push(turn.queue);
            let after = scheduler.served(turn, turn.credit.min(10), round < 3);
            assert_eq!(after, if round < 3 { After::Waits } else { After::Arm });
            if scheduler.is_empty() {
                break;
            }
        }
        assert_eq!(order, [0, 1, 0, 1, 0, 2, 3]);
    }

    #[test]
    fn credit_is_kept_while_there_is_more_and_lost_with_the_last_item() {
        let mut scheduler = DrrScheduler::new(1, 10, 0);
        scheduler.push(0);
        let turn = scheduler.next_turn().expect("it waits");
        assert_eq!(turn, Turn { queue: 0, credit: 10 });
        scheduler.served(turn, 4, true);
        let turn = scheduler.next_turn().expect("it waits");
        assert_eq!(turn.credit, 16, "an item larger than the rest waits for the next turn");
        assert_eq!(scheduler.served(turn, 16, false), After::Arm);
        scheduler.push(0);
        assert_eq!(scheduler.next_turn().expect("it waits").credit, 10);
    }

    #[test]
    fn a_queue_that_ran_empty_is_looked_at_some_more_times_before_it_is_armed() {
        let mut scheduler = DrrScheduler::new(1, 10, 3);
        scheduler.push(0);
        let mut look = |used| {
            let turn = scheduler.next_turn().expect("it waits");
            scheduler.served(turn, used, false)
        };
        let found = [5, 0, 0, 5, 0, 0, 0].map(&mut look);
        assert_eq!(found[..6], [After::Waits; 6]);
        assert_eq!(found[6], After::Arm);
    }

    #[test]
    fn a_queue_that_is_not_there_or_waits_already_changes_nothing() {
        let mut scheduler = DrrScheduler::new(2, 1, 0);
        scheduler.set(5, 0, 1);
        [5, 1, 1].into_iter().for_each(|queue| scheduler.push(queue));
        let turn = scheduler.next_turn().expect("it waits");
        scheduler.served(turn, 1, false);
        assert_eq!(scheduler.next_turn(), None);
    }

    proptest! {
        #[test]
        fn busy_queues_share_a_class_by_their_quanta_whatever_their_items(
            lines in proptest::collection::vec((1..2000_u32, 1..1500_u32), 1..12),
        ) {
            let mut scheduler = DrrScheduler::new(lines.len() as u32, 1, 0);
            for (queue, &(quantum, _)) in (0..).zip(&lines) {
                scheduler.set(queue, 0, quantum);
                scheduler.push(queue);
            }
            let mut used = vec![0_u64; lines.len()];
            const ROUNDS: u64 = 100;
            for _ in 0..ROUNDS * lines.len() as u64 {
                let turn = scheduler.next_turn().expect("all are busy");
                let item = lines[turn.queue as usize].1;
                let spent = turn.credit / item * item;
                used[turn.queue as usize] += u64::from(spent);
                prop_assert_eq!(scheduler.served(turn, spent, true), After::Waits);
            }
            for (used, &(quantum, item)) in used.iter().zip(&lines) {
                let due = ROUNDS * u64::from(quantum);
                prop_assert!(used.abs_diff(due) <= u64::from(item), "{used} of {due}");
            }
        }
    }
}

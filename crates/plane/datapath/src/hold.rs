//! Packets that wait for a hand-over: bounded first-in first-out lists over one set of nodes.
//!
//! All lists share the nodes, so one slow move may use them all and no memory is ever allocated
//! after start. A full queue refuses the packet; the caller drops and counts it.

use shm::Frame;

const NONE: u32 = u32::MAX;

/// All held packets of a dispatcher.
#[derive(Debug)]
pub(crate) struct HoldQueue {
    nodes: Vec<Node>,
    free: u32,
    held: usize,
}

#[derive(Debug)]
struct Node {
    frame: Option<Frame>,
    next: u32,
}

/// One first-in first-out list. Only meaningful together with its [`HoldQueue`].
#[derive(Debug)]
pub(crate) struct HoldList {
    head: u32,
    tail: u32,
    len: u32,
}

impl HoldList {
    /// Nothing held.
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    /// Whether nothing is held.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for HoldList {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl HoldQueue {
    /// Room for `packets_max` held packets in all lists together.
    pub(crate) fn new(packets_max: usize) -> Self {
        let count = u32::try_from(packets_max).unwrap_or(NONE - 1).min(NONE - 1);
        let next = |index| if index + 1 < count { index + 1 } else { NONE };
        let nodes: Vec<Node> =
            (0..count).map(|index| Node { frame: None, next: next(index) }).collect();
        Self { free: if nodes.is_empty() { NONE } else { 0 }, nodes, held: 0 }
    }

    /// Packets held in all lists.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// The packet comes back when every node is in use.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut HoldList, frame: Frame) -> Result<(), Frame> {
        let index = self.node(frame)?;
        if list.is_empty() {
            list.head = index;
        } else {
            self.nodes[list.tail as usize].next = index;
        }
        list.tail = index;
        list.len += 1;
        Ok(())
    }

    /// Puts a packet before all others: what a dead worker left undone is older than what is held.
    ///
    /// # Errors
    /// The packet comes back when every node is in use.
    pub(crate) fn push_front(&mut self, list: &mut HoldList, frame: Frame) -> Result<(), Frame> {
        let index = self.node(frame)?;
        if list.is_empty() {
            list.tail = index;
        } else {
            self.nodes[index as usize].next = list.head;
        }
        list.head = index;
        list.len += 1;
        Ok(())
    }

    /// The oldest packet of the list, left in it.
    pub(crate) fn front(&self, list: &HoldList) -> Option<&Frame> {
        if list.is_empty() {
            return None;
        }
        self.nodes[list.head as usize].frame.as_ref()
    }

    /// Takes the oldest packet of the list.
    pub(crate) fn pop_front(&mut self, list: &mut HoldList) -> Option<Frame> {
        if list.is_empty() {
            return None;
        }
        let index = list.head;
        let node = &mut self.nodes[index as usize];
        let frame = node.frame.take();
        debug_assert!(frame.is_some(), "a listed node holds a packet");
        list.head = node.next;
        list.len -= 1;
        if list.is_empty() {
            *list = HoldList::EMPTY;
        }
        node.next = self.free;
        self.free = index;
        self.held -= 1;
        frame
    }

    /// Empties every list at once: each of them is over.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Frame)) {
        for frame in self.nodes.iter_mut().filter_map(|node| node.frame.take()) {
            take(frame);
        }
        *self = Self::new(0);
    }

    #[inline]
    fn node(&mut self, frame: Frame) -> Result<u32, Frame> {
        let index = self.free;
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return Err(frame);
        };
        self.free = node.next;
        node.next = NONE;
        node.frame = Some(frame);
        self.held += 1;
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use shm::{FramePool, PoolConfig};

    use super::*;

    fn pool() -> FramePool {
        FramePool::new(PoolConfig { frames: 64, chunk_bytes: 2048, numa_node: None })
            .expect("64 frames fit anywhere")
    }

    #[test]
    fn a_full_queue_gives_the_packet_back_and_keeps_the_others() {
        let mut pool = pool();
        let mut queue = HoldQueue::new(1);
        let mut list = HoldList::EMPTY;
        assert!(queue.push_back(&mut list, pool.take().expect("64 are free")).is_ok());
        let refused = queue.push_back(&mut list, pool.take().expect("63 are free"));
        pool.give(refused.expect_err("one node only"));
        pool.give(queue.pop_front(&mut list).expect("one was held"));
        assert_eq!((queue.held(), pool.outstanding()), (0, 0));
    }

    proptest! {
        #[test]
        fn lists_over_shared_nodes_keep_their_own_order(
            steps in proptest::collection::vec((0..3_usize, 0..4_u8), 0..200),
        ) {
            let mut pool = pool();
            let mut queue = HoldQueue::new(5);
            let mut lists = [HoldList::EMPTY, HoldList::EMPTY, HoldList::EMPTY];
            let mut oracle: [VecDeque<u8>; 3] = Default::default();
            for (number, (which, action)) in steps.into_iter().enumerate() {
                let number = number as u8;
                let held: usize = oracle.iter().map(VecDeque::len).sum();
                match action {
                    0 | 1 => {
                        let mut frame = pool.take().expect("at most 5 are held");
                        prop_assert!(frame.fill(&[number]));
                        let pushed = if action == 0 {
                            queue.push_back(&mut lists[which], frame)
                        } else {
                            queue.push_front(&mut lists[which], frame)
                        };
                        prop_assert_eq!(pushed.is_ok(), held < 5);
                        match pushed {
                            Ok(()) if action == 0 => oracle[which].push_back(number),
                            Ok(()) => oracle[which].push_front(number),
                            Err(frame) => pool.give(frame),
                        }
                    }
                    _ => {
                        let frame = queue.pop_front(&mut lists[which]);
                        let byte = frame.as_ref().map(|frame| frame.bytes()[0]);
                        prop_assert_eq!(byte, oracle[which].pop_front());
                        if let Some(frame) = frame { pool.give(frame); }
                    }
                }
                prop_assert_eq!(lists[which].is_empty(), oracle[which].is_empty());
            }
            for list in &mut lists {
                while let Some(frame) = queue.pop_front(list) { pool.give(frame); }
            }
            prop_assert_eq!(pool.outstanding(), 0);
        }
    }
}

//! Lists of many flows in one block of memory, bounded and made at the start.
//!
//! What a flow keeps about segments on their way or out of order is a list whose nodes come from
//! here: an idle flow owns none, nothing allocates after the start, and no peer can make it grow.

/// Stands for the end of a list.
const NONE: u32 = u32::MAX;

/// A list in a [`Pool`]: two ends and a length. The empty one owns nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    /// Nodes in it.
    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first node.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Its last node.
    #[inline]
    pub(crate) fn last(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }
}

/// Aligned, so that a node of segments on their way lies in one cache line.
#[derive(Debug)]
#[repr(align(32))]
struct Node<T> {
    value: T,
    next: u32,
}

/// Nodes for the lists of all flows.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    /// Grows up to `limit` within the capacity it was made with.
    nodes: Vec<Node<T>>,
    free: u32,
    limit: u32,
    used: u32,
}

impl<T: Copy> Pool<T> {
    /// A pool of at most `limit` nodes. The memory is reserved now and touched when first used.
    pub(crate) fn new(limit: u32) -> Self {
        let limit = limit.min(NONE - 1);
        Self { nodes: Vec::with_capacity(limit as usize), free: NONE, limit, used: 0 }
    }

    /// Nodes in lists.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    /// Nodes that can still be had.
    pub(crate) const fn room(&self) -> u32 {
        self.limit - self.used
    }

    /// Whether another node can be had.
    #[inline]
    pub(crate) const fn has_room(&self) -> bool {
        self.used < self.limit
    }

    #[inline]
    fn take(&mut self, value: T, next: u32) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        self.used += 1;
        if self.free != NONE {
            let index = self.free;
            let node = &mut self.nodes[index as usize];
            self.free = node.next;
            *node = Node { value, next };
            return Some(index);
        }
        let index = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(Node { value, next });
        Some(index)
    }

    #[inline]
    fn give_back(&mut self, index: u32) -> T {
        self.used -= 1;
        let node = &mut self.nodes[index as usize];
        node.next = self.free;
        self.free = index;
        node.value
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        &self.nodes[index as usize].value
    }

    /// The value of node `index`, if there is such a node.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<&T> {
        self.nodes.get(index as usize).map(|node| &node.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.nodes[index as usize].value
    }

    /// The node behind `index`.
    #[inline]
    pub(crate) fn next(&self, index: u32) -> Option<u32> {
        let next = self.nodes[index as usize].next;
        (next != NONE).then_some(next)
    }

    /// Puts `value` at the end; false when the pool is empty.
    #[inline]
    #[must_use]
    pub(crate) fn push_back(&mut self, list: &mut List, value: T) -> bool {
        let Some(index) = self.take(value, NONE) else { return false };
        match list.last() {
            Some(last) => self.nodes[last as usize].next = index,
            None => list.head = index,
        }
        list.tail = index;
        list.len += 1;
        true
    }

    /// Puts `value` behind `place`, or at the front; false when the pool is empty.
    #[inline]
    #[must_use]
    pub(crate) fn insert_after(&mut self, list: &mut List, place: Option<u32>, value: T) -> bool {
        let next = place.map_or(list.head, |place| self.nodes[place as usize].next);
        let Some(index) = self.take(value, next) else { return false };
        match place {
            Some(place) => self.nodes[place as usize].next = index,
            None => list.head = index,
        }
        if next == NONE {
            list.tail = index;
        }
        list.len += 1;
        true
    }

    /// Takes the node behind `place`, or the first one.
    #[inline]
    pub(crate) fn remove_after(&mut self, list: &mut List, place: Option<u32>) -> Option<T> {
        let index = place.map_or(list.first(), |place| self.next(place))?;
        let next = self.nodes[index as usize].next;
        match place {
            Some(place) => self.nodes[place as usize].next = next,
            None => list.head = next,
        }
        if next == NONE {
            list.tail = place.unwrap_or(NONE);
        }
        list.len -= 1;
        Some(self.give_back(index))
    }

    /// Takes the first node.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<T> {
        self.remove_after(list, None)
    }

    /// Takes all nodes.
    pub(crate) fn clear(&mut self, list: &mut List) {
        while self.pop_front(list).is_some() {}
    }

    /// The values of a list, in order.
    pub(crate) fn iter(&self, list: &List) -> impl Iterator<Item = &T> {
        std::iter::successors(list.first(), |index| self.next(*index)).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests;

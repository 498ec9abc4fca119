//! Lists of many flows in one block of memory, bounded and made at the start.
//!
//! What a flow keeps about segments on their way or out of order is a list whose nodes come from
//! here: an idle flow owns none, nothing allocates after the start, and no peer can make it grow.
//!
//! Nor can one list starve the others. The first `FLOOR` nodes of each are its own, whatever the
//! others hold: there is memory for the floor of all. Above it a list may hold as many as are free,
//! and no more (the dynamic threshold of Choudhury and Hahne, 1998): alone it gets half of what is
//! shared, and among `n` that want all they can get each gets the `n + 1`st part.

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

    /// The list up to node `index`, which follows this one's last in a longer list.
    pub(crate) const fn and(self, index: u32) -> Self {
        let head = if self.head == NONE { index } else { self.head };
        Self { head, tail: index, len: self.len + 1 }
    }

    /// Its last node.
    #[inline]
    pub(crate) fn last(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }
}

/// Aligned, so that a node of segments on their way lies in one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Node<T> {
    value: T,
    next: u32,
}

/// Nodes for the lists of all flows, `FLOOR` of them for each and the others for all.
#[derive(Debug)]
pub(crate) struct Pool<T, const FLOOR: u32> {
    /// Grows up to the capacity it was made with.
    nodes: Vec<Node<T>>,
    free: u32,
    /// Nodes for what lists hold above their floors.
    shared: u32,
    /// Those of them that are in lists. At most `shared`.
    above: u32,
    used: u32,
    /// How often a node was read or written.
    #[cfg(test)]
    pub(crate) visits: std::cell::Cell<u32>,
}

impl<T: Copy, const FLOOR: u32> Pool<T, FLOOR> {
    /// A pool for at most `lists` lists, which hold at most `shared` nodes together above their
    /// floors. The memory is reserved now and touched when first used.
    pub(crate) fn new(lists: u32, shared: u32) -> Self {
        let shared = shared.min(NONE / 2);
        let limit = lists.saturating_mul(FLOOR).min(NONE / 2 - 1) + shared;
        let nodes = Vec::with_capacity(limit as usize);
        Self {
            nodes,
            free: NONE,
            shared,
            above: 0,
            used: 0,
            #[cfg(test)]
            visits: std::cell::Cell::default(),
        }
    }

    /// Nodes in lists.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    /// Whether lists of these lengths could be put in as they are. Lists that were made under other
    /// pools' shares need not be within theirs here, but there has to be memory for them.
    pub(crate) fn has_room_for(&self, lengths: impl Iterator<Item = u32>) -> bool {
        let above =
            lengths.fold(0_u32, |sum, length| sum.saturating_add(length.saturating_sub(FLOOR)));
        above <= self.shared - self.above
    }

    /// Whether `list` may have another node: its floor is not reached, or its share is not.
    #[inline]
    pub(crate) const fn may_grow(&self, list: &List) -> bool {
        list.len < FLOOR || list.len - FLOOR < self.shared - self.above
    }

    /// A node for a list that has `len` of them; none when the pool is empty. `write` puts `value`
    /// in the place of what was there before.
    #[inline]
    fn take(
        &mut self,
        len: u32,
        value: T,
        next: u32,
        write: impl FnOnce(&mut T, T),
    ) -> Option<u32> {
        if len >= FLOOR {
            if self.above >= self.shared {
                return None;
            }
            self.above += 1;
        }
        self.used += 1;
        if self.free == NONE {
            return self.take_fresh(value, next);
        }
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.next;
        node.next = next;
        write(&mut node.value, value);
        Some(index)
    }

    /// A node that was never used.
    #[inline(never)]
    fn take_fresh(&mut self, value: T, next: u32) -> Option<u32> {
        let index = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(Node { value, next });
        Some(index)
    }

    /// Takes a node back from a list that has `len` left.
    #[inline]
    fn give_back(&mut self, len: u32, index: u32) -> T {
        if len >= FLOOR {
            self.above -= 1;
        }
        self.used -= 1;
        let node = &mut self.nodes[index as usize];
        node.next = self.free;
        self.free = index;
        node.value
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
        &self.nodes[index as usize].value
    }

    /// The value of node `index`, if there is such a node.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<&T> {
        self.nodes.get(index as usize).map(|node| &node.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut T {
        #[cfg(test)]
        self.visits.update(|visits| visits + 1);
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
        self.append(list, value).is_some()
    }

    /// Puts `value` into a list that is empty. `write` puts it in the place of what was there
    /// before.
    #[inline]
    #[must_use]
    pub(crate) fn push_only(
        &mut self,
        list: &mut List,
        value: T,
        write: impl FnOnce(&mut T, T),
    ) -> bool {
        let Some(index) = self.take(0, value, NONE, write) else { return false };
        *list = List { head: index, tail: index, len: 1 };
        true
    }

    /// Puts `value` at the end; where it is now.
    #[inline]
    pub(crate) fn append(&mut self, list: &mut List, value: T) -> Option<u32> {
        let index = self.take(list.len, value, NONE, |place, value| *place = value)?;
        match list.last() {
            Some(last) => self.nodes[last as usize].next = index,
            None => list.head = index,
        }
        list.tail = index;
        list.len += 1;
        Some(index)
    }

    /// Puts `value` behind `place`, or at the front; false when the list may not grow.
    #[inline]
    #[must_use]
    pub(crate) fn insert_after(&mut self, list: &mut List, place: Option<u32>, value: T) -> bool {
        if !self.may_grow(list) {
            return false;
        }
        let next = place.map_or(list.head, |place| self.nodes[place as usize].next);
        let Some(index) = self.take(list.len, value, next, |place, value| *place = value) else {
            return false;
        };
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
        Some(self.give_back(list.len, index))
    }

    /// Takes the first node.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<T> {
        self.remove_after(list, None)
    }

    /// Takes the node of a list that has one.
    #[inline]
    pub(crate) fn pop_only(&mut self, list: &mut List) {
        if let Some(index) = list.first() {
            *list = List::EMPTY;
            self.give_back(0, index);
        }
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

//! Lists of entries, each kept once: of a full table hundreds of thousands of prefixes have the
//! same next hop, and so the same list.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use calisto_nf::NextHop;

/// An entry of one prefix. The first of a list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alternative {
    /// Whether it is of table `main`, which comes after `local`.
    pub(super) is_main: bool,
    pub(super) metric: u32,
    /// Interface and gateway, to know it again when it goes.
    pub(super) interface: u32,
    pub(super) gateway: Option<IpAddr>,
    pub(super) has_more_hops: bool,
    pub(super) to: NextHop,
}

impl Alternative {
    pub(super) const fn rank(&self) -> (bool, u32) {
        (self.is_main, self.metric)
    }
}

/// The number of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListId(u32);

/// All lists that some prefix has.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    numbers: BTreeMap<Arc<[Alternative]>, ListId>,
    /// By number: the list, and how many prefixes have it.
    lists: Vec<(Arc<[Alternative]>, u32)>,
    /// Numbers that are free again.
    free: Vec<ListId>,
}

impl Lists {
    /// The list of that number.
    pub(super) fn get(&self, id: ListId) -> &[Alternative] {
        self.lists.get(id.0 as usize).map_or(&[], |(list, _)| list)
    }

    /// The number of a list, for one more prefix.
    pub(super) fn take(&mut self, list: &[Alternative]) -> ListId {
        if let Some(&id) = self.numbers.get(list) {
            self.lists[id.0 as usize].1 += 1;
            return id;
        }
        let list: Arc<[Alternative]> = list.into();
        let id = match self.free.pop() {
            Some(id) => {
                self.lists[id.0 as usize] = (Arc::clone(&list), 1);
                id
            }
            None => {
                let id = u32::try_from(self.lists.len()).expect("a list has memory of its own");
                self.lists.push((Arc::clone(&list), 1));
                ListId(id)
            }
        };
        self.numbers.insert(list, id);
        id
    }

    /// One prefix less has the list of that number.
    pub(super) fn give(&mut self, id: ListId) {
        let Some((list, prefixes)) = self.lists.get_mut(id.0 as usize) else { return };
        *prefixes -= 1;
        if *prefixes == 0 {
            self.numbers.remove(&**list);
            *list = Arc::new([]);
            self.free.push(id);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

//! Who gets which of our addresses and blocks of ports, and who gives one up.

use super::Mappings;
use super::blocks::{BLOCK, BLOCKS, Class, FIRST, NOBODY};
use crate::track::hash_of;

/// Blocks that are drawn to find one that gives way.
const DRAWN: usize = 32;

impl Mappings {
    /// Our address for a new subscriber, which has it for all that it does (RFC 4787 section 4.1:
    /// paired pooling).
    pub(super) fn pool_for(&mut self, inside: u32) -> u16 {
        let count = self.pool.len();
        let first = hash_of(self.seed, &[inside.into()]) as usize % count;
        let places = (first..count).chain(0..first);
        let has_room = |place: &usize| !self.pool[*place].free.is_empty();
        places.clone().find(has_room).unwrap_or(first) as u16
    }

    /// An unowned block; another's may give way for it, but none of `whose`, which has `blocks`.
    pub(super) fn take_block(&mut self, pool: u16, whose: u32, blocks: u16) -> Option<u16> {
        let random = self.draw();
        if self.pool[usize::from(pool)].free.is_empty() {
            self.give_way(pool, (whose, blocks), random);
        }
        let free = &mut self.pool[usize::from(pool)].free;
        // Which one, nobody can foretell (RFC 6056).
        (!free.is_empty()).then(|| free.swap_remove(random % free.len()))
    }

    /// Ends all mappings of a block, of some that are drawn: of one that nobody has answered, or
    /// else of one of the subscriber that has most, if that is more than whoever asks would have.
    fn give_way(&mut self, pool: u16, (whose, own_blocks): (u32, u16), random: usize) {
        let first = FIRST / BLOCK;
        let given = BLOCKS - first;
        let drawn = (0..DRAWN).map(|number| first + (random + number * (given / DRAWN)) % given);
        let blocks = &self.pool[usize::from(pool)].blocks;
        let others = drawn.filter(|&number| {
            let owner = blocks[number].subscriber;
            owner != NOBODY && owner != whose
        });
        let owned = |number: &usize| {
            let owner = self.subscribers.get(blocks[*number].subscriber);
            owner.map_or(0, |owner| owner.blocks)
        };
        let unanswered = others.clone().find(|number| !blocks[*number].is_answered());
        let heaviest = || others.max_by_key(owned).filter(|most| owned(most) > own_blocks + 1);
        let is_in_use = unanswered.is_none();
        let Some(found) = unanswered.or_else(heaviest) else { return };
        self.given += u64::from(is_in_use);
        for class in [Class::Tcp, Class::Udp, Class::Icmp] {
            let mut used = self.pool[usize::from(pool)].blocks[found].used[class as usize];
            while used != 0 {
                let port = found * BLOCK + used.trailing_zeros() as usize;
                used &= used - 1;
                if let Some(place) = self.at(pool, port as u16, class) {
                    self.end(place);
                }
            }
        }
    }
}

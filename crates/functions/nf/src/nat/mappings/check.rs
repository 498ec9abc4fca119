//! What tests hold against each other.

use super::blocks::FIRST;
use super::*;

impl Mappings {
    /// Whether all that is said twice is said alike.
    pub(in crate::nat) fn check(&self) {
        let mut mappings = 0;
        let mut owned = 0;
        for (pool, outside) in self.pool.iter().enumerate() {
            for (number, block) in outside.blocks.iter().enumerate() {
                let mut unanswered = [0; CLASSES];
                for class in [Class::Tcp, Class::Udp, Class::Icmp] {
                    for bit in 0..BLOCK {
                        let port = (number * BLOCK + bit) as u16;
                        let place = self.at(pool as u16, port, class);
                        let is_used = block.used[class as usize] >> bit & 1 == 1;
                        assert_eq!(place.is_some(), is_used);
                        let Some(mapping) = place.and_then(|place| self.get(place)) else {
                            continue;
                        };
                        assert_eq!(
                            (mapping.outside, mapping.outside_port),
                            (outside.address, port)
                        );
                        let owner = self.subscribers.get(block.subscriber).expect("an owner");
                        assert_eq!(
                            (owner.address, usize::from(owner.pool)),
                            (mapping.inside, pool)
                        );
                        assert!(mapping.connections > 0);
                        mappings += 1;
                        unanswered[class as usize] |= u64::from(!mapping.is_answered) << bit;
                    }
                }
                assert_eq!(block.unanswered, unanswered);
                if let Some(next) = outside.blocks.get(usize::from(block.next)) {
                    assert_eq!(usize::from(next.before), number);
                    assert_eq!(next.subscriber, block.subscriber);
                }
                owned += usize::from(block.subscriber != NOBODY);
                assert_eq!(block.subscriber == NOBODY, block.used == [0; CLASSES]);
            }
            let unowned = outside.blocks.iter().filter(|block| block.subscriber == NOBODY).count();
            assert_eq!(outside.free.len(), unowned - FIRST / BLOCK);
        }
        assert_eq!(self.mappings.len(), mappings);
        let blocks =
            (0..(self.pool.len() * BLOCKS) as u32).filter_map(|at| self.subscribers.get(at));
        assert_eq!(blocks.map(|one| usize::from(one.blocks)).sum::<usize>(), owned);
    }
}

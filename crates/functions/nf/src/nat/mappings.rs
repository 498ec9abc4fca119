//! Which end outside stands for which one inside: ports in blocks, blocks of subscribers.
//!
//! A subscriber is an address inside. It gets blocks of 64 ports of one of our addresses as it
//! needs them, up to its limit, so that its ports are close together and nobody else's. Where none
//! are left, those give way whose mappings nobody outside has ever answered.

mod blocks;

use crate::places::{Keyed, Places};
use crate::track::hash_of;
pub(super) use blocks::Class;
use blocks::{BLOCK, BLOCKS, Block, CLASSES, FIRST, NOBODY, NONE, Outside, Subscriber, free_port};

/// Blocks that are drawn to find one that gives way.
const DRAWN: usize = 32;
/// An end inside, and the one outside that stands for it whatever the other end is (RFC 4787
/// section 4.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) inside: u32,
    pub(super) inside_port: u16,
    pub(super) outside: u32,
    pub(super) outside_port: u16,
    /// Which of our addresses that is.
    pool: u16,
    class: Class,
    /// Whether somebody has ever answered it.
    pub(super) is_answered: bool,
    connections: u32,
}

impl Keyed for Mapping {
    fn key(&self) -> [u64; 2] {
        key(self.inside, self.inside_port, self.class)
    }
}

fn key(inside: u32, port: u16, class: Class) -> [u64; 2] {
    [inside.into(), u64::from(port) << 8 | class as u64]
}

/// Why there is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPort {
    /// The subscriber has as many as it may, all of them in use.
    Subscriber,
    /// All blocks of its address are others', and in use.
    Pool,
}

#[derive(Debug)]
pub(super) struct Mappings {
    mappings: Places<Mapping>,
    subscribers: Places<Subscriber>,
    pool: Vec<Outside>,
    /// Sorted addresses, each with its place in the pool.
    by_address: Vec<(u32, u16)>,
    blocks_each: u16,
    seed: u64,
    /// How often something was drawn.
    random: u64,
}

enum Attempt {
    /// Something gave way: try again.
    Again,
    Failed(NoPort),
}

impl Mappings {
    pub(super) fn new(addresses: &[u32], ports_each: u32, most: usize, seed: u64) -> Self {
        let pool: Vec<Outside> = addresses.iter().copied().map(Outside::new).collect();
        let mut by_address: Vec<_> = addresses.iter().copied().zip(0..).collect();
        by_address.sort_unstable();
        Self {
            // One more while it is not known whether there is room for its connection.
            mappings: Places::new(most + 1, seed.rotate_left(7)),
            subscribers: Places::new(pool.len() * BLOCKS, seed.rotate_left(13)),
            pool,
            by_address,
            blocks_each: (ports_each as usize).div_ceil(BLOCK).clamp(1, BLOCKS) as u16,
            seed: seed.rotate_left(29),
            random: 0,
        }
    }

    /// Mappings, and subscribers, that there are.
    pub(super) const fn len(&self) -> (usize, usize) {
        (self.mappings.len(), self.subscribers.len())
    }

    /// Which of our addresses that is.
    #[inline]
    pub(super) fn pool_of(&self, address: u32) -> Option<u16> {
        let found = self.by_address.binary_search_by_key(&address, |(own, _)| *own).ok()?;
        self.by_address.get(found).map(|(_, pool)| *pool)
    }

    #[inline]
    pub(super) fn find(&self, inside: u32, port: u16, class: Class) -> Option<u32> {
        self.mappings.find(key(inside, port, class))
    }

    /// The mapping of an end outside.
    #[inline]
    pub(super) fn at(&self, pool: u16, port: u16, class: Class) -> Option<u32> {
        let outside = self.pool.get(usize::from(pool))?;
        outside.by_port[class as usize].get(usize::from(port))?.checked_sub(1)
    }

    #[inline]
    pub(super) fn get(&self, place: u32) -> Option<&Mapping> {
        self.mappings.get(place)
    }

    #[inline]
    pub(super) fn mark(&self, place: u32) -> u64 {
        self.mappings.mark(place)
    }

    #[inline]
    pub(super) fn marked(&self, mark: u64) -> Option<u32> {
        self.mappings.marked(mark)
    }

    /// One more connection goes by it.
    pub(super) fn hold(&mut self, place: u32) {
        if let Some(mapping) = self.mappings.get_mut(place) {
            mapping.connections += 1;
        }
    }

    /// A connection has ended that went by it; with the last one it ends too.
    pub(super) fn release(&mut self, mark: u64) {
        let Some(place) = self.marked(mark) else { return };
        if let Some(mapping) = self.mappings.get_mut(place) {
            mapping.connections = mapping.connections.saturating_sub(1);
        }
        self.end_if_unused(place);
    }

    pub(super) fn end_if_unused(&mut self, place: u32) {
        if self.get(place).is_some_and(|mapping| mapping.connections == 0) {
            self.end(place);
        }
    }

    /// Somebody outside has answered.
    #[inline]
    pub(super) fn note_answer(&mut self, place: u32) {
        let Some(mapping) = self.mappings.get_mut(place) else { return };
        if !mapping.is_answered {
            mapping.is_answered = true;
            let (pool, block) = (mapping.pool, usize::from(mapping.outside_port) / BLOCK);
            self.pool[usize::from(pool)].blocks[block].answered += 1;
        }
    }

    /// A mapping for an end inside that has none.
    pub(super) fn make(&mut self, inside: u32, port: u16, class: Class) -> Result<u32, NoPort> {
        let mut failed = NoPort::Pool;
        // Its own ports may give way, then others' blocks.
        for _ in 0..3 {
            let (pool, outside_port) = match self.take_port(inside, port, class) {
                Ok(taken) => taken,
                Err(Attempt::Again) => continue,
                Err(Attempt::Failed(why)) => {
                    failed = why;
                    break;
                }
            };
            let outside = &mut self.pool[usize::from(pool)];
            let block = &mut outside.blocks[usize::from(outside_port) / BLOCK];
            block.used[class as usize] |= 1 << (usize::from(outside_port) % BLOCK);
            let mapping = Mapping {
                inside,
                inside_port: port,
                outside: outside.address,
                outside_port,
                pool,
                class,
                is_answered: false,
                connections: 0,
            };
            let Some(place) = self.mappings.insert(mapping) else { break };
            outside.by_port[class as usize][usize::from(outside_port)] = place + 1;
            return Ok(place);
        }
        Err(failed)
    }

    /// A port that is free, in a block that is the subscriber's.
    fn take_port(&mut self, inside: u32, port: u16, class: Class) -> Result<(u16, u16), Attempt> {
        let random = self.draw();
        let Some(subscriber) = self.subscribers.find([inside.into(), 0]) else {
            let pool = self.pool_for(inside);
            let block = self.take_block(pool, NOBODY).ok_or(Attempt::Failed(NoPort::Pool))?;
            let one = Subscriber { address: inside, pool, first: block, blocks: 1 };
            let Some(place) = self.subscribers.insert(one) else {
                self.pool[usize::from(pool)].free.push(block);
                return Err(Attempt::Failed(NoPort::Pool));
            };
            let own = &mut self.pool[usize::from(pool)].blocks[usize::from(block)];
            (own.subscriber, own.next) = (place, NONE);
            return Ok((pool, free_port(own, block, class, port, random).unwrap_or(0)));
        };
        let Some(&Subscriber { pool, first, blocks, .. }) = self.subscribers.get(subscriber) else {
            return Err(Attempt::Failed(NoPort::Pool));
        };
        if let Some(found) = self.port_in_blocks(pool, first, class, |own, block| {
            free_port(own, block, class, port, random)
                .filter(|found| class != Class::Udp || (found ^ port) & 1 == 0)
        }) {
            return Ok((pool, found));
        }
        if blocks < self.blocks_each
            && let Some(block) = self.take_block(pool, subscriber)
        {
            let own = &mut self.pool[usize::from(pool)].blocks[usize::from(block)];
            (own.subscriber, own.next) = (subscriber, first);
            let found = free_port(own, block, class, port, random).unwrap_or(0);
            if let Some(subscriber) = self.subscribers.get_mut(subscriber) {
                (subscriber.first, subscriber.blocks) = (block, blocks + 1);
            }
            return Ok((pool, found));
        }
        // Rather a port of the other parity than none.
        if let Some(found) = self.port_in_blocks(pool, first, class, |own, block| {
            free_port(own, block, class, port, random)
        }) {
            return Ok((pool, found));
        }
        match self.give_way_in(pool, first, class, random) {
            true => Err(Attempt::Again),
            false if blocks < self.blocks_each => Err(Attempt::Failed(NoPort::Pool)),
            false => Err(Attempt::Failed(NoPort::Subscriber)),
        }
    }

    fn port_in_blocks(
        &self,
        pool: u16,
        first: u16,
        class: Class,
        free: impl Fn(&Block, u16) -> Option<u16>,
    ) -> Option<u16> {
        let blocks = &self.pool[usize::from(pool)].blocks;
        let mut at = first;
        while let Some(block) = blocks.get(usize::from(at)) {
            if block.used[class as usize] != u64::MAX
                && let Some(port) = free(block, at)
            {
                return Some(port);
            }
            at = block.next;
        }
        None
    }

    /// Our address for a new subscriber, which has it for all that it does (RFC 4787 section 4.1:
    /// paired pooling).
    fn pool_for(&mut self, inside: u32) -> u16 {
        let count = self.pool.len();
        let first = hash_of(self.seed, &[inside.into()]) as usize % count;
        let places = (first..count).chain(0..first);
        let has_room = |place: &usize| !self.pool[*place].free.is_empty();
        places.clone().find(has_room).unwrap_or(first) as u16
    }

    /// A block that is nobody's; one may give way for it, but none of `whose`.
    fn take_block(&mut self, pool: u16, whose: u32) -> Option<u16> {
        let random = self.draw();
        if self.pool[usize::from(pool)].free.is_empty() {
            self.give_way(pool, whose, random);
        }
        let free = &mut self.pool[usize::from(pool)].free;
        // Which one, nobody can foretell (RFC 6056).
        (!free.is_empty()).then(|| free.swap_remove(random % free.len()))
    }

    /// Ends all mappings of a block, of some that are drawn, that nobody has answered.
    fn give_way(&mut self, pool: u16, whose: u32, random: usize) {
        let first = FIRST / BLOCK;
        let given = BLOCKS - first;
        let drawn = (0..DRAWN).map(|number| first + (random + number * (given / DRAWN)) % given);
        let blocks = &self.pool[usize::from(pool)].blocks;
        let found = drawn.into_iter().find(|&block| {
            let block = &blocks[block];
            block.answered == 0 && block.subscriber != NOBODY && block.subscriber != whose
        });
        let Some(found) = found else { return };
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

    /// Ends a mapping of the subscriber's own that nobody has answered.
    fn give_way_in(&mut self, pool: u16, first: u16, class: Class, random: usize) -> bool {
        let blocks = &self.pool[usize::from(pool)].blocks;
        let mut at = first;
        while let Some(block) = blocks.get(usize::from(at)) {
            for number in 0..BLOCK {
                let port = usize::from(at) * BLOCK + (random + number) % BLOCK;
                let place = self.at(pool, port as u16, class);
                let gives = |place: &u32| self.get(*place).is_some_and(|one| !one.is_answered);
                if let Some(place) = place.filter(gives) {
                    self.end(place);
                    return true;
                }
            }
            at = block.next;
        }
        false
    }

    /// Ends a mapping; its block and its subscriber with the last one of theirs.
    fn end(&mut self, place: u32) {
        let Some(gone) = self.mappings.remove(place) else { return };
        let outside = &mut self.pool[usize::from(gone.pool)];
        let port = usize::from(gone.outside_port);
        outside.by_port[gone.class as usize][port] = 0;
        let number = (port / BLOCK) as u16;
        let block = &mut outside.blocks[port / BLOCK];
        block.used[gone.class as usize] &= !(1 << (port % BLOCK));
        block.answered -= u16::from(gone.is_answered);
        if block.used != [0; CLASSES] {
            return;
        }
        let (owner, next) = (block.subscriber, block.next);
        (block.subscriber, block.next) = (NOBODY, NONE);
        outside.free.push(number);
        let Some(subscriber) = self.subscribers.get_mut(owner) else { return };
        subscriber.blocks -= 1;
        if subscriber.first == number {
            subscriber.first = next;
        } else {
            let mut at = subscriber.first;
            while let Some(block) = outside.blocks.get_mut(usize::from(at)) {
                if block.next == number {
                    block.next = next;
                    break;
                }
                at = block.next;
            }
        }
        if subscriber.blocks == 0 {
            self.subscribers.remove(owner);
        }
    }

    fn draw(&mut self) -> usize {
        self.random = self.random.wrapping_add(1);
        // Half of it, so that sums of a few do not overflow.
        (hash_of(self.seed, &[self.random]) >> 1) as usize
    }
}

#[cfg(test)]
mod check;

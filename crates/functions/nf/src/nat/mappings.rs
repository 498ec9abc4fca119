//! Which end outside stands for which one inside: ports in blocks, blocks of subscribers.
//!
//! A subscriber is an address inside. It gets blocks of 64 ports of one of our addresses as it
//! needs them, up to its limit, so that its ports are close together and nobody else's. Where none
//! are left, those give way whose mappings nobody outside has ever answered, or else one of whoever
//! has most to whoever has less. Each packet looks at a few blocks, however many there are.

mod blocks;
mod shares;

use crate::places::{Keyed, Places};
use crate::track::hash_of;
pub(super) use blocks::Class;
use blocks::{BLOCK, BLOCKS, CLASSES, NOBODY, NONE, Outside, Subscriber, drawn_port, free_port};

/// Blocks of its own that a first packet is held against, of those behind the ones that the packet
/// before it was held against: twice, where a mapping gives way.
const LOOKED: u16 = 16;

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
    /// Blocks in use that gave way to a subscriber with fewer.
    pub(super) given: u64,
    /// Blocks that packets were held against.
    #[cfg(test)]
    pub(super) looked: u32,
}

/// What some blocks of a subscriber have.
#[derive(Default)]
struct Around {
    /// A free port, of UDP of the same parity.
    alike: Option<u16>,
    /// Any free port.
    free: Option<u16>,
    /// One whose mapping nobody has answered.
    unanswered: Option<u16>,
    /// The block behind them.
    behind: u16,
    #[cfg(test)]
    looked: u32,
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
            given: 0,
            #[cfg(test)]
            looked: 0,
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
            let (port, class) = (usize::from(mapping.outside_port), mapping.class as usize);
            let block = &mut self.pool[usize::from(mapping.pool)].blocks[port / BLOCK];
            block.unanswered[class] &= !(1 << (port % BLOCK));
        }
    }

    /// A mapping for an end inside that has none.
    pub(super) fn make(&mut self, inside: u32, port: u16, class: Class) -> Result<u32, NoPort> {
        let mut failed = NoPort::Pool;
        // One of its own ports may give way.
        for _ in 0..2 {
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
            let bit = 1 << (usize::from(outside_port) % BLOCK);
            block.used[class as usize] |= bit;
            block.unanswered[class as usize] |= bit;
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
            let block = self.take_block(pool, NOBODY, 0).ok_or(Attempt::Failed(NoPort::Pool))?;
            let one = Subscriber { address: inside, pool, first: block, blocks: 1 };
            let Some(place) = self.subscribers.insert(one) else {
                self.pool[usize::from(pool)].free.push(block);
                return Err(Attempt::Failed(NoPort::Pool));
            };
            let own = &mut self.pool[usize::from(pool)].blocks[usize::from(block)];
            (own.subscriber, own.next, own.before) = (place, block, block);
            return Ok((pool, free_port(own, block, class, port, random).unwrap_or(0)));
        };
        let Some(&Subscriber { pool, first, blocks, .. }) = self.subscribers.get(subscriber) else {
            return Err(Attempt::Failed(NoPort::Pool));
        };
        let around = self.look_around(pool, first, blocks.min(LOOKED), (class, port), random);
        #[cfg(test)]
        {
            self.looked += around.looked;
        }
        let mut look_next = around.behind;
        let done = if let Some(found) = around.alike {
            look_next = found / BLOCK as u16;
            Ok((pool, found))
        } else if blocks < self.blocks_each
            && let Some(block) = self.take_block(pool, subscriber, blocks)
        {
            self.link(pool, subscriber, block);
            let own = &self.pool[usize::from(pool)].blocks[usize::from(block)];
            look_next = block;
            Ok((pool, free_port(own, block, class, port, random).unwrap_or(0)))
        } else if let Some(found) = around.free {
            // Rather a port of the other parity than none.
            Ok((pool, found))
        } else if let Some(place) = around.unanswered.and_then(|port| self.at(pool, port, class)) {
            self.end(place);
            return Err(Attempt::Again);
        } else if blocks < self.blocks_each {
            Err(Attempt::Failed(NoPort::Pool))
        } else {
            Err(Attempt::Failed(NoPort::Subscriber))
        };
        if let Some(subscriber) = self.subscribers.get_mut(subscriber) {
            subscriber.first = look_next;
        }
        done
    }

    /// What `count` blocks of a subscriber have, from this one on.
    fn look_around(
        &self,
        pool: u16,
        first: u16,
        count: u16,
        (class, port): (Class, u16),
        random: usize,
    ) -> Around {
        let blocks = &self.pool[usize::from(pool)].blocks;
        let mut around = Around { behind: first, ..Around::default() };
        for _ in 0..count {
            #[cfg(test)]
            {
                around.looked += 1;
            }
            let at = around.behind;
            let Some(block) = blocks.get(usize::from(at)) else { break };
            let free = free_port(block, at, class, port, random);
            let is_alike = |found: &u16| class != Class::Udp || (found ^ port) & 1 == 0;
            around.alike = free.filter(is_alike);
            around.free = around.free.or(free);
            let unanswered = block.unanswered[class as usize];
            if around.unanswered.is_none() && unanswered != 0 {
                around.unanswered = Some(drawn_port(at, unanswered, random));
            }
            if around.alike.is_some() {
                break;
            }
            around.behind = block.next;
        }
        around
    }

    /// Puts an unowned block into the circle of a subscriber.
    fn link(&mut self, pool: u16, subscriber: u32, block: u16) {
        let Some(owner) = self.subscribers.get_mut(subscriber) else { return };
        owner.blocks += 1;
        let blocks = &mut self.pool[usize::from(pool)].blocks;
        let before = owner.first;
        let next = blocks[usize::from(before)].next;
        blocks[usize::from(before)].next = block;
        blocks[usize::from(next)].before = block;
        let own = &mut blocks[usize::from(block)];
        (own.subscriber, own.next, own.before) = (subscriber, next, before);
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
        block.unanswered[gone.class as usize] &= !(1 << (port % BLOCK));
        if block.used != [0; CLASSES] {
            return;
        }
        let (owner, next, before) = (block.subscriber, block.next, block.before);
        (block.subscriber, block.next, block.before) = (NOBODY, NONE, NONE);
        outside.free.push(number);
        if next != number {
            outside.blocks[usize::from(before)].next = next;
            outside.blocks[usize::from(next)].before = before;
        }
        let Some(subscriber) = self.subscribers.get_mut(owner) else { return };
        subscriber.blocks -= 1;
        if subscriber.first == number {
            subscriber.first = next;
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

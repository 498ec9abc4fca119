//! Blocks of ports, whose they are, and which of their ports are free.

use crate::places::Keyed;

/// Ports of a block: those of one word.
pub(super) const BLOCK: usize = 64;
/// The first port that is given: those below are of servers (RFC 4787 section 4.2.1).
pub(super) const FIRST: usize = 1024;
pub(super) const BLOCKS: usize = 65_536 / BLOCK;
/// TCP, UDP and ICMP, which have ports of their own each.
pub(super) const CLASSES: usize = 3;
pub(super) const NONE: u16 = u16::MAX;
pub(super) const NOBODY: u32 = u32::MAX;

/// What has ports, or identifiers, of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nat) enum Class {
    Tcp,
    Udp,
    Icmp,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) address: u32,
    pub(super) pool: u16,
    /// Its blocks: the one that is looked at first, and how many.
    pub(super) first: u16,
    pub(super) blocks: u16,
}

impl Keyed for Subscriber {
    fn key(&self) -> [u64; 2] {
        [self.address.into(), 0]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) used: [u64; CLASSES],
    /// Those of them whose mapping nobody has ever answered.
    pub(super) unanswered: [u64; CLASSES],
    pub(super) subscriber: u32,
    /// The next block of the same subscriber, and the one before: they stand in a circle.
    pub(super) next: u16,
    pub(super) before: u16,
}

impl Block {
    /// Whether somebody has answered one of its mappings.
    pub(super) fn is_answered(&self) -> bool {
        self.used != self.unanswered
    }
}

#[derive(Debug)]
pub(super) struct Outside {
    pub(super) address: u32,
    /// Places of mappings, plus one.
    pub(super) by_port: [Box<[u32]>; CLASSES],
    pub(super) blocks: Box<[Block]>,
    pub(super) free: Vec<u16>,
}

impl Outside {
    pub(super) fn new(address: u32) -> Self {
        let none = Block {
            used: [0; CLASSES],
            unanswered: [0; CLASSES],
            subscriber: NOBODY,
            next: NONE,
            before: NONE,
        };
        Self {
            address,
            by_port: std::array::from_fn(|_| vec![0; 65_536].into()),
            blocks: vec![none; BLOCKS].into(),
            free: ((FIRST / BLOCK) as u16..BLOCKS as u16).collect(),
        }
    }
}

/// A free port of a block; of UDP one of the same parity, if there is one (RFC 4787 section
/// 4.2.2).
pub(super) fn free_port(
    block: &Block,
    number: u16,
    class: Class,
    port: u16,
    random: usize,
) -> Option<u16> {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let free = !block.used[class as usize];
    let alike = if port.is_multiple_of(2) { free & EVEN } else { free & !EVEN };
    let from = if class == Class::Udp && alike != 0 { alike } else { free };
    if from == 0 {
        return None;
    }
    Some(drawn_port(number, from, random))
}

/// The port of one of these bits, of which there is one.
pub(super) fn drawn_port(number: u16, from: u64, random: usize) -> u16 {
    let turn = (random % BLOCK) as u32;
    let bit = (from.rotate_right(turn).trailing_zeros() + turn) as usize % BLOCK;
    (usize::from(number) * BLOCK + bit) as u16
}

//! Packets that wait for a hand-over, which ends when the old owner has passed its barrier.

use std::collections::VecDeque;

use base::WorkerId;
use policy::Move;

use super::worker::Packet;

/// A hand-over.
#[derive(Debug)]
pub(super) struct Handover {
    pub(super) from: WorkerId,
    /// `None`: of all that a published table takes from this owner.
    pub(super) single: Option<Move>,
    pub(super) packets: Vec<Packet>,
}

/// All that are under way, by number; numbers are never used again within a run.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    first: u32,
    lists: VecDeque<Option<Handover>>,
    packets: usize,
}

impl Waiting {
    pub(super) fn begin(&mut self, from: WorkerId, single: Option<Move>) -> u32 {
        self.lists.push_back(Some(Handover { from, single, packets: Vec::new() }));
        self.first + self.lists.len() as u32 - 1
    }

    /// False: there is no such hand-over any more.
    pub(super) fn hold(&mut self, number: u32, packet: Packet) -> bool {
        let at = number.wrapping_sub(self.first) as usize;
        let Some(Some(list)) = self.lists.get_mut(at) else { return false };
        list.packets.push(packet);
        self.packets += 1;
        true
    }

    /// The old owner of one that is under way.
    pub(super) fn from(&self, number: u32) -> Option<WorkerId> {
        let at = number.wrapping_sub(self.first) as usize;
        self.lists.get(at)?.as_ref().map(|list| list.from)
    }

    /// The first packets that wait with it, as many as there is room for, and whether these were
    /// all.
    pub(super) fn give_back(&mut self, number: u32, room: usize) -> (Vec<Packet>, bool) {
        let at = number.wrapping_sub(self.first) as usize;
        let Some(Some(list)) = self.lists.get_mut(at) else { return (Vec::new(), true) };
        let given: Vec<Packet> = list.packets.drain(..room.min(list.packets.len())).collect();
        self.packets -= given.len();
        (given, list.packets.is_empty())
    }

    pub(super) fn take(&mut self, number: u32) -> Option<Handover> {
        let taken = self.lists.get_mut(number.wrapping_sub(self.first) as usize)?.take()?;
        self.packets -= taken.packets.len();
        while matches!(self.lists.front(), Some(None)) {
            self.lists.pop_front();
            self.first += 1;
        }
        Some(taken)
    }

    /// The one of a single group that this is true of.
    pub(super) fn find(&self, is_it: impl Fn(&Move) -> bool) -> Option<u32> {
        let is_it = |list: &Option<Handover>| {
            list.as_ref().and_then(|list| list.single.as_ref()).is_some_and(&is_it)
        };
        self.lists.iter().position(is_it).map(|at| self.first + at as u32)
    }

    /// Packets in all of them.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

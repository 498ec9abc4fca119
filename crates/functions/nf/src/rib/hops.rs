//! Next hops that routes name, numbered.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base::PortId;

use super::RibError;
use crate::fib::{FibChange, Hop, HopId, Neighbour, NextHop};

/// What is known of neighbours.
type Known = BTreeMap<(PortId, IpAddr), Neighbour>;

/// The numbers below are [`HopId::NONE`] and [`HopId::NO_ROOM`].
const FIRST: usize = HopId::NO_ROOM.index() + 1;

/// Each next hop that at least one route names, with its number.
#[derive(Debug, Default)]
pub(super) struct Hops {
    numbers: BTreeMap<NextHop, HopId>,
    /// By number: the next hop and how many routes name it; from [`FIRST`] on.
    hops: Vec<Option<(NextHop, u32)>>,
    /// Numbers that are free again.
    free: Vec<HopId>,
}

impl Hops {
    /// Whether there is a number for `to`.
    pub(super) fn has_room_for(&self, to: NextHop) -> bool {
        to == NextHop::NoRoom
            || self.numbers.contains_key(&to)
            || !self.free.is_empty()
            || self.hops.len() < usize::from(HopId::LIMIT)
    }

    /// The number of `to`, for one more route.
    pub(super) fn take(
        &mut self,
        to: NextHop,
        known: &Known,
        emit: &mut dyn FnMut(FibChange),
    ) -> Result<HopId, RibError> {
        if to == NextHop::NoRoom {
            return Ok(HopId::NO_ROOM);
        }
        if let Some(id) = self.numbers.get(&to) {
            if let Some(Some((_, routes))) = self.hops.get_mut(id.index()) {
                *routes += 1;
            }
            return Ok(*id);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let next = u16::try_from(self.hops.len().max(FIRST)).unwrap_or(HopId::LIMIT);
                if next >= HopId::LIMIT {
                    return Err(RibError::NextHops);
                }
                self.hops.resize(usize::from(next) + 1, None);
                HopId(next)
            }
        };
        self.hops[id.index()] = Some((to, 1));
        self.numbers.insert(to, id);
        emit(FibChange::Hop { id, hop: Some(entry(to, known)) });
        Ok(id)
    }

    /// One route less names it.
    pub(super) fn give(&mut self, id: HopId, emit: &mut dyn FnMut(FibChange)) {
        let Some(place) = self.hops.get_mut(id.index()) else { return };
        let Some((to, routes)) = place else { return };
        *routes -= 1;
        if *routes == 0 {
            self.numbers.remove(to);
            *place = None;
            self.free.push(id);
            emit(FibChange::Hop { id, hop: None });
        }
    }

    /// The next hop of that number.
    pub(super) fn get(&self, id: HopId) -> Option<NextHop> {
        if id == HopId::NO_ROOM {
            return Some(NextHop::NoRoom);
        }
        self.hops.get(id.index())?.as_ref().map(|(to, _)| *to)
    }

    /// A neighbour has changed: the gateway of that address has it in its entry.
    pub(super) fn resolve(
        &self,
        port: PortId,
        address: IpAddr,
        neighbour: Option<Neighbour>,
        emit: &mut dyn FnMut(FibChange),
    ) {
        let to = NextHop::Gateway { port, address };
        if let Some(&id) = self.numbers.get(&to) {
            emit(FibChange::Hop { id, hop: Some(Hop { to, neighbour }) });
        }
    }

    /// Everything, as steps for empty tables.
    pub(super) fn each(&self, known: &Known, emit: &mut dyn FnMut(FibChange)) {
        for (to, id) in &self.numbers {
            emit(FibChange::Hop { id: *id, hop: Some(entry(*to, known)) });
        }
    }
}

fn entry(to: NextHop, known: &Known) -> Hop {
    let neighbour = match to {
        NextHop::Gateway { port, address } => known.get(&(port, address)).copied(),
        _ => None,
    };
    Hop { to, neighbour }
}

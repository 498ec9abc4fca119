//! All steerings of a dispatcher: its own workers' and each attached application's.

use base::Nanos;
use shm::FramePool;

use crate::app::{AppId, DetachReason, Guest};
use crate::counters::CounterWriter;
use crate::ground::Ground;
use crate::steering::Steering;

/// Applications at once, at most.
pub const APPS_MAX: usize = 1024;

/// The dispatcher's own workers, and its guests.
pub(crate) struct Apps {
    pub(crate) own: Steering,
    /// The own workers are told of ICMP errors about their flows.
    pub(crate) hears_errors: bool,
    /// What the dispatcher counts, its own workers' packets included.
    pub(crate) counters: CounterWriter,
    /// By index less one.
    guests: Vec<Option<Box<Guest>>>,
    /// Indexes of the guests that are there: the loops go over these.
    present: Vec<u16>,
    /// Who is first in the next round.
    first: usize,
    turns: u32,
}

impl Apps {
    pub(crate) fn new(own: Steering) -> Self {
        Self {
            own,
            hears_errors: false,
            counters: CounterWriter::new(),
            guests: Vec::new(),
            present: Vec::new(),
            first: 0,
            turns: 0,
        }
    }

    /// An id for one more guest; `None` when there are [`APPS_MAX`].
    pub(crate) fn next_id(&mut self) -> Option<AppId> {
        let free = self.guests.iter().position(Option::is_none).unwrap_or(self.guests.len());
        if free == APPS_MAX {
            return None;
        }
        self.turns = self.turns.wrapping_add(1);
        Some(AppId { index: free as u16 + 1, turn: self.turns })
    }

    pub(crate) fn insert(&mut self, guest: Box<Guest>) {
        let position = usize::from(guest.id.index) - 1;
        if position == self.guests.len() {
            self.guests.push(None);
        }
        debug_assert!(self.guests[position].is_none(), "`next_id` gave a free position");
        self.present.push(guest.id.index);
        self.guests[position] = Some(guest);
    }

    pub(crate) fn remove(&mut self, app: AppId) -> Option<Box<Guest>> {
        self.guest(app)?;
        self.present.retain(|&index| index != app.index);
        self.guests[usize::from(app.index) - 1].take()
    }

    pub(crate) fn guest(&self, app: AppId) -> Option<&Guest> {
        let position = usize::from(app.index).checked_sub(1)?;
        self.guests.get(position)?.as_deref().filter(|guest| guest.id == app)
    }

    /// Whether there is no guest.
    pub(crate) fn is_alone(&self) -> bool {
        self.present.is_empty()
    }

    /// The guests that are there.
    pub(crate) fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.present.iter().filter_map(|&index| self.guests[usize::from(index) - 1].as_deref())
    }

    /// The first guest that must go, and why.
    pub(crate) fn next_fault(&self) -> Option<(AppId, DetachReason)> {
        self.guests().find_map(|guest| Some((guest.id, guest.steering.app()?.fault()?)))
    }

    /// The steering of an application; `None` when it is gone.
    #[inline]
    pub(crate) fn steering(&self, app: AppId) -> Option<&Steering> {
        match app.index {
            0 => Some(&self.own),
            _ => self.guest(app).map(|guest| &guest.steering),
        }
    }

    /// The steering of an application with the counters that its packets move.
    #[inline]
    pub(crate) fn parts(&mut self, app: AppId) -> Option<(&mut Steering, &mut CounterWriter)> {
        match app.index {
            0 => Some((&mut self.own, &mut self.counters)),
            index => {
                let guest = self.guests.get_mut(usize::from(index) - 1)?.as_mut()?;
                (guest.id == app).then_some((&mut guest.steering, &mut guest.counters))
            }
        }
    }

    /// Does something with each steering, the own workers' first.
    pub(crate) fn each_steering(&mut self, mut work: impl FnMut(&mut Steering)) {
        work(&mut self.own);
        for &index in &self.present {
            if let Some(guest) = &mut self.guests[usize::from(index) - 1] {
                work(&mut guest.steering);
            }
        }
    }

    /// Does something with each, the own workers first.
    #[inline]
    pub(crate) fn each(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        mut work: impl FnMut(&mut Steering, &mut Ground<'_>),
    ) {
        work(&mut self.own, &mut Ground { pool, counters: &mut self.counters, now });
        for &index in &self.present {
            if let Some(guest) = &mut self.guests[usize::from(index) - 1] {
                let Guest { steering, counters, .. } = &mut **guest;
                work(steering, &mut Ground { pool, counters, now });
            }
        }
    }

    /// The same in turns: another one is first each time, and `work` says whether to go on.
    #[inline]
    pub(crate) fn each_in_turn(
        &mut self,
        pool: &mut FramePool,
        now: Nanos,
        mut work: impl FnMut(&mut Steering, &mut Ground<'_>) -> bool,
    ) {
        let all = self.present.len() + 1;
        self.first = (self.first + 1) % all;
        for turn in 0..all {
            let (steering, counters) = match (self.first + turn) % all {
                0 => (&mut self.own, &mut self.counters),
                position => {
                    let index = usize::from(self.present[position - 1]) - 1;
                    let Some(guest) = &mut self.guests[index] else { continue };
                    (&mut guest.steering, &mut guest.counters)
                }
            };
            if !work(steering, &mut Ground { pool, counters, now }) {
                return;
            }
        }
    }
}

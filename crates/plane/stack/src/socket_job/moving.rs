//! Groups that leave a worker with their flows, and groups that come.

use base::{FlowGroup, Nanos, WorkerId};
use tcp::Detached;
use wire::FlowKey;

use super::{Heard, Leaving, RETRY_EVERY, SocketJob};
use crate::counts::SocketCounter;
use crate::exchange::{Belongings, Parcel};
use datapath::message::Moving;

/// Groups looked at in one step of giving a table's part up: in between, packets go on.
const GROUPS_PER_STEP: u32 = 2048;

impl SocketJob {
    /// Goes on giving up what moves; true when all is given up.
    pub(super) fn detach_moving(&mut self, moving: Moving, now: Nanos) -> bool {
        match moving {
            Moving::Group(group) => {
                self.detach_group(group, None, now);
                true
            }
            Moving::Epoch(_) => {
                let next = match self.leaving {
                    Some(leaving) if leaving.moving == moving => leaving.next,
                    _ => FlowGroup(0),
                };
                let all = self.owners.groups();
                let end = all.min(next.0 + GROUPS_PER_STEP);
                for group in (next.0..end).map(FlowGroup) {
                    // Unowned: it has no flows, or got its owner after the table was published.
                    let owner = self.owners.owner(group);
                    if owner.is_some_and(|owner| owner != self.me) {
                        self.detach_group(group, owner, now);
                    }
                }
                self.leaving = (end < all).then_some(Leaving { moving, next: FlowGroup(end) });
                end == all
            }
        }
    }

    /// Gives a group up, to `to` if a table says who that is. Only what is ours is touched: the
    /// flows of all other groups that the table moves may be on their way between others right now.
    fn detach_group(&mut self, group: FlowGroup, to: Option<WorkerId>, now: Nanos) {
        // What came for this group and had no room goes on with it, or waits for the next owner.
        if self.waiting.contains(&group) && !self.claim(group, now) {
            self.waiting.retain(|waiting| *waiting != group);
            self.exchange.readdress(group, to);
        }
        let Self { engine, owners, context, service, routes, sockets, .. } = self;
        let hashed = owners.hashed();
        let mut flows = Detached::default();
        let mut name = None;
        if group.0 < hashed {
            let is_wanted = |key: &FlowKey| {
                let is_wanted = !owners.is_pinned(key.id());
                if is_wanted {
                    name.get_or_insert(*key);
                }
                is_wanted
            };
            engine.detach_group(group, hashed, is_wanted, &mut flows);
        } else if let Some((pinned, hash)) = owners.pinned_to(group) {
            let home = FlowGroup(hash.0 & (hashed - 1));
            let is_it = |key: &FlowKey| {
                let is_it = key.id() == pinned;
                if is_it {
                    name = Some(*key);
                }
                is_it
            };
            engine.detach_group(home, hashed, is_it, &mut flows);
        }
        if flows.is_empty() {
            return;
        }
        let belongings = flows.ids().map(|id| {
            let (rings, is_live) = context.take(id);
            let position = service.position(id);
            service.forget(id);
            let socket = sockets.as_mut().and_then(|sockets| sockets.take_along(id));
            Belongings { id, rings, is_live, position, socket }
        });
        let belongings = belongings.collect();
        let mut neighbours = Vec::new();
        flows.map_routes(|number| {
            let Some(route) = routes.get(number) else { return u32::MAX };
            let known = neighbours.iter().position(|next_hop| next_hop == route);
            known.unwrap_or_else(|| {
                neighbours.push(*route);
                neighbours.len() - 1
            }) as u32
        });
        self.counts.touch();
        let (call_at, routes) = (None, neighbours);
        self.exchange.put(group, Parcel { to, name, call_at, flows, belongings, routes });
    }

    /// From now on what moves is ours.
    pub(super) fn attach_moving(&mut self, moving: Moving, now: Nanos) {
        self.engine.expect_cookies(now);
        match moving {
            Moving::Group(group) => _ = self.claim(group, now),
            Moving::Epoch(_) => {
                // By what was written on them: the table may be another one by now.
                for group in self.exchange.groups_for(self.me) {
                    self.claim(group, now);
                }
            }
        }
    }

    /// Takes the flows that wait for the packets in hand, whoever was told of their groups: a
    /// packet is here, so the group is ours. Packets of flows that the engine has no room for are
    /// dropped: they come again. Connect probes do not by themselves, and are sent again.
    pub(super) fn claim_arrived(&mut self, now: Nanos) {
        let mut at = 0;
        while let Some(frame) = self.kept.get(at) {
            let group = frame.meta().group;
            if self.claim(group, now) {
                at += 1;
                continue;
            }
            let mut frame = self.kept.remove(at);
            if std::mem::take(&mut frame.meta_mut().transmit) {
                self.postpone(&frame, now);
            } else {
                self.counts.add(SocketCounter::FlowsWaiting, 1);
            }
            self.spares.push(frame);
        }
    }

    /// Takes the flows of a group that wait; false when some go on waiting for room.
    fn claim(&mut self, group: FlowGroup, now: Nanos) -> bool {
        let mut is_done = true;
        for parcel in self.exchange.take(group) {
            is_done &= self.unpack(group, parcel, now);
        }
        self.waiting.retain(|waiting| *waiting != group);
        if !is_done {
            self.waiting.push(group);
            self.retry_at = self.retry_at.min(now + RETRY_EVERY);
        }
        is_done
    }

    /// This worker ends: what it was to take, and has not, waits for a packet, which a silent peer
    /// may never send. So a connect probe goes where the next packet would: whoever gets it has the
    /// group, and takes its flows.
    pub(super) fn leave(&mut self) {
        let Some(sockets) = self.sockets.as_mut() else { return };
        for name in self.exchange.give_up(self.me) {
            sockets.call_for(&name);
        }
        sockets.leave();
    }

    /// Looks whether there is room now for flows that wait: they have timers, though nothing comes
    /// for them. Also takes those that were left for a worker which has ended before it took them,
    /// when their group is this worker's by now.
    pub(super) fn claim_waiting(&mut self, now: Nanos) {
        self.retry_at = Nanos::FAR_FUTURE;
        for group in std::mem::take(&mut self.waiting) {
            self.claim(group, now);
        }
        if self.exchange.has_any() {
            for group in self.exchange.groups() {
                if self.owners.owner(group) == Some(self.me) {
                    self.claim(group, now);
                }
            }
            // The table may have changed since the workers read it.
            if let Some(sockets) = &self.sockets {
                for name in self.exchange.calls(now) {
                    sockets.call_for(&name);
                }
            }
        }
    }

    fn unpack(&mut self, group: FlowGroup, mut parcel: Parcel, now: Nanos) -> bool {
        if let Some(sockets) = self.sockets.as_mut() {
            // What was asked for before it came here, such as an application's first word or its
            // last.
            let Self { engine, context, neighbours, events, .. } = self;
            let mut heard = Heard { events };
            sockets.read_commands(
                usize::MAX,
                engine,
                &mut context.rings,
                neighbours,
                now,
                &mut heard,
            );
        }
        let Parcel { to: _, name: _, call_at: _, flows, belongings, routes } = &mut parcel;
        let mine = &mut self.routes;
        let neighbours: Vec<u32> =
            routes.iter().map(|route| mine.number(*route).unwrap_or(u32::MAX)).collect();
        flows.map_routes(|number| neighbours.get(number as usize).copied().unwrap_or(u32::MAX));
        let mut moved = Vec::new();
        if self.engine.attach_group(now, flows, |old, new| moved.push((old, new))).is_err() {
            // The parcel says again what its own numbers mean.
            flows.map_routes(|number| {
                neighbours.iter().position(|own| *own == number).map_or(u32::MAX, |at| at as u32)
            });
            parcel.to = Some(self.me);
            self.exchange.put(group, parcel);
            return false;
        }
        self.counts.touch();
        let mut waiting = belongings.drain(..);
        for (old, new) in moved {
            // In the same order; those in between were dropped by the engine.
            let own = loop {
                match waiting.next() {
                    Some(own) if own.id == old => break Some(own),
                    Some(other) => self.context.rings.adopt(other.rings),
                    None => break None,
                }
            };
            let Some(own) = own else { break };
            let Belongings { id: _, rings, is_live, position, socket } = own;
            self.context.put(new, rings, is_live);
            self.service.set_position(new, position);
            if let Some(sockets) = self.sockets.as_mut() {
                match socket {
                    Some(socket) => {
                        sockets.settle_in(
                            Some(new),
                            socket,
                            &mut self.engine,
                            &mut self.context.rings,
                        );
                    }
                    None => sockets.take_unaccepted(new, &mut self.engine, &mut self.context.rings),
                }
            }
            if is_live {
                // It may have waited for a turn of the service there.
                self.events.push(tcp::Event::Writable { flow: new });
            }
        }
        waiting.for_each(|other| self.context.rings.adopt(other.rings));
        true
    }
}

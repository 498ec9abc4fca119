//! A packet's way: the dispatcher, a ring, a worker, and marks between them.

use base::{Nanos, WorkerId};

use super::app::NOBODY;
use super::flows::flow_hash;
use super::plant::{Event, PORT_RING, Plant};
use super::steering::Route;
use super::worker::{Doing, Packet, Worker};

impl Plant {
    pub(super) fn arrive(&mut self, index: u16, rate: u32) {
        let now = self.events.now();
        let costs = self.plan.costs;
        let level = self.plan.level;
        let app = &mut self.apps[usize::from(index)];
        if app.rate_number != rate {
            return;
        }
        let gap = app.gap();
        self.events.put(now + gap, Event::Arrive(index, rate));
        app.outcome.offered += 1;
        let mut cost = costs.dispatch.at(level);
        if self.dispatcher_free.since(now).0 > PORT_RING * cost.0.max(1) {
            app.outcome.dropped += 1;
            return;
        }
        let flow = app.lottery.draw();
        let work = Nanos(app.plan.service.sample(app.plan.service_mean.0, &mut app.work));
        if app.plan.system.flow_table().is_some() {
            cost += costs.flow_lookup.at(level);
            let known = &mut app.flows[flow as usize];
            if !known.is_listed && app.table_room > 0 {
                known.is_listed = true;
                app.table_room -= 1;
                cost += costs.flow_insert.at(level);
            } else if !known.is_listed {
                app.outcome.table_full += 1;
                cost += costs.flow_log.at(level);
            }
        }
        self.dispatcher_free = self.dispatcher_free.max(now) + cost;
        let packet = Packet { arrived: now, work, flow };
        self.events.put(self.dispatcher_free, Event::Dispatched(index, packet));
    }

    pub(super) fn dispatch(&mut self, index: u16, packet: Packet) {
        let now = self.events.now();
        let seed = self.seed;
        let app = &mut self.apps[usize::from(index)];
        let hash = flow_hash(packet.flow, seed);
        let route = app.steering.route(hash, now, &mut self.begun);
        self.mark_begun(index);
        let app = &mut self.apps[usize::from(index)];
        match route {
            Route::To(number) => self.deliver(index, number, packet),
            Route::Held(handover) => {
                app.outcome.held += 1;
                app.steering.hold(handover, packet);
                self.steer_soon(index);
            }
            Route::Shortest => {
                let workers = &self.workers[app.first..app.first + usize::from(app.plan.workers)];
                let ready = |worker: &&Worker| worker.has_core();
                let shortest =
                    workers.iter().filter(ready).min_by_key(|worker| worker.unfinished());
                let number = shortest.map_or(0, |worker| worker.number);
                self.deliver(index, number, packet);
            }
            Route::Nobody => app.outcome.dropped += 1,
        }
    }

    pub(super) fn deliver(&mut self, index: u16, number: u16, packet: Packet) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        let id = app.first + usize::from(number);
        let worker = &mut self.workers[id];
        if worker.ring.len() >= app.plan.ring {
            app.outcome.dropped += 1;
            return;
        }
        worker.put(packet);
        match worker.doing {
            Doing::Looking(since) if !worker.is_told => {
                worker.idle += now.since(since);
                self.begin(id as u16);
            }
            Doing::Parked => {
                self.cores.prefer(WorkerId(id as u16));
                self.tick_soon();
            }
            _ => self.tick_soon(),
        }
    }

    /// The worker takes its next packet.
    pub(super) fn begin(&mut self, id: u16) {
        let now = self.events.now();
        let mut cost = self.at(self.plan.costs.packet);
        let cold = self.at(self.plan.costs.cold);
        let worker = &mut self.workers[usize::from(id)];
        let Some(packet) = worker.take() else { return };
        worker.generation = worker.generation.wrapping_add(1);
        worker.doing = Doing::Working;
        worker.current = Some(packet);
        let number = worker.number;
        let app = &mut self.apps[usize::from(worker.app)];
        let flow = &mut app.flows[packet.flow as usize];
        if flow.worker != number && flow.worker != NOBODY {
            cost += cold;
            app.outcome.moved += 1;
        }
        flow.worker = number;
        app.outcome.reordered += u64::from(packet.arrived < flow.done);
        flow.done = flow.done.max(packet.arrived);
        self.events.put(now + cost + packet.work, Event::Done(id));
    }

    pub(super) fn done(&mut self, id: u16) {
        let now = self.events.now();
        let outside = self.at(self.plan.costs.outside);
        let worker = &mut self.workers[usize::from(id)];
        let index = worker.app;
        if let Some(packet) = worker.current.take() {
            let app = &mut self.apps[usize::from(index)];
            app.outcome.delivered += 1;
            app.outcome.latency.record(now.since(packet.arrived) + outside);
        }
        self.pass_marks(id);
        let worker = &mut self.workers[usize::from(id)];
        if worker.is_told {
            return self.park(id);
        }
        if worker.ring.is_empty() {
            self.look(id);
        } else {
            self.begin(id);
        }
    }

    /// The worker has nothing of its own to do.
    pub(super) fn look(&mut self, id: u16) {
        let now = self.events.now();
        if self.steal(id) {
            return;
        }
        let spin = self.at(self.plan.costs.spin);
        let worker = &mut self.workers[usize::from(id)];
        worker.generation = worker.generation.wrapping_add(1);
        worker.doing = Doing::Looking(now);
        self.events.put(now + spin, Event::Park(id, worker.generation));
    }

    /// Takes a packet of the fullest ring of its application.
    pub(super) fn steal(&mut self, id: u16) -> bool {
        let index = usize::from(self.workers[usize::from(id)].app);
        if !self.apps[index].plan.steals {
            return false;
        }
        let first = self.apps[index].first;
        let all = first..first + usize::from(self.apps[index].plan.workers);
        let fullest = all.max_by_key(|other| self.workers[*other].ring.len());
        let Some(packet) = fullest.and_then(|victim| self.workers[victim].take()) else {
            return false;
        };
        if let Some(victim) = fullest {
            self.pass_marks(victim as u16);
        }
        self.apps[index].outcome.stolen += 1;
        let work = packet.work + self.at(self.plan.costs.steal);
        let worker = &mut self.workers[usize::from(id)];
        worker.ring.push_front(Packet { work, ..packet });
        worker.progress.put = worker.progress.put.wrapping_add(1);
        self.begin(id);
        true
    }

    /// Marks that stand behind nothing any more: their hand-overs go on.
    pub(super) fn pass_marks(&mut self, id: u16) {
        loop {
            let worker = &mut self.workers[usize::from(id)];
            let begun = worker.progress.taken.wrapping_sub(u32::from(worker.current.is_some()));
            let Some(&(target, handover)) = worker.marks.front() else { return };
            // Counters wrap around: what is "not before" is less than half a turn away.
            if begun.wrapping_sub(target) > u32::MAX / 2 {
                return;
            }
            worker.marks.pop_front();
            let index = worker.app;
            let packets = self.apps[usize::from(index)].steering.passed(handover);
            for packet in packets {
                self.dispatch(index, packet);
            }
        }
    }

    /// Puts the marks of hand-overs that have begun behind what their old owners have to do.
    pub(super) fn mark_begun(&mut self, index: u16) {
        let first = self.apps[usize::from(index)].first;
        for begun in std::mem::take(&mut self.begun) {
            let id = first + usize::from(begun.from);
            let worker = &mut self.workers[id];
            worker.marks.push_back((worker.progress.put, begun.handover));
            self.pass_marks(id as u16);
        }
    }
}

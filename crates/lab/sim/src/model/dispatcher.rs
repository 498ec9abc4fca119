//! A packet's way to a worker: the dispatcher's port, its look, a ring or the list of a hand-over.

use base::{Nanos, WorkerId};

use super::flows::flow_hash;
use super::machine::{Event, Machine};
use super::steering::Route;
use super::worker::{Doing, Packet, Worker};

/// Packets that the dispatcher's port holds.
const PORT_RING: usize = 2048;
/// Packets that wait for hand-overs of one application, at most: `handover.hold_packets`.
const HOLD_PACKETS: usize = 2048;

/// A packet that the dispatcher has not looked at yet.
#[derive(Debug)]
pub(super) struct AtPort {
    pub(super) app: u16,
    /// What the look costs.
    cost: Nanos,
    packet: Packet,
}

impl Machine {
    #[inline]
    pub(super) fn arrive(&mut self, index: u16, rate: u32) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        if app.rate_number != rate {
            return;
        }
        self.packet_events += 1;
        let traced = app.take_traced();
        let gap = app.gap();
        app.arrived = now;
        if let Some(gap) = gap {
            self.events.put(now + gap, Event::Arrive(index, rate));
        }
        app.outcome.offered += 1;
        app.inside += 1;
        if self.port.len() >= PORT_RING {
            app.drop_one();
            return;
        }
        let (flow, work) = match traced {
            Some(packet) => (packet.flow, packet.work),
            None => {
                let work = app.plan.service.sample(app.plan.service_mean.0, &mut app.work);
                (app.lottery.draw(), Nanos(work))
            }
        };
        let costs = &self.plan.costs;
        let level = self.plan.level;
        let mut cost = costs.dispatch.at(level);
        let known = &mut app.flows[flow as usize];
        if app.has_flow_table {
            cost += costs.flow_lookup.at(level);
            if !known.is_listed && app.table_room > 0 {
                known.is_listed = true;
                app.table_room -= 1;
                cost += costs.flow_insert.at(level);
            } else if !known.is_listed {
                app.outcome.table_full += 1;
                cost += costs.flow_log.at(level);
            }
        }
        let wants_samples = app.wants_samples;
        let packet = Packet { arrived: now, work, flow, life: known.life, is_begun: false };
        self.port.push_back(AtPort { app: index, cost, packet });
        if self.port.len() == 1 {
            self.look_at_port();
        }
        if wants_samples {
            self.steer_soon(index);
        }
    }

    /// The dispatcher begins with the first packet at its port.
    fn look_at_port(&mut self) {
        let Some(first) = self.port.front() else { return };
        let begin = self.dispatcher_free.max(self.events.now());
        self.dispatcher_free = begin + first.cost;
        self.dispatcher_time += first.cost;
        self.events.put(self.dispatcher_free, Event::Dispatched);
    }

    #[inline]
    pub(super) fn dispatched(&mut self) {
        self.packet_events += 1;
        let Some(AtPort { app, packet, .. }) = self.port.pop_front() else { return };
        self.dispatch(app, packet);
        self.look_at_port();
    }

    pub(super) fn dispatch(&mut self, index: u16, packet: Packet) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        let hash = flow_hash(packet.flow, packet.life, self.seed);
        let route = app.steering.route(hash, now, &mut self.begun);
        if !self.begun.is_empty() {
            self.send_barriers(index);
        }
        let app = &mut self.apps[usize::from(index)];
        match route {
            Route::To(number) => self.deliver(index, number, packet),
            Route::Held(handover) => {
                if app.steering.waiting() >= HOLD_PACKETS {
                    app.drop_one();
                } else if app.steering.hold(handover, packet) {
                    app.outcome.held += 1;
                    self.steer_soon(index);
                } else {
                    // The old owner had nothing to do and has passed already.
                    self.dispatch(index, packet);
                }
            }
            Route::Shortest => {
                // Of all that are active, those included that are parked and called by this. A
                // packet is in its ring until its work is complete.
                let queued = |id: &&WorkerId| self.workers[app.first + id.index()].unfinished();
                match app.steering.active().iter().min_by_key(queued) {
                    Some(&WorkerId(shortest)) => self.deliver(index, shortest, packet),
                    None => app.drop_one(),
                }
            }
            Route::Any => self.deliver_any(index, packet),
            Route::Nobody => app.drop_one(),
        }
    }

    pub(super) fn deliver(&mut self, index: u16, number: u16, packet: Packet) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        let id = app.first + usize::from(number);
        let worker = &mut self.workers[id];
        if worker.ring.len() >= app.plan.ring {
            app.drop_one();
            return;
        }
        worker.put(packet);
        if matches!(worker.doing, Doing::Looking(_)) && !worker.is_told {
            self.begin(id as u16);
            return;
        }
        // Whoever has nothing to do and may steal sees it at once.
        let is_parked = worker.doing == Doing::Parked;
        let thief = if app.plan.steals { self.idle_worker(index) } else { None };
        if thief.is_some_and(|thief| self.steal(thief, now)) {
            return;
        }
        if is_parked {
            self.ring_doorbell(id as u16);
        } else {
            self.tick_soon();
        }
    }

    /// Into the one queue, or to a worker that has nothing to do.
    fn deliver_any(&mut self, index: u16, packet: Packet) {
        let app = &mut self.apps[usize::from(index)];
        if app.queue.len() >= app.plan.ring * usize::from(app.plan.workers) {
            app.drop_one();
            return;
        }
        app.queue.push_back(packet);
        app.queue_progress.put = app.queue_progress.put.wrapping_add(1);
        match self.idle_worker(index) {
            Some(idle) => {
                self.begin(idle);
            }
            None if self.apps[usize::from(index)].is_stuck() => {
                self.wait_for_core(self.apps[usize::from(index)].first as u16);
            }
            None => self.tick_soon(),
        }
    }

    /// A worker of the application that has a core and nothing to do.
    fn idle_worker(&self, index: u16) -> Option<u16> {
        let app = &self.apps[usize::from(index)];
        let is_idle =
            |worker: &Worker| matches!(worker.doing, Doing::Looking(_)) && !worker.is_told;
        let found = self.workers[app.workers()].iter().position(is_idle)?;
        Some((app.first + found) as u16)
    }

    /// A flow ends, and another one begins.
    pub(super) fn churn(&mut self, index: u16) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        let flow = app.lottery.draw_evenly();
        app.flows[flow as usize].replace();
        app.outcome.replaced_flows += 1;
        let gap = app.churn_gap();
        self.events.put(now + gap, Event::Churn(index));
    }
}

//! A packet in a worker's hands, and what stands behind it in the ring.

use base::Nanos;

use super::app::App;
use super::flows::NOBODY;
use super::machine::{Event, Machine};
use super::worker::{Doing, Packet};

/// The core of a worker that has none and works all the same: some CPU that is not given out.
const ELSEWHERE: u16 = NOBODY - 1;

impl Machine {
    /// The worker takes its next packet, if there is one.
    pub(super) fn begin(&mut self, id: u16) -> bool {
        let worker = &mut self.workers[usize::from(id)];
        let app = &mut self.apps[usize::from(worker.app)];
        // Without a core it does what nobody else can, and no more.
        let has_core = worker.has_core();
        let taken = worker.take().or_else(|| if has_core { take_any(app) } else { None });
        taken.map(|packet| self.start(id, packet, Nanos::ZERO)).is_some()
    }

    /// The worker has this packet in its hands now; `extra` is what that costs besides.
    fn start(&mut self, id: u16, packet: Packet, extra: Nanos) {
        let now = self.events.now();
        let (each, cold) = (self.at(self.plan.costs.packet), self.at(self.plan.costs.cold));
        let worker = &mut self.workers[usize::from(id)];
        let app = &mut self.apps[usize::from(worker.app)];
        let mut cost = extra;
        let flow = &mut app.flows[packet.flow as usize];
        if !packet.is_begun {
            cost += each;
        }
        if flow.life == packet.life {
            let core = worker.core.map_or(ELSEWHERE, |core| core.0);
            if flow.core != core && flow.core != NOBODY {
                cost += cold;
                app.outcome.cold_packets += 1;
            }
            if flow.worker != worker.number && flow.worker != NOBODY {
                app.outcome.moved_packets += 1;
                app.outcome.moved_flows += u64::from(flow.moved_in != self.step);
                flow.moved_in = self.step;
            }
            (flow.core, flow.worker) = (core, worker.number);
        }
        if worker.has_core() {
            worker.does(Doing::Working(now), now);
            worker.generation = worker.generation.wrapping_add(1);
        }
        worker.turn = worker.turn.wrapping_add(1);
        worker.done_at = now + cost + packet.work.min(app.plan.quantum);
        worker.current = Some(packet);
        self.events.put(worker.done_at, Event::Done(id, worker.turn));
    }

    #[inline]
    pub(super) fn done(&mut self, id: u16, turn: u32) {
        let worker = &mut self.workers[usize::from(id)];
        if worker.turn != turn {
            return;
        }
        self.packet_events += 1;
        let quantum = self.apps[usize::from(worker.app)].plan.quantum;
        if let Some(packet) = worker.current.take() {
            if packet.work > quantum && self.put_aside(id, packet) {
                return;
            }
            self.finish(id, packet);
        }
        self.pass_barriers(id);
        if self.workers[usize::from(id)].is_told {
            self.park(id);
        } else {
            self.go_on(id);
        }
    }

    /// The next packet, or, if there is none, a look for one with the core that it has.
    #[inline]
    pub(super) fn go_on(&mut self, id: u16) {
        if self.begin(id) {
        } else if self.workers[usize::from(id)].has_core() {
            self.look(id);
        } else {
            let now = self.events.now();
            self.workers[usize::from(id)].does(Doing::Parked, now);
            let app = &self.apps[usize::from(self.workers[usize::from(id)].app)];
            if app.is_stuck() {
                self.wait_for_core(app.first as u16);
            }
        }
    }

    fn finish(&mut self, id: u16, packet: Packet) {
        let now = self.events.now();
        let outside = self.at(self.plan.costs.outside);
        let app = &mut self.apps[usize::from(self.workers[usize::from(id)].app)];
        app.inside -= 1;
        app.outcome.delivered += 1;
        app.outcome.latency.record(now.since(packet.arrived) + outside);
        let flow = &mut app.flows[packet.flow as usize];
        if flow.life == packet.life {
            app.outcome.reordered += u64::from(packet.arrived < flow.done);
            flow.done = flow.done.max(packet.arrived);
        }
    }

    /// The packet has had its quantum. If others wait, it goes behind them; if not, the worker goes
    /// on with it.
    fn put_aside(&mut self, id: u16, packet: Packet) -> bool {
        let now = self.events.now();
        let switch = self.at(self.plan.costs.switch);
        let worker = &mut self.workers[usize::from(id)];
        let app = &mut self.apps[usize::from(worker.app)];
        let work = packet.work - app.plan.quantum;
        let rest = Packet { work, is_begun: true, ..packet };
        if worker.is_told {
            worker.untake(rest);
            self.park(id);
            return true;
        }
        if worker.ring.is_empty() && app.queue.is_empty() || !worker.has_core() {
            worker.turn = worker.turn.wrapping_add(1);
            worker.done_at = now + work.min(app.plan.quantum);
            worker.current = Some(rest);
            self.events.put(worker.done_at, Event::Done(id, worker.turn));
            return true;
        }
        if app.has_one_queue() {
            app.queue.push_back(rest);
            app.queue_progress.put = app.queue_progress.put.wrapping_add(1);
        } else {
            worker.put(rest);
        }
        if let Some(next) = worker.take().or_else(|| take_any(app)) {
            self.start(id, next, switch);
        }
        true
    }

    /// The worker has nothing of its own to do.
    pub(super) fn look(&mut self, id: u16) {
        let now = self.events.now();
        let worker = &mut self.workers[usize::from(id)];
        let spin = self.apps[usize::from(worker.app)].plan.spin;
        worker.generation = worker.generation.wrapping_add(1);
        let generation = worker.generation;
        worker.does(Doing::Looking(now), now);
        if !self.steal(id, now) && spin != Nanos::FAR_FUTURE {
            self.events.put(now + spin, Event::Park(id, generation));
        }
    }

    /// Takes the packet that has waited for longest in a ring of its application.
    pub(super) fn steal(&mut self, id: u16, now: Nanos) -> bool {
        let cost = self.at(self.plan.costs.steal);
        let app = &self.apps[usize::from(self.workers[usize::from(id)].app)];
        if !app.plan.steals {
            return false;
        }
        let waits = |other: &usize| !self.workers[*other].ring.is_empty();
        let longest = app.workers().filter(waits).max_by_key(|other| {
            let oldest = self.workers[*other].oldest(now);
            // Of equals the first, so that it is always the same.
            (oldest, usize::MAX - other)
        });
        let Some(victim) = longest else { return false };
        let Some(packet) = self.workers[victim].take() else { return false };
        self.apps[usize::from(self.workers[victim].app)].outcome.stolen += 1;
        self.start(id, packet, cost);
        self.pass_barriers(victim as u16);
        true
    }

    /// Barriers that stand behind nothing any more: their hand-overs go on. Who sleeps passes none:
    /// a barrier is a message in its ring, and who it is for has to take it.
    pub(super) fn pass_barriers(&mut self, id: u16) {
        loop {
            let worker = &mut self.workers[usize::from(id)];
            if matches!(worker.doing, Doing::Parked | Doing::Waking) {
                return;
            }
            let Some(&(target, handover)) = worker.barriers.front() else { return };
            let begun = worker.progress.taken.wrapping_sub(u32::from(worker.current.is_some()));
            // Counters wrap around: what is "not before" is less than half a turn away.
            if begun.wrapping_sub(target) > u32::MAX / 2 {
                return;
            }
            worker.barriers.pop_front();
            let index = worker.app;
            let now = self.events.now();
            for packet in self.apps[usize::from(index)].steering.passed(handover, now) {
                self.dispatch(index, packet);
            }
        }
    }

    /// Puts the barriers of hand-overs that have begun behind what their old owners have to do.
    pub(super) fn send_barriers(&mut self, index: u16) {
        let first = self.apps[usize::from(index)].first;
        for begun in std::mem::take(&mut self.begun) {
            let id = first + usize::from(begun.from);
            let worker = &mut self.workers[id];
            worker.barriers.push_back((worker.progress.put, begun.handover));
            if worker.doing == Doing::Parked {
                self.ring_doorbell(id as u16);
            } else {
                self.pass_barriers(id as u16);
            }
            self.watch_handover(index, begun.handover);
        }
    }
}

/// The next packet of the one queue.
#[inline]
fn take_any(app: &mut App) -> Option<Packet> {
    let packet = app.queue.pop_front()?;
    app.queue_progress.taken = app.queue_progress.taken.wrapping_add(1);
    Some(packet)
}

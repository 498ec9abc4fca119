//! `packing` over modelled workers: what it holds, what it moves, and that it comes to rest.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// Ticks for which a worker looks for work before it gives its core back.
const SPIN: u32 = 10;

#[derive(Default)]
struct Server {
    /// Arrival and what is left of each item.
    items: VecDeque<(Nanos, f64)>,
    put: u32,
    taken: u32,
    holds: bool,
    has_flows: bool,
    vain: u32,
}

/// An application whose packets come at random and are served at random, tick by tick.
struct Plant {
    harness: Harness,
    servers: Vec<Server>,
    state: u64,
    /// Workers that were given flows, and that gave them away.
    roused: u32,
    rested: u32,
    /// The workers with flows, whenever these have changed.
    history: Vec<(Nanos, BTreeSet<usize>)>,
}

impl Plant {
    fn new(cores: u16, workers: u16, seed: u64) -> Self {
        let mut harness = Harness::new("packing", cores);
        harness.app(terms(0, 0, workers), 0, workers);
        let server = || Server { has_flows: true, ..Server::default() };
        let servers = (0..workers).map(|_| server()).collect();
        Self { harness, servers, state: seed | 1, roused: 0, rested: 0, history: Vec::new() }
    }

    /// Evenly between 0 and 1.
    fn draw(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.draw()).ln()
    }

    fn spread(&self) -> BTreeSet<usize> {
        (0..self.servers.len()).filter(|&at| self.servers[at].has_flows).collect()
    }

    /// Ticks at a load in cores, of items that take `service` ticks each.
    fn run(&mut self, ticks: u32, load: f64, service: f64) {
        for _ in 0..ticks {
            self.arrive(load / service, service);
            self.serve();
            self.control();
            let spread = self.spread();
            if self.history.last().is_none_or(|(_, last)| *last != spread) {
                self.history.push((self.harness.now, spread));
            }
        }
    }

    fn arrive(&mut self, each_tick: f64, service: f64) {
        let open: Vec<usize> = self.spread().into_iter().collect();
        let mut at = self.exponential() / each_tick;
        while at < 1.0 {
            let to = open[(self.draw() * open.len() as f64) as usize];
            let item = (self.harness.now, service * self.exponential());
            self.servers[to].items.push_back(item);
            self.servers[to].put = self.servers[to].put.wrapping_add(1);
            at += self.exponential() / each_tick;
        }
    }

    fn serve(&mut self) {
        let Self { servers, harness, .. } = self;
        for (id, server) in servers.iter_mut().enumerate().filter(|(_, server)| server.holds) {
            let mut left = 1.0;
            while left > 0.0
                && let Some((_, work)) = server.items.front_mut()
            {
                let done = f64::min(left, *work);
                (left, *work) = (left - done, *work - done);
                if *work <= 0.0 {
                    server.items.pop_front();
                    server.taken = server.taken.wrapping_add(1);
                }
            }
            server.vain = if server.items.is_empty() { server.vain + 1 } else { 0 };
            if server.vain > SPIN {
                (server.holds, server.vain) = (false, 0);
                harness.park(id as u16);
            }
        }
    }

    fn control(&mut self) {
        let now = self.harness.now + TICK;
        let sample = |(id, server): (usize, &Server)| {
            let oldest = server.items.front().map_or(Nanos::ZERO, |(came, _)| now.since(*came));
            BusyWorker { oldest, ..busy(id as u16, server.put, server.taken) }
        };
        let holders = self.servers.iter().enumerate().filter(|(_, server)| server.holds);
        let busy: Vec<BusyWorker> = holders.map(sample).collect();
        let waits = |server: &Server| !server.holds && !server.items.is_empty();
        let mut waiting = Vec::new();
        for id in (0..self.servers.len()).filter(|&id| waits(&self.servers[id])) {
            self.harness.control.prefer(WorkerId(id as u16));
            waiting.push(0);
        }
        let plan = self.harness.tick(&busy, &waiting).clone();
        for grant in &plan.grants {
            let server = &mut self.servers[grant.worker.index()];
            self.roused += u32::from(!server.has_flows);
            (server.holds, server.has_flows) = (true, true);
        }
        for told in &plan.parks {
            self.harness.park(told.worker.0);
            self.lay_down(told.worker);
        }
        plan.rests.iter().for_each(|&worker| self.lay_down(worker));
    }

    /// What is in its queue goes to the others with its flows.
    fn lay_down(&mut self, worker: WorkerId) {
        let gone = &mut self.servers[worker.index()];
        (gone.holds, gone.has_flows) = (false, false);
        gone.taken = gone.put;
        let left = std::mem::take(&mut gone.items);
        let heir = self.servers.iter_mut().find(|server| server.has_flows);
        let heir = heir.expect("one worker always has flows");
        heir.put = heir.put.wrapping_add(left.len() as u32);
        heir.items.extend(left);
        self.rested += 1;
        self.harness.control.rested(worker);
    }
}

/// Ticks in this many milliseconds.
fn millis(millis: u32) -> u32 {
    millis * 200
}

#[test]
fn a_light_load_of_many_workers_ends_on_one_of_them_at_once_and_stays() {
    let mut plant = Plant::new(8, 8, 1);
    plant.run(millis(200), 0.1, 0.4);
    assert_eq!(plant.spread().len(), 1, "{:?}", plant.history);
    // Seven had never had a packet to speak of: nothing moves twice.
    assert_eq!((plant.rested, plant.roused), (7, 0), "{:?}", plant.history);
}

#[test]
fn a_load_that_falls_leaves_as_many_as_it_takes_in_one_step() {
    let mut plant = Plant::new(8, 8, 2);
    plant.run(millis(100), 4.5, 0.4);
    assert!(plant.spread().len() >= 6, "{:?}", plant.history);
    let before = plant.rested;
    let changes = plant.history.len();
    plant.run(millis(400), 0.3, 0.4);
    assert_eq!(plant.spread().len(), 1, "{:?}", plant.history);
    let steps = &plant.history[changes - 1..];
    // Perhaps the last look still had some of the load before in it; one by one it never goes.
    assert!(steps.len() <= 3, "{steps:?}");
    assert!(plant.rested - before <= 8, "{steps:?}");
    for pair in steps.windows(2) {
        assert!(pair[1].1.is_subset(&pair[0].1), "one that stays keeps its flows: {pair:?}");
    }
}

#[test]
fn a_load_that_jumps_gets_its_cores_within_milliseconds() {
    let mut plant = Plant::new(8, 8, 3);
    plant.run(millis(50), 0.2, 0.4);
    assert_eq!(plant.spread().len(), 1);
    plant.run(millis(5), 4.0, 0.4);
    assert!(plant.spread().len() >= 5, "{:?}", plant.history);
}

#[test]
fn a_worker_that_holds_a_core_and_lies_about_its_queue_gets_no_more_than_its_burst() {
    let mut harness = Harness::new("packing", 4);
    harness.app(terms(0, 0, 2), 0, 4);
    harness.start(0, 1);
    for turn in 1..20_000_u32 {
        let lie = |id: u16| BusyWorker {
            oldest: Nanos(u64::MAX / 2),
            ..busy(id, turn.wrapping_mul(0x9e37_79b9), turn.wrapping_mul(77))
        };
        let held: Vec<u16> = (0..4).filter_map(|core| harness.holder(core)).collect();
        let samples: Vec<BusyWorker> = held.into_iter().map(lie).collect();
        let told: Vec<u16> =
            harness.tick(&samples, &[]).parks.iter().map(|hold| hold.worker.0).collect();
        told.into_iter().for_each(|worker| drop(harness.park(worker).clone()));
        assert!(harness.cores(0) <= 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn under_a_load_that_stays_it_comes_to_rest_with_enough(
        load in 0.02..6.0_f64,
        service in 0.1..4.0_f64,
        seed in any::<u64>(),
    ) {
        let mut plant = Plant::new(10, 10, seed);
        plant.run(millis(100), load, service);
        let settled = plant.history.len() - 1;
        plant.run(millis(500), load, service);
        let sizes: Vec<usize> = plant.history[settled..].iter().map(|(_, all)| all.len()).collect();
        let turns = sizes.windows(3).filter(|three| three[0] > three[1] && three[1] < three[2]);
        // Between two that are taken back lie 20 ms, then 40, 80, 160, 320.
        let turns = turns.count();
        prop_assert!(turns <= 5, "{} turns: {:?}", turns, plant.history);
        let spread = plant.spread().len() as f64;
        prop_assert!(spread >= load / 0.95, "{} for {}: {:?}", spread, load, plant.history);
        let waiting: usize = plant.servers.iter().map(|server| server.items.len()).sum();
        prop_assert!(waiting < 2_000, "{} wait", waiting);
    }

    #[test]
    fn who_stays_is_never_told_and_no_more_workers_change_than_must(
        loads in proptest::collection::vec(0.05..6.0_f64, 2..5),
        seed in any::<u64>(),
    ) {
        let mut plant = Plant::new(10, 10, seed);
        for load in loads {
            plant.run(millis(120), load, 0.5);
        }
        // From one set of workers to the next: either some come or some go, never an exchange, in
        // which flows would move that could have stayed.
        for pair in plant.history.windows(2) {
            let (before, after) = (&pair[0].1, &pair[1].1);
            prop_assert!(before.is_subset(after) || after.is_subset(before), "{:?}", pair);
        }
    }
}

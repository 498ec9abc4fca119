//! Shards against a server that answers in virtual time: every stall and fault is exact.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::Nanos;

use crate::*;

/// Time, moved by the test.
#[derive(Clone, Default)]
struct Time(Rc<Cell<u64>>);

impl Time {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }

    fn set(&self, now: Nanos) {
        self.0.set(now.0);
    }
}

/// What the server, or the way to it, does to a request.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Drop,
    Duplicate,
    /// The reply takes this much longer.
    Delay(Nanos),
    /// A bit of the reply is flipped.
    Damage,
    /// The reply comes on the next flow.
    OtherFlow,
}

/// Flow and payload, by arrival at the client, then by number.
type Replies = BTreeMap<(Nanos, u64), (u32, Vec<u8>)>;

/// A server that works on one request after the other, for `service` each.
struct FakeServer {
    time: Time,
    service: Nanos,
    /// Works on nothing between these.
    stall: (Nanos, Nanos),
    free_at: Nanos,
    /// How long each call of `send` takes the sender; once, at this time, and always.
    send_stall: Option<(Nanos, Nanos)>,
    send_cost: Nanos,
    faults: BTreeMap<u64, Fault>,
    replies: Rc<RefCell<Replies>>,
    number: u64,
    in_flight_max: usize,
    /// The seed that it began with.
    seed: Option<u64>,
}

impl FakeServer {
    fn new(time: &Time) -> Self {
        Self {
            time: time.clone(),
            service: Nanos::from_micros(10),
            stall: (Nanos::FAR_FUTURE, Nanos::FAR_FUTURE),
            free_at: Nanos::ZERO,
            send_stall: None,
            send_cost: Nanos::ZERO,
            faults: BTreeMap::new(),
            replies: Rc::default(),
            number: 0,
            in_flight_max: 0,
            seed: None,
        }
    }

    fn answer(&mut self, at: Nanos, flow: u32, payload: &[u8]) {
        self.number += 1;
        self.replies.borrow_mut().insert((at, self.number), (flow, payload.to_vec()));
    }
}

impl Transport for FakeServer {
    fn begin(&mut self, seed: u64) {
        self.seed = Some(seed);
    }

    fn group(&self, requests: &[Request]) -> usize {
        requests.len()
    }

    fn send(&mut self, requests: &[Request]) -> usize {
        for request in requests {
            let now = self.time.now();
            let mut begin = now.max(self.free_at);
            if begin >= self.stall.0 && begin < self.stall.1 {
                begin = self.stall.1;
            }
            self.free_at = begin + self.service;
            let mut payload = vec![0; 32];
            request.write(&mut payload);
            let at = self.free_at;
            match self.faults.get(&request.index).copied() {
                None => self.answer(at, request.flow, &payload),
                Some(Fault::Drop) => {}
                Some(Fault::Duplicate) => {
                    self.answer(at, request.flow, &payload);
                    self.answer(at, request.flow, &payload);
                }
                Some(Fault::Delay(delay)) => self.answer(at + delay, request.flow, &payload),
                Some(Fault::Damage) => {
                    payload[20] ^= 1;
                    self.answer(at, request.flow, &payload);
                }
                Some(Fault::OtherFlow) => self.answer(at, request.flow + 1, &payload),
            }
            self.in_flight_max = self.in_flight_max.max(self.replies.borrow().len());
        }
        let now = self.time.now();
        let stall = match self.send_stall {
            Some((when, length)) if now >= when => {
                self.send_stall = None;
                length
            }
            _ => Nanos::ZERO,
        };
        self.time.set(now + self.send_cost + stall);
        requests.len()
    }

    fn receive(&mut self, mut sink: impl FnMut(&Reply<'_>)) -> usize {
        let now = self.time.now();
        let mut count = 0;
        while let Some(entry) = self.replies.borrow_mut().first_entry()
            && entry.key().0 <= now
        {
            let (flow, payload) = entry.remove();
            sink(&Reply { flow: Some(flow), answer: Answer::Copy(&payload), at: None });
            count += 1;
        }
        count
    }

    fn wait(&mut self, _: Nanos) {}

    fn counters(&self) -> TransportCounters {
        TransportCounters::default()
    }

    fn describe(&self) -> String {
        "a server in virtual time".to_owned()
    }
}

/// Turns the shard until nothing is due and nothing is under way.
fn finish(shard: &mut Shard<FakeServer>, time: &Time) {
    loop {
        let turn = shard.turn(&|| time.now());
        let replies = Rc::clone(&shard.transport().replies);
        let next_reply = replies.borrow().keys().next().map_or(Nanos::FAR_FUTURE, |key| key.0);
        if turn.moved {
            continue;
        }
        match turn.next_due.min(next_reply) {
            Nanos::FAR_FUTURE => return,
            // Something is due that waits for a give-up: time passes in small steps.
            next => time.set(next.max(time.now() + Nanos::from_micros(1))),
        }
    }
}

fn open_plan(rate: f64) -> Plan {
    Plan {
        pace: Pace::Open { arrival: Arrival::Constant, rate },
        flows: 4,
        flow_order: FlowOrder::RoundRobin,
        payload_bytes: 32,
        length: Nanos::from_secs(1),
        ..Plan::default()
    }
}

fn shard(plan: &Plan, server: FakeServer) -> Shard<FakeServer> {
    Shard::new(plan, ShardCount::ALONE, server, Nanos::ZERO)
}

fn stats(shard: &Shard<FakeServer>) -> &Stats {
    shard.stats().expect("it was not split")
}

fn millis(latency: Nanos) -> f64 {
    latency.as_micros_f64() / 1e3
}

#[test]
fn a_stall_of_the_server_is_seen_by_every_request_that_fell_into_it() {
    let time = Time::default();
    let mut server = FakeServer::new(&time);
    server.stall = (Nanos::from_millis(500), Nanos::from_millis(600));
    let mut shard = shard(&open_plan(1000.0), server);
    finish(&mut shard, &time);
    let found = stats(&shard);
    assert_eq!(found.counts().received, 1000);
    // 100 of 1000 wait between 0 and 100 ms: the 90th percentile is at its edge, 95% at its middle.
    for latencies in [found.from_intended(), found.from_sent()] {
        assert!(millis(latencies.quantile(0.89)) < 0.1);
        assert!((49.0..52.0).contains(&millis(latencies.quantile(0.95))));
        assert!((99.0..101.0).contains(&millis(latencies.quantile(1.0))));
    }
    assert_eq!(shard.send_counts().map(|counts| counts.late), Some(0));
}

#[test]
fn a_stall_of_the_generator_counts_from_the_intended_time_so_nothing_is_omitted() {
    let time = Time::default();
    let mut server = FakeServer::new(&time);
    server.send_stall = Some((Nanos::from_millis(500), Nanos::from_millis(100)));
    let mut shard = shard(&open_plan(1000.0), server);
    finish(&mut shard, &time);
    let found = stats(&shard);
    let counts = shard.send_counts().expect("it sends");
    assert_eq!((counts.sent, counts.never_sent, found.counts().received), (1000, 0, 1000));
    assert!((99..=101).contains(&counts.late), "{}", counts.late);
    assert!((49.0..52.0).contains(&millis(found.from_intended().quantile(0.95))));
    assert!((49.0..52.0).contains(&millis(counts.delay.quantile(0.95))));
    // What coordinated omission looks like: from the moment of sending all but the one that was
    // under way during the stall look fast.
    assert!(millis(found.from_sent().quantile(0.95)) < 2.0);
}

#[test]
fn what_a_slow_generator_does_not_get_to_is_counted_as_never_sent() {
    let time = Time::default();
    let mut server = FakeServer::new(&time);
    server.send_cost = Nanos::from_millis(100);
    let mut shard = shard(&open_plan(10_000.0), server);
    finish(&mut shard, &time);
    let counts = shard.send_counts().expect("it sends");
    // Ten calls fit, and a call takes at most a batch.
    assert!(counts.sent > 0 && counts.sent <= 11 * 64, "{}", counts.sent);
    assert_eq!(counts.sent + counts.never_sent, 10_000);
    assert_eq!(stats(&shard).counts().received, counts.sent);
}

#[test]
fn the_warmup_is_sent_and_not_measured() {
    let time = Time::default();
    let mut server = FakeServer::new(&time);
    server.stall = (Nanos::ZERO, Nanos::from_millis(100));
    let warmup = Nanos::from_millis(200);
    let mut shard = shard(&Plan { warmup, ..open_plan(1000.0) }, server);
    finish(&mut shard, &time);
    let found = stats(&shard);
    assert_eq!((found.counts().received_ever, found.counts().received), (1200, 1000));
    assert!(millis(found.from_intended().quantile(1.0)) < 0.1);
    assert_eq!(shard.send_counts().map(|counts| counts.sent), Some(1000));
}

#[test]
fn a_shard_that_begins_keeps_its_memory_and_measures_from_its_new_start() {
    let time = Time::default();
    let warmup = Nanos::from_millis(200);
    let plan = Plan { warmup, ..open_plan(1000.0) };
    let mut shard = Shard::new(&plan, ShardCount::ALONE, FakeServer::new(&time), Nanos::FAR_FUTURE);
    let before = stats(&shard).address();
    shard.begin(&plan, ShardCount::ALONE, Nanos::from_millis(70));
    assert_eq!(stats(&shard).address(), before);
    finish(&mut shard, &time);
    let counts = stats(&shard).counts();
    assert_eq!((counts.received_ever, counts.received), (1200, 1000));
}

#[test]
fn every_shard_of_every_client_begins_with_a_seed_of_its_own_and_the_first_with_that_of_a_lone_run()
{
    let plan = Plan { seed: 5, ..open_plan(1000.0) };
    let seed = |client: u32, number: u32| {
        let count = ShardCount { shard: number, shards: 2 };
        let server = FakeServer::new(&Time::default());
        let mut shard = Shard::new(&plan, count, server, Nanos::FAR_FUTURE);
        shard.begin(&plan.of_client(client), count, Nanos::ZERO);
        shard.transport().seed.expect("it has begun")
    };
    let clients = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)];
    let seeds: BTreeSet<_> = clients.iter().map(|(client, shard)| seed(*client, *shard)).collect();
    assert_eq!(seeds.len(), clients.len());
    assert_eq!(seed(0, 1), ShardCount { shard: 1, shards: 2 }.seed(5));
}

#[test]
fn each_fault_moves_its_own_counter_and_no_other() {
    // Four flows in turn, 1 ms apart: the next request of the same flow is 4 ms later.
    for (fault, expected) in [
        (Fault::Drop, stats::Counts { received: 999, received_ever: 999, ..Default::default() }),
        (Fault::Duplicate, stats::Counts { duplicates: 1, ..all() }),
        (Fault::Delay(Nanos::from_millis(3)), all()),
        (Fault::Delay(Nanos::from_millis(5)), stats::Counts { reordered: 1, ..all() }),
        (Fault::Damage, stats::Counts { corrupted: 1, received: 999, received_ever: 999, ..all() }),
        (
            Fault::OtherFlow,
            stats::Counts { corrupted: 1, received: 999, received_ever: 999, ..all() },
        ),
    ] {
        let time = Time::default();
        let mut server = FakeServer::new(&time);
        server.faults.insert(100, fault);
        let mut shard = shard(&open_plan(1000.0), server);
        finish(&mut shard, &time);
        assert_eq!(*stats(&shard).counts(), expected);
        assert_eq!(shard.send_counts().map(|counts| counts.sent), Some(1000));
    }
}

fn all() -> stats::Counts {
    stats::Counts { received: 1000, received_ever: 1000, ..Default::default() }
}

fn closed_plan(outstanding: u32) -> Plan {
    let pace = Pace::Closed { outstanding };
    Plan { pace, grace: Nanos::from_millis(20), ..open_plan(1.0) }
}

#[test]
fn a_closed_loop_keeps_so_many_in_flight_and_is_as_fast_as_the_server() {
    for outstanding in [1, 16] {
        let time = Time::default();
        let mut shard = shard(&closed_plan(outstanding), FakeServer::new(&time));
        finish(&mut shard, &time);
        // 10 us each: 100,000 a second, one after the other.
        let received = stats(&shard).counts().received;
        assert!((99_900..=100_100).contains(&received), "{outstanding}: {received}");
        assert_eq!(shard.transport_mut().in_flight_max, outstanding as usize);
        assert_eq!(shard.send_counts().map(|counts| counts.sent), Some(received));
        let expected = f64::from(outstanding) * 0.01;
        let median = millis(stats(&shard).from_sent().quantile(0.5));
        assert!((median / expected - 1.0).abs() < 0.01, "{median}");
    }
}

#[test]
fn a_closed_loop_gives_a_lost_request_up_and_goes_on() {
    let time = Time::default();
    let mut server = FakeServer::new(&time);
    server.faults.insert(10, Fault::Drop);
    server.faults.insert(20, Fault::Delay(Nanos::from_millis(50)));
    let mut shard = shard(&closed_plan(1), server);
    finish(&mut shard, &time);
    let counts = *stats(&shard).counts();
    let sent = shard.send_counts().expect("it sends").sent;
    assert_eq!(sent - counts.received, 2, "one lost, one given up");
    assert_eq!(counts.expired, 1, "the late reply is no answer any more");
    // Two pauses of 20 ms cost 4000 requests of 10 us.
    assert!((95_500..96_500).contains(&sent), "{sent}");
    assert_eq!(shard.transport_mut().in_flight_max, 2, "the late reply and the next one");
}

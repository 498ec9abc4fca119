//! Who gets a core, who loses one, and what no sample can bring about.

mod cost;
mod history;
mod packing;
mod rules;

use base::{Nanos, WorkerId};

use super::*;

/// A control over this many cores, and the plan of its last call.
struct Harness {
    control: CoresControl,
    plan: CoresPlan,
    now: Nanos,
}

const TICK: Nanos = Nanos::from_micros(5);

fn terms(id: u16, guaranteed: u16, burst: u16) -> AppTerms {
    AppTerms { id: AppId(id), guaranteed, burst, class: Class::Latency, queue_delay: Nanos::ZERO }
}

fn batch(id: u16, burst: u16) -> AppTerms {
    AppTerms { class: Class::Batch, ..terms(id, 0, burst) }
}

fn hold(worker: u16, core: u16) -> Hold {
    Hold { worker: WorkerId(worker), core: CoreId(core) }
}

/// A worker in front of which something stands still, after its first sample.
fn busy(worker: u16, put: u32, taken: u32) -> BusyWorker {
    let packets = Progress { put, taken };
    let id = WorkerId(worker);
    BusyWorker { id, packets, tasks: Progress::default(), oldest: Nanos::ZERO, idle: Nanos::ZERO }
}

impl Harness {
    fn new(policy: &str, cores: u16) -> Self {
        let cores: Vec<CoreId> = (0..cores).map(CoreId).collect();
        let policy = by_name(policy).expect("the test names a policy that exists");
        let control = CoresControl::new(CoresConfig::default(), policy, &cores);
        let control = control.expect("each core once");
        Self { control, plan: CoresPlan::default(), now: Nanos::ZERO }
    }

    /// Workers `first..first + count`.
    fn app(&mut self, terms: AppTerms, first: u16, count: u16) {
        let workers: Vec<WorkerId> = (first..first + count).map(WorkerId).collect();
        self.control.add_app(terms, &workers).expect("the test's terms are possible");
    }

    fn tick(&mut self, busy: &[BusyWorker], waiting: &[u16]) -> &CoresPlan {
        self.now += TICK;
        let waiting = waiting.iter().copied().map(AppId).collect();
        let cost = Nanos::ZERO;
        let sample = CoresSample { now: self.now, cost, busy: busy.to_vec(), waiting };
        self.control.tick(&sample, &mut self.plan);
        &self.plan
    }

    /// Each of these applications is given a core, a tick each until it has `count`.
    fn start(&mut self, app: u16, count: usize) {
        while self.cores(app) < count {
            let before = self.cores(app);
            self.tick(&[], &[app]);
            assert!(self.cores(app) > before, "no core for application {app}");
        }
    }

    fn park(&mut self, worker: u16) -> &CoresPlan {
        assert!(self.control.parked(WorkerId(worker), self.now, &mut self.plan), "it held a core");
        &self.plan
    }

    fn cores(&self, app: u16) -> usize {
        self.control.table().app(AppId(app)).map_or(0, App::cores)
    }

    fn holder(&self, core: u16) -> Option<u16> {
        self.control.table().cores()[usize::from(core)].holder.map(|worker| worker.0)
    }
}

#[test]
fn an_unknown_policy_is_answered_with_the_one_that_was_meant() {
    let error = by_name("queue_dealy").err().expect("no such policy").to_string();
    assert!(error.contains("no core policy") && error.contains("did you mean \"queue_delay\""));
    for (name, _) in NAMES {
        assert_eq!(by_name(name).expect("listed").name(), name);
    }
}

#[test]
fn terms_that_cannot_be_kept_are_refused_and_change_nothing() {
    let mut harness = Harness::new("queue_delay", 4);
    let all = |first: u16, count: u16| (first..first + count).map(WorkerId).collect::<Vec<_>>();
    let mut add = |terms, workers: &[WorkerId]| harness.control.add_app(terms, workers);
    assert_eq!(add(terms(0, 3, 4), &all(0, 4)), Ok(()));
    assert_eq!(add(terms(0, 0, 1), &all(9, 1)), Err(CoresRefused::AppTaken(AppId(0))));
    assert_eq!(add(terms(1, 2, 1), &all(9, 2)), Err(CoresRefused::Burst(AppId(1))));
    let few = CoresRefused::FewWorkers { app: AppId(1), workers: 0, guaranteed: 1 };
    assert_eq!(add(terms(1, 1, 1), &[]), Err(few));
    let much = CoresRefused::Guarantees { wanted: 2, left: 1 };
    assert_eq!(add(terms(1, 2, 2), &all(9, 2)), Err(much));
    let greedy = AppTerms { class: Class::Batch, ..terms(1, 1, 1) };
    assert_eq!(add(greedy, &all(9, 1)), Err(CoresRefused::BatchGuarantee(AppId(1))));
    assert_eq!(add(terms(1, 0, 1), &all(3, 1)), Err(CoresRefused::Worker(WorkerId(3))));
    let twice = [WorkerId(9), WorkerId(9)];
    assert_eq!(add(terms(1, 0, 1), &twice), Err(CoresRefused::Worker(WorkerId(9))));
    let beyond = [WorkerId(WorkerId::LIMIT)];
    assert_eq!(add(terms(1, 0, 1), &beyond), Err(CoresRefused::Worker(beyond[0])));
    assert_eq!(add(terms(4096, 0, 1), &all(9, 1)), Err(CoresRefused::AppId(AppId(4096))));
    assert_eq!(add(terms(1, 1, 1), &all(9, 1)), Ok(()));
    let policy = || by_name("queue_delay").expect("listed");
    for cores in [&[][..], &[CoreId(1), CoreId(1)]] {
        let refused = CoresControl::new(CoresConfig::default(), policy(), cores).err();
        assert_eq!(refused, Some(CoresRefused::CoreSet(cores.len())));
    }
}

#[test]
fn a_worker_returns_to_the_core_that_it_ran_on() {
    let mut harness = Harness::new("queue_delay", 4);
    harness.app(terms(0, 2, 4), 0, 4);
    harness.app(terms(1, 0, 4), 10, 4);
    harness.start(0, 3);
    harness.park(1);
    harness.park(0);
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(0, 0)], "its cache is warm there");
    assert_eq!(harness.tick(&[], &[1]).grants, [hold(10, 3)], "idle for longest");
    assert_eq!(harness.tick(&[], &[1]).grants, [hold(11, 1)]);
    harness.park(2);
    let plan = harness.tick(&[], &[0]).clone();
    assert_eq!(plan.grants, [hold(2, 2)], "its own core and not the one that 1 had");
}

#[test]
fn a_core_that_somebody_else_ran_on_since_is_not_warm() {
    let mut harness = Harness::new("queue_delay", 3);
    harness.app(terms(0, 0, 3), 0, 2);
    harness.app(terms(1, 0, 3), 10, 2);
    harness.start(0, 1);
    harness.park(0);
    // Cores 1, 2 and then 0 are idle; application 1 takes two of them and gives 0 up again.
    for _ in 0..3 {
        harness.tick(&[], &[1]);
    }
    assert_eq!((harness.holder(1), harness.holder(2)), (Some(10), Some(11)));
    harness.park(10);
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(0, 0)]);
}

#[test]
fn a_guarantee_takes_a_batch_core_first_and_then_one_that_is_burst_on() {
    let mut harness = Harness::new("queue_delay", 3);
    harness.app(terms(0, 1, 3), 0, 3);
    harness.app(batch(1, 3), 10, 3);
    harness.app(terms(2, 2, 2), 20, 2);
    harness.start(0, 2);
    harness.start(1, 1);
    let plan = harness.tick(&[], &[2]).clone();
    assert_eq!((plan.grants, plan.revokes), (vec![], vec![hold(10, 2)]));
    assert_eq!(harness.tick(&[], &[2]).revokes, [], "one core on its way at a time");
    assert_eq!(harness.park(10).grants, [hold(20, 2)], "at once, not at the next tick");
    assert_eq!(harness.tick(&[], &[2]).revokes, [hold(1, 1)], "the latest of application 0");
    assert_eq!(harness.park(1).grants, [hold(21, 1)]);
    assert!(harness.tick(&[], &[0]).is_empty(), "beyond its guarantee it takes from nobody");
}

#[test]
fn a_batch_job_gives_way_to_anybody_and_takes_from_nobody() {
    let mut harness = Harness::new("queue_delay", 2);
    harness.app(terms(0, 0, 2), 0, 2);
    harness.app(batch(1, 2), 10, 2);
    harness.start(1, 2);
    assert_eq!(harness.tick(&[], &[0, 1]).revokes, [hold(11, 1)]);
    assert_eq!(harness.park(11).grants, [hold(0, 1)]);
    assert_eq!(harness.tick(&[], &[0, 1]).revokes, [hold(10, 0)]);
    assert_eq!(harness.park(10).grants, [hold(1, 0)]);
    assert!(harness.tick(&[], &[1]).is_empty());
    assert_eq!(harness.park(0).grants, [hold(10, 1)], "what is left goes to it at once");
}

#[test]
fn a_worker_that_does_not_park_in_time_is_moved_and_told_again() {
    let mut harness = Harness::new("queue_delay", 1);
    harness.app(batch(0, 1), 0, 1);
    harness.app(terms(1, 1, 1), 1, 1);
    harness.start(0, 1);
    assert_eq!(harness.tick(&[], &[1]).revokes, [hold(0, 0)]);
    let mut taken = Vec::new();
    for tick in 1..=50 {
        if !harness.tick(&[], &[1]).takes.is_empty() {
            taken.push(tick);
            assert_eq!(harness.plan.takes, [hold(0, 0)]);
        }
    }
    // 100 us are 20 ticks.
    assert_eq!(taken, [20, 40]);
    assert_eq!(harness.holder(0), Some(0), "until the shell says so");
    assert_eq!(harness.park(0).grants, [hold(1, 0)]);
}

#[test]
fn a_dead_worker_frees_its_core_and_a_dead_application_all_of_them() {
    let mut harness = Harness::new("queue_delay", 2);
    harness.app(terms(0, 0, 2), 0, 3);
    harness.app(terms(1, 0, 2), 10, 2);
    harness.start(0, 2);
    harness.tick(&[], &[1]);
    harness.control.worker_gone(WorkerId(0), harness.now, &mut harness.plan);
    assert_eq!(harness.plan.grants, [hold(10, 0)], "who waits gets it at once");
    harness.tick(&[], &[1]);
    harness.control.remove_app(AppId(0), harness.now, &mut harness.plan);
    assert_eq!(harness.plan.grants, [hold(11, 1)]);
    assert_eq!(harness.cores(0), 0);
    harness.app(terms(0, 0, 1), 0, 1);
    harness.control.worker_gone(WorkerId(12), harness.now, &mut harness.plan);
    assert!(harness.plan.is_empty(), "the death of a stranger changes nothing");
}

#[test]
fn a_core_does_not_go_to_a_worker_that_died_on_the_way_to_it() {
    let mut harness = Harness::new("queue_delay", 1);
    harness.app(batch(0, 1), 0, 1);
    harness.app(terms(1, 1, 1), 1, 2);
    harness.start(0, 1);
    assert_eq!(harness.tick(&[], &[1]).revokes, [hold(0, 0)]);
    harness.control.worker_gone(WorkerId(1), harness.now, &mut harness.plan);
    assert_eq!(harness.cores(1), 0);
    assert!(harness.tick(&[], &[1]).is_empty(), "the core is being given up already");
    assert_eq!(harness.park(0).grants, [hold(2, 0)]);
}

#[test]
fn who_got_nothing_for_longest_comes_first() {
    let mut harness = Harness::new("queue_delay", 1);
    for app in 0..3 {
        harness.app(terms(app, 0, 1), 10 * app, 1);
    }
    harness.start(0, 1);
    harness.tick(&[], &[2]);
    harness.tick(&[], &[1, 2]);
    assert_eq!(harness.park(0).grants, [hold(20, 0)]);
    harness.tick(&[], &[0, 1]);
    assert_eq!(harness.park(20).grants, [hold(10, 0)]);
}

#[test]
fn who_gives_a_core_back_is_not_given_it_again_for_what_it_asked_before() {
    let mut harness = Harness::new("queue_delay", 1);
    harness.app(terms(0, 0, 2), 0, 2);
    harness.start(0, 1);
    assert!(harness.tick(&[], &[0]).is_empty(), "there is none");
    assert!(harness.park(0).is_empty(), "it has just said that it needs none");
    assert_eq!(harness.tick(&[], &[0]).grants, [hold(0, 0)]);
}

#[test]
fn those_with_more_than_their_own_lose_cores_in_turn() {
    let mut harness = Harness::new("queue_delay", 6);
    for app in 0..3 {
        harness.app(batch(app, 2), 10 * app, 2);
        harness.start(app, 2);
    }
    harness.app(terms(3, 0, 6), 30, 6);
    let mut losers = Vec::new();
    for _ in 0..6 {
        let told = harness.tick(&[], &[3]).revokes[0].worker.0;
        harness.park(told);
        losers.push(told / 10);
    }
    let (first, then) = losers.split_at_mut(3);
    first.sort_unstable();
    then.sort_unstable();
    assert_eq!((&*first, &*then), (&[0, 1, 2][..], &[0, 1, 2][..]));
}

#[test]
fn a_second_park_says_that_there_was_no_core() {
    let mut harness = Harness::new("queue_delay", 1);
    harness.app(terms(0, 0, 1), 0, 1);
    harness.start(0, 1);
    harness.park(0);
    assert!(!harness.control.parked(WorkerId(0), harness.now, &mut harness.plan));
    assert!(!harness.control.parked(WorkerId(77), harness.now, &mut harness.plan));
}

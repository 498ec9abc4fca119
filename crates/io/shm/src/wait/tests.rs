//! The whole wait, between threads and against a clock that only the test turns.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;
use crate::{ReadySet, ring};

/// A script: what is there at each look, and what was asked for.
#[derive(Default)]
struct Script {
    now: Nanos,
    ready_at: Nanos,
    owed_until: Nanos,
    looks: u32,
    yields: u32,
    sleeps: Vec<Nanos>,
}

impl Surroundings for Script {
    fn is_ready(&mut self) -> bool {
        self.looks += 1;
        self.now += Nanos(100);
        self.now >= self.ready_at
    }
    fn now(&mut self) -> Nanos {
        self.now
    }
    fn is_owed(&mut self) -> bool {
        self.now < self.owed_until
    }
    fn yield_cpu(&mut self) {
        self.yields += 1;
    }
    fn sleep(&mut self, _: &Doorbell, most: Nanos) {
        self.sleeps.push(most);
        self.now = (self.now + most).min(self.ready_at.max(self.now));
    }
}

fn wait(script: &mut Script, deadline: Nanos) -> Waited {
    let (doorbell, word) = (Doorbell::new(), AtomicU64::new(0));
    let waited = Wait::new(WaitConfig::default()).until_ready(&doorbell, &word, deadline, script);
    assert!(!doorbell.ring(), "awake, nobody needs to ring");
    waited
}

#[test]
fn what_is_there_already_is_not_waited_for() {
    let mut script = Script::default();
    assert_eq!(wait(&mut script, Nanos::FAR_FUTURE), Waited::Ready);
    assert_eq!((script.looks, script.sleeps.len()), (1, 0));
}

#[test]
fn what_comes_within_the_budget_is_waited_for_awake() {
    let mut script = Script { ready_at: Nanos::from_micros(20), ..Script::default() };
    assert_eq!(wait(&mut script, Nanos::FAR_FUTURE), Waited::Ready);
    assert_eq!(script.sleeps, []);
}

#[test]
fn what_comes_later_is_slept_for_until_the_deadline_at_most() {
    let deadline = Nanos::from_millis(5);
    let mut script = Script { ready_at: Nanos::from_millis(1), ..Script::default() };
    assert_eq!(wait(&mut script, deadline), Waited::Ready);
    assert_eq!(script.sleeps.len(), 1);
    let mut script = Script { ready_at: Nanos::FAR_FUTURE, ..Script::default() };
    assert_eq!(wait(&mut script, deadline), Waited::TimedOut);
    assert!(script.sleeps.iter().all(|&most| most <= deadline));
    let mut script = Script { ready_at: Nanos::FAR_FUTURE, ..Script::default() };
    assert_eq!(wait(&mut script, Nanos::ZERO), Waited::TimedOut);
    assert_eq!(script.sleeps, [], "a look, and no more");
}

#[test]
fn who_owes_something_is_given_the_cpu_before_any_sleep() {
    let ready_at = Nanos::from_micros(30);
    let owed_until = ready_at;
    let mut script = Script { ready_at, owed_until, ..Script::default() };
    assert_eq!(wait(&mut script, Nanos::FAR_FUTURE), Waited::Ready);
    assert!(script.yields > 0 && script.sleeps.is_empty());
}

/// Something comes at the very moment at which the doorbell is armed.
struct LastMoment<'doorbell> {
    doorbell: &'doorbell Doorbell,
    now: Nanos,
}

impl Surroundings for LastMoment<'_> {
    fn is_ready(&mut self) -> bool {
        self.doorbell.word().load(Ordering::Relaxed) != 0
    }
    fn now(&mut self) -> Nanos {
        self.now += Nanos::from_micros(50);
        self.now
    }
    fn yield_cpu(&mut self) {}
    fn sleep(&mut self, _: &Doorbell, _: Nanos) {
        panic!("there is something to do");
    }
}

#[test]
fn what_comes_while_the_doorbell_is_armed_is_not_slept_on() {
    let (doorbell, word) = (Doorbell::new(), AtomicU64::new(0));
    let mut surroundings = LastMoment { doorbell: &doorbell, now: Nanos::ZERO };
    let mut wait = Wait::new(WaitConfig::default());
    let deadline = Nanos::from_millis(5);
    // It is gone again when the doorbell is disarmed, so the wait goes on to its deadline.
    let waited = wait.until_ready(&doorbell, &word, deadline, &mut surroundings);
    assert_eq!(waited, Waited::TimedOut);
}

struct Threads<'set> {
    set: &'set ReadySet,
    began: Instant,
    sleeps: u32,
}

impl Surroundings for Threads<'_> {
    fn is_ready(&mut self) -> bool {
        !self.set.is_quiet()
    }
    fn now(&mut self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }
    fn yield_cpu(&mut self) {
        std::thread::yield_now();
    }
    fn sleep(&mut self, _: &Doorbell, most: Nanos) {
        self.sleeps += 1;
        std::thread::park_timeout(most.into());
    }
}

#[test]
fn a_thousand_times_idle_and_busy_again_and_nobody_is_left_asleep() {
    const ROUNDS: u32 = 1000;
    let set = ReadySet::new(300);
    let (mut producer, mut consumer) = ring::<u32>(16);
    let (mut answer, mut answered) = ring::<u32>(16);
    let marker = set.clone();
    let sleeper = std::thread::current();
    let writer = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            for item in 0..3 {
                producer.push(3 * round + item).expect("it was emptied");
                if marker.set_ready(299) && marker.doorbell().ring() {
                    sleeper.unpark();
                }
            }
            // Idle until everything was taken.
            while answered.pop() != Some(round) {
                std::thread::yield_now();
            }
            if round % 10 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    });
    let mut surroundings = Threads { set: &set, began: Instant::now(), sleeps: 0 };
    let mut wait = Wait::new(WaitConfig::default());
    // Longer than any stall of this machine: a lost wake-up ends here and not in a hang.
    let timeout = Nanos::from_secs(30);
    let (mut cursor, mut next) = (0, 0);
    while next < 3 * ROUNDS {
        let deadline = surroundings.now() + timeout;
        let waited = wait.until_ready(set.doorbell(), set.summary(), deadline, &mut surroundings);
        assert_eq!(waited, Waited::Ready, "item {next} is lost");
        let mut claimed = None;
        set.claim(&mut cursor, 1, |ready| claimed = Some(ready));
        while let Some(ready) = claimed.take() {
            while let Some(item) = consumer.pop() {
                assert_eq!(item, next);
                next += 1;
                if next % 3 == 0 {
                    answer.push(next / 3 - 1).expect("one at a time");
                }
            }
            claimed = set.rearm(ready).err();
        }
    }
    writer.join().expect("it only pushes and waits");
    println!("{} sleeps, budget {}", surroundings.sleeps, wait.wait_strategy().budget().budget());
}

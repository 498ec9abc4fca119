//! What `stats` promises, case by case.

use super::*;
use crate::Request;

const PLAN: Plan = Plan {
    pace: crate::Pace::Closed { outstanding: 1 },
    profile: crate::Profile::LEVEL,
    by_piece: false,
    zipf_exponent: 0.0,
    flows: 2,
    flow_order: crate::FlowOrder::Random,
    distribution: crate::Distribution::Zero,
    iterations: 0,
    payload_bytes: 24,
    warmup: Nanos(100),
    length: Nanos(1000),
    grace: Nanos(1000),
    seed: 0,
};

struct Bench {
    window: Window,
    stats: Stats,
}

impl Bench {
    /// Requests 0..8, on flows 0 and 1 in turn, intended and sent at 100 times their index.
    fn new() -> Self {
        let window = Window::new(8);
        for index in 0..8 {
            let request = Self::request(index);
            window.note(&request, request.intended);
        }
        Self { stats: Stats::new(&PLAN, &window, Nanos::ZERO), window }
    }

    fn request(index: u64) -> Request {
        Request { index, intended: Nanos(index * 100), flow: index as u32 % 2, iterations: 5 }
    }

    fn reply(&mut self, request: &Request, flow: Option<u32>) -> Counts {
        let mut payload = [0; 24];
        request.write(&mut payload);
        self.stats.reply(
            &self.window,
            &Reply { flow, answer: Answer::Copy(&payload), at: None },
            Nanos(10_000),
        );
        *self.stats.counts()
    }
}

#[test]
fn order_is_that_of_each_flow_alone() {
    let mut bench = Bench::new();
    for index in [4, 1, 3, 6, 5] {
        assert_eq!(bench.reply(&Bench::request(index), None).reordered, 0, "{index}");
    }
    assert_eq!(bench.reply(&Bench::request(2), None).reordered, 1, "4 and 6 were before it");
    assert_eq!(bench.reply(&Bench::request(7), None).reordered, 1);
}

#[test]
fn a_request_intended_in_the_warmup_is_answered_but_not_measured() {
    let mut bench = Bench::new();
    let counts = bench.reply(&Bench::request(0), Some(0));
    assert_eq!((counts.received_ever, counts.received), (1, 0));
    assert_eq!(bench.stats.from_intended().count(), 0);
    let counts = bench.reply(&Bench::request(1), Some(1));
    assert_eq!((counts.received_ever, counts.received), (2, 1));
    assert_eq!(bench.stats.from_intended().count(), 1);
}

#[test]
fn what_was_never_asked_is_corrupted_whatever_it_is() {
    let mut bench = Bench::new();
    let unknown = Request { index: 8, ..Bench::request(0) };
    let other_work = Request { iterations: 6, ..Bench::request(3) };
    assert_eq!(bench.reply(&unknown, None).corrupted, 1);
    assert_eq!(bench.reply(&other_work, None).corrupted, 2);
    assert_eq!(bench.reply(&Bench::request(3), Some(0)).corrupted, 3);
    let hostile = Request { index: u64::MAX, ..Bench::request(0) };
    assert_eq!(bench.reply(&hostile, None).corrupted, 4);
    for payload in [&[][..], &[0; 15], &[0xff; 25]] {
        let reply = Reply { flow: None, answer: Answer::Copy(payload), at: None };
        bench.stats.reply(&bench.window, &reply, Nanos(1));
    }
    assert_eq!(bench.stats.counts().corrupted, 7);
    assert_eq!(bench.reply(&Bench::request(3), Some(1)).received, 1, "the right one still counts");
}

#[test]
fn a_reply_to_a_request_that_left_the_window_or_was_given_up_is_expired() {
    let mut bench = Bench::new();
    bench.window.note(&Bench::request(8), Nanos(800));
    assert_eq!(bench.reply(&Bench::request(0), None).expired, 1);
    bench.stats.give_up(5);
    assert!(bench.stats.is_done(5) && !bench.stats.is_done(6));
    assert_eq!(bench.reply(&Bench::request(5), None).expired, 2);
    assert_eq!(bench.stats.counts().received_ever, 0);
}

#[test]
fn the_place_of_an_answered_request_serves_the_next_one() {
    let mut bench = Bench::new();
    bench.reply(&Bench::request(1), None);
    bench.window.note(&Bench::request(9), Nanos(900));
    let counts = bench.reply(&Bench::request(9), None);
    assert_eq!((counts.received, counts.duplicates), (2, 0));
    assert_eq!(bench.reply(&Bench::request(9), None).duplicates, 1);
}

#[test]
fn an_answer_without_a_copy_counts_by_its_index_and_an_error_as_an_answer_that_is_one() {
    let mut bench = Bench::new();
    let mut reply = |answer| {
        let verdict =
            bench.stats.reply(&bench.window, &Reply { flow: None, answer, at: None }, Nanos(9000));
        (verdict, *bench.stats.counts())
    };
    let (verdict, counts) = reply(Answer::To(3));
    assert_eq!((verdict, counts.received, counts.errors), (Verdict::Answer, 1, 0));
    let (verdict, counts) = reply(Answer::ErrorTo(4));
    assert_eq!((verdict, counts.received, counts.errors), (Verdict::Answer, 2, 1));
    let (verdict, counts) = reply(Answer::To(3));
    assert_eq!((verdict, counts.duplicates), (Verdict::Other, 1));
    let (verdict, counts) = reply(Answer::NoneTo(5));
    assert_eq!((verdict, counts.received), (Verdict::Gone, 2));
    assert_eq!(reply(Answer::NoneTo(5)).0, Verdict::Other, "it is gone already");
    assert_eq!(reply(Answer::NoneTo(99)).0, Verdict::Other, "there is no such request");
    assert_eq!(reply(Answer::To(5)).1.expired, 1);
}

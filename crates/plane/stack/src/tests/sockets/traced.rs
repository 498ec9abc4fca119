//! Samples of requests.

use base::{Nanos, SlotId};
use tcp::FlowId;

use super::*;

/// A connection of an application of which one of `one_in` requests is sampled.
fn traced(one_in: u32) -> (Bench, App, FlowId, SlotId) {
    let (bench, app, flow, slot) = accepted();
    app.streams.trace_one_in.store(one_in, Ordering::Relaxed);
    app.command_queue.trace(true);
    (bench, app, flow, slot)
}

/// The library's part.
fn read(app: &App, slot: SlotId, now: Nanos) {
    let words = app.words(slot);
    words.trace_read_nanos.store(now.0, Ordering::Relaxed);
    words.trace_read.store(words.trace.load(Ordering::Relaxed), Ordering::Release);
    app.read(slot, 100);
}

fn answer(app: &App, slot: SlotId, now: Nanos) {
    let words = app.words(slot);
    words.trace_written_nanos.store(now.0, Ordering::Relaxed);
    words.trace_written.store(words.trace_read.load(Ordering::Relaxed), Ordering::Release);
    assert_eq!(app.write(slot, b"answer"), 6);
}

#[test]
fn of_a_sampled_request_every_moment_is_known_and_of_others_nothing() {
    let (mut bench, app, flow, slot) = traced(2);
    let us = Nanos::from_micros;
    for round in 0..6 {
        bench.write(flow, b"request");
        bench.turn();
        let shown = bench.now;
        bench.turn();
        let is_sampled = app.words(slot).trace.load(Ordering::Relaxed) != 0;
        assert_eq!(is_sampled, round % 2 == 1, "one of two");
        let read_at = bench.now + us(30);
        bench.pass_time(us(100));
        read(&app, slot, read_at);
        // It reads on, and writes twice: what counts is the first of each.
        bench.turn();
        let written = bench.now + us(7);
        bench.pass_time(us(10));
        answer(&app, slot, written);
        bench.turn();
        let heard = bench.now;
        assert!(app.command_queue.take_samples().is_empty(), "the answer may be on its way out");
        bench.turn();
        let samples = app.command_queue.take_samples();
        assert_eq!(samples.len(), usize::from(is_sampled));
        for sample in samples {
            assert_eq!(sample.app, app.streams.app);
            assert_eq!((sample.received, sample.taken, sample.shown), (shown, shown, shown));
            assert_eq!((sample.read, sample.written, sample.heard), (read_at, written, heard));
            assert_eq!(sample.sent, bench.now, "the next moment that the worker knows");
            assert_eq!(app.words(slot).trace.load(Ordering::Relaxed), 0);
        }
        bench.turns(2);
    }
    assert_eq!(app.command_queue.trace_losses(), crate::TraceLosses::default());
}

#[test]
fn an_answer_that_is_written_while_the_worker_looks_is_a_sample_whose_notice_took_no_time() {
    let (mut bench, app, flow, slot) = traced(1);
    bench.write(flow, b"request");
    bench.turns(2);
    read(&app, slot, bench.now);
    // The turn that hears it has begun three microseconds before.
    let written = bench.now + Nanos::from_micros(103);
    answer(&app, slot, written);
    bench.turns(2);
    assert_eq!(app.command_queue.trace_losses(), crate::TraceLosses::default());
    let samples = app.command_queue.take_samples();
    let [sample] = &samples[..] else { panic!("one request was answered: {samples:?}") };
    assert_eq!((sample.written, sample.heard, sample.sent), (written, written, bench.now));
}

#[test]
fn moments_that_cannot_be_and_requests_without_an_answer_are_counted_and_cost_nothing() {
    let (mut bench, app, flow, slot) = traced(1);
    let losses = || app.command_queue.trace_losses();
    bench.write(flow, b"request");
    bench.turns(2);
    read(&app, slot, bench.now);
    answer(&app, slot, bench.now + Nanos::from_secs(1000));
    bench.turns(2);
    assert_eq!(losses().strange, 1);
    // One that is written to before it has read is not answered.
    bench.write(flow, b"request");
    bench.turns(2);
    let number = app.words(slot).trace.load(Ordering::Relaxed);
    assert_eq!(app.write(slot, b"banner"), 6);
    bench.turns(2);
    assert_eq!(app.words(slot).trace.load(Ordering::Relaxed), number, "it is still open");
    app.command_queue.trace(false);
    app.streams.trace_one_in.store(0, Ordering::Relaxed);
    read(&app, slot, bench.now);
    answer(&app, slot, bench.now);
    bench.turns(4);
    assert_eq!((losses().unanswered, app.words(slot).trace.load(Ordering::Relaxed)), (1, 0));
    assert!(app.command_queue.take_samples().is_empty());
    bench.write(flow, b"request");
    bench.turns(2);
    assert_eq!(app.words(slot).trace.load(Ordering::Relaxed), 0, "nobody asks any more");
    assert!(bench.closed.is_empty(), "{:?}", bench.closed);
}

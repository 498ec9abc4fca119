//! Connections that nobody reads, when memory is short.

use base::{Nanos, SlotId};

use super::*;

/// Bytes of the ring that the first byte of a connection brings.
const RING: u64 = 1 << 16;

/// Two connections with bytes from their peers in them.
fn two_unread() -> (Bench, App, Vec<tcp::FlowId>) {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let flows: Vec<_> = bench.talks(2).iter().map(|talk| talk.flow).collect();
    bench.turns(5);
    app.accept();
    assert_eq!(app.accepted.len(), 2);
    flows.iter().for_each(|flow| _ = bench.write(*flow, &[7; 500]));
    bench.turns(3);
    (bench, app, flows)
}

/// What a program sees of a socket: over, why, whether it has a ring to be read.
fn seen(app: &App, slot: SlotId) -> (bool, u32, bool) {
    let words = app.words(slot);
    let over = SlotState::BROKEN | SlotState::FINISHED;
    let has_ring = !RingDesc::of_word(words.rx_ring.load(Ordering::Acquire)).is_none();
    (words.state().0 & over == over, words.error.load(Ordering::Relaxed), has_ring)
}

fn violations(app: &App) -> usize {
    let is_one = |event: &SocketEvent| matches!(event, SocketEvent::Violation { .. });
    app.events().into_iter().filter(is_one).count()
}

#[test]
fn a_connection_that_nobody_reads_gives_its_memory_when_that_is_short_and_both_ends_hear_of_it() {
    let (mut bench, mut app, flows) = two_unread();
    let heap = |app: &App| app.streams.server.heap().resident_bytes();
    let before = heap(&app);
    bench.now += Nanos::from_secs(6);
    app.evict(Nanos::from_secs(5), 1);
    bench.turns(5);
    let states: Vec<_> = app.accepted.iter().map(|slot| seen(&app, *slot)).collect();
    assert_eq!(
        states.iter().filter(|state| **state == (true, 104, false)).count(),
        1,
        "{states:?}"
    );
    assert_eq!(states.iter().filter(|state| **state == (false, 0, true)).count(), 1, "{states:?}");
    let reset: Vec<_> = bench.closed.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reset, [CloseReason::Reset], "one peer hears of it, and only one");
    assert_eq!((app.settle_evicted(), before - heap(&app)), (RING, RING));
    assert_eq!(bench.count("evicted"), 1);
    // It goes on as if nothing were, and is no liar; the other one has lost nothing.
    for slot in app.accepted.clone() {
        let is_gone = seen(&app, slot).0;
        app.write(slot, b"answer");
        assert_eq!(app.read(slot, 1000).len(), if is_gone { 0 } else { 500 });
        app.words(slot).rx_head.store(500, Ordering::Release);
        app.set_ready(slot);
    }
    bench.turns(5);
    app.accepted.iter().for_each(|slot| app.ask(*slot, Asks::CLOSE));
    bench.turns(5);
    assert_eq!(violations(&app), 0);
    app.settle_evicted();
    flows.iter().for_each(|flow| _ = bench.engine.abort(*flow));
    bench.turns(5);
    assert_eq!(app.streams.server.slots_taken(), 1, "the listener's");
    assert_eq!(app.streams.server.heap().bytes(), 1 << 10, "its backlog");
}

#[test]
fn a_ring_that_was_taken_is_no_other_connections_until_its_socket_is_closed() {
    let (mut bench, mut app, _) = two_unread();
    bench.now += Nanos::from_secs(6);
    app.evict(Nanos::from_secs(5), 2 * RING);
    bench.turns(5);
    assert_eq!(app.settle_evicted(), 2 * RING);
    let taken: Vec<_> = app.evicted.iter().map(|of| of.ring.desc()).collect();
    let heap = app.streams.server.heap();
    let lent: Vec<_> = std::iter::from_fn(|| heap.lend(16)).collect();
    assert!(lent.len() > 100 && lent.iter().all(|ring| !taken.contains(&ring.desc())));
    lent.into_iter().for_each(|ring| heap.take_back(ring));
    app.accepted.iter().for_each(|slot| app.ask(*slot, Asks::CLOSE));
    bench.turns(5);
    app.settle_evicted();
    assert!(app.evicted.is_empty());
}

#[test]
fn who_has_read_lately_keeps_what_it_has() {
    let (mut bench, mut app, _) = two_unread();
    bench.now += Nanos::from_secs(6);
    let slot = app.accepted[0];
    assert_eq!(app.read(slot, 100).len(), 100);
    bench.turns(2);
    app.evict(Nanos::from_secs(5), 10 * RING);
    bench.turns(5);
    assert_eq!(seen(&app, slot), (false, 0, true));
    assert_eq!(app.read(slot, 1000).len(), 400);
    assert_eq!(seen(&app, app.accepted[1]), (true, 104, false));
    assert_eq!(app.settle_evicted(), RING);
}

#[test]
fn a_connection_that_its_peer_has_ended_gives_its_memory_too_and_hides_no_missing_bytes() {
    let (mut bench, mut app, flows) = two_unread();
    bench.engine.abort(flows[0]).expect("it lives");
    bench.engine.shutdown(flows[1]).expect("it lives");
    bench.turns(3);
    // The error of the reset was heard.
    app.accepted.iter().for_each(|slot| app.words(*slot).error.store(0, Ordering::Relaxed));
    bench.now += Nanos::from_secs(6);
    app.evict(Nanos::from_secs(5), 10 * RING);
    bench.turns(5);
    for slot in app.accepted.clone() {
        assert_eq!(seen(&app, slot), (true, 104, false), "an end would tell of a whole stream");
    }
    assert_eq!((app.settle_evicted(), violations(&app)), (2 * RING, 0));
}

//! Many listeners, of one address and of many.

use std::net::SocketAddr;

use base::SlotId;

use super::*;

/// One more listener of an application on a port of 10.0.0.2; its slot.
fn listen(app: &App, port: u16) -> SlotId {
    let slot = app.streams.server.lend_slot().expect("a slot");
    let ring = app.streams.server.heap().lend(10).expect("memory");
    let words = app.words(slot);
    words.rx_ring.store(ring.desc().word(), Ordering::Release);
    words.state.store(Kind::Listener as u32, Ordering::Release);
    app.command_queue.command(&Command::Listen(Arc::new(Listening {
        app: Arc::clone(&app.streams),
        slot,
        address: SocketAddr::from(([10, 0, 0, 2], port)),
        backlog: Arc::new(Backlog::new(ring, 64)),
        half_open_max: 64,
        options: options(),
    })));
    slot
}

fn unlisten(app: &App, slot: SlotId) {
    app.command_queue.command(&Command::Unlisten { app: app.streams.app, slot });
}

/// How many callers of port 7 come to each of these listeners.
fn spread(bench: &mut Bench, app: &App, listeners: &[SlotId]) -> Vec<usize> {
    let callers: Vec<_> = (0..40).map(|_| bench.connect()).collect();
    bench.turns(6);
    let taken = |slot: &SlotId| {
        let words = app.words(*slot);
        let taken = std::iter::from_fn(|| Backlog::take(&app.memory, words));
        taken.inspect(|entry| app.ask(entry.slot, Asks::CLOSE)).count()
    };
    let counts = listeners.iter().map(taken).collect();
    for flow in callers {
        let _ = bench.engine.abort(flow);
    }
    bench.turns(6);
    counts
}

#[test]
fn listeners_of_one_address_come_and_go_in_any_order_and_share_what_comes() {
    let (mut bench, app) = bench(1, None);
    let mut listeners = vec![app.listener];
    listeners.extend((0..7).map(|_| listen(&app, 7)));
    let others: Vec<SlotId> = (0..60).map(|port| listen(&app, 9000 + port)).collect();
    bench.turns(4);
    // The first, one of the middle, and the last.
    for at in [0, 3, 5] {
        let counts = spread(&mut bench, &app, &listeners);
        assert_eq!(counts.iter().sum::<usize>(), 40, "{counts:?}");
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        unlisten(&app, listeners.remove(at));
        bench.turns(2);
    }
    // Others of the application are gone, and what was theirs is refused; these stay.
    others.iter().for_each(|slot| unlisten(&app, *slot));
    bench.turns(4);
    let counts = spread(&mut bench, &app, &listeners);
    assert_eq!(counts.iter().sum::<usize>(), 40, "{counts:?}");
    listeners.iter().for_each(|slot| unlisten(&app, *slot));
    bench.turns(2);
    let refused = bench.connect();
    bench.turns(4);
    assert_eq!(bench.closed.last(), Some(&(refused, CloseReason::Refused)));
    // The address is free for another one.
    let again = listen(&app, 7);
    bench.turns(2);
    assert_eq!(spread(&mut bench, &app, &[again]), [40]);
}

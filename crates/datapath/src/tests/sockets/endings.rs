//! How sockets end: in the middle of a move, with something left to say, or against the will of their application.

use super::*;

/// Has the slow side close a socket in order, or with a reset.
fn close(app: &App, slot: u32, is_abort: bool) {
    let generation = app.streams.server.generation(slot);
    app.front.command(&Command::Close { app: 5, slot, generation, is_abort });
}

/// A datagram in an application's ring.
fn record(remote: &str, payload: &[u8]) -> Vec<u8> {
    let remote = Some(remote.parse().expect("an address"));
    let record = Record { payload: payload.len() as u32, remote, local: None };
    let mut bytes = [&record.encode()[..], payload].concat();
    bytes.resize(Record::bytes(payload.len()), 0);
    bytes
}

fn way() -> Way {
    Way { port: base::PortId(0), vlan_tci: 0, header: [&CLIENT[..], &OURS, &[8, 0]].concat() }
}

#[test]
fn who_writes_after_it_has_ended_its_side_keeps_no_socket_alive() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    app.ask(slot, Asks::SHUT_WRITE);
    bench.turns(3);
    app.words(slot).tx_tail.fetch_add(10, Ordering::Release);
    app.mark(slot);
    bench.turns(3);
    close(&app, slot, false);
    bench.turns(5);
    assert_eq!(app.streams.server.slots_taken(), 1, "the listener's");
}

#[test]
fn a_socket_that_is_closed_while_it_moves_between_workers_is_closed_where_it_arrives() {
    for (is_abort, is_removed) in [(false, false), (true, false), (true, true)] {
        for steps in 0..60 {
            let (mut bench, mut app) = bench(1, None);
            bench.turns(2);
            let talks = bench.talks(30);
            bench.turns(5);
            app.accept();
            assert_eq!(app.accepted.len(), 30);
            bench.hire();
            for step in 0..steps {
                match step % 3 {
                    0 => {
                        bench.now += base::Nanos::from_micros(100);
                        bench.dispatcher.step(bench.now);
                    }
                    worker => {
                        bench.workers[worker - 1].1.step(bench.now);
                    }
                }
            }
            if is_removed {
                app.front.command(&Command::Remove { app: 5 });
            } else {
                app.accepted.iter().for_each(|slot| close(&app, *slot, is_abort));
            }
            bench.turns(20);
            for talk in &talks {
                let _ = bench.engine.close(talk.flow, &mut bench.said);
            }
            bench.turns(20);
            let taken = app.streams.server.slots_taken();
            assert_eq!(taken, 1, "after {steps} steps, {is_abort} {is_removed}");
            assert_eq!(app.streams.server.heap().bytes(), 1 << 10);
            let freed = app.events();
            let freed = freed.iter().filter(|event| matches!(event, SocketEvent::Freed { .. }));
            assert_eq!(freed.count(), 30);
            assert_eq!(bench.closed.len(), 30, "every peer hears of it");
            let reason = if is_abort { CloseReason::Reset } else { CloseReason::Finished };
            assert!(bench.closed.iter().all(|(_, other)| *other == reason), "{:?}", bench.closed);
        }
    }
}

#[test]
fn who_marks_its_socket_again_and_again_while_a_way_is_sought_is_asked_about_once() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    app.write(slot, &record("10.9.9.9:53", b"hi"));
    for _ in 0..500 {
        app.mark(slot);
        bench.turn_of_data_path();
    }
    let remote = "10.9.9.9".parse().expect("an address");
    assert_eq!(app.events(), [SocketEvent::Unresolved { remote }]);
    let local = "10.0.0.2".parse().expect("an address");
    app.front.command(&Command::Resolved { remote, way: Some((way(), local)) });
    let sent: Vec<_> = (0..100).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 1);
}

//! How sockets end: in the middle of a move, with something left to say, or against the will of
//! their application.

use base::SlotId;

use super::*;

/// Has the slow side close a socket in order, or with a reset.
fn close(app: &App, slot: SlotId, is_abort: bool) {
    let generation = app.streams.server.generation(slot);
    app.command_queue.command(&Command::Close { app: AppId(5), slot, generation, is_abort });
}

/// A datagram in an application's ring.
fn record(remote: &str, payload: &[u8]) -> Vec<u8> {
    let remote = Some(remote.parse().expect("an address"));
    let record = Record { payload: payload.len() as u32, remote, ..Record::default() };
    let mut bytes = [&record.encode()[..], payload].concat();
    bytes.resize(Record::bytes(payload.len()), 0);
    bytes
}

fn next_hop() -> NextHop {
    NextHop { port: base::PortId(0), vlan_tci: 0, header: [&CLIENT[..], &OURS, &[8, 0]].concat() }
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
    app.set_ready(slot);
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
            bench.spawn();
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
                app.command_queue.command(&Command::Remove { app: AppId(5) });
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
        app.set_ready(slot);
        bench.turn_of_data_path();
    }
    let remote = "10.9.9.9".parse().expect("an address");
    assert_eq!(app.events(), [SocketEvent::Unresolved { remote, user: 1000, is_answer: false }]);
    let local = "10.0.0.2".parse().expect("an address");
    app.command_queue.command(&Command::Resolved { remote, next_hop: Some((next_hop(), local)) });
    let sent: Vec<_> = (0..100).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 1);
}

#[test]
fn all_datagrams_that_were_written_before_a_close_leave() {
    for is_asked in [true, false] {
        let (mut bench, app) = bench(2, None);
        let slot = datagrams(&app);
        bench.turns(2);
        bench.pass(vec![packet(9, b"here I am")]);
        // More than leave in one turn, and as many as the ring has room for.
        let ports = 9..81;
        for port in ports.clone() {
            app.write(slot, &record(&format!("10.0.0.1:{port}"), &[]));
        }
        if is_asked {
            app.ask(slot, Asks::CLOSE);
        } else {
            close(&app, slot, false);
        }
        let mut sent = Vec::new();
        for _ in 0..100 {
            sent.extend(bench.pass(Vec::new()));
            // The worker that sends is not the one that has heard from there.
            if app.events().iter().any(|event| matches!(event, SocketEvent::Unresolved { .. })) {
                resolve(&app, "10.0.0.1");
            }
        }
        let mut sent: Vec<_> = sent.iter().map(|packet| payload_of(packet).0).collect();
        // The other worker may be ahead with what came last.
        sent.sort_unstable();
        assert_eq!(sent, ports.collect::<Vec<u16>>());
        assert_eq!(app.streams.server.slots_taken(), 1);
        assert_eq!(app.streams.server.heap().bytes(), 1 << 10);
    }
}

/// The kernel has found the next hop to an address.
fn resolve(app: &App, remote: &str) {
    let [remote, local] = [remote, "10.0.0.2"].map(|ip| ip.parse().expect("an address"));
    app.command_queue.command(&Command::Resolved { remote, next_hop: Some((next_hop(), local)) });
}

#[test]
fn a_datagram_to_where_nobody_answers_keeps_none_behind_it_waiting() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    resolve(&app, "10.0.0.1");
    for at in 0..20_u8 {
        app.write(slot, &record("10.9.9.9:53", b"is anybody there?"));
        app.write(slot, &record("10.0.0.1:9", &[at]));
    }
    let sent: Vec<_> = (0..10).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 20, "a millisecond later");
    assert_eq!(bench.count("datagrams_no_route"), 0, "the others wait");
    let remote = "10.9.9.9".parse().expect("an address");
    app.command_queue.command(&Command::Resolved { remote, next_hop: None });
    bench.turns(30);
    assert_eq!(bench.count("datagrams_no_route"), 20, "nobody is");
}

#[test]
fn one_user_holds_no_more_unresolved_datagrams_than_its_share() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    for at in 0..1000_u32 {
        let remote = format!("10.9.{}.{}:53", at / 100, at % 100 + 1);
        app.write(slot, &record(&remote, b"?"));
        if at % 20 == 0 {
            bench.turns(1);
        }
    }
    bench.turns(30);
    assert_eq!(bench.count("datagrams_no_route"), 1000 - 256);
    let words = app.words(slot);
    assert_eq!(words.tx_head.load(Ordering::Relaxed), words.tx_tail.load(Ordering::Relaxed));
}

#[test]
fn a_datagram_without_payload_costs_its_user_the_headers() {
    // Ten times the headers of an empty datagram at once.
    let (mut bench, app) = bench(1, Some(Arc::new(Rate::new(1000, 420))));
    let slot = datagrams(&app);
    bench.turns(2);
    resolve(&app, "10.0.0.1");
    for _ in 0..60 {
        app.write(slot, &record("10.0.0.1:9", b""));
    }
    let sent: Vec<_> = (0..20).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 10);
}

#[test]
fn what_a_closed_socket_wrote_waits_for_its_next_hop_and_not_for_ever() {
    for is_found in [true, false] {
        let (mut bench, app) = bench(1, None);
        let slot = datagrams(&app);
        bench.turns(2);
        app.write(slot, &record("10.9.9.9:53", b"hi"));
        app.write(slot, &record("10.9.9.10:53", b"ho"));
        bench.turn_of_data_path();
        close(&app, slot, false);
        bench.turns(30);
        assert!(!app.streams.server.is_taken(slot), "the datagrams wait, not the socket");
        for remote in ["10.9.9.9", "10.9.9.10"].into_iter().filter(|_| is_found) {
            resolve(&app, remote);
        }
        let mut sent: Vec<_> = (0..30).flat_map(|_| bench.pass(Vec::new())).collect();
        bench.now += base::Nanos::from_secs(5);
        sent.extend((0..30).flat_map(|_| bench.pass(Vec::new())));
        let (left, lost) = if is_found { (2, 0) } else { (0, 2) };
        assert_eq!((sent.len(), bench.count("datagrams_no_route")), (left, lost));
    }
}

#[test]
fn a_udp_socket_that_is_reset_says_that_something_was_left_in_it() {
    let (mut bench, app) = bench(2, Some(Arc::new(Rate::new(1, 1))));
    let slots = [datagrams(&app), datagrams(&app)];
    bench.turns(2);
    resolve(&app, "10.9.9.9");
    // After the first one nothing may leave for a minute.
    app.write(slots[0], &record("10.9.9.9:53", b"hi"));
    app.write(slots[0], &record("10.9.9.9:53", b"ho"));
    bench.turns(2);
    slots.iter().for_each(|slot| close(&app, *slot, true));
    bench.turns(30);
    assert_eq!(app.streams.server.slots_taken(), 1);
    assert_eq!(bench.count("datagrams_cut_off"), 1);
}

#[test]
fn callers_beyond_the_backlog_of_who_takes_none_wait_and_are_not_turned_away() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(200);
    for talk in &talks {
        // Who was answered by a cookie says so again only with data.
        bench.write(talk.flow, b"early");
    }
    bench.turns(300);
    assert!(bench.closed.is_empty(), "{} were turned away", bench.closed.len());
    let take = |bench: &mut Bench, app: &mut App| {
        let mut taken = Vec::new();
        for _ in 0..100 {
            app.accept();
            taken.append(&mut app.accepted);
            // Who was not taken says so again, later and later.
            bench.pass_time(base::Nanos::from_millis(500));
            bench.turns(10);
        }
        taken
    };
    // There are slots for 127 of them. The others wait for one, as for a place in the backlog.
    let taken = take(&mut bench, &mut app);
    assert_eq!((taken.len(), bench.closed.len()), (127, 0));
    for slot in taken {
        assert_eq!(app.read(slot, 100), b"early");
        app.ask(slot, Asks::CLOSE);
    }
    bench.turns(10);
    for talk in &talks {
        if bench.engine.has_peer_closed(talk.flow) {
            bench.engine.close(talk.flow, &mut bench.said).expect("it stands");
        }
    }
    let taken = take(&mut bench, &mut app);
    let is_cut_off = |(_, reason): &&(_, CloseReason)| *reason != CloseReason::Finished;
    assert_eq!((taken.len(), bench.closed.iter().filter(is_cut_off).count()), (73, 0));
}

#[test]
fn a_datagram_leaves_from_no_address_but_those_that_its_user_may_have() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    bench.pass(vec![packet(9, b"here I am")]);
    let remote = Some("10.0.0.1:9".parse().expect("an address"));
    for own in ["10.0.0.3", "192.0.2.1", "10.0.0.2"] {
        let local = Some(own.parse().expect("an address"));
        app.write(slot, &Record { remote, local, ..Record::default() }.encode());
    }
    // By a way on which others have another address.
    let remote = "10.9.9.9".parse().expect("an address");
    let others = "10.0.0.3".parse().expect("an address");
    app.command_queue.command(&Command::Resolved { remote, next_hop: Some((next_hop(), others)) });
    app.write(slot, &record("10.9.9.9:9", b""));
    let sent: Vec<_> = (0..30).flat_map(|_| bench.pass(Vec::new())).collect();
    let sources = sent.iter().map(|packet| packet[14 + 12..14 + 16].to_vec());
    assert_eq!(sources.collect::<Vec<_>>(), [[10, 0, 0, 2]; 2]);
    assert_eq!(bench.count("datagrams_spoofed"), 2);
}

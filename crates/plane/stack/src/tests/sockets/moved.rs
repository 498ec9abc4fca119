//! What comes, waits or is asked for while groups move between workers.

use super::*;

/// Sends what connect probes are asked for, and lets a turn pass.
fn turn(bench: &mut Bench, app: &App) {
    while let Some((local, remote)) = app.command_queue.next_connect_probe() {
        assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
    }
    bench.turn();
}

/// The hash by which both ends know a connection of the application's port 7.
fn hash(bench: &Bench, remote: std::net::SocketAddr) -> u32 {
    let local = std::net::SocketAddr::from(([10, 0, 0, 2], 7));
    let key = wire::FlowKey::new(wire::Protocol::Tcp, remote, local).expect("both are IPv4");
    bench.engine.hash_of(&key).0
}

#[test]
fn a_connection_whose_group_waits_for_room_is_opened_when_there_is_some() {
    let command_queue = CommandQueue::new(|| (), || ());
    let mut bench =
        Bench::with_command_queue(ServiceKind::Sockets, 2, 24, Some(command_queue.clone()));
    let mut app = App::new(command_queue, None, 1 << 30);
    bench.turns(2);
    let talks = bench.talks(32);
    bench.turns(10);
    app.accept();
    assert_eq!(app.accepted.len(), 32);
    // One worker takes 24 of them; the groups of the others wait.
    let first = bench.workers[0].0;
    bench.dispatcher.steering_mut().remove_worker(first);
    bench.turns(20);
    assert!(bench.count("detached") > bench.count("attached"));
    // One is opened of the group of each.
    let mut ports = 1000_u16..;
    let mut opened = Vec::new();
    for talk in &talks {
        let remote = bench.engine.key(talk.flow).expect("it stands").destination();
        let group = hash(&bench, remote) % 128;
        let is_of_it = |port: &u16| hash(&bench, ([10, 0, 0, 1], *port).into()) % 128 == group;
        let port = ports.find(is_of_it).expect("there are many");
        let remote = ([10, 0, 0, 1], port).into();
        bench.engine.listen(remote, 64, FlowOptions::default()).expect("nobody listens there");
        opened.push(app.open(port).expect("a slot"));
    }
    (0..100).for_each(|_| turn(&mut bench, &app));
    for talk in &talks {
        bench.engine.shutdown(talk.flow).expect("it stands");
    }
    let mut unsent = std::collections::BTreeMap::new();
    for _ in 0..600 {
        turn(&mut bench, &app);
        app.echo(&mut unsent);
    }
    let is = |flag| opened.iter().filter(|slot| app.words(**slot).state().has(flag)).count();
    assert_eq!(is(SlotState::CONNECTING), 0, "of 32 nobody has begun with");
    assert!(is(SlotState::CONNECTED) > 0, "no group has waited");
}

#[test]
fn connections_that_wait_for_a_backlog_go_on_waiting_where_their_group_goes() {
    let (mut bench, mut app) = bench(2, None);
    bench.turns(2);
    let mut talks = bench.talks(40);
    bench.turns(5);
    // They come to stand at once, and there is room for 24 of them.
    talks.extend(bench.talks(64));
    bench.turns(2);
    for talk in &talks {
        bench.write(talk.flow, b"early");
    }
    bench.turns(1);
    let first = bench.workers[0].0;
    bench.dispatcher.steering_mut().remove_worker(first);
    bench.turns(20);
    assert!(bench.closed.is_empty(), "{} were turned away", bench.closed.len());
    let mut taken = Vec::new();
    for _ in 0..40 {
        app.accept();
        taken.append(&mut app.accepted);
        // Who was left with an unfinished handshake says so again, later and later.
        bench.pass_time(base::Nanos::from_millis(500));
        bench.turns(10);
    }
    assert_eq!((taken.len(), bench.closed.len()), (104, 0));
    assert!(taken.iter().all(|slot| app.read(*slot, 100) == b"early"));
}

//! What waits for room: in a ring, in a backlog, in an application's memory.

use super::*;

#[test]
fn who_waits_for_room_before_the_ring_is_full_is_told_of_it() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    app.write(slot, &[7; 900]);
    bench.turn_of_data_path();
    // Less than a third is free: it asks to be told, at the length that the ring has.
    app.words(slot).asks.fetch_or(10 << TX_GROW_SHIFT, Ordering::AcqRel);
    app.set_ready(slot);
    let ready_bits = app.memory.poller(Side::Zero, POLLER).expect("a poller");
    let mut cursor = 0;
    ready_bits.take(&mut cursor, 64, |_| ());
    bench.turns(6);
    assert!(!ready_bits.is_empty(), "all of it was acknowledged, and nobody was told");
}

#[test]
fn connections_that_find_the_backlog_full_wait_until_the_program_takes_some() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(120);
    for talk in &talks {
        bench.write(talk.flow, b"early");
    }
    bench.turns(30);
    assert!(bench.closed.is_empty(), "nobody was turned away");
    let mut taken = Vec::new();
    for _ in 0..40 {
        app.accept();
        taken.append(&mut app.accepted);
        // Half a second: who was not taken says so again, later and later.
        bench.turns(100);
    }
    assert_eq!((taken.len(), bench.closed.len()), (120, 0));
    assert!(taken.iter().all(|slot| app.read(*slot, 100) == b"early"));
}

#[test]
fn an_application_without_memory_for_what_comes_gets_it_when_it_has_read_something() {
    // The backlog, three short send rings, and one receive ring of 64 KiB.
    let (mut bench, mut app) = bench_with(1, None, 72 << 10);
    bench.turns(2);
    let talks = bench.talks(3);
    bench.turns(5);
    app.accept();
    assert_eq!(app.accepted.len(), 3);
    for talk in &talks {
        bench.write(talk.flow, &[7; 500]);
    }
    bench.turns(10);
    let waits = |app: &App| {
        let has = |slot: &&SlotId| app.words(**slot).rx_tail.load(Ordering::Acquire) == 500;
        app.accepted.iter().filter(has).count()
    };
    assert_eq!(waits(&app), 1, "there is memory for one");
    let mut read = 0;
    for _ in 0..100 {
        // Half a second each: what was not taken is sent again, later and later.
        bench.turns(100);
        read += app.accepted.iter().map(|slot| app.read(*slot, 1000).len()).sum::<usize>();
    }
    assert_eq!(read, 1500);
    assert!(bench.closed.is_empty(), "nobody was turned away");
    assert!(bench.count("no_ring") > 0);
}

#[test]
fn a_connection_that_is_closed_without_memory_for_what_came_is_reset() {
    let (mut bench, mut app) = bench_with(1, None, 72 << 10);
    bench.turns(2);
    let talks = bench.talks(3);
    bench.turns(5);
    app.accept();
    for talk in &talks {
        bench.write(talk.flow, &[7; 500]);
    }
    bench.turns(10);
    assert!(bench.count("no_ring") > 0 && bench.closed.is_empty());
    for slot in std::mem::take(&mut app.accepted) {
        app.ask(slot, Asks::CLOSE);
    }
    bench.turns(3);
    assert_eq!(bench.closed.len(), 3);
    assert!(bench.closed.iter().all(|(_, reason)| *reason == CloseReason::Reset));
    assert_eq!(app.streams.server.slots_taken(), 1, "the listener's");
}

#[test]
fn who_can_have_no_longer_ring_keeps_its_connection_and_every_byte() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    // There is room as far as is known, and then there is not.
    let taken: Vec<_> = std::iter::from_fn(|| app.streams.server.heap().lend(18)).collect();
    assert!(app.streams.server.heap().has_room(18) && !taken.is_empty());
    let whole: Vec<u8> = (0..1_000_000_u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    let (mut written, mut read) = (0, Vec::new());
    for _ in 0..4000 {
        written += bench.write(talks[0].flow, &whole[written..]);
        bench.turn();
        read.extend(app.read(slot, 50_000));
    }
    assert!(bench.closed.is_empty() && read == whole, "{} of {}", read.len(), whole.len());
}

#[test]
fn connections_that_find_no_memory_stand_as_soon_as_there_is_some() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let remote = "10.0.0.1:80".parse().expect("an address");
    bench.engine.listen(remote, 64, FlowOptions::default()).expect("nobody listens there");
    let taken: Vec<_> = std::iter::from_fn(|| app.streams.server.heap().lend(10)).collect();
    let opened = app.streams.server.lend_slot().expect("a slot");
    let connecting = Kind::Stream as u32 | SlotState::CONNECTING;
    app.words(opened).state.store(connecting, Ordering::Release);
    let local = "10.0.0.2:7".parse().expect("an address");
    let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header };
    let options = options();
    app.command_queue.command(&Command::Connect {
        app: AppId(5),
        slot: opened,
        local,
        remote,
        options,
        next_hop,
    });
    let (local, remote) = app.command_queue.next_connect_probe().expect("it was asked for");
    assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
    let talks = bench.talks(3);
    talks.iter().for_each(|talk| _ = bench.write(talk.flow, b"early"));
    bench.turns(40);
    app.accept();
    assert!(bench.closed.is_empty() && app.accepted.is_empty());
    assert_eq!(app.words(opened).state().0, connecting, "neither broken nor connected");
    taken.into_iter().for_each(|ring| app.streams.server.heap().take_back(ring));
    bench.turns(20);
    app.accept();
    assert_eq!(app.accepted.len(), 3);
    assert!(app.accepted.iter().all(|slot| app.read(*slot, 100) == b"early"));
    assert!(app.words(opened).state().has(SlotState::CONNECTED));
    assert_eq!(app.write(opened, b"hello"), 5);
}

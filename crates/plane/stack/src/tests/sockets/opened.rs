//! Connections that applications open.

use super::*;

#[test]
fn a_connection_is_opened_although_its_application_was_never_heard_of_before() {
    let (mut bench, app) = bench(1, None);
    let slot = app.streams.server.lend_slot().expect("a slot");
    app.words(slot).state.store(Kind::Stream as u32 | SlotState::CONNECTING, Ordering::Release);
    let local = "10.0.0.2:7".parse().expect("an address");
    let remote = "10.0.0.1:80".parse().expect("an address");
    let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header };
    let options = options();
    app.command_queue.command(&Command::Connect {
        app: AppId(5),
        slot,
        local,
        remote,
        options,
        next_hop,
    });
    let (local, remote) = app.command_queue.next_connect_probe().expect("it was asked for");
    assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
    // Nobody listens there: it is refused, of which the application hears.
    bench.turns(10);
    assert!(app.words(slot).state().has(SlotState::BROKEN), "{:?}", app.words(slot).state());
}

#[test]
fn a_connection_that_is_opened_here_is_opened_by_the_worker_that_its_packets_come_to() {
    let (mut bench, app) = bench(3, None);
    bench.turns(2);
    let remote = "10.0.0.1:80".parse().expect("an address");
    let listener = bench.engine.listen(remote, 64, FlowOptions::default());
    listener.expect("nobody listens there");
    let mut slots = Vec::new();
    for number in 0..20 {
        let slot = app.streams.server.lend_slot().expect("a slot");
        let words = app.words(slot);
        words.state.store(Kind::Stream as u32 | SlotState::CONNECTING, Ordering::Release);
        let local = "10.0.0.2:7".parse().expect("an address");
        let remote = format!("10.0.0.{}:80", 1 + number).parse().expect("an address");
        // Only the first has somebody there: the others stand for names that differ.
        let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
        let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header };
        let options = options();
        app.command_queue.command(&Command::Connect {
            app: AppId(5),
            slot,
            local,
            remote,
            options,
            next_hop,
        });
        slots.push(slot);
    }
    while let Some((local, remote)) = app.command_queue.next_connect_probe() {
        assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
    }
    bench.turns(10);
    let state = app.words(slots[0]).state();
    assert!(state.has(SlotState::CONNECTED) && !state.has(SlotState::CONNECTING), "{state:?}");
    assert_eq!(app.write(slots[0], b"GET"), 3);
    bench.turns(3);
    let workers: std::collections::BTreeSet<u32> =
        slots.iter().map(|slot| app.words(*slot).worker.load(Ordering::Relaxed)).collect();
    assert!(workers.len() > 1, "all groups at one worker");
    // Those that nobody answers are over when their application gives up.
    slots.iter().for_each(|slot| app.ask(*slot, Asks::CLOSE));
    bench.turns(5);
    assert_eq!(app.streams.server.slots_taken(), 1);
    let events = app.events();
    // Nothing of theirs can come any more.
    let finished = events
        .iter()
        .filter(|event| matches!(event, SocketEvent::Finished { may_linger: false, .. }));
    assert_eq!(finished.count(), 19, "the one that stood is closed by one side only: {events:?}");
}

/// What a router answers to a packet of ours: "host unreachable", quoting its headers.
fn host_unreachable(packet: &[u8]) -> Vec<u8> {
    unreachable(packet, 1, 0)
}

/// The same for another reason, which has to do with a path of that MTU.
pub(super) fn unreachable(packet: &[u8], code: u8, mtu: u16) -> Vec<u8> {
    let quoted = &packet[14..14 + 28];
    let [high, low] = mtu.to_be_bytes();
    let mut message = vec![3, code, 0, 0, 0, 0, high, low];
    message.extend_from_slice(quoted);
    let sum = wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = [0; 20];
    (ip[0], ip[8], ip[9]) = (0x45, 64, 1);
    ip[2..4].copy_from_slice(&(20 + message.len() as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&[10, 0, 0, 99]);
    ip[16..20].copy_from_slice(&quoted[12..16]);
    let sum = wire::checksum::of(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&OURS[..], &CLIENT, &[8, 0], &ip, &message].concat()
}

#[test]
fn a_router_that_knows_no_way_ends_what_is_being_opened_and_nothing_else() {
    let (mut bench, app) = bench(2, None);
    bench.dispatcher.expect_errors();
    bench.turns(2);
    let slot = app.streams.server.lend_slot().expect("a slot");
    app.words(slot).state.store(Kind::Stream as u32 | SlotState::CONNECTING, Ordering::Release);
    let [local, remote] = ["10.0.0.2:7", "10.7.7.7:80"].map(|at| at.parse().expect("an address"));
    let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header };
    app.command_queue.command(&Command::Connect {
        app: AppId(5),
        slot,
        local,
        remote,
        options: options(),
        next_hop,
    });
    let connect_probe = app.command_queue.next_connect_probe().expect("it was asked for");
    assert!(send_connect_probe(&mut bench.dispatcher, connect_probe.0, connect_probe.1, bench.now));
    let sent: Vec<_> = (0..3).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 1, "a SYN");
    // About a segment that was never sent: nobody believes it.
    let mut forged = sent[0].clone();
    forged[14 + 20 + 4] ^= 0x40;
    bench.pass(vec![host_unreachable(&forged)]);
    assert!(app.words(slot).state().has(SlotState::CONNECTING));
    bench.pass(vec![host_unreachable(&sent[0])]);
    bench.pass(Vec::new());
    let words = app.words(slot);
    assert!(words.state().has(SlotState::BROKEN) && !words.state().has(SlotState::CONNECTING));
    assert_eq!(words.error.load(Ordering::Relaxed), 113, "EHOSTUNREACH");
}

#[test]
fn a_connection_that_no_worker_has_begun_with_is_taken_back_once() {
    let (_bench, app) = bench(1, None);
    let [local, remote] = ["10.0.0.2:9", "10.0.0.1:80"].map(|at| at.parse().expect("an address"));
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header: vec![0; 14] };
    let options = options();
    app.command_queue.command(&Command::Connect {
        app: AppId(5),
        slot: SlotId(8),
        local,
        remote,
        options,
        next_hop,
    });
    assert!(
        !app.command_queue.withdraw(AppId(5), SlotId(9))
            && app.command_queue.withdraw(AppId(5), SlotId(8))
            && !app.command_queue.withdraw(AppId(5), SlotId(8))
    );
}

#[test]
fn a_name_that_is_still_in_use_is_refused_as_linux_refuses_it() {
    let (mut bench, app) = bench(1, None);
    bench.turns(2);
    let [local, remote] = ["10.0.0.2:7", "10.0.0.9:80"].map(|at| at.parse().expect("an address"));
    let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header };
    let slots = [0; 2].map(|_| app.streams.server.lend_slot().expect("a slot"));
    for slot in slots {
        let (next_hop, options) = (next_hop.clone(), options());
        app.words(slot).state.store(Kind::Stream as u32 | SlotState::CONNECTING, Ordering::Release);
        app.command_queue.command(&Command::Connect {
            app: AppId(5),
            slot,
            local,
            remote,
            options,
            next_hop,
        });
        let (local, remote) = app.command_queue.next_connect_probe().expect("it was asked for");
        assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
        // Nobody answers.
        (0..3).for_each(|_| bench.turn_of_data_path());
    }
    assert!(app.words(slots[0]).state().has(SlotState::CONNECTING));
    assert!(app.words(slots[1]).state().has(SlotState::BROKEN));
    assert_eq!(app.words(slots[1]).error.load(Ordering::Relaxed), 99, "EADDRNOTAVAIL");
}

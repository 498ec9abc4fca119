//! UDP sockets of applications.

use base::SlotId;

use super::*;

/// Sends every datagram back to whom it came from; how many.
fn return_all(app: &App, slot: SlotId) -> usize {
    for count in 0.. {
        let tail = app.words(slot).rx_tail.load(Ordering::Acquire);
        if app.words(slot).rx_head.load(Ordering::Relaxed) == tail {
            return count;
        }
        let header = app.read(slot, HEADER_BYTES);
        let record = Record::decode(header.as_slice().try_into().expect("whole")).expect("honest");
        assert_eq!(record.local, Some("10.0.0.2".parse().expect("an address")));
        let rest = Record::bytes(record.payload as usize) - HEADER_BYTES;
        let payload = app.read(slot, rest);
        assert_eq!(app.write(slot, &[header, payload].concat()), HEADER_BYTES + rest);
    }
    unreachable!("the loop has no end")
}

#[test]
fn datagrams_come_and_go_with_their_addresses_whichever_worker_they_come_to() {
    let (mut bench, app) = bench(3, None);
    let slot = datagrams(&app);
    bench.turns(2);
    let mut back = Vec::new();
    for round in 0..30_u16 {
        let sent =
            (0..5).map(|at| packet(1000 + 5 * round + at, &vec![at as u8; usize::from(round)]));
        back.extend(bench.pass(sent.collect()));
        return_all(&app, slot);
        if round == 15 {
            let first = bench.workers[0].0;
            bench.dispatcher.steering_mut().remove_worker(first);
        }
    }
    back.extend((0..3).flat_map(|_| bench.pass(Vec::new())));
    let mut names: Vec<u16> = back.iter().map(|packet| payload_of(packet).0).collect();
    names.sort_unstable();
    assert_eq!(names, (1000..1150).collect::<Vec<_>>());
    assert!(back.iter().all(|packet| {
        let (name, payload) = payload_of(packet);
        payload == vec![(name % 5) as u8; usize::from((name - 1000) / 5)]
    }));
    app.ask(slot, Asks::CLOSE);
    bench.turns(3);
    assert_eq!(app.streams.server.slots_taken(), 1);
    assert_eq!(app.streams.server.heap().bytes(), 1 << 10);
}

#[test]
fn datagrams_that_nobody_reads_are_dropped_and_counted_and_a_way_is_asked_for() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    for _ in 0..10 {
        bench.pass(vec![packet(9, &[1; 1000])]);
    }
    assert_eq!(app.words(slot).rx_tail.load(Ordering::Relaxed), 3 * 1056, "three fit");
    let remote = "10.9.9.9:53".parse().expect("an address");
    let record = Record { payload: 2, remote: Some(remote), ..Record::default() };
    app.write(slot, &[&record.encode()[..], b"hi\0\0\0\0\0\0"].concat());
    let unresolved = SocketEvent::Unresolved { remote: remote.ip(), user: 1000, is_answer: false };
    bench.turns(3);
    assert!(app.events().contains(&unresolved));
    let next_hop = NextHop {
        port: base::PortId(0),
        vlan_tci: 0,
        header: [&CLIENT[..], &OURS, &[8, 0]].concat(),
    };
    let local = "10.0.0.2".parse().expect("an address");
    app.command_queue
        .command(&Command::Resolved { remote: remote.ip(), next_hop: Some((next_hop, local)) });
    let sent: Vec<_> = (0..100).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 1);
    assert_eq!(payload_of(&sent[0]), (53, b"hi".to_vec()));
}

#[test]
fn datagrams_that_cannot_leave_are_dropped_each_under_its_name() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    let long = Record {
        payload: 1473,
        remote: Some("10.0.0.1:53".parse().expect("an address")),
        ..Record::default()
    };
    let aimless = Record { payload: 0, remote: None, ..Record::default() };
    let mut bytes = long.encode().to_vec();
    bytes.resize(Record::bytes(1473), 0);
    bytes.extend(aimless.encode());
    assert_eq!(app.write(slot, &bytes), bytes.len());
    for _ in 0..5 {
        bench.pass(vec![packet(9, &[1; 1200])]);
    }
    let sent: usize = (0..5).map(|_| bench.pass(Vec::new()).len()).sum();
    assert_eq!(sent, 0);
    bench.turns(30);
    let names = ["datagrams_too_long", "datagrams_denied", "datagrams_no_room"];
    assert_eq!(names.map(|name| bench.count(name)), [1, 1, 2]);
    assert_eq!(app.words(slot).tx_head.load(Ordering::Relaxed), bytes.len() as u64);
}

#[test]
fn datagrams_that_never_leave_take_a_bounded_part_of_a_turn() {
    let (mut bench, app) = bench(1, None);
    let slots: Vec<SlotId> = (7..15).map(|port| datagrams_on(&app, port)).collect();
    bench.turns(2);
    let aimless = Record { payload: 0, remote: None, ..Record::default() };
    for slot in &slots {
        let bytes = aimless.encode().repeat(60);
        assert_eq!(app.write(*slot, &bytes), bytes.len());
    }
    let taken = || {
        let heads = slots.iter().map(|slot| app.words(*slot).tx_head.load(Ordering::Relaxed));
        heads.sum::<u64>() / HEADER_BYTES as u64
    };
    let mut before = 0;
    for turn in 0.. {
        bench.now += base::Nanos::from_micros(100);
        bench.dispatcher.step(bench.now);
        bench.workers[0].1.step(bench.now);
        assert!(taken() - before <= 256, "{} in one turn", taken() - before);
        before = taken();
        if before == 8 * 60 {
            break;
        }
        assert!(turn < 1000, "{before} are taken");
    }
}

#[test]
fn what_is_too_long_is_not_held_with_what_waits_for_the_same_next_hop() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    let remote = Some("10.9.9.9:53".parse().expect("an address"));
    let mut bytes = Record { remote, ..Record::default() }.encode().to_vec();
    let long = Record { payload: 1473, remote, ..Record::default() };
    bytes.extend(long.encode());
    bytes.resize(HEADER_BYTES + Record::bytes(1473), 0);
    assert_eq!(app.write(slot, &bytes), bytes.len());
    bench.turns(30);
    let names = ["datagrams_too_long", "datagrams_no_route"];
    assert_eq!(names.map(|name| bench.count(name)), [1, 0]);
}

#[test]
fn a_socket_of_ipv6_alone_leaves_datagrams_of_ipv4_to_the_other_one_of_its_port() {
    let (mut bench, app) = bench(1, None);
    let of_v4 = datagrams(&app);
    let everywhere = std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 7));
    let of_v6 = datagrams_at(&app, everywhere, "fd00::2");
    bench.turns(2);
    bench.pass(vec![packet(9, b"of IPv4")]);
    let tail = |slot| app.words(slot).rx_tail.load(Ordering::Acquire);
    assert_eq!((tail(of_v4), tail(of_v6)), (Record::bytes(7) as u64, 0));
}

/// Class, hop limit, and the word with the flag that forbids cuts, of a packet of IPv4.
fn ip_of(packet: &[u8]) -> (u8, u8, u16) {
    (packet[15], packet[22], u16::from_be_bytes([packet[20], packet[21]]))
}

#[test]
fn a_datagram_says_how_it_leaves_and_how_it_came() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    let link = PortLink { port: base::PortId(0), interface: 17, mac: OURS, mac_before: None };
    app.command_queue.command(&Command::Interfaces([link].into()));
    bench.turns(2);
    let mut marked = packet(9, b"marked");
    (marked[15], marked[22]) = (0b10_1011, 5);
    (marked[24], marked[25]) = (0, 0);
    let sum = wire::checksum::of(&marked[14..34]);
    marked[24..26].copy_from_slice(&sum.to_be_bytes());
    bench.pass(vec![marked]);
    let header = app.read(slot, HEADER_BYTES);
    let came = Record::decode(header.as_slice().try_into().expect("whole")).expect("honest");
    assert_eq!((came.class, came.hop_limit, came.interface), (Some(0b10_1011), Some(5), 17));
    assert!(came.came_at > 0 && came.came_at <= bench.now.0);
    app.read(slot, 8);

    let (remote, local) = (came.remote, came.local);
    let plain = Record { payload: 0, remote, local, ..Record::default() };
    let said = Record { class: Some(3), hop_limit: Some(9), ..plain };
    // What no honest program asks for.
    let nowhere = Record { hop_limit: Some(0), ..plain };
    app.write(slot, &[plain.encode(), said.encode(), nowhere.encode()].concat());
    app.words(slot).set_option(SlotOption::TypeOfService, 16);
    let left: Vec<_> = (0..3).flat_map(|_| bench.pass(Vec::new())).collect();
    let left: Vec<_> = left.iter().map(|packet| ip_of(packet)).collect();
    assert_eq!(left, [(16, 64, 0x4000), (3, 9, 0x4000), (16, 64, 0x4000)], "not to be cut");

    app.words(slot).set_option(SlotOption::MayBeCut, 1);
    app.write(slot, &[plain.encode(), plain.encode()].concat());
    let left: Vec<_> = (0..3).flat_map(|_| bench.pass(Vec::new())).collect();
    assert!(left.iter().all(|packet| ip_of(packet) == (16, 64, 0)), "routers may cut it");
    let numbers: Vec<_> = left.iter().map(|packet| (packet[18], packet[19])).collect();
    assert_eq!(numbers.len(), 2);
    assert_ne!(numbers[0], numbers[1], "each has its own number");
    assert!(left.iter().all(|packet| wire::checksum::of(&packet[14..34]) == 0));
}

#[test]
fn who_is_connected_hears_that_a_link_was_too_narrow_unless_routers_may_cut() {
    let (mut bench, app) = bench(1, None);
    bench.dispatcher.expect_errors();
    let [local, remote] = ["10.0.0.2:7", "10.0.0.1:9"].map(|at| at.parse().expect("an address"));
    let slot = connected_datagrams(&app, local, "10.0.0.2", Some(remote));
    bench.turns(2);
    bench.pass(vec![packet(9, b"here I am")]);
    app.write(slot, &Record::default().encode());
    let sent: Vec<_> = (0..5).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 1);
    let error = |bench: &mut Bench| {
        bench.pass(vec![super::opened::unreachable(&sent[0], 4, 1280)]);
        bench.turns(2);
        app.words(slot).error.swap(0, Ordering::Relaxed)
    };
    assert_eq!(error(&mut bench), 90, "EMSGSIZE");
    app.words(slot).set_option(SlotOption::MayBeCut, 1);
    assert_eq!(error(&mut bench), 0);
}

/// What has come of a router's word: the path that is known, whether the kernel gets it, and the
/// error of the socket.
fn outcome(
    bench: &mut Bench,
    app: &App,
    slot: SlotId,
    error: Vec<u8>,
) -> (Option<u16>, usize, u32) {
    bench.pass(vec![error]);
    bench.turns(2);
    let words = app.words(slot);
    let remote = "10.0.0.1".parse().expect("an address");
    let mtu = app.streams.server.memory().path_mtu(remote, || bench.now.0 / 1_000_000_000);
    let for_kernel = app.command_queue.take_for_kernel();
    assert!(for_kernel.iter().all(|error| error.slot == slot && error.packet[0] == 0x45));
    (mtu, for_kernel.len(), words.error.swap(0, Ordering::Relaxed))
}

#[test]
fn a_narrow_path_is_believed_of_what_was_sent_and_did_not_fit() {
    let (mut bench, app) = bench(1, None);
    bench.dispatcher.expect_errors();
    let slot = datagrams(&app);
    bench.turns(2);
    bench.pass(vec![packet(9, b"here I am")]);
    let record = Record {
        payload: 1400,
        remote: Some("10.0.0.1:9".parse().expect("an address")),
        ..Record::default()
    };
    let mut bytes = record.encode().to_vec();
    bytes.resize(Record::bytes(1400), 7);
    app.write(slot, &bytes);
    let sent: Vec<_> = (0..5).flat_map(|_| bench.pass(Vec::new())).collect();
    assert_eq!(sent.len(), 1);
    let said = |packet: &[u8], mtu| super::opened::unreachable(packet, 4, mtu);
    // Of a length that was never sent; to whom nothing was; and of what fits.
    let (mut other_length, mut other_port) = (sent[0].clone(), sent[0].clone());
    other_length[14 + 20 + 5] ^= 1;
    other_port[14 + 20 + 3] ^= 1;
    for (forged, mtu) in [(&other_length, 1280), (&other_port, 1280), (&sent[0], 1428)] {
        let outcome = outcome(&mut bench, &app, slot, said(forged, mtu));
        assert_eq!(outcome, (None, 1, 0), "the kernel has what it would have had, and judges");
    }
    assert_eq!(outcome(&mut bench, &app, slot, said(&sent[0], 1300)), (Some(1300), 1, 0));
    // Nobody makes a path narrower than Linux lets it be, and old routers say nothing.
    assert_eq!(outcome(&mut bench, &app, slot, said(&sent[0], 68)), (Some(552), 1, 0));
    bench.turns(30);
    let names = ["narrow_paths", "errors_for_kernel", "errors_too_many"];
    assert_eq!(names.map(|name| bench.count(name)), [2, 5, 0]);
}

#[test]
fn who_has_a_queue_of_errors_is_told_by_the_kernel_and_has_few_of_them_wait() {
    let (mut bench, app) = bench(1, None);
    bench.dispatcher.expect_errors();
    let [local, remote] = ["10.0.0.2:7", "10.0.0.1:9"].map(|at| at.parse().expect("an address"));
    let slot = connected_datagrams(&app, local, "10.0.0.2", Some(remote));
    bench.turns(2);
    bench.pass(vec![packet(9, b"here I am")]);
    app.write(slot, &Record::default().encode());
    let sent: Vec<_> = (0..5).flat_map(|_| bench.pass(Vec::new())).collect();
    let refused = || super::opened::unreachable(&sent[0], 3, 0);
    assert_eq!(outcome(&mut bench, &app, slot, refused()), (None, 0, 111), "ECONNREFUSED");
    app.words(slot).set_option(SlotOption::TellsErrors, 1);
    assert_eq!(outcome(&mut bench, &app, slot, refused()), (None, 1, 0));
    for _ in 0..10 {
        bench.pass((0..10).map(|_| refused()).collect());
    }
    bench.turns(30);
    assert_eq!(app.command_queue.take_for_kernel().len(), 32, "of one user");
    assert_eq!(bench.count("errors_too_many"), 68);
}

#[test]
fn what_comes_is_the_next_sockets_while_a_closed_one_has_something_left_to_send() {
    // Two datagrams of the first one cost more than this.
    let (mut bench, app) = bench(1, Some(Arc::new(Rate::new(1, 200))));
    let peer = Some("10.0.0.1:9".parse().expect("an address"));
    let at = "10.0.0.2:7".parse().expect("an address");
    let closed = connected_datagrams(&app, at, "10.0.0.2", peer);
    bench.turns(2);
    bench.pass(vec![packet(9, b"hello")]);
    let heard = |slot| app.words(slot).rx_tail.load(Ordering::Acquire);
    let heard_first = heard(closed);
    assert_ne!(heard_first, 0);
    let record = Record { payload: 104, ..Record::default() };
    let mut bytes = record.encode().to_vec();
    bytes.resize(Record::bytes(104), 7);
    (0..2).for_each(|_| assert_eq!(app.write(closed, &bytes), bytes.len()));
    app.ask(closed, Asks::CLOSE);
    bench.turns(3);
    let words = app.words(closed);
    let sent = words.tx_head.load(Ordering::Acquire);
    assert_eq!(sent, bytes.len() as u64, "the second waits for the rate");
    let next = datagrams(&app);
    bench.turns(2);
    bench.pass(vec![packet(9, b"hello")]);
    assert_eq!((heard(closed), heard(next)), (heard_first, heard_first));
}

//! What a limited user gets: what it has paid for, headers included, and no more.

use super::*;

/// Bytes of a datagram on the wire, and of a SYN.
const HEADERS: u64 = 14 + 20 + 8;
const SYN: u64 = 14 + 20 + 40;

/// Writes datagrams of `payload_bytes` bytes for half a second; bytes that left, headers included.
fn send_datagrams(payload_bytes: u32) -> u64 {
    let (mut bench, app) = bench(1, Some(Arc::new(Rate::new(125_000, 4_000))));
    let slot = datagrams(&app);
    bench.turns(2);
    // So that the way to the peer is known.
    bench.pass(vec![packet(9, b"hello")]);
    let remote = Some("10.0.0.1:9".parse().expect("an address"));
    let record = Record { payload: payload_bytes, remote, ..Record::default() };
    let mut bytes = record.encode().to_vec();
    bytes.resize(Record::bytes(payload_bytes as usize), 7);
    let mut sent = 0;
    for _ in 0..5000 {
        let words = app.words(slot);
        let unsent = words.tx_tail.load(Ordering::Relaxed) - words.tx_head.load(Ordering::Acquire);
        if unsent + bytes.len() as u64 <= 1 << 12 {
            app.write(slot, &bytes);
        }
        let left = bench.pass(Vec::new());
        sent += left.iter().map(|packet| payload_of(packet).1.len() as u64 + HEADERS).sum::<u64>();
    }
    sent
}

#[test]
fn an_honest_sender_of_datagrams_gets_what_its_user_has_paid_for_and_no_more() {
    for payload_bytes in [0, 1, 100, 1000, 1472] {
        let sent = send_datagrams(payload_bytes);
        let paid = 4_000 + 125_000 / 2;
        assert!(
            (paid * 97 / 100..=paid + 1514).contains(&sent),
            "{sent} of {paid} bytes at {payload_bytes} a datagram"
        );
    }
}

#[test]
fn connections_that_a_limited_user_opens_are_paid_for_and_all_open_in_the_end() {
    // One SYN every ten milliseconds, and three at once.
    let (mut bench, app) = bench(2, Some(Arc::new(Rate::new(SYN * 100, SYN * 3))));
    bench.turns(2);
    let mut slots = Vec::new();
    for number in 0..20 {
        let slot = app.streams.server.lend_slot().expect("a slot");
        let connecting = Kind::Stream as u32 | SlotState::CONNECTING;
        app.words(slot).state.store(connecting, Ordering::Release);
        let local = "10.0.0.2:7".parse().expect("an address");
        let remote = format!("10.0.0.{}:80", 1 + number).parse().expect("an address");
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
    let began = bench.now;
    let mut peers = std::collections::BTreeMap::new();
    while peers.len() < 20 && bench.now.since(began) < base::Nanos::from_millis(400) {
        while let Some((local, remote)) = app.command_queue.next_connect_probe() {
            assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
        }
        let now = bench.now;
        for packet in bench.pass(Vec::new()) {
            let wire::Outcome::Flow(flow) = wire::classify(&packet) else { continue };
            peers.entry(flow.key.destination()).or_insert(now);
        }
        // Of those that may go by now, burst included.
        let due = 3 + bench.now.since(began).0 / 10_000_000;
        assert!(peers.len() as u64 <= due, "{} SYNs, {due} were paid for", peers.len());
    }
    assert_eq!(peers.len(), 20, "some never opened");
    assert!(bench.now.since(began) < base::Nanos::from_millis(190), "later than was paid for");
    // One that still waits can be taken back.
    slots.iter().for_each(|slot| app.ask(*slot, Asks::CLOSE));
    bench.turns(5);
    assert_eq!(app.streams.server.slots_taken(), 1);
}

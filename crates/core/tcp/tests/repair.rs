//! What a record for another TCP says, over a link that loses and reorders, in virtual time.

use std::collections::BTreeMap;

use crate::support::connection::{accepted, with_timestamps};
use crate::support::{Host, Packet};
use base::Nanos;
use proptest::prelude::*;
use tcp::{Config, Engine, Event, FlowId, FlowOptions, NoRepair, Repair, State};

/// A generator that is the same everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The byte at a place of the stream that a side writes.
fn byte(side: usize, at: usize) -> u8 {
    Random((side as u64) << 40 | at as u64).next() as u8
}

/// A side, and how far its application has come.
struct Side {
    host: Host,
    flow: Option<FlowId>,
    written: usize,
    read: usize,
}

impl Side {
    fn hear(&mut self) {
        while let Some(event) = self.host.sink.events.pop_front() {
            if let Event::Connected { flow, .. } = event {
                self.flow = Some(flow);
            }
        }
    }

    fn record(&self, now: Nanos) -> Option<Repair> {
        self.host.engine.repair(self.flow?, now).ok()
    }

    fn in_ring(ring: Option<&Vec<u8>>, at: usize, bytes: u32) -> Vec<u8> {
        let Some(ring) = ring else {
            assert_eq!(bytes, 0);
            return Vec::new();
        };
        (0..bytes as usize).map(|offset| ring[(at + offset) % ring.len()]).collect()
    }

    /// The record holds what this side has written and its peer has not acknowledged, and what has
    /// come and was not read; and it is one that the kernel takes.
    fn check(&self, number: usize, record: &Repair) {
        let flow = self.flow.expect("it has a record");
        let (receive_first, send_end) = self.host.engine.numbers(flow).expect("it lives");
        assert_eq!(record.receive_first, receive_first);
        assert_eq!(record.send_first + record.queued.bytes, send_end);
        let info = self.host.engine.info(flow).expect("it lives");
        assert_eq!(record.shifts, info.shifts.unwrap_or([0, 0]));
        let ring = self.host.rings.send.get(&flow);
        let queued = Self::in_ring(ring, record.queued.at, record.queued.bytes);
        let from = self.written - queued.len();
        let stream: Vec<u8> = (from..self.written).map(|at| byte(number, at)).collect();
        assert!(queued == stream, "the send queue is the end of what was written");
        let ring = self.host.rings.receive.get(&flow);
        let unread = Self::in_ring(ring, record.unread.at, record.unread.bytes);
        let stream = (self.read..self.read + unread.len()).map(|at| byte(1 - number, at));
        assert!(unread == stream.collect::<Vec<u8>>(), "unread is what follows on what was read");
        assert!(record.sent_bytes <= record.queued.bytes);
        // As `tcp_repair_set_window` of Linux checks it.
        let window = &record.window;
        let rcv_nxt = record.receive_first + record.unread.bytes;
        assert!(window.snd_wnd_max >= window.snd_wnd);
        assert!(!window.snd_wl1.is_after(rcv_nxt + window.rcv_wnd));
        assert!(!window.rcv_wup.is_after(rcv_nxt));
    }
}

/// What one side's record says of the other's is true, whatever is on its way between them.
fn check_pair(own: &Repair, peer: &Repair) {
    let taken = peer.receive_first + peer.unread.bytes;
    assert!(!taken.is_before(own.send_first), "what is acknowledged has come");
    assert!(!taken.is_after(own.send_first + own.sent_bytes), "what has come was sent");
    let allowed = own.send_first + own.window.snd_wnd;
    let promised = peer.window.rcv_wup + peer.window.rcv_wnd;
    assert!(!allowed.is_after(promised), "the peer takes what it has promised to take");
    assert_eq!((own.timestamp.is_some(), own.sack), (peer.timestamp.is_some(), peer.sack));
    let [of_peer, ours] = own.shifts;
    assert_eq!([ours, of_peer], peer.shifts);
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    sack: bool,
    timestamps: bool,
    scaling: bool,
    is_v6: bool,
    /// In thousandths.
    lost: u64,
    options: FlowOptions,
}

/// Runs both ways of a connection for a while, and looks at both records after every step; how
/// often both had one.
fn run(plan: &Plan) -> usize {
    const ENDS: [[&str; 2]; 2] =
        [["10.0.0.1:40000", "10.0.0.2:7"], ["[fd00::1]:40000", "[fd00::2]:7"]];
    let [client_end, server_end] = ENDS[usize::from(plan.is_v6)].map(|end| end.parse().unwrap());
    let config = Config {
        flows_max: 8,
        sack: plan.sack,
        timestamps: plan.timestamps,
        window_scaling: plan.scaling,
        ..Config::default()
    };
    let mut now = Nanos::ZERO;
    let mut sides = [0, 1].map(|number| Side {
        host: Host::new(config.clone(), &plan.options, number, now),
        flow: None,
        written: 0,
        read: 0,
    });
    let mut random = Random(plan.seed);
    sides[1].host.engine.listen(server_end, 8, plan.options).unwrap();
    let engine: &mut Engine = &mut sides[0].host.engine;
    let connected = engine.connect(now, client_end, server_end, plan.options, 0).unwrap();
    sides[0].flow = Some(connected);
    let mut link: BTreeMap<(Nanos, u64), (usize, Packet)> = BTreeMap::new();
    let (mut count, mut looks) = (0, 0);
    for _ in 0..600 {
        for (number, side) in sides.iter_mut().enumerate() {
            side.hear();
            if let Some(flow) = side.flow {
                let most = random.below(5000) as usize;
                let data: Vec<u8> =
                    (side.written..side.written + most).map(|at| byte(number, at)).collect();
                side.written += side.host.write(flow, &data);
                let most = random.below(5000) as usize;
                side.read += side.host.read(flow, most).len();
            }
            side.host.turn(now);
            while let Some(packet) = side.host.sink.packets.pop_front() {
                if random.below(1000) >= plan.lost {
                    let at = now + Nanos::from_micros(100 + random.below(3000));
                    count += 1;
                    link.insert((at, count), (1 - number, packet));
                }
            }
        }
        let records = sides.each_ref().map(|side| side.record(now));
        for (number, side) in sides.iter().enumerate() {
            records[number].iter().for_each(|record| side.check(number, record));
        }
        if let [Some(client), Some(server)] = &records {
            check_pair(client, server);
            check_pair(server, client);
            looks += 1;
        }
        now += Nanos::from_micros(random.below(2000));
        while let Some(entry) = link.first_entry()
            && entry.key().0 <= now
        {
            let (to, packet) = entry.remove();
            sides[to].host.receive(now, &packet);
        }
    }
    looks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn whatever_the_link_does_both_records_fit_each_other_and_hold_every_byte(
        seed: u64,
        (sack, timestamps, scaling, is_v6) in any::<(bool, bool, bool, bool)>(),
        lost in prop_oneof![Just(0_u64), 1_u64..200],
        (receive_ring_log2, send_ring_log2) in (9_u8..18, 9_u8..18),
    ) {
        let options = FlowOptions { receive_ring_log2, send_ring_log2, ..FlowOptions::default() };
        let plan = Plan { seed, sack, timestamps, scaling, is_v6, lost, options };
        let looks = run(&plan);
        // A lost SYN comes again after a second, which is longer than this takes.
        prop_assert!(looks > 0 || lost > 0);
    }
}

#[test]
fn a_record_says_what_the_handshake_has_settled() {
    let script = with_timestamps();
    let flow = script.flow();
    let record = script.host.engine.repair(flow, script.now).expect("it stands");
    // Of 1000 that the peer takes; the 12 of the timestamps are in it.
    assert_eq!((record.mss, record.shifts, record.sack), (1000, [0, 0], false));
    let later = script.now + Nanos::from_millis(7);
    let again = script.host.engine.repair(flow, later).expect("it stands");
    let [one, two] = [record, again].map(|record| record.timestamp.expect("they were agreed on"));
    assert_eq!(two, one + 7, "its clock goes on");
}

#[test]
fn bytes_that_were_sent_are_told_from_those_that_wait() {
    let mut script = accepted();
    let flow = script.flow();
    script.host.write(flow, &[7; 40_000]);
    script.host.turn(script.now);
    let record = script.host.engine.repair(flow, script.now).expect("it stands");
    assert_eq!(record.queued.bytes, 40_000);
    assert!(record.sent_bytes > 0 && record.sent_bytes < 40_000, "the first window is on its way");
    assert_eq!(record.timestamp, None);
    assert!(script.host.engine.let_go(flow) && !script.host.engine.let_go(flow));
    script.host.sink.packets.clear();
    script.host.turn(script.now + Nanos::from_secs(60));
    assert!(script.host.sink.packets.is_empty(), "whoever let it go says no more of it");
    assert_eq!(script.host.engine.records_in_use(), (0, 0));
    assert_eq!(script.host.engine.repair(flow, script.now), Err(NoRepair::Gone));
}

#[test]
fn what_cannot_be_gone_on_with_is_refused_with_its_reason() {
    let mut script = accepted();
    let flow = script.flow();
    script.host.write(flow, b"!");
    script.host.engine.mark_urgent(flow).expect("it stands");
    assert_eq!(script.host.engine.repair(flow, script.now), Err(NoRepair::Urgent));
    script.host.engine.abort(flow).expect("it stands");
    assert_eq!(script.host.engine.repair(flow, script.now), Err(NoRepair::NotEstablished));
}

#[test]
fn an_end_of_the_peers_is_said_and_has_no_place_among_the_bytes() {
    let mut script = accepted();
    script.inject("FP. 1:11 ack 1 win 65535");
    script.expect(&[". 1:1 ack 12 win 65524"]);
    script.expect_state(State::CloseWait);
    script.write(100);
    script.expect(&["P. 1:101 ack 12 win 65524"]);
    let flow = script.flow();
    let record = script.host.engine.repair(flow, script.now).expect("it stands");
    assert!(record.has_peer_closed && !record.is_shut);
    assert_eq!((record.unread.bytes, record.queued.bytes, record.sent_bytes), (10, 100, 100));
    let received = record.receive_first + record.unread.bytes;
    // As `tcp_repair_set_window` of Linux checks it, with the FIN yet to come.
    assert!(!record.window.rcv_wup.is_after(received));
    assert!(!record.window.snd_wl1.is_after(received + record.window.rcv_wnd));
    script.read(1, 10);
    let record = script.host.engine.repair(flow, script.now).expect("it stands");
    assert_eq!((record.unread.bytes, record.receive_first), (0, received));
    // Its own end comes behind that: both are closed, and neither is through.
    script.host.engine.shutdown(flow).expect("it stands");
    script.expect(&["F. 101:101 ack 12 win 65524"]);
    let record = script.host.engine.repair(flow, script.now).expect("it stands");
    assert!(record.has_peer_closed && record.is_shut);
    assert_eq!((record.queued.bytes, record.sent_bytes), (100, 100), "without the FIN");
}

#[test]
fn an_end_of_ours_is_said_whether_or_not_it_was_acknowledged() {
    let mut script = accepted();
    script.write(100);
    let flow = script.flow();
    script.host.engine.shutdown(flow).expect("it stands");
    script.expect(&["FP. 1:101 ack 1 win 65535"]);
    let before = script.host.engine.repair(flow, script.now).expect("it stands");
    assert_eq!((before.queued.bytes, before.is_shut), (100, true));
    script.inject(". 1:1 ack 102 win 65535");
    script.expect_state(State::FinWait2);
    let after = script.host.engine.repair(flow, script.now).expect("it stands");
    assert_eq!((after.queued.bytes, after.sent_bytes, after.is_shut), (0, 0, true));
    assert_eq!(after.send_first, before.send_first + 100, "the FIN's own number");
    script.inject("F. 1:1 ack 102 win 65535");
    script.expect_state(State::TimeWait);
    assert_eq!(script.host.engine.repair(flow, script.now), Err(NoRepair::Gone));
}

#[test]
fn an_engine_that_has_let_flows_go_and_is_silent_refuses_nobody() {
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.be_silent();
    assert!(script.host.engine.let_go(flow));
    script.inject("P. 1:11 ack 1 win 65535");
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().unanswered, 1);
}

//! Sockets of an application, from an engine at the other end of a wire: the application's side of the memory is
//! played here, word by word.

mod endings;
mod honest;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use proptest::prelude::*;
use shm::sockets::{
    Asks, Backlog, HEADER_BYTES, Kind, Quota, Record, RingDesc, Side, SlotInfo, SlotOption,
    SlotState, SlotWords, SocketMemory, SocketServer, SocketSizes, TX_GROW_SHIFT,
};
use tcp::{Algorithm, CloseReason, FlowOptions};

use super::connections::{Bench, CLIENT_MAC as CLIENT, OUR_MAC as OURS};
use crate::{
    AppSockets, Command, CommandQueue, Datagrams, Listening, NextHop, Notifier, Rate, ServiceKind,
    SocketEvent, send_connect_probe,
};

const POLLER: u32 = 3;

/// Counts who was woken.
#[derive(Default)]
struct Rung {
    pollers: AtomicU64,
    futexes: AtomicU64,
}

impl Notifier for Arc<Rung> {
    fn poller(&self, _: Side, poller: u32) {
        assert_eq!(poller, POLLER);
        self.pollers.fetch_add(1, Ordering::Relaxed);
    }

    fn futex(&self, _: &AtomicU32) {
        self.futexes.fetch_add(1, Ordering::Relaxed);
    }
}

/// An application that listens.
struct App {
    command_queue: CommandQueue,
    streams: Arc<AppSockets>,
    memory: SocketMemory,
    listener: u32,
    rung: Arc<Rung>,
    accepted: Vec<u32>,
}

fn options() -> FlowOptions {
    FlowOptions { receive_limit_log2: 22, ..FlowOptions::default() }
}

impl App {
    fn new(command_queue: CommandQueue, rate: Option<Arc<Rate>>, quota_bytes: u64) -> Self {
        let sizes =
            SocketSizes { slots: 128, pollers: 8, sides: 1, workers: 16, ring_bytes: 64 << 20 };
        let quota = Arc::new(Quota::new(128, quota_bytes));
        let server = SocketServer::within("test", sizes, quota).expect("addresses are left");
        let fd = server.memory().descriptor().as_fd().try_clone_to_owned().expect("fds are left");
        let rung = Arc::new(Rung::default());
        let notifier = Box::new(Arc::clone(&rung));
        let streams = Arc::new(AppSockets {
            app: 5,
            region: 9,
            server,
            notifier,
            spins: true,
            rate,
            permits: None,
            congestions: vec![Algorithm::NewReno, Algorithm::Timely],
        });
        command_queue.command(&Command::Add(Arc::clone(&streams)));
        let listener = streams.server.lend_slot().expect("a slot");
        let memory = SocketMemory::open(fd).expect("it is one");
        let ring = streams.server.heap().lend(10).expect("memory");
        let words = memory.slot(listener).expect("it was lent");
        words.rx_ring.store(ring.desc().word(), Ordering::Release);
        words.pollers[0].store(1 << POLLER, Ordering::Release);
        words.state.store(Kind::Listener as u32, Ordering::Release);
        command_queue.command(&Command::Listen(Arc::new(Listening {
            app: Arc::clone(&streams),
            slot: listener,
            address: "10.0.0.2:7".parse().expect("an address"),
            backlog: Arc::new(Backlog::new(ring, 64)),
            half_open_max: 64,
            options: options(),
        })));
        Self { command_queue, streams, memory, listener, rung, accepted: Vec::new() }
    }

    fn words(&self, slot: u32) -> &SlotWords {
        self.memory.slot(slot).expect("it was lent")
    }

    fn set_ready(&self, slot: u32) {
        let worker = self.words(slot).worker.load(Ordering::Acquire);
        let _ = self.memory.worker(worker).expect("a worker").set(slot);
    }

    fn ask(&self, slot: u32, ask: u32) {
        self.words(slot).asks.fetch_or(ask, Ordering::AcqRel);
        self.set_ready(slot);
    }

    fn accept(&mut self) {
        let words = self.memory.slot(self.listener).expect("it listens");
        while let Some(entry) = Backlog::take(&self.memory, words) {
            assert_eq!(entry.region, 9);
            self.words(entry.slot).pollers[0].store(1 << POLLER, Ordering::Release);
            self.accepted.push(entry.slot);
        }
    }

    fn read(&self, slot: u32, most: usize) -> Vec<u8> {
        let words = self.words(slot);
        let tail = words.rx_tail.load(Ordering::Acquire);
        let desc = RingDesc::of_word(words.rx_ring.load(Ordering::Acquire));
        let head = words.rx_head.load(Ordering::Relaxed);
        let bytes = ((tail - head) as usize).min(most);
        if bytes == 0 {
            return Vec::new();
        }
        let index = head + u64::from(words.rx_base.load(Ordering::Relaxed));
        let pieces = self.memory.pieces(desc, index, bytes).expect("in the heap");
        let mut read = vec![0; bytes];
        let first = pieces[0].copy_out(&mut read);
        pieces[1].copy_out(&mut read[first..]);
        words.rx_head.store(head + bytes as u64, Ordering::Release);
        self.set_ready(slot);
        read
    }

    /// Writes as much as fits; asks for a larger ring when that is not all, and moves to one that it is offered.
    fn write(&self, slot: u32, bytes: &[u8]) -> usize {
        let words = self.words(slot);
        let (tail, head) =
            (words.tx_tail.load(Ordering::Relaxed), words.tx_head.load(Ordering::Acquire));
        let base = u64::from(words.tx_base.load(Ordering::Relaxed));
        let mut used = RingDesc::of_word(words.tx_ring_used.load(Ordering::Relaxed));
        let offered = RingDesc::of_word(words.tx_ring.load(Ordering::Acquire));
        if offered != used && bytes.len() as u64 > used.bytes() - (tail - head) {
            let mut kept = vec![0; (tail - head) as usize];
            let from = self.memory.pieces(used, base + head, kept.len()).expect("in the heap");
            let first = from[0].copy_out(&mut kept);
            from[1].copy_out(&mut kept[first..]);
            let to = self.memory.pieces(offered, base + head, kept.len()).expect("in the heap");
            let first = to[0].copy_in(&kept);
            to[1].copy_in(&kept[first..]);
            words.tx_ring_used.store(offered.word(), Ordering::Release);
            used = offered;
        }
        let room = used.bytes() - (tail - head);
        let count = bytes.len().min(room as usize);
        let to = self.memory.pieces(used, base + tail, count).expect("in the heap");
        let first = to[0].copy_in(&bytes[..count]);
        to[1].copy_in(&bytes[first..count]);
        words.tx_tail.store(tail + count as u64, Ordering::Release);
        if count < bytes.len() {
            words.asks.fetch_or(20 << TX_GROW_SHIFT, Ordering::AcqRel);
        }
        self.set_ready(slot);
        count
    }

    /// Sends back what has come, and closes what the peer has closed.
    fn echo(&mut self, unsent: &mut std::collections::BTreeMap<u32, Vec<u8>>) {
        self.accept();
        for slot in self.accepted.clone() {
            let waiting = unsent.entry(slot).or_default();
            if waiting.is_empty() {
                *waiting = self.read(slot, 1 << 20);
            }
            if !waiting.is_empty() {
                let sent = self.write(slot, waiting);
                waiting.drain(..sent);
            }
            let words = self.words(slot);
            let at_end = words.state().has(SlotState::PEER_CLOSED)
                && words.rx_head.load(Ordering::Relaxed) == words.rx_tail.load(Ordering::Acquire);
            if at_end && waiting.is_empty() {
                self.ask(slot, Asks::CLOSE);
                self.accepted.retain(|other| *other != slot);
            }
        }
    }

    fn events(&self) -> Vec<SocketEvent> {
        let mut all = Vec::new();
        self.command_queue.hear(|event| all.push(event));
        all
    }
}

fn bench(workers: usize, rate: Option<Arc<Rate>>) -> (Bench, App) {
    // More than the region has addresses for.
    bench_with(workers, rate, 1 << 30)
}

/// With so many bytes for all rings of the application.
fn bench_with(workers: usize, rate: Option<Arc<Rate>>, quota_bytes: u64) -> (Bench, App) {
    let command_queue = CommandQueue::new(|| (), || ());
    let bench =
        Bench::with_command_queue(ServiceKind::Sockets, workers, 512, Some(command_queue.clone()));
    (bench, App::new(command_queue, rate, quota_bytes))
}

#[test]
fn an_application_echoes_exactly_while_workers_come_and_go_and_nothing_is_left_behind() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let mut talks = bench.talks(40);
    let mut unsent = std::collections::BTreeMap::new();
    for round in 0..300 {
        match round {
            20 | 60 | 150 => bench.spawn(),
            110 | 220 => {
                let last = bench.workers.last().expect("some are there").0;
                bench.dispatcher.steering_mut().remove_worker(last);
            }
            _ => {}
        }
        bench.talk(&mut talks, round);
        app.echo(&mut unsent);
    }
    assert!(bench.count("attached") > 20, "{} flows moved", bench.count("attached"));
    for talk in &talks {
        bench.engine.shutdown(talk.flow).expect("it lives");
    }
    for _ in 0..300 {
        for talk in &mut talks {
            talk.read.extend(bench.read(talk.flow));
        }
        bench.turn();
        app.echo(&mut unsent);
    }
    for talk in &talks {
        assert!(talk.read == talk.written, "{} of {}", talk.read.len(), talk.written.len());
        bench.engine.close(talk.flow, &mut bench.said).expect("it lives");
    }
    bench.turns(50);
    assert!(bench.closed.iter().all(|(_, reason)| *reason == CloseReason::Finished));
    assert_eq!(bench.closed.len(), talks.len());
    assert_eq!(app.streams.server.slots_taken(), 1, "the listener's");
    assert_eq!(app.streams.server.heap().bytes(), 1 << 10, "its backlog");
    let freed = app.events().into_iter().filter(|event| matches!(event, SocketEvent::Freed { .. }));
    assert_eq!(freed.count(), talks.len());
}

#[test]
fn a_long_answer_gets_a_longer_ring() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let mut talks = bench.talks(1);
    let mut unsent = std::collections::BTreeMap::new();
    let whole: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    let mut rings = std::collections::BTreeSet::new();
    let talk = &mut talks[0];
    for _ in 0..6000 {
        let count = bench.write(talk.flow, &whole[talk.written.len()..]);
        talk.written.extend_from_slice(&whole[talk.written.len()..talk.written.len() + count]);
        talk.read.extend(bench.read(talk.flow));
        bench.turn();
        app.echo(&mut unsent);
        if let Some(&slot) = app.accepted.first() {
            let desc = |word: &AtomicU64| RingDesc::of_word(word.load(Ordering::Relaxed)).bytes();
            rings.insert((desc(&app.words(slot).rx_ring), desc(&app.words(slot).tx_ring_used)));
        }
        if talk.read.len() == whole.len() {
            break;
        }
    }
    assert!(talk.read == whole, "{} came back", talk.read.len());
    let (_, tx): (Vec<_>, Vec<_>) = rings.into_iter().unzip();
    assert!(tx.contains(&(1 << 10)) && tx.iter().max() > Some(&(1 << 16)), "{tx:?}");
}

#[test]
fn who_reads_as_fast_as_bytes_come_gets_a_longer_ring_and_every_byte() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    let whole: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    let (mut written, mut read, mut longest) = (0, Vec::new(), 0);
    for round in 0..4000 {
        written += bench.write(talks[0].flow, &whole[written..]);
        bench.turn();
        // Now and then it is late, so that a ring is outgrown with bytes in it.
        if round % 7 != 0 {
            read.extend(app.read(slot, 50_000));
        }
        let desc = RingDesc::of_word(app.words(slot).rx_ring.load(Ordering::Relaxed));
        longest = longest.max(desc.bytes());
    }
    assert!(read == whole, "{} of {}", read.len(), whole.len());
    assert!(longest > 1 << 16, "{longest}");
}

#[test]
fn who_sleeps_is_woken_once_and_who_is_awake_is_not() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let mut talks = bench.talks(2);
    for _ in 0..5 {
        bench.turn();
    }
    app.accept();
    assert_eq!((app.accepted.len(), app.rung.pollers.load(Ordering::Relaxed)), (2, 0));
    let ready_bits = app.memory.poller(Side::Zero, POLLER).expect("a poller");
    let (mut cursor, mut heard) = (0, Vec::new());
    ready_bits.take(&mut cursor, 64, |slot| heard.push(slot));
    assert_eq!(heard, [app.listener], "nobody had asked to hear of the others");
    assert!(ready_bits.arm(), "nothing is marked");
    app.words(app.accepted[0]).sleepers.store(1, Ordering::SeqCst);
    for talk in &mut talks {
        bench.write(talk.flow, b"hello");
    }
    bench.turns(3);
    assert_eq!(app.rung.pollers.load(Ordering::Relaxed), 1, "once for both");
    assert_eq!(app.rung.futexes.load(Ordering::Relaxed), 1);
    assert!(!ready_bits.arm(), "there is something");
}

#[test]
fn a_reset_and_an_end_are_told_apart_and_what_came_before_can_be_read() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(2);
    bench.turns(5);
    app.accept();
    for talk in &talks {
        bench.write(talk.flow, b"last words");
    }
    bench.turns(3);
    bench.engine.abort(talks[0].flow).expect("it lives");
    bench.engine.shutdown(talks[1].flow).expect("it lives");
    bench.turns(3);
    let mut errors = Vec::new();
    for &slot in &app.accepted {
        assert_eq!(app.read(slot, 100), b"last words");
        let state = app.words(slot).state();
        errors.push((
            state.has(SlotState::BROKEN),
            state.has(SlotState::PEER_CLOSED),
            app.words(slot).error.load(Ordering::Relaxed),
        ));
        app.ask(slot, Asks::CLOSE);
    }
    errors.sort_unstable();
    assert_eq!(errors, [(false, true, 0), (true, false, 104)]);
    bench.turns(5);
    assert_eq!(app.streams.server.slots_taken(), 1);
    assert_eq!(app.streams.server.heap().bytes(), 1 << 10);
}

#[test]
fn a_connection_that_is_closed_with_bytes_unread_is_reset() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    bench.write(talks[0].flow, b"nobody reads this");
    bench.turns(3);
    app.ask(app.accepted[0], Asks::CLOSE);
    bench.turns(5);
    assert_eq!(bench.closed, [(talks[0].flow, CloseReason::Reset)]);
}

#[test]
fn an_application_that_goes_takes_its_connections_with_it_and_its_memory_is_free() {
    let (mut bench, mut app) = bench(2, None);
    bench.turns(2);
    let talks = bench.talks(30);
    bench.turns(5);
    app.accept();
    assert_eq!(app.accepted.len(), 30);
    app.command_queue.command(&Command::Remove { app: 5 });
    bench.turns(5);
    assert_eq!(bench.closed.len(), talks.len());
    assert!(bench.closed.iter().all(|(_, reason)| *reason == CloseReason::Reset));
    assert_eq!(app.streams.server.slots_taken(), 1, "the listener's is the slow side's");
    let more = bench.talks(1);
    bench.turns(5);
    assert!(bench.closed.iter().any(|(flow, _)| *flow == more[0].flow), "nobody listens");
}

#[test]
fn a_limited_application_sends_no_faster_and_loses_nothing() {
    let (mut bench, mut app) = bench(1, Some(Arc::new(Rate::new(1_000_000, 20_000))));
    bench.turns(2);
    let mut talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    let whole: Vec<u8> = (0..200_000_u32).map(|at| (at / 3) as u8).collect();
    let (mut written, began) = (0, bench.now);
    while talks[0].read.len() < whole.len() {
        written += app.write(slot, &whole[written..]);
        bench.turn();
        let more = bench.read(talks[0].flow);
        talks[0].read.extend(more);
        assert!(bench.now.since(began).0 < 1_000_000_000, "it goes on");
    }
    assert!(talks[0].read == whole);
    let took = bench.now.since(began).0;
    assert!(took > 170_000_000, "{took} ns for 180,000 bytes beyond the burst");
}

proptest! {
    #[test]
    fn whatever_an_application_writes_costs_at_most_its_own_connections(
        violations in proptest::collection::vec((0_usize..14, 0_u32..40, any::<u64>(), any::<bool>()), 1..60),
    ) {
        let (mut bench, mut app) = bench(1, None);
        bench.turns(2);
        let mut unsent = std::collections::BTreeMap::new();
        let mut talks = bench.talks(8);
        for (round, (word, slot, value, is_small)) in violations.into_iter().enumerate() {
            talks.retain(|talk| bench.engine.state(talk.flow).is_some());
            bench.talk(&mut talks, round);
            app.echo(&mut unsent);
            let value = if is_small { value % 5000 } else { value };
            let words = app.words(slot % 16);
            match word {
                0 => words.rx_head.store(value, Ordering::Relaxed),
                1 => words.tx_tail.store(value, Ordering::Relaxed),
                2 => words.tx_ring_used.store(value, Ordering::Relaxed),
                3 => words.asks.store(value as u32, Ordering::Relaxed),
                4 => words.pollers[value as usize % 4].store(1 << POLLER, Ordering::Relaxed),
                5 => words.worker.store(value as u32, Ordering::Relaxed),
                6 => words.rx_tail.store(value, Ordering::Relaxed),
                7 => words.rx_ring.store(value, Ordering::Relaxed),
                8 => words.tx_ring.store(value, Ordering::Relaxed),
                9 => words.state.store(value as u32, Ordering::Relaxed),
                10 => words.generation.store(value as u32, Ordering::Relaxed),
                11 => words.options_version.store(value as u32, Ordering::Relaxed),
                12 => words.tx_head.store(value, Ordering::Relaxed),
                _ => words.options[value as usize % 20].store(value as u32, Ordering::Relaxed),
            }
            let _ = app.memory.worker(0).expect("a worker").set(slot % 16);
            // What an honest half of a lying application cannot go on with ends here.
            if word < 13 {
                app.accepted.retain(|other| *other != slot % 16);
            }
            if app.listener == slot % 16 {
                break;
            }
        }
        app.command_queue.command(&Command::Remove { app: 5 });
        bench.turns(5);
        // What was closed in order waits for its peer to do the same.
        for talk in &talks {
            let _ = bench.engine.shutdown(talk.flow);
        }
        bench.turns(15);
        prop_assert_eq!(app.streams.server.slots_taken(), 1);
        prop_assert_eq!(app.streams.server.heap().bytes(), 1 << 10);
        prop_assert_eq!(bench.count("ring_bytes"), 0);
    }
}

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
    app.command_queue.command(&Command::Connect { app: 5, slot, local, remote, options, next_hop });
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
            app: 5,
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

/// A UDP socket on port 7, with rings of 4 KiB.
fn datagrams(app: &App) -> u32 {
    let slot = app.streams.server.lend_slot().expect("a slot");
    let [rx, tx] = [0; 2].map(|_| app.streams.server.heap().lend(12).expect("memory"));
    let words = app.words(slot);
    words.rx_ring.store(rx.desc().word(), Ordering::Release);
    words.tx_ring.store(tx.desc().word(), Ordering::Release);
    words.tx_ring_used.store(tx.desc().word(), Ordering::Release);
    words.pollers[0].store(1 << POLLER, Ordering::Release);
    words.state.store(Kind::Datagram as u32, Ordering::Release);
    let local = "0.0.0.0:7".parse().expect("an address");
    let streams = Arc::clone(&app.streams);
    let own = vec!["10.0.0.2".parse().expect("an address")];
    let socket = Datagrams::new(streams, slot, local, None, 1472, own, (rx, tx));
    app.command_queue.command(&Command::Bind(Arc::new(socket)));
    slot
}

fn packet(from: u16, payload: &[u8]) -> Vec<u8> {
    let packet = wire::build::UdpPacket {
        source_mac: CLIENT,
        destination_mac: OURS,
        source: format!("10.0.0.1:{from}").parse().expect("an address"),
        destination: "10.0.0.2:7".parse().expect("an address"),
        payload,
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    bytes
}

fn payload_of(packet: &[u8]) -> (u16, Vec<u8>) {
    let wire::Outcome::Flow(flow) = wire::classify(packet) else { panic!("no flow came") };
    assert!(wire::checksum::verify(packet, &flow), "a wrong checksum");
    let from = usize::from(flow.payload_offset);
    let to = from + usize::from(flow.payload_len);
    (flow.key.destination().port(), packet[from..to].to_vec())
}

/// Sends every datagram back to whom it came from; how many.
fn return_all(app: &App, slot: u32) -> usize {
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
    assert_eq!(app.words(slot).rx_tail.load(Ordering::Relaxed), 3 * 1040, "three fit");
    let remote = "10.9.9.9:53".parse().expect("an address");
    let record = Record { payload: 2, remote: Some(remote), local: None };
    app.write(slot, &[&record.encode()[..], b"hi\0\0\0\0\0\0"].concat());
    let unresolved = SocketEvent::Unresolved { remote: remote.ip() };
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

/// What a router answers to a packet of ours: "host unreachable", quoting its headers.
fn host_unreachable(packet: &[u8]) -> Vec<u8> {
    let quoted = &packet[14..14 + 28];
    let mut message = vec![3, 1, 0, 0, 0, 0, 0, 0];
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
        app: 5,
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
fn what_a_limited_application_has_written_before_it_closed_arrives_whole() {
    let (mut bench, mut app) = bench(1, Some(Rate::new(1_000_000, 2_000).into()));
    bench.turns(2);
    let mut talks = bench.talks(2);
    bench.turns(5);
    app.accept();
    let whole = [7; 1000];
    let mut written = Vec::new();
    for (at, &slot) in app.accepted.iter().enumerate() {
        while app.words(slot).tx_tail.load(Ordering::Relaxed) < 5000 {
            app.write(slot, &whole);
            bench.turn();
        }
        written.push(app.words(slot).tx_tail.load(Ordering::Relaxed) as usize);
        // One closes by a word, the other's last descriptor is closed.
        if at == 0 {
            app.ask(slot, Asks::CLOSE);
        } else {
            let generation = app.streams.server.generation(slot);
            app.command_queue.command(&Command::Close {
                app: 5,
                slot,
                generation,
                is_abort: false,
            });
        }
    }
    for _ in 0..300 {
        bench.turn();
        for talk in &mut talks {
            talk.read.extend(bench.read(talk.flow));
        }
    }
    assert_eq!(talks.iter().map(|talk| talk.read.len()).collect::<Vec<_>>(), written);
    assert!(talks.iter().all(|talk| bench.engine.is_at_end(talk.flow)));
}

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
        bench.turns(3);
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
        let has = |slot: &&u32| app.words(**slot).rx_tail.load(Ordering::Acquire) == 500;
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

/// What a program can do to a slot that it was given.
fn overwrite(words: &SlotWords) {
    words.generation.store(0x5555_5555, Ordering::Relaxed);
    words.worker.store(3, Ordering::Relaxed);
    words.local.set(None);
    words.cookie.store(u64::MAX, Ordering::Relaxed);
    words.options.iter().for_each(|word| word.store(u32::MAX, Ordering::Relaxed));
}

#[test]
fn a_socket_whose_words_were_overwritten_is_closed_and_its_slot_free() {
    let (mut bench, mut app) = bench(2, None);
    bench.turns(2);
    let udp = datagrams(&app);
    let opened = app.streams.server.lend_slot().expect("a slot");
    let generation = |app: &App, slot| app.streams.server.generation(slot);
    let mut sockets = vec![(udp, generation(&app, udp)), (opened, generation(&app, opened))];
    // Before any worker has seen them.
    [udp, opened].iter().for_each(|slot| overwrite(app.words(*slot)));
    let local = "10.0.0.2:7".parse().expect("an address");
    let remote = "10.0.0.1:80".parse().expect("an address");
    let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header };
    let options = options();
    app.command_queue.command(&Command::Connect {
        app: 5,
        slot: opened,
        local,
        remote,
        options,
        next_hop,
    });
    let (local, remote) = app.command_queue.next_connect_probe().expect("it was asked for");
    assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
    bench.turns(2);
    bench.talks(1);
    bench.turns(5);
    app.accept();
    let accepted = app.accepted[0];
    sockets.push((accepted, generation(&app, accepted)));
    overwrite(app.words(accepted));
    for &(slot, generation) in &sockets {
        let close = |generation| {
            let is_abort = true;
            app.command_queue.command(&Command::Close { app: 5, slot, generation, is_abort });
        };
        close(0x5555_5555);
        bench.turns(3);
        assert!(app.streams.server.is_taken(slot), "that is another socket");
        close(generation);
        bench.turns(3);
        assert!(!app.streams.server.is_taken(slot), "{slot} of {sockets:?}");
        let freed = SocketEvent::Freed { app: 5, slot, generation };
        assert!(app.events().contains(&freed), "the slow side hears which it was");
    }
}

#[test]
fn a_connection_that_no_worker_has_begun_with_is_taken_back_once() {
    let (_bench, app) = bench(1, None);
    let [local, remote] = ["10.0.0.2:9", "10.0.0.1:80"].map(|at| at.parse().expect("an address"));
    let next_hop = NextHop { port: base::PortId(0), vlan_tci: 0, header: vec![0; 14] };
    let options = options();
    app.command_queue.command(&Command::Connect {
        app: 5,
        slot: 8,
        local,
        remote,
        options,
        next_hop,
    });
    assert!(
        !app.command_queue.withdraw(5, 9)
            && app.command_queue.withdraw(5, 8)
            && !app.command_queue.withdraw(5, 8)
    );
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
        app: 5,
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

#[test]
fn a_congestion_control_is_changed_on_a_living_connection_if_it_is_permitted() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    let mut choose = |number| {
        app.words(slot).set_option(SlotOption::Congestion, number);
        app.ask(slot, Asks::INFO);
        // Counts are shown once a millisecond.
        bench.turns(30);
        (app.words(slot).info(SlotInfo::Congestion), bench.count("congestion_denied"))
    };
    assert_eq!(choose(0), (2, 0), "cubic, as its listener has");
    assert_eq!(choose(1), (1, 0));
    assert_eq!(choose(3), (1, 1), "it may not have dctcp");
    assert_eq!(choose(77), (1, 2), "there is none of that number");
    assert_eq!(choose(4), (4, 2));
    // It goes on under the new one.
    let whole = vec![5; 20_000];
    let (mut written, mut read) = (0, 0);
    for _ in 0..4000 {
        written += app.write(slot, &whole[written..]);
        bench.turn();
        read += bench.read(talks[0].flow).len();
    }
    assert_eq!(read, whole.len());
}

#[test]
fn a_connection_tells_its_timer_its_window_and_what_was_agreed_on() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    bench.write(talks[0].flow, b"request");
    bench.turns(3);
    app.write(slot, b"answer");
    app.ask(slot, Asks::INFO);
    bench.turn_of_data_path();
    app.ask(slot, Asks::INFO);
    bench.turn_of_data_path();
    let info = |which| app.words(slot).info(which);
    let timer = info(SlotInfo::Timer);
    assert_eq!((timer & 0xff, timer >> 8 & 0xff), (1, 0), "what was sent is not acknowledged");
    assert!((1..=400).contains(&(timer >> 32)), "{} ms", timer >> 32);
    assert!(info(SlotInfo::SendWindow) > 1000 && info(SlotInfo::RttVariation) > 0);
    assert_eq!((info(SlotInfo::Received), info(SlotInfo::Acknowledged)), (7, 0));
    assert_eq!(info(SlotInfo::Options) & 7, 7, "timestamps, SACK and window scaling");
    app.words(slot).set_option(SlotOption::KeepIdle, 60);
    app.words(slot).set_option(SlotOption::KeepAlive, 1);
    app.set_ready(slot);
    bench.turns(600);
    app.ask(slot, Asks::INFO);
    bench.turns(2);
    let info = |which| app.words(slot).info(which);
    assert_eq!((info(SlotInfo::Timer) & 0xff, info(SlotInfo::Acknowledged)), (2, 6));
}

#[test]
fn datagrams_that_cannot_leave_are_dropped_each_under_its_name() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    bench.turns(2);
    let long = Record {
        payload: 1473,
        remote: Some("10.0.0.1:53".parse().expect("an address")),
        local: None,
    };
    let aimless = Record { payload: 0, remote: None, local: None };
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
            app: 5,
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

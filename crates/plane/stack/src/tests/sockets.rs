//! Sockets of an application, from an engine at the other end of a wire: the application's side of
//! the memory is played here, word by word.

mod app;
mod datagrams;
mod death;
mod endings;
mod evicted;
mod handed_over;
mod honest;
mod listeners;
mod mappings;
mod moved;
mod opened;
mod rate;
mod readdressed;
mod room;
mod shares;
mod sources;
mod traced;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use base::{AppId, Generation, SlotId};
use proptest::prelude::*;
use shm::sockets::{
    Asks, Backlog, HEADER_BYTES, Kind, Quota, Record, RingDesc, Side, SlotInfo, SlotOption,
    SlotState, SlotWords, SocketMemory, SocketServer, SocketSizes, TX_GROW_SHIFT,
};
use tcp::{Algorithm, CloseReason, FlowOptions};

use super::connections::{Bench, CLIENT_MAC as CLIENT, OUR_MAC as OURS};
use crate::{
    AppSockets, Command, CommandQueue, Datagrams, Evicted, Eviction, LetGoRequest, Listening,
    NextHop, Notifier, PortLink, Rate, ServiceKind, SocketEvent, send_connect_probe,
};

use app::{App, POLLER, options};

fn bench(workers: usize, rate: Option<Arc<Rate>>) -> (Bench, App) {
    // More than the region has addresses for.
    bench_with(workers, rate, 1 << 30)
}

/// With that many bytes for all rings of the application.
fn bench_with(workers: usize, rate: Option<Arc<Rate>>, quota_bytes: u64) -> (Bench, App) {
    let command_queue = CommandQueue::new(|| (), || ());
    let bench =
        Bench::with_command_queue(ServiceKind::Sockets, workers, 512, Some(command_queue.clone()));
    (bench, App::new(command_queue, rate, quota_bytes))
}

/// With one worker, and a connection that the application has accepted: its peer's flow, its slot.
fn accepted() -> (Bench, App, tcp::FlowId, SlotId) {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let flow = bench.talks(1)[0].flow;
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    (bench, app, flow, slot)
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
    app.command_queue.command(&Command::Remove { app: AppId(5) });
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
            let slot = SlotId(slot % 16);
            let words = app.words(slot);
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
            let _ = app.memory.worker(0).expect("a worker").set(slot);
            // What an honest half of a lying application cannot go on with ends here.
            if word < 13 {
                app.accepted.retain(|other| *other != slot);
            }
            if app.listener == slot {
                break;
            }
        }
        app.command_queue.command(&Command::Remove { app: AppId(5) });
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

/// A UDP socket on port 7, with rings of 4 KiB.
fn datagrams(app: &App) -> SlotId {
    datagrams_on(app, 7)
}

fn datagrams_on(app: &App, port: u16) -> SlotId {
    datagrams_at(app, std::net::SocketAddr::from(([0, 0, 0, 0], port)), "10.0.0.2")
}

/// A socket that is bound to `local` and may send from `own`.
fn datagrams_at(app: &App, local: std::net::SocketAddr, own: &str) -> SlotId {
    connected_datagrams(app, local, own, None)
}

/// The same, which is connected to `remote` if there is one.
fn connected_datagrams(
    app: &App,
    local: std::net::SocketAddr,
    own: &str,
    remote: Option<std::net::SocketAddr>,
) -> SlotId {
    let slot = app.streams.server.lend_slot().expect("a slot");
    let [rx, tx] = [0; 2].map(|_| app.streams.server.heap().lend(12).expect("memory"));
    let words = app.words(slot);
    words.rx_ring.store(rx.desc().word(), Ordering::Release);
    words.tx_ring.store(tx.desc().word(), Ordering::Release);
    words.tx_ring_used.store(tx.desc().word(), Ordering::Release);
    words.pollers[0].store(1 << POLLER, Ordering::Release);
    words.state.store(Kind::Datagram as u32, Ordering::Release);
    let streams = Arc::clone(&app.streams);
    let own = vec![own.parse().expect("an address")];
    let socket = Datagrams::new(streams, slot, local, remote, 1472, own, (rx, tx));
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
                app: AppId(5),
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
        app: AppId(5),
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
            app.command_queue.command(&Command::Close {
                app: AppId(5),
                slot,
                generation,
                is_abort,
            });
        };
        close(Generation(0x5555_5555));
        bench.turns(3);
        assert!(app.streams.server.is_taken(slot), "that is another socket");
        close(generation);
        bench.turns(3);
        assert!(!app.streams.server.is_taken(slot), "{slot} of {sockets:?}");
        let freed = SocketEvent::Freed { app: AppId(5), slot, generation };
        assert!(app.events().contains(&freed), "the slow side hears which it was");
    }
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

//! What a worker does in a turn is shared among users first, then among their programs.

use base::RegionId;

use super::*;

/// What a look at a marked slot is assumed to take, and a turn without any.
const LOOK: base::Nanos = base::Nanos(100);
const TURN: base::Nanos = base::Nanos::from_micros(20);

/// A program of user 2000 with nothing but marks.
fn marker(command_queue: &CommandQueue, number: u16) -> Arc<AppSockets> {
    let sizes = SocketSizes { slots: 1024, pollers: 8, sides: 1, workers: 16, ring_bytes: 1 << 20 };
    let quota = Arc::new(Quota::new(1024, 1 << 20));
    let streams = Arc::new(AppSockets {
        app: AppId(number),
        user: 2000,
        region: RegionId(number.into()),
        server: SocketServer::within("marker", sizes, quota).expect("addresses are left"),
        records: None,
        notifier: Box::new(Arc::new(app::Rung::default())),
        spins: true,
        rate: None,
        permits: None,
        congestions: Vec::new(),
        trace_one_in: AtomicU32::new(0),
    });
    command_queue.command(&Command::Add(Arc::clone(&streams)));
    streams
}

/// The bytes that a program echoes in a tenth of a second of a worker's time, in which a look and a
/// turn take what they are assumed to, beside other programs that mark all their slots in every
/// turn, with sockets in them or not.
fn echoed(programs: u16) -> usize {
    let (mut bench, mut app) = bench(1, None);
    let markers: Vec<_> =
        (0..programs).map(|number| marker(&app.command_queue, 100 + number)).collect();
    bench.turns(5);
    let mut talks = bench.talks(16);
    bench.turns(5);
    let mut unsent = std::collections::BTreeMap::new();
    let (end, mut looks, mut round) =
        (bench.now + base::Nanos::from_millis(100), bench.count("looks"), 0);
    while bench.now < end {
        for streams in &markers {
            let bits = streams.server.memory().worker(0).expect("a worker");
            (0..1024).for_each(|slot| _ = bits.set(SlotId(slot)));
        }
        bench.talk(&mut talks, round);
        app.echo(&mut unsent);
        // What the turn took.
        let now = bench.count("looks");
        bench.pass_time(TURN + base::Nanos(LOOK.0 * (now - looks)));
        (looks, round) = (now, round + 1);
    }
    talks.iter().map(|talk| talk.read.len()).sum()
}

#[test]
fn sixty_programs_of_one_user_that_mark_their_sockets_for_nothing_slow_no_other_user_down() {
    let (alone, beside) = (echoed(0), echoed(60));
    assert!(alone > 100_000, "{alone} bytes are too few to compare");
    assert!(beside * 10 >= alone * 9, "{beside} bytes beside them, {alone} alone");
}

#[test]
fn a_program_whose_marks_bring_nothing_is_looked_at_as_often_as_ever_from_its_first_news_on() {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let talks = bench.talks(1);
    bench.turns(5);
    app.accept();
    let slot = app.accepted[0];
    let bits = app.memory.worker(0).expect("a worker");
    for _ in 0..2000 {
        (0..64).for_each(|slot| _ = bits.set(SlotId(slot)));
        bench.turn();
    }
    let barren = bench.count("looks_barren");
    assert!(barren < 10_000, "{barren} looks for nothing in 0.2 s");
    // The floor: it is heard after ten milliseconds at the latest, and then at once.
    app.write(slot, b"late");
    bench.turns(110);
    assert_eq!(bench.read(talks[0].flow), b"late");
    for _ in 0..20 {
        let taken = bench.count("bytes_sent");
        app.write(slot, b"soon");
        // Counts are shown once a millisecond.
        bench.turns(20);
        assert_eq!(bench.count("bytes_sent"), taken + 4);
    }
}

#[test]
fn a_user_with_sixty_busy_sockets_leaves_the_others_their_share_of_frames() {
    let command_queue = CommandQueue::new(|| (), || ());
    let mut bench =
        Bench::with_command_queue(ServiceKind::Sockets, 1, 512, Some(command_queue.clone()));
    let busy = App::with_user(command_queue.clone(), 5, 1000, 7);
    let other = App::with_user(command_queue, 6, 2000, 8);
    datagrams(&busy);
    let mut slots: Vec<_> = (0..60).map(|at| (&busy, datagrams_on(&busy, 1000 + at))).collect();
    slots.push((&other, datagrams_on(&other, 2000)));
    bench.turns(2);
    bench.pass(vec![packet(9, b"hello")]);
    let record = Record {
        payload: 8,
        remote: Some("10.0.0.1:9".parse().expect("an address")),
        ..Record::default()
    };
    let bytes = [&record.encode()[..], &[7; 8]].concat();
    let mut sent = std::collections::BTreeMap::new();
    for _ in 0..400 {
        for (app, slot) in &slots {
            let words = app.words(*slot);
            while words.tx_tail.load(Ordering::Relaxed) - words.tx_head.load(Ordering::Acquire) + 48
                <= 4096
            {
                app.write(*slot, &bytes);
            }
        }
        for packet in bench.pass(Vec::new()) {
            let wire::Outcome::Flow(flow) = wire::classify(&packet) else { continue };
            *sent.entry(flow.key.source().port() / 1000).or_insert(0) += 1;
        }
    }
    assert!(sent[&2] * 10 >= sent[&1] * 4, "one socket of another user beside sixty: {sent:?}");
}

//! An honest program is never taken for one that breaks the rules, whatever its peers do and
//! whenever: program, peers, dispatcher and workers in one schedule.
//!
//! Each schedule is a seed. A failure prints it; `HONEST_SEED=n` runs that one alone, and
//! `HONEST_SEEDS=a..b` those.

use base::SlotId;
use datapath::testing::Lots;

use super::*;

/// Schedules of one run of the tests; `script/soak` runs others, for as long as is wanted.
const SCHEDULES: std::ops::Range<u64> = 0..400;

/// Nothing that the program does is taken for a violation of the rules of the memory.
fn assert_trusted(app: &App) {
    let violations =
        app.events().into_iter().filter(|event| matches!(event, SocketEvent::Violation { .. }));
    assert_eq!(violations.count(), 0, "an honest program is taken for a hostile one");
}

/// Everything has ended: what is left is the listener and its backlog.
fn assert_nothing_left(bench: &Bench, app: &App) {
    assert_eq!(app.streams.server.slots_taken(), 1, "slots beside the listener's");
    assert_eq!(app.streams.server.heap().bytes(), 1 << 10, "memory beside the backlog");
    assert_eq!(bench.count("ring_bytes"), 0);
}

/// A connection that was accepted, with bytes from its peer in it.
fn accepted() -> (Bench, App, tcp::FlowId, SlotId) {
    let (mut bench, mut app) = bench(1, None);
    bench.turns(2);
    let flow = bench.talks(1)[0].flow;
    bench.turns(5);
    bench.write(flow, b"read me");
    bench.turns(3);
    app.accept();
    let slot = app.accepted[0];
    (bench, app, flow, slot)
}

/// Everything ends, and nothing was taken amiss.
fn finish((mut bench, mut app): (Bench, App)) {
    for slot in std::mem::take(&mut app.accepted) {
        app.ask(slot, Asks::CLOSE);
    }
    bench.turns(30);
    let violations =
        app.events().into_iter().filter(|event| matches!(event, SocketEvent::Violation { .. }));
    assert_eq!(violations.count(), 0, "an honest program is taken for a hostile one");
    assert_nothing_left(&bench, &app);
}

#[test]
fn a_reset_that_comes_together_with_what_a_program_wrote_is_no_violation() {
    let (mut bench, app, flow, slot) = accepted();
    assert_eq!(app.write(slot, &[7; 900]), 900);
    bench.engine.abort(flow).expect("it lives");
    bench.turns(3);
    finish((bench, app));
}

#[test]
fn a_reset_that_comes_together_with_what_a_program_read_is_no_violation() {
    let (mut bench, app, flow, slot) = accepted();
    assert_eq!(app.read(slot, 100), b"read me");
    bench.engine.abort(flow).expect("it lives");
    bench.turns(3);
    finish((bench, app));
}

#[test]
fn a_reset_that_comes_together_with_a_longer_ring_is_no_violation() {
    let (mut bench, app, flow, slot) = accepted();
    // More than the first ring holds: a longer one is asked for, offered and moved to.
    assert_eq!(app.write(slot, &[7; 3000]), 1024);
    bench.turns(2);
    app.write(slot, &[7; 2000]);
    bench.engine.abort(flow).expect("it lives");
    bench.turns(3);
    finish((bench, app));
}

/// A program, its peers, and what each of them has open.
struct Play {
    lots: Lots,
    bench: Bench,
    app: App,
    /// The peers' ends of all connections, and of those that their programs have not closed: may
    /// they still write?
    all: Vec<tcp::FlowId>,
    flows: Vec<(tcp::FlowId, bool)>,
    /// Sockets of connections that the program opens and that do not stand yet.
    opening: Vec<SlotId>,
    opened: u16,
    udp: Option<SlotId>,
    /// How often memory of connections that nobody read was given back.
    evicted: u64,
    step: u8,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut lots = Lots::new(seed);
        let rate = (lots.below(4) == 0).then(|| Arc::new(Rate::new(20_000_000, 20_000)));
        let (mut bench, app) = bench(1 + lots.below(2) as usize, rate);
        for port in PORTS {
            let at = std::net::SocketAddr::from(([10, 0, 0, 1], port));
            bench.engine.listen(at, 64, FlowOptions::default()).expect("nobody listens there");
        }
        bench.turns(2);
        Self {
            lots,
            bench,
            app,
            all: Vec::new(),
            flows: Vec::new(),
            opening: Vec::new(),
            opened: 0,
            udp: None,
            evicted: 0,
            step: 0,
        }
    }

    /// One thing happens.
    fn act(&mut self) {
        self.step = self.step.wrapping_add(1);
        for flow in std::mem::take(&mut self.bench.accepted) {
            self.all.push(flow);
            self.flows.push((flow, true));
        }
        let Self { app, opening, .. } = self;
        let stands = |slot: &mut SlotId| {
            let state = app.words(*slot).state();
            state.has(SlotState::CONNECTED) || state.has(SlotState::BROKEN)
        };
        let standing: Vec<SlotId> = opening.extract_if(.., stands).collect();
        app.accepted.extend(standing);
        self.flows.retain(|(flow, _)| self.bench.engine.state(*flow).is_some());
        match self.lots.below(32) {
            0..11 => self.peer(),
            11..18 => self.program(),
            18..20 => self.app.accept(),
            20..22 => self.workers(),
            22..27 => self.way(),
            27 => {
                let port = PORTS.start + self.opened;
                let is_more = PORTS.contains(&port);
                self.opened += u16::from(is_more);
                self.opening.extend(is_more.then(|| self.app.open(port)).flatten());
            }
            28..31 => self.datagrams(),
            _ if self.lots.below(3) == 0 => {
                let idle = base::Nanos::from_micros(u64::from(self.lots.below(2000)));
                self.app.evict(idle, 200_000);
            }
            _ => self.bench.turn(),
        }
        self.call();
        self.evicted += u64::from(self.app.settle_evicted() > 0);
        assert_trusted(&self.app);
    }

    /// What the dispatcher does for connections to be opened, and flows that are called for.
    fn call(&mut self) {
        while let Some((local, remote)) = self.app.command_queue.next_connect_probe() {
            let bench = &mut self.bench;
            assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
        }
    }

    /// A peer opens, writes, reads, ends its side, closes, resets.
    fn peer(&mut self) {
        let Self { lots, bench, flows, .. } = self;
        let at = lots.below(flows.len().max(1) as u32) as usize;
        match (lots.below(11), flows.get_mut(at)) {
            (0..3, _) if self.all.len() < 60 => {
                self.all.push(bench.connect());
                flows.extend(self.all.last().map(|flow| (*flow, true)));
            }
            (3..6, Some((flow, true))) => {
                bench.write(*flow, &vec![self.step; lots.below(3000) as usize]);
            }
            (6, Some((flow, _))) => _ = bench.engine.abort(*flow),
            (7, Some((flow, may_write @ true))) => {
                *may_write = false;
                let _ = bench.engine.shutdown(*flow);
            }
            (8, Some((flow, _))) => {
                let flow = *flow;
                let _ = bench.engine.close(flow, &mut bench.said);
                flows.retain(|(other, _)| *other != flow);
            }
            (9.., Some((flow, _))) => _ = bench.read(*flow),
            _ => bench.turn(),
        }
    }

    /// The program reads, writes, asks, and closes by a word or by its last descriptor.
    fn program(&mut self) {
        let Self { lots, app, .. } = self;
        let at = lots.below(app.accepted.len().max(1) as u32) as usize;
        let Some(&slot) = app.accepted.get(at) else { return self.bench.turn() };
        match lots.below(8) {
            0..3 => _ = app.write(slot, &vec![self.step; lots.below(9000) as usize]),
            3..6 => _ = app.read(slot, lots.below(4000) as usize),
            6 => app.ask(slot, [Asks::INFO, Asks::NAMED, Asks::URGENT][lots.below(3) as usize]),
            _ => {
                // As the library does: nothing is written any more after an end.
                app.accepted.retain(|other| *other != slot);
                match lots.below(4) {
                    0 => {
                        app.ask(slot, Asks::SHUT_WRITE);
                        app.ask(slot, Asks::CLOSE);
                    }
                    1 => app.ask(slot, Asks::CLOSE),
                    2 => app.ask(slot, Asks::CLOSE | Asks::ABORT),
                    _ => {
                        let (app, streams) = (&app.command_queue, &app.streams);
                        let generation = streams.server.generation(slot);
                        let (number, is_abort) = (streams.app, lots.below(4) == 0);
                        app.command(&Command::Close { app: number, slot, generation, is_abort });
                    }
                }
            }
        }
    }

    /// Workers come and go.
    fn workers(&mut self) {
        let Self { lots, bench, .. } = self;
        let is_more = lots.below(2) == 0;
        if is_more && bench.workers.len() < 4 && lots.below(4) == 0 {
            bench.spawn();
        } else if !is_more && bench.workers.len() > 1 && lots.below(4) == 0 {
            let at = lots.below(bench.workers.len() as u32) as usize;
            let id = bench.workers[at].0;
            bench.dispatcher.steering_mut().remove_worker(id);
        } else {
            bench.turn();
        }
    }

    /// What comes meets one worker's turn, or only the dispatcher's, or none; timers run out.
    fn way(&mut self) {
        let Self { lots, bench, .. } = self;
        match lots.below(5) {
            0 => bench.say(),
            1 => {
                bench.pass_time(base::Nanos::from_micros(u64::from(lots.below(60))));
                bench.dispatcher.step(bench.now);
                bench.reap();
                let at = lots.below(bench.workers.len() as u32) as usize;
                bench.workers[at].1.step(bench.now);
            }
            2 => bench.lose_said(),
            3 => _ = bench.pass(Vec::new()),
            // Retransmission, persist and delayed acknowledgement, and now and then TIME-WAIT.
            _ => {
                let millis = if lots.below(8) == 0 { 61_000 } else { lots.below(600) };
                bench.pass_time(base::Nanos::from_millis(u64::from(millis)));
            }
        }
    }

    /// A UDP socket comes, hears, says, wants a longer ring, and goes.
    fn datagrams(&mut self) {
        let Self { lots, bench, app, udp, .. } = self;
        let Some(slot) = *udp else {
            *udp = Some(datagrams(app));
            return;
        };
        match lots.below(8) {
            0..3 => bench.inject(packet(9, &vec![self.step; lots.below(1400) as usize])),
            3..6 => {
                let payload = lots.below(1472);
                let remote = Some(std::net::SocketAddr::from(([10, 0, 0, 1], 9)));
                let mut bytes = Record { payload, remote, ..Record::default() }.encode().to_vec();
                bytes.resize(Record::bytes(payload as usize), self.step);
                app.write_whole(slot, &bytes);
            }
            6 => _ = app.read(slot, 1 << 20),
            _ => {
                app.ask(slot, [Asks::CLOSE, Asks::ABORT][lots.below(2) as usize]);
                *udp = None;
            }
        }
    }

    /// Everybody goes, in every order; what the connections met: resets, moves, orderly ends,
    /// evictions.
    fn end(mut self) -> [u64; 4] {
        let Self { lots, bench, app, opening, udp, all, .. } = &mut self;
        let ended = |bench: &Bench, reason| {
            bench.closed.iter().filter(|(_, other)| *other == reason).count() as u64
        };
        let resets = ended(bench, CloseReason::Reset);
        app.accept();
        let slots = std::mem::take(&mut app.accepted).into_iter();
        for slot in slots.chain(opening.drain(..)).chain(udp.take()) {
            app.ask(slot, Asks::CLOSE | Asks::ABORT);
            // Whatever no worker has begun with is taken back, as by the daemon.
            if app.command_queue.withdraw(app.streams.app, slot) {
                app.streams.server.take_back_slot(slot);
            }
            bench.turns(lots.below(2) as usize);
        }
        for flow in all.drain(..) {
            let _ = bench.engine.abort(flow);
        }
        for at in 0..140 {
            // What was lost on the way is sent again, and given up.
            let millis = if at < 40 { 0 } else { 200 };
            self.bench.pass_time(base::Nanos::from_millis(millis));
            self.call();
            self.bench.turns(3);
            // Those that had waited for room in the backlog.
            self.app.accept();
            for slot in std::mem::take(&mut self.app.accepted) {
                self.app.ask(slot, Asks::CLOSE | Asks::ABORT);
            }
            for flow in std::mem::take(&mut self.bench.accepted) {
                let _ = self.bench.engine.abort(flow);
            }
            assert_trusted(&self.app);
        }
        // TIME-WAIT, and peers that never heard of an end.
        for _ in 0..60 {
            self.bench.pass_time(base::Nanos::from_secs(20));
            self.bench.turns(2);
        }
        self.app.settle_evicted();
        assert_nothing_left(&self.bench, &self.app);
        let ends = ended(&self.bench, CloseReason::Finished);
        [resets, self.bench.count("attached"), ends, self.evicted]
    }
}

/// Ports of the client that the program connects to.
const PORTS: std::ops::Range<u16> = 80..100;

/// One schedule; what its connections met.
fn run(seed: u64) -> [u64; 4] {
    let mut play = Play::new(seed);
    for _ in 0..150 + play.lots.below(150) {
        play.act();
    }
    play.end()
}

#[test]
fn no_interleaving_of_peers_program_and_workers_makes_an_honest_program_a_hostile_one() {
    let seeds = match (std::env::var("HONEST_SEED"), std::env::var("HONEST_SEEDS")) {
        (Ok(seed), _) => {
            let seed = seed.parse().expect("HONEST_SEED is a number");
            run(seed);
            return;
        }
        (_, Ok(range)) => {
            let (from, to) = range.split_once("..").expect("HONEST_SEEDS is FROM..TO");
            let number = |text: &str| text.parse().expect("HONEST_SEEDS is FROM..TO, two numbers");
            number(from)..number(to)
        }
        _ => SCHEDULES,
    };
    let mut met = [0; 4];
    for seed in seeds {
        let Ok(one) = std::panic::catch_unwind(|| run(seed)) else {
            panic!("schedule {seed} fails: HONEST_SEED={seed} runs it alone");
        };
        met.iter_mut().zip(one).for_each(|(all, one)| *all += one);
    }
    let [resets, moves, ends, evicted] = met;
    println!("{resets} resets, {moves} flows moved, {ends} orderly ends, {evicted} evictions");
    // The schedules must have met what they are for.
    assert!(met.iter().all(|count| *count > 100), "{met:?}");
}

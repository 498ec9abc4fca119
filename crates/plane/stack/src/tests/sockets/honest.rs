//! An honest program is never taken for one that breaks the rules, whatever its peers do and
//! whenever: program, peers, dispatcher and workers in one schedule.
//!
//! Each schedule is a seed. A failure prints it; `HONEST_SEED=n` runs that one alone, and
//! `HONEST_SEEDS=a..b` those.

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
fn accepted() -> (Bench, App, tcp::FlowId, u32) {
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

/// One schedule; what its connections met: resets, moves, orderly ends, evictions.
fn run(seed: u64) -> [u64; 4] {
    let mut lots = Lots::new(seed);
    let rate = (lots.below(4) == 0).then(|| Arc::new(Rate::new(20_000_000, 20_000)));
    let (mut bench, mut app) = bench(1 + lots.below(2) as usize, rate);
    bench.turns(2);
    // The peers' ends of all connections, and of those that their programs have not closed: may
    // they still write?
    let mut all = Vec::new();
    let (mut has_removed, mut evicted) = (false, 0);
    let mut flows: Vec<(tcp::FlowId, bool)> = Vec::new();
    for step in 0..150 + lots.below(150) {
        let peer = lots.below(flows.len().max(1) as u32) as usize;
        let own = lots.below(app.accepted.len().max(1) as u32) as usize;
        flows.retain(|(flow, _)| bench.engine.state(*flow).is_some());
        let (peer, slot) = (flows.get_mut(peer), app.accepted.get(own).copied());
        match (lots.below(25), peer, slot) {
            (0..3, ..) if all.len() < 60 => {
                all.push(bench.connect());
                flows.extend(all.last().map(|flow| (*flow, true)));
            }
            (3..6, Some((flow, true)), _) => {
                bench.write(*flow, &vec![step as u8; lots.below(3000) as usize]);
            }
            (6, Some((flow, _)), _) => _ = bench.engine.abort(*flow),
            (7, Some((flow, may_write @ true)), _) => {
                *may_write = false;
                bench.engine.shutdown(*flow).expect("it lives");
            }
            (8, Some((flow, _)), _) => {
                let flow = *flow;
                bench.engine.close(flow, &mut bench.said).expect("it lives");
                flows.retain(|(other, _)| *other != flow);
            }
            (9..11, Some((flow, _)), _) => _ = bench.read(*flow),
            (11..14, _, Some(slot)) => {
                app.write(slot, &vec![step as u8; lots.below(9000) as usize]);
            }
            (14..17, _, Some(slot)) => _ = app.read(slot, lots.below(4000) as usize),
            (17, _, Some(slot)) => {
                let last = [Asks::SHUT_WRITE, Asks::CLOSE, Asks::CLOSE | Asks::ABORT];
                let ask = last[lots.below(3) as usize];
                app.ask(slot, ask);
                // As the library does: nothing is written any more after an end.
                app.accepted.retain(|other| *other != slot);
                if ask == Asks::SHUT_WRITE {
                    app.ask(slot, Asks::CLOSE);
                }
            }
            (18..20, ..) => app.accept(),
            (20, ..) if bench.workers.len() < 4 && lots.below(4) == 0 => bench.spawn(),
            (21, ..) if bench.workers.len() > 1 && lots.below(4) == 0 => {
                let at = lots.below(bench.workers.len() as u32) as usize;
                let id = bench.workers[at].0;
                bench.dispatcher.steering_mut().remove_worker(id);
                has_removed = true;
            }
            // What comes meets one worker's turn, or only the dispatcher's, or everybody's.
            (22, ..) => bench.say(),
            (23, ..) => {
                bench.now += base::Nanos::from_micros(u64::from(lots.below(60)));
                bench.dispatcher.step(bench.now);
                let at = lots.below(bench.workers.len() as u32) as usize;
                bench.workers[at].1.step(bench.now);
            }
            (24, ..) if lots.below(3) == 0 => {
                app.evict(base::Nanos::from_micros(u64::from(lots.below(2000))), 200_000);
            }
            _ => bench.turn(),
        }
        evicted += u64::from(app.settle_evicted() > 0);
        assert_trusted(&app);
    }
    // Everybody goes, in every order.
    let resets = bench.closed.iter().filter(|(_, reason)| *reason == CloseReason::Reset).count();
    app.accept();
    for slot in std::mem::take(&mut app.accepted) {
        app.ask(slot, Asks::CLOSE | Asks::ABORT);
        bench.turns(lots.below(2) as usize);
    }
    for flow in all {
        let _ = bench.engine.abort(flow);
    }
    for _ in 0..40 {
        bench.turns(3);
        // Those that had waited for room in the backlog.
        app.accept();
        for slot in std::mem::take(&mut app.accepted) {
            app.ask(slot, Asks::CLOSE | Asks::ABORT);
        }
        assert_trusted(&app);
    }
    // What was lost on the way is sent again, and given up.
    for _ in 0..100 {
        bench.now += base::Nanos::from_millis(200);
        while let Some((local, remote)) = app.command_queue.next_connect_probe() {
            assert!(send_connect_probe(&mut bench.dispatcher, local, remote, bench.now));
        }
        bench.turns(2);
        app.settle_evicted();
    }
    // A group whose flows are between two workers when the second one ends may wait for a packet.
    if !has_removed {
        assert_nothing_left(&bench, &app);
    }
    let ends = bench.closed.iter().filter(|(_, reason)| *reason == CloseReason::Finished).count();
    [resets as u64, bench.count("attached"), ends as u64, evicted]
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

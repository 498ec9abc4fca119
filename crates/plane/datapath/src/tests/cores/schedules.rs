//! Random schedules of packets, parks, deaf and lying workers, deaths and arrivals.
//!
//! Each schedule is a seed. A failure prints it; `SCHEDULE_SEED=n` runs that one alone.

use std::io::Cursor;

use policy::cores::record::replay;
use policy::record::Writer;

use super::floor::FakeThreads;
use super::*;
use crate::DetachReason;

const SCHEDULES: u64 = 150;
const STEPS: usize = 3000;

struct Lots(u64);

impl Lots {
    fn below(&mut self, most: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % most
    }
}

/// What is wrong with an application's workers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Honest,
    /// They leave out most of their steps.
    Slow,
    /// They say that they have parked, or want a core, whenever they like.
    Violates,
}

/// An honest application has lost nothing, in the end.
fn check(floor: &Floor, conducts: &[Conduct]) {
    for (at, &conduct) in conducts.iter().enumerate() {
        if conduct == Conduct::Violates || !floor.is_there(at) {
            continue;
        }
        let flows = 100 * at as u16..100 * (at as u16 + 1);
        let sent: u16 = floor.sent.range(flows).map(|(_, sent)| sent).sum();
        assert_eq!(floor.served(at), usize::from(sent), "application {at}");
    }
    for (id, why) in &floor.faults {
        let at = floor.troupes.iter().position(|troupe| troupe.id == *id).expect("it was here");
        assert!(
            *why == DetachReason::Left || conducts[at] == Conduct::Violates,
            "application {at}: {why:?}"
        );
    }
}

fn run(seed: u64) {
    let mut lots = Lots(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let cores = 1 + lots.below(3) as u16;
    let mut floor = Floor::new(cores);
    let snapshot = floor.allocator.control().start_recording(2, 1 << 18);
    let mut conducts = Vec::new();
    let mut guaranteed_left = cores;
    let mut spawn = |floor: &mut Floor, lots: &mut Lots, conducts: &mut Vec<Conduct>| {
        let workers = 1 + lots.below(3);
        let terms = if lots.below(5) == 0 {
            batch(cores)
        } else {
            let guaranteed = lots.below(2).min(usize::from(guaranteed_left)) as u16;
            guaranteed_left -= guaranteed;
            terms(guaranteed, guaranteed.max(1 + lots.below(3) as u16))
        };
        floor.spawn(workers, terms);
        conducts.push(match lots.below(6) {
            0 => Conduct::Slow,
            1 => Conduct::Violates,
            _ => Conduct::Honest,
        });
    };
    for _ in 0..1 + lots.below(3) {
        spawn(&mut floor, &mut lots, &mut conducts);
    }
    for _ in 0..STEPS {
        let troupe = lots.below(floor.troupes.len());
        let is_there = floor.is_there(troupe);
        let player = lots.below(floor.troupes[troupe].players.len());
        match lots.below(1000) {
            0..200 if is_there && floor.troupes[troupe].class == policy::cores::Class::Latency => {
                let flow = lots.below(8) as u16;
                let queued = floor.harness.dispatcher.steering_of(floor.troupes[troupe].id);
                let queued: usize = queued.map_or(0, |of| of.workers().map(|(.., q)| q).sum());
                // No more than its buffers hold: losses have tests of their own.
                let under_way = usize::from(floor.sent.values().sum::<u16>());
                if queued < 16 && conducts[troupe] != Conduct::Violates && under_way < 60_000 {
                    floor.send(troupe, flow);
                }
            }
            200..700 if is_there => match conducts[troupe] {
                Conduct::Slow if lots.below(20) > 0 => {}
                Conduct::Violates if lots.below(3) == 0 => {
                    let player = &mut floor.troupes[troupe].players[player];
                    player.look();
                    player.end.core_grant().want();
                    let wants = lots.below(2) == 0;
                    if player.say(wants) {
                        floor.ring();
                    }
                }
                _ => floor.act(troupe, player),
            },
            997 if conducts.len() < 6 => spawn(&mut floor, &mut lots, &mut conducts),
            998 if is_there && lots.below(3) == 0 => {
                floor.detach(floor.troupes[troupe].id, DetachReason::Left);
            }
            999 => {
                let names = policy::cores::NAMES;
                // The fixed partition gives nothing to those without a guarantee.
                let name = names[lots.below(2)].0;
                let policy = policy::cores::by_name(name).expect("a policy");
                floor.allocator.control().set_policy(policy);
            }
            _ => floor.turn(Nanos(lots.below(9000) as u64)),
        }
        floor.check_cores();
    }
    // What violates the protocol goes. The others have all their time: 20 ms, in which the loop
    // sleeps when it may.
    for (at, &conduct) in conducts.iter().enumerate() {
        if conduct == Conduct::Violates && floor.is_there(at) {
            floor.detach(floor.troupes[at].id, DetachReason::Left);
        }
    }
    floor.run(Nanos::from_millis(20));
    floor.check_cores();
    check(&floor, &conducts);
    assert!(floor.harness.is_clean(), "no packet is held");
    let FakeThreads { placed, .. } = &floor.fake_threads;
    assert!(placed.len() as u64 <= floor.count(CoreEvent::Grants));
    let mut recorder = floor.allocator.control().stop_recording().expect("it was started");
    let mut writer = Writer::begin(Vec::new(), &snapshot).expect("memory");
    let lost = recorder.lost();
    while let Some(full) = recorder.take_full() {
        writer.write(&full).expect("memory");
    }
    for rest in recorder.into_rest() {
        writer.write(&rest).expect("memory");
    }
    let lines = writer.end(lost).expect("memory");
    let report = replay(Cursor::new(lines)).expect("a recording of our own");
    assert!(report.is_same(), "{report}");
}

#[test]
fn on_any_schedule_a_core_has_one_holder_nobody_waits_for_ever_and_nothing_is_lost() {
    if let Ok(seed) = std::env::var("SCHEDULE_SEED") {
        return run(seed.parse().expect("SCHEDULE_SEED is a number"));
    }
    for seed in 0..SCHEDULES {
        let done = std::panic::catch_unwind(|| run(seed));
        assert!(done.is_ok(), "schedule {seed} fails: SCHEDULE_SEED={seed} runs it alone");
    }
}

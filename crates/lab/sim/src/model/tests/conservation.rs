//! Nothing gets lost, whatever the plan; and a plan and a seed say everything.

use load::{Arrival, Random};
use policy::cores::Class;
use policy::steer;

use super::*;

/// Any plan that is possible, small.
fn random_plan(random: &mut Random) -> MachinePlan {
    let mut pick = |bound: u32| random.below(bound);
    let cores = 1 + pick(6) as u16;
    let mut left = cores;
    let apps: Vec<AppPlan> = (0..1 + pick(3))
        .map(|_| {
            let workers = 1 + pick(5) as u16;
            let guaranteed = pick(u32::from(workers.min(left)) + 1) as u16;
            let is_batch = pick(5) == 0;
            let guaranteed = if is_batch { 0 } else { guaranteed };
            left -= guaranteed;
            let policies = steer::NAMES.len() as u32;
            let system = match pick(policies + 3) {
                0 => System::Shenango,
                1 => System::PublicCode,
                2 => System::OneQueue,
                policy => System::policy_over(steer::NAMES[policy as usize - 3].0, 128 << pick(7)),
            };
            let far = |is_far: bool, nanos| if is_far { Nanos::FAR_FUTURE } else { Nanos(nanos) };
            AppPlan {
                system,
                workers,
                guaranteed,
                class: if is_batch { Class::Batch } else { Class::Latency },
                queue_delay: Nanos(u64::from(pick(3)) * 10_000),
                flows: 1 + pick(3000),
                popularity: match pick(3) {
                    0 => Popularity::Uniform,
                    exponent => Popularity::Zipf { exponent: f64::from(exponent) * 0.7 },
                },
                churn: f64::from(pick(3)) * 50_000.0,
                arrival: Arrival::ALL[pick(2) as usize],
                trace: None,
                service: Distribution::ALL[pick(5) as usize],
                service_mean: Nanos(u64::from(pick(20_000))),
                ring: 1 << pick(8),
                steals: pick(2) == 0,
                quantum: far(pick(2) == 0, 1000 + u64::from(pick(9000))),
                spin: far(pick(4) == 0, u64::from(pick(60_000))),
                rest_after: far(pick(4) == 0, u64::from(pick(2_000_000))),
            }
        })
        .collect();
    let policies = ["queue_delay", "utilisation", "static_set", "packing"];
    let steps = (0..1 + pick(4)).map(|_| {
        let rates: Vec<f64> = apps.iter().map(|_| f64::from(pick(4) * pick(300_000))).collect();
        let step = Step::new(Nanos(1 + u64::from(pick(4_000_000))), rates);
        match pick(3) {
            0 => step.with_workers(
                apps.iter().map(|app| 1 + pick(app.workers.into()) as u16).collect::<Vec<_>>(),
            ),
            _ => step,
        }
    });
    let steps = steps.collect();
    MachinePlan {
        cores,
        cores_policy: policies[pick(4) as usize].to_owned(),
        interval: Nanos(1000 + u64::from(pick(100_000))),
        costs: if pick(4) == 0 { Costs::FREE } else { Costs::default() },
        level: Level::ALL[pick(3) as usize],
        steps,
        apps,
    }
}

#[test]
fn every_packet_is_answered_dropped_or_still_there_whatever_the_plan() {
    for seed in 0..300 {
        let plan = random_plan(&mut Random::new(seed));
        let said = format!("seed {seed}: {plan:?}");
        let mut machine =
            Machine::new(plan, seed).unwrap_or_else(|refused| panic!("{said}: {refused}"));
        machine.run_all();
        for (index, app) in machine.plan.apps.iter().enumerate() {
            let mut there = 0;
            for step in &machine.outcome.steps {
                let of = &step.apps[index];
                assert_eq!(of.at_begin, there, "{said}");
                there += of.offered;
                there = there.checked_sub(of.delivered + of.dropped).expect(&said);
                assert_eq!(of.unfinished, there, "{said}");
                assert_eq!(of.latency.count(), of.delivered, "{said}");
                assert!(of.busy_time <= of.core_time, "{said}");
                assert!(of.moved_flows <= of.moved_packets, "{said}");
                let most = step.length.0 * u64::from(app.workers);
                assert!(of.core_time.0 <= most, "{said}");
            }
            assert_eq!(machine.packets_of(index as u16), there, "{said}");
        }
        for step in &machine.outcome.steps {
            let held = step.total().core_time.0;
            assert!(held <= step.length.0 * u64::from(machine.plan.cores), "{said}");
        }
    }
}

#[test]
fn one_seed_gives_one_outcome_byte_for_byte_and_another_seed_another() {
    for number in 0..20 {
        let plan = random_plan(&mut Random::new(1000 + number));
        let outcome = |seed| Machine::simulate(plan.clone(), seed).expect("it is possible");
        assert!(outcome(1) == outcome(1), "{plan:?}");
    }
    let plan = plan(4, exponential(4, System::policy("sticky")), 300_000.0);
    let outcome = |seed| Machine::simulate(plan.clone(), seed).expect("it is possible");
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn memory_is_bounded_however_much_is_offered() {
    let mut plan = plan(2, exponential(2, System::policy("modulo")), 5e6);
    plan.steps = vec![Step::new(Nanos::from_millis(100), [5e6]).with_workers([1]); 2];
    plan.steps[1].workers = vec![2];
    let app = last(run(plan));
    assert!(app.unfinished <= 3 * 4096 + 2048, "{app:?}");
    assert!(app.is_saturated() && app.dropped > 300_000, "{app:?}");
}

#[test]
fn packets_at_a_constant_pace_come_however_short_the_steps_of_their_rate() {
    // Two rates in turn, with a gap of 100 us or nearly, in steps of 30 us: 1000 steps are 30 ms.
    let app = AppPlan { arrival: Arrival::Constant, ..exponential(1, System::policy("sticky")) };
    let steps = (0..1000_u32).map(|at| Step::new(Nanos(30_000), [f64::from(10_000 + at % 2)]));
    let outcome = run(MachinePlan { steps: steps.collect(), ..plan(1, app, 0.0) });
    let offered: u64 = outcome.steps.iter().map(|step| step.apps[0].offered).sum();
    assert!((298..=302).contains(&offered), "{offered} of 300");
}

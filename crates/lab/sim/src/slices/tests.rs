//! What each design forwards, where nothing is measured and where theory knows it.

use super::*;

const SEED: u64 = 23;

fn plan(design: Design, cpus: u32, rate: f64) -> Plan {
    let costs = SliceCosts {
        receive: FineRange::new(500.0, 500.0, 500.0),
        forward: FineRange::new(500.0, 500.0, 500.0),
        kernel: FineRange::new(1_000.0, 1_000.0, 1_000.0),
        raw: FineRange::new(1_000.0, 1_000.0, 1_000.0),
        lock: FineRange::new(100.0, 100.0, 100.0),
    };
    Plan {
        cpus,
        design,
        one_queue: false,
        rate,
        flows: 100_000,
        work: 0.0,
        ring: 512,
        costs,
        level: Level::Median,
        packets: 100_000,
    }
}

fn mpps(plan: &Plan) -> f64 {
    run(plan, SEED).throughput() / 1e6
}

#[test]
fn what_is_less_than_can_be_done_is_all_forwarded_and_none_is_lost_unseen() {
    for design in Design::ALL {
        for rate in [0.2e6, 50e6] {
            let outcome = run(&plan(design, 4, rate), SEED);
            assert_eq!(outcome.offered, 100_000);
            assert!(outcome.forwarded + outcome.dropped <= outcome.offered, "{design:?}");
            if rate < 1e6 {
                assert_eq!(outcome.dropped, 0, "{design:?} {outcome:?}");
                let found = outcome.throughput() / rate;
                assert!((0.98..1.02).contains(&found), "{design:?} {found}");
            }
            assert_eq!(outcome, run(&plan(design, 4, rate), SEED), "one seed, one outcome");
        }
    }
}

#[test]
fn who_forwards_on_every_cpu_forwards_as_much_more_as_there_are_cpus_and_one_reader_does_not() {
    // Pairs forward at the rate of their slower half.
    for (design, each) in [(Design::Kernel, 1.0), (Design::Pairs, 1.0)] {
        for cpus in [2, 8, 16] {
            let found = mpps(&plan(design, cpus, 20e6)) / f64::from(cpus) / each;
            assert!((0.9..1.05).contains(&found), "{design:?} on {cpus}: {found} of each");
        }
    }
    let raw = [2, 8, 16].map(|cpus| mpps(&plan(Design::RawSocket, cpus, 20e6)));
    assert!(raw.iter().all(|found| (0.9..1.05).contains(found)), "{raw:?}");
}

#[test]
fn a_program_beside_its_receiver_starves_when_too_much_comes_and_one_with_a_cpu_of_its_own_does_not()
 {
    let at = |design, rate| mpps(&plan(design, 2, rate));
    // Both halves take all of a CPU at a million packets a second of it, and receiving at two.
    assert!(at(Design::Same, 1.8e6) > 1.7, "{}", at(Design::Same, 1.8e6));
    assert!(at(Design::Same, 6e6) < 0.1, "{}", at(Design::Same, 6e6));
    assert!(at(Design::Pairs, 6e6) > 1.9, "{}", at(Design::Pairs, 6e6));
    assert!(at(Design::Kernel, 6e6) > 1.9, "{}", at(Design::Kernel, 6e6));
}

#[test]
fn one_queue_is_one_receiver_however_many_cpus_there_are() {
    for design in Design::ALL {
        let one = Plan { one_queue: true, ..plan(design, 16, 20e6) };
        assert!(mpps(&one) < 2.05, "{design:?}: {}", mpps(&one));
    }
}

#[test]
fn a_queue_with_one_server_makes_packets_wait_as_theory_says() {
    let mut random = Random::new(SEED);
    let mut now = 0.0;
    let arrivals: Vec<f64> = (0..400_000)
        .map(|_| {
            now += 1_000.0 / 0.7 * random.exponential();
            now
        })
        .collect();
    let ends = Stage { nanos: 1_000.0, ring: usize::MAX }.serve(&arrivals);
    let waits = ends.iter().zip(&arrivals).map(|(end, arrival)| end - arrival - 1_000.0);
    let found = waits.sum::<f64>() / arrivals.len() as f64 / 1_000.0;
    let expected = crate::closed_form::mg1_mean_wait(0.7, 0.0);
    assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
}

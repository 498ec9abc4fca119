//! What a tick costs, printed and not judged: time is no test.

#![expect(clippy::disallowed_methods, reason = "the cost of a tick is what is measured")]
#![expect(clippy::disallowed_types, reason = "the cost of a tick is what is measured")]

use std::time::Instant;

use super::*;

/// Nanoseconds a tick with this sample, the least of some rounds.
fn cost_ns(harness: &mut Harness, samples: &[Vec<BusyWorker>; 2]) -> f64 {
    const TICKS: u32 = 2_000;
    let mut best = f64::MAX;
    let mut sample = CoresSample::default();
    for _ in 0..7 {
        let began = Instant::now();
        for tick in 0..TICKS {
            // Gathering is copying each worker's figures.
            sample.busy.clear();
            sample.busy.extend_from_slice(&samples[tick as usize % 2]);
            harness.now += TICK;
            sample.now = harness.now;
            harness.control.tick(&sample, &mut harness.plan);
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(TICKS));
    }
    best
}

#[test]
fn the_cost_of_a_tick_hangs_on_active_workers_alone() {
    println!("policy        active  of cores  quiet ns  congested ns");
    for (policy, _) in NAMES {
        for (active, cores) in [(1, 1), (2, 2), (2, 256), (64, 64), (64, 256), (256, 256)] {
            // Applications of eight workers, as far as they go.
            let mut harness = Harness::new(policy, cores);
            let mut left = active;
            for app in 0.. {
                let count = left.min(8);
                left -= count;
                if count == 0 {
                    break;
                }
                harness.app(terms(app, count, 16), 16 * app, 16);
                harness.start(app, usize::from(count));
            }
            let running = harness.control.table().apps().flat_map(|app| app.active().to_vec());
            let running: Vec<u16> = running.map(|worker| worker.0).collect();
            assert_eq!(running.len(), usize::from(active));
            let at = |taken| running.iter().map(|&id| busy(id, 5, taken)).collect::<Vec<_>>();
            let quiet = cost_ns(&mut harness, &[at(5), at(5)]);
            assert_eq!(
                harness.control.table().apps().map(App::cores).sum::<usize>(),
                running.len()
            );
            let congested = cost_ns(&mut harness, &[at(0), at(0)]);
            println!("{policy:<12}{active:>8}{cores:>10}{quiet:>10.0}{congested:>14.0}");
        }
    }
}

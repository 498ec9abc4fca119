//! Workers without a core: who calls for one, and what becomes of those who get none.

use super::*;

#[test]
fn a_parked_worker_gets_an_idle_core_at_once_however_slow_the_ticks() {
    let p99 = |interval| {
        let app = AppPlan {
            spin: Nanos::from_micros(2),
            service: Distribution::Constant,
            guaranteed: 0,
            ..exponential(1, System::policy("sticky"))
        };
        let plan = PlantPlan { interval, ..plan(1, app, 500.0) };
        last(run(plan)).latency.quantile(0.99)
    };
    let [fast, slow] = [Nanos::from_micros(5), Nanos::from_millis(10)].map(p99);
    assert!(slow.0 < 2 * fast.0, "{fast} with ticks of 5 us, {slow} with ticks of 10 ms");
}

//! A load by which the simulator's own speed is measured.

use base::Nanos;
use load::Distribution;

use crate::model::{AppPlan, MachinePlan, Step, System};

/// The papers' machine at a load that keeps it busy: ten cores, 700,000 flows, five million packets
/// a second with a microsecond of work each, steered by a policy over 65,536 groups, for that long.
///
/// Whoever runs it has [`crate::model::Outcome::packet_events`] to divide by the time that it took.
pub fn plan(policy: &str, length: Nanos) -> MachinePlan {
    let app = AppPlan {
        system: System::policy(policy),
        workers: 10,
        flows: 700_000,
        service: Distribution::Exponential,
        service_mean: Nanos::from_micros(1),
        ..AppPlan::default()
    };
    let steps = vec![Step::new(length, [5e6])];
    MachinePlan { cores: 10, apps: vec![app], steps, ..MachinePlan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Machine;

    #[test]
    fn the_load_keeps_the_cores_busy_and_can_be_served() {
        let length = Nanos::from_millis(50);
        let outcome = Machine::simulate(plan("sticky", length), 1).expect("it is possible");
        let app = &outcome.steps[0].apps[0];
        assert!(!app.is_saturated() && app.cores(length) > 6.0, "{app:?}");
        assert!(outcome.packet_events >= 3 * app.delivered);
    }
}

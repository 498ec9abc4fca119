//! Packet events a second on one core: `cargo run --release -p sim --example speed`.

use std::time::Instant;

use base::Nanos;
use sim::model::{PlanError, Plant};

fn main() -> Result<(), PlanError> {
    for policy in ["sticky", "modulo", "balanced", "shared", "listing3"] {
        let plan = sim::speed::plan(policy, Nanos::from_secs(1));
        let begin = Instant::now();
        let outcome = Plant::simulate(plan, 1)?;
        let seconds = begin.elapsed().as_secs_f64();
        let app = &outcome.steps[0].apps[0];
        println!(
            "{policy}: {:.2} M packet events/s, {:.2} M events/s; {app:?}",
            outcome.packet_events as f64 / seconds / 1e6,
            outcome.events as f64 / seconds / 1e6,
        );
    }
    Ok(())
}

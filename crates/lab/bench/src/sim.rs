//! `calisto bench sim`: how fast the simulator is, and whether what it says is so.

mod demo;
mod speed;
mod sweep;

use crate::cases::{Bench, Case};

/// Options that `calisto bench sim` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Sim {}

impl Bench for Sim {
    const NAME: &'static str = "sim";
    const ROUNDS: u32 = 3;
    const CASES: &'static [Case] = &[
        Case { name: "speed", help: "packet events a second on one core", run: speed::run },
        Case {
            name: "sweep",
            help: "the papers' sweep, all policies at three costs",
            run: sweep::run,
        },
        Case { name: "demo", help: "the demo's first act, predicted and live", run: demo::run },
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed::{self, value};

    #[test]
    fn every_policy_has_its_speed_and_the_sweep_its_time_and_memory() {
        let figures = |case: &str| printed::of_case(Sim {}, case);
        let speed = figures("speed");
        for policy in ["sticky", "modulo", "balanced"] {
            assert!(value(&speed, &format!("{policy}: packet events")) > 0.0);
        }
        let sweep = figures("sweep");
        assert!(value(&sweep, "the whole sweep") > 0.0);
        assert!(value(&sweep, "most memory") > 0.0);
    }
}

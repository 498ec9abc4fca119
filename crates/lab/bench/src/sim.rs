//! `calisto bench sim`: how fast the simulator is, and whether what it says is so.

mod demo;
mod speed;
mod sweep;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

/// Settings of `calisto bench sim`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named, or `all` is.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[ALL]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<3>,
}

const ALL: &str = "all";

static CASES: [Case; 3] = [
    Case { name: "speed", help: "packet events a second on one core", run: speed::run },
    Case { name: "sweep", help: "the papers' sweep, all policies at three costs", run: sweep::run },
    Case { name: "demo", help: "the demo's first act, predicted and live", run: demo::run },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    let is_all = args.cases.iter().any(|name| name == ALL);
    let wanted = if is_all { &[][..] } else { &args.cases };
    cases::run("sim", &CASES, wanted, &plan, json, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed::{self, smallest, value};

    #[test]
    fn every_policy_has_its_speed_and_the_sweep_its_time_and_memory() {
        let figures = |case: &str| {
            let args = Args { cases: vec![case.to_owned()], size: smallest() };
            printed::figures(|out| run(&args, true, out))
        };
        let speed = figures("speed");
        for policy in ["sticky", "modulo", "balanced"] {
            assert!(value(&speed, &format!("{policy}: packet events")) > 0.0);
        }
        let sweep = figures("sweep");
        assert!(value(&sweep, "the whole sweep") > 0.0);
        assert!(value(&sweep, "most memory") > 0.0);
    }
}

//! Tests that failed are run again, alone: what passes then every time is called unstable.
//!
//! Tests of the whole system share processors with each other and with whatever else the machine
//! does. One that fails only in such company is a defect of the test or a race of ours, and its
//! first output is what there is to find it by: so it is named in the summary of every run, and
//! only does not hold back everybody else's work. More than a few at once are no coincidence.

use std::io::Write;
use std::time::Duration;

use super::command::{say, stream};
use super::programs::Failed;
use super::stats::{Outcome, Stats};

/// How many failed tests of one stage get another chance.
const MOST: usize = 3;

/// How often each must pass: one that fails every other time is found out with 31 of 32 chances.
const RUNS: usize = 5;

/// How long one may print nothing.
const SILENCE: Duration = Duration::from_mins(5);

/// Runs each of `failed` again, unless there are too many, and corrects `stats` by what passes.
pub(super) fn run(failed: &[Failed], stats: &mut Stats, out: &mut impl Write) {
    if failed.len() > MOST {
        say(out, &format!("{} tests failed: too many to try them again alone", failed.len()));
        return;
    }
    for Failed { program, test } in failed {
        say(out, &format!("     Again, alone, {RUNS} times: {test}"));
        let passes = |out: &mut _| {
            let mut again = Stats::default();
            let mut command = program.command();
            command.args(["--exact", test]);
            let outcome = stream(command, SILENCE, out, |line| again.read(line));
            outcome == Outcome::Success && again.passed == 1
        };
        if (0..RUNS).all(|_| passes(out)) {
            stats.is_unstable(test, &format!("failed once, and passed {RUNS} times alone"));
        }
    }
}

//! `calisto replay-plans`: the control loop again from a recording, plan by plan.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Run the control loop again from a recording and compare every decision.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto record night.rec && calisto replay-plans night.rec")]
pub(crate) struct ReplayPlans {
    /// What `calisto record` has written; `-` is standard input.
    file: PathBuf,
}

impl ReplayPlans {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let name = self.file.display();
        let lines: Box<dyn BufRead> = if self.file == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            let file = File::open(&self.file)
                .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
            Box::new(BufReader::new(file))
        };
        let report = policy::record::replay(lines)
            .map_err(|error| Failure::new(format!("{name}: {error}")))?;
        if json {
            output::json(&report)?;
        } else {
            output::text(&report.table())?;
        }
        if report.is_same() {
            return Ok(());
        }
        Err(Failure::new("the loop now decides differently, or the recording is incomplete"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_recording_is_refused_with_its_name() {
        let failure = ReplayPlans { file: "/dev/null".into() }.run(false).expect_err("empty");
        assert!(failure.to_string().starts_with("/dev/null: "), "{failure}");
        let failure = ReplayPlans { file: "/nowhere/x".into() }.run(false).expect_err("none");
        assert!(failure.to_string().contains("cannot read /nowhere/x"), "{failure}");
    }
}

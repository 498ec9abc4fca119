//! What a job had, said when it has ended.

use std::fmt;

use base::Nanos;
use serde::Serialize;

use super::pace::Counts;

/// Of the JSON; a reader that knows another one should not guess.
const SCHEMA_VERSION: u32 = 1;

/// One job's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    schema_version: u32,
    name: String,
    exit_code: u8,
    /// From its first core to its end.
    wall_seconds: f64,
    /// Of all its processes that were waited for.
    cpu_seconds: f64,
    /// For how long it held 0, 1, 2 .. cores.
    seconds_with_cores: Vec<f64>,
    grants: u64,
    revokes: u64,
    freezes: u64,
    /// By what it was stopped when it had no core: cgroup, cgroup_v1 or signals.
    frozen_by: &'static str,
}

impl Report {
    /// Of the job `name`, which ended now.
    pub(crate) fn new(
        name: &str,
        frozen_by: &'static str,
        wall: Nanos,
        exit_code: u8,
        counts: &Counts,
    ) -> Self {
        let Counts { grants, revokes, freezes, held } = counts;
        Self {
            schema_version: SCHEMA_VERSION,
            name: name.to_owned(),
            exit_code,
            wall_seconds: wall.as_secs_f64(),
            cpu_seconds: sys::child::cpu_time_of_ended().as_secs_f64(),
            seconds_with_cores: held.iter().map(|time| time.as_secs_f64()).collect(),
            grants: *grants,
            revokes: *revokes,
            freezes: *freezes,
            frozen_by,
        }
    }

    /// Prints it on standard error: standard output is the program's own.
    pub(crate) fn print(&self, json: bool) {
        if json {
            let line = serde_json::to_string(self).expect("names and numbers are JSON");
            eprintln!("{line}");
        } else {
            eprintln!("{self}");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, wall_seconds, cpu_seconds, grants, revokes, freezes, .. } = self;
        write!(f, "{name}: {wall_seconds:.2} s, {cpu_seconds:.2} s of CPU time")?;
        for (cores, seconds) in self.seconds_with_cores.iter().enumerate() {
            let plural = if cores == 1 { "core" } else { "cores" };
            write!(f, ", {seconds:.2} s with {cores} {plural}")?;
        }
        write!(f, "; {grants} granted, {revokes} revoked, {freezes} times stopped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let held = vec![Nanos::from_millis(250), Nanos::from_millis(1_500)];
        let counts = Counts { grants: 4, revokes: 3, freezes: 2, held };
        Report {
            cpu_seconds: 1.25,
            ..Report::new("make-7", "cgroup", Nanos::from_millis(1_750), 3, &counts)
        }
    }

    #[test]
    fn a_person_reads_one_line() {
        assert_eq!(
            report().to_string(),
            "make-7: 1.75 s, 1.25 s of CPU time, 0.25 s with 0 cores, 1.50 s with 1 core; \
             4 granted, 3 revoked, 2 times stopped"
        );
    }

    #[test]
    fn a_program_reads_every_figure_at_the_top() {
        let value = serde_json::to_value(report()).expect("names and numbers are JSON");
        let expected = serde_json::json!({
            "schema_version": 1, "name": "make-7", "exit_code": 3, "wall_seconds": 1.75,
            "cpu_seconds": 1.25, "seconds_with_cores": [0.25, 1.5], "grants": 4, "revokes": 3,
            "freezes": 2, "frozen_by": "cgroup",
        });
        assert_eq!(value, expected);
    }
}

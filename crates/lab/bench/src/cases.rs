//! The cases of a bench, and how much of each is measured.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::error::{Error, unless_interrupted};
use crate::place::Cpus;
use crate::report::Report;

/// Settings of every bench. `ROUNDS` is how many there are unless somebody wants another number.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Size<const ROUNDS: u32> {
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99), help = format!(
        "Rounds of every case: ours and the baselines take turns, figures are medians [default: \
         {ROUNDS}, or 2 with --quick]"
    ))]
    /// Rounds of every case.
    pub rounds: Option<u32>,

    /// Small sizes and short rounds: whether it works, not how fast it is.
    #[arg(long)]
    pub quick: bool,
}

/// How much of an attack, where a bench has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttackSize {
    /// Connections in a round.
    pub(crate) connections: u64,
    pub(crate) per_second: u64,
}

/// How much is under way when a daemon ends, where a bench has that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeathSize {
    pub(crate) connections: usize,
    /// Requests of all of them together.
    pub(crate) per_second: u64,
    /// Of everything random.
    pub(crate) seed: u64,
}

/// How much of everything.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: u32,
    pub(crate) quick: bool,
    pub(crate) cpus: Cpus,
    /// Linux in our place too, where a bench can do that.
    pub(crate) is_rehearsal: bool,
    /// How many run at once, where a bench can do more than two.
    pub(crate) cores: usize,
    /// A file of routes, where a bench wants one.
    pub(crate) table: Option<PathBuf>,
    pub(crate) attack: AttackSize,
    pub(crate) death: DeathSize,
}

impl Plan {
    /// As much as is wanted, on the CPUs that are there.
    pub(crate) fn new<const ROUNDS: u32>(size: &Size<ROUNDS>) -> Self {
        let Size { rounds, quick } = *size;
        let rounds = rounds.unwrap_or(if quick { 2 } else { ROUNDS });
        let (attack, death) = Default::default();
        Self {
            rounds,
            quick,
            cpus: Cpus::choose(),
            is_rehearsal: false,
            cores: 2,
            table: None,
            attack,
            death,
        }
    }

    /// A round of a case begins, of `what` where it has several parts.
    ///
    /// # Errors
    /// Somebody wants it all to end.
    pub(crate) fn round(
        &self,
        report: &Report<'_>,
        round: u32,
        what: impl Display,
    ) -> Result<(), Error> {
        unless_interrupted()?;
        let what = what.to_string();
        let comma = if what.is_empty() { "" } else { ", " };
        report.progress(format_args!("{what}{comma}round {} of {}", round + 1, self.rounds));
        Ok(())
    }

    /// `full`, or `quick` in a quick run.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// One case: gets a [`Plan`], gives figures.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) run: fn(&Plan, &mut Report<'_>) -> Result<(), Error>,
}

/// Reads names of `cases`, and `hidden` ones that help does not show.
pub(crate) fn names(cases: &'static [Case], hidden: &[&'static str]) -> PossibleValuesParser {
    let shown = cases.iter().map(|case| PossibleValue::new(case.name).help(case.help));
    let hidden = hidden.iter().map(|name| PossibleValue::new(*name).hide(true));
    PossibleValuesParser::new(shown.chain(hidden))
}

/// Runs those of `cases` that are `wanted`, all when none is. A case that cannot be run here (no
/// root, no DPDK) is a line of its own and ends nothing else.
pub(crate) fn run(
    bench: &'static str,
    cases: &[Case],
    wanted: &[String],
    plan: &Plan,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    run_into(Report::new(bench, json, out), cases, wanted, plan)
}

/// The same; every figure says where it was measured.
pub(crate) fn run_into(
    mut report: Report<'_>,
    cases: &[Case],
    wanted: &[String],
    plan: &Plan,
) -> Result<(), Error> {
    for case in cases {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == case.name) {
            continue;
        }
        unless_interrupted()?;
        match (case.run)(plan, &mut report) {
            Ok(()) => {}
            Err(error @ (Error::Output(_) | Error::Interrupted)) => return Err(error),
            Err(error) => {
                // Ctrl-C ends our daemons too: what they leave unfinished is nothing to report.
                unless_interrupted()?;
                report.not_measured(&error)?;
            }
        }
        report.end()?;
    }
    Ok(())
}

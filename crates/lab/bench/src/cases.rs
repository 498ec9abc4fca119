//! A bench: its options, its cases, how much of each is measured, and the turns in which it is.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::error::{Error, unless_interrupted};
use crate::machine;
use crate::place::Cpus;
use crate::priority::Priority;
use crate::report::{Form, Report};

/// One bench: what it is called and what it can measure. The value is the options that it alone
/// has.
pub(crate) trait Bench: clap::Args {
    /// Its word on the command line.
    const NAME: &'static str;
    /// Rounds unless somebody wants another number.
    const ROUNDS: u32 = 5;
    const CASES: &'static [Case];
    /// Whether it measures on two CPUs, with nobody before it: with one CPU it refuses.
    const NEEDS_TWO_CPUS: bool = false;

    /// How much of what it alone has.
    fn plan(&self, plan: Plan) -> Result<Plan, Error> {
        Ok(plan)
    }

    /// A case that an option of its own asks for.
    fn asked(&self) -> Option<&'static str> {
        None
    }
}

/// The options of a bench.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args<B: Bench> {
    /// Cases to run; all of them when none is named, or `all` is.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(B::CASES))]
    pub(crate) cases: Vec<String>,

    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99), help = format!(
        "Rounds of every case: ours and the baselines take turns, figures are medians [default: \
         {}, or 2 with --quick]", B::ROUNDS
    ))]
    pub(crate) rounds: Option<u32>,

    /// Small sizes and short rounds: whether it works, not how fast it is.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print a section of a page under docs/figures instead of a table.
    #[arg(long)]
    pub(crate) markdown: bool,

    #[command(flatten)]
    pub(crate) own: B,
}

impl<B: Bench> Args<B> {
    /// Runs the cases and prints their figures to `out`. A case that cannot be run here (no root,
    /// no DPDK) is a line of its own and ends nothing else.
    pub(crate) fn run(&self, json: bool, out: &mut dyn Write) -> Result<(), Error> {
        let Self { cases, rounds, quick, markdown, own } = self;
        let form = match (json, markdown) {
            (true, _) => Form::Json,
            (false, true) => Form::Markdown,
            (false, false) => Form::Text,
        };
        let rounds = rounds.unwrap_or(if *quick { 2 } else { B::ROUNDS });
        let plan = own.plan(Plan::new(rounds, *quick))?;
        let _priority = match B::NEEDS_TWO_CPUS {
            true => {
                plan.cpus.need_two()?;
                Some(Priority::take())
            }
            false => None,
        };
        let wanted: Vec<&str> = cases.iter().map(String::as_str).chain(own.asked()).collect();
        let is_all = wanted.is_empty() || wanted.contains(&ALL);
        let mut report = Report::new(B::NAME, form, out).of_machine(machine::here());
        for case in B::CASES.iter().filter(|case| is_all || wanted.contains(&case.name)) {
            unless_interrupted()?;
            match (case.run)(&plan, &mut report) {
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
}

/// The word for every case.
const ALL: &str = "all";

/// Reads names of `cases`, and the word for all of them, which help does not show.
fn names(cases: &'static [Case]) -> PossibleValuesParser {
    let shown = cases.iter().map(|case| PossibleValue::new(case.name).help(case.help));
    PossibleValuesParser::new(shown.chain([PossibleValue::new(ALL).hide(true)]))
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
    pub(crate) fn new(rounds: u32, quick: bool) -> Self {
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

/// Measures `count` things in turn, round after round: every other round backwards, so that nobody
/// always comes first. Samples by thing.
pub(crate) fn in_turns<T>(
    plan: &Plan,
    report: &Report<'_>,
    what: impl Display,
    count: usize,
    mut measure: impl FnMut(usize) -> Result<T, Error>,
) -> Result<Vec<Vec<T>>, Error> {
    in_turns_by_round(plan, report, what, count, |which, _| measure(which))
}

/// The same of `N` things; `measure` is told the round, too.
pub(crate) fn turns_of<T, const N: usize>(
    plan: &Plan,
    report: &Report<'_>,
    what: impl Display,
    measure: impl FnMut(usize, u32) -> Result<T, Error>,
) -> Result<[Vec<T>; N], Error> {
    let samples = in_turns_by_round(plan, report, what, N, measure)?;
    Ok(samples.try_into().unwrap_or_else(|_| unreachable!("each of them has samples")))
}

fn in_turns_by_round<T>(
    plan: &Plan,
    report: &Report<'_>,
    what: impl Display,
    count: usize,
    mut measure: impl FnMut(usize, u32) -> Result<T, Error>,
) -> Result<Vec<Vec<T>>, Error> {
    let mut samples: Vec<Vec<T>> = (0..count).map(|_| Vec::new()).collect();
    for round in 0..plan.rounds {
        plan.round(report, round, &what)?;
        for turn in 0..count {
            unless_interrupted()?;
            let which = if round % 2 == 0 { turn } else { count - 1 - turn };
            samples[which].push(measure(which, round)?);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_always_comes_first_and_samples_stay_with_their_thing() {
        let plan = Plan::new(3, false);
        let mut out = Vec::new();
        let report = Report::new("sockets", Form::Json, &mut out);
        let mut order = Vec::new();
        let samples = in_turns(&plan, &report, "a test", 2, |which| {
            order.push(which);
            Ok(which)
        });
        assert_eq!(samples.expect("nothing fails"), [[0; 3], [1; 3]]);
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
    }
}

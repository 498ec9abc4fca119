//! The stacks of most cases, and how what was measured on them is printed.

use super::tested_stack::{Offloads, TestedStack};
use super::turns::{Strangers, print_strangers};
use crate::cases::{Plan, in_turns};
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::report::Report;

/// Ours, and Linux's with and without segmentation offloads: nothing else of them differs.
pub(super) struct TestedStacks([TestedStack; 3]);

/// What one round gives on one stack: figures in the order of the case's [`Metric`]s.
pub(super) struct Round<const N: usize> {
    pub(super) values: [f64; N],
    pub(super) strangers: Strangers,
}

/// One of a case's figures.
#[derive(Clone, Copy)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// What ours must reach of each of Linux's.
    pub(super) target: Option<Target>,
}

impl TestedStacks {
    pub(super) fn new(plan: &Plan) -> Result<Self, Error> {
        let linux = |offloads| TestedStack::linux(plan.cpus, offloads);
        Ok(Self([TestedStack::calisto(plan)?, linux(Offloads::Default)?, linux(Offloads::Whole)?]))
    }

    /// Measures on each in turn and prints every metric of ours against both of Linux's.
    pub(super) fn compare<const N: usize>(
        &self,
        plan: &Plan,
        report: &mut Report<'_>,
        what: &str,
        metrics: [Metric; N],
        mut measure: impl FnMut(&TestedStack) -> Result<Round<N>, Error>,
    ) -> Result<(), Error> {
        let Self(tested_stacks) = self;
        let samples = in_turns(plan, report, what, tested_stacks.len(), |which| {
            measure(&tested_stacks[which])
        })?;
        for (at, Metric { name, unit, target }) in metrics.into_iter().enumerate() {
            let column = |which: usize| -> Vec<f64> {
                samples[which].iter().map(|round: &Round<N>| round.values[at]).collect()
            };
            let own = column(0);
            for baseline in [1, 2] {
                let figure =
                    Figure::new(format!("{what}: {}, {name}", tested_stacks[0].name()), unit, &own)
                        .against(tested_stacks[baseline].name(), &own, &column(baseline));
                report.figure(figure.target(target))?;
            }
        }
        let strangers: Vec<Strangers> =
            samples.iter().flatten().map(|round| round.strangers).collect();
        print_strangers(report, what, &strangers)
    }
}

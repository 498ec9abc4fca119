//! What a model is to a scenario: its settings, and the rows that come out of it.

use std::collections::BTreeMap;

use report::Parameter;
use sim::Level;

use crate::scenario::Over;
use crate::setting::{Rule, Settings};

/// A model.
pub(crate) struct Experiment {
    /// Its name in a scenario.
    pub(crate) name: &'static str,
    /// What it is, in a line.
    pub(crate) help: &'static str,
    /// What it can be told.
    pub(crate) rules: &'static [Rule],
    /// What comes out of it.
    pub(crate) values: &'static [&'static str],
    /// How a sweep may go through it.
    pub(crate) over: &'static [Over],
    /// Whether measured costs with ranges are in it, so that there is a band.
    pub(crate) has_costs: bool,
    /// Whether anything random is in it: without that one run is as good as ten.
    pub(crate) has_chance: bool,
    /// How many rows come out of a run.
    pub(crate) rows: fn(&Task<'_>) -> usize,
    /// Whether settings fit together: if not, the key to blame and a sentence.
    pub(crate) check: fn(&Task<'_>) -> Result<(), Misfit>,
    /// Runs it: as many rows as the sweep has values, or slices of time.
    pub(crate) run: fn(&Task<'_>, Level, u64) -> Result<Vec<Row>, String>,
    /// What it takes for given besides its settings.
    pub(crate) parameters: fn(&Settings) -> Vec<Parameter>,
}

/// A key to blame, and a sentence.
pub(crate) type Misfit = (String, String);

/// What a run is told.
#[derive(Clone, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) over: Over,
    /// Of a sweep in one run: its values, in the setting's unit.
    pub(crate) values: &'a [f64],
    /// A tenth of everything: whether it works, not what it says.
    pub(crate) quick: bool,
}

impl Task<'_> {
    /// That many of whatever it is, or a tenth of that.
    pub(crate) fn part(&self, count: u64) -> u64 {
        if self.quick { (count / 10).max(1) } else { count }
    }
}

/// What one point has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// Of a sweep over time: microseconds.
    pub(crate) at: Option<f64>,
    pub(crate) values: BTreeMap<&'static str, f64>,
    pub(crate) saturated: bool,
}

impl Experiment {
    pub(crate) fn rule(&self, key: &str) -> Option<&'static Rule> {
        self.rules.iter().find(|rule| rule.key == key)
    }
}

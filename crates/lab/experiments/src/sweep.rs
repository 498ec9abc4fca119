//! A scenario that has been checked, and the runs that it is made of.

use std::borrow::Cow;
use std::collections::BTreeSet;

use report::{Kind, Origin};
use sim::Level;

use crate::document;
use crate::error::ScenarioError;
use crate::experiment::{Experiment, Task};
use crate::own_costs::Costs;
use crate::scenario::{ClaimText, Over, Text};
use crate::setting::{Rule, Settings};

/// A scenario that has been checked: every run of it is possible.
#[derive(Debug)]
pub struct Scenario {
    pub(crate) main: &'static Experiment,
    pub(crate) axes: Axes,
    pub(crate) panels: Vec<String>,
    pub(crate) series: Vec<Series>,
    pub(crate) read: Text,
    /// A cost that all runs take at one end of its range.
    pub(crate) pinned: Option<(&'static str, Level)>,
}

/// What the axes go through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axes {
    /// In the axis's unit.
    pub(crate) x: Vec<f64>,
    /// Of a map, in the setting's unit; else empty.
    pub(crate) y: Vec<f64>,
}

/// One series, with all that it is told.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) origin: Origin,
    pub(crate) experiment: &'static Experiment,
    /// What is drawn.
    pub(crate) value: &'static str,
    /// By panel.
    pub(crate) settings: Vec<Settings>,
    /// The settings that the axes are, if they mean something to this model.
    pub(crate) x: Option<&'static Rule>,
    pub(crate) y: Option<&'static Rule>,
}

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Series({} by {})", self.name, self.experiment.name)
    }
}

impl std::fmt::Debug for Experiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Experiment({})", self.name)
    }
}

impl Scenario {
    /// Reads and checks a text.
    ///
    /// # Errors
    /// The first thing in it that cannot be: with its line, and what could be there.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(text, &Costs::default())
    }

    /// As [`Self::parse`], with what things cost on another machine than that of the defaults.
    ///
    /// # Errors
    /// As of [`Self::parse`], and what a cost cannot be.
    pub fn parse_with(text: &str, costs: &Costs) -> Result<Self, ScenarioError> {
        document::parse(text, costs)
    }

    /// Its name, and that of its files.
    pub fn name(&self) -> &str {
        self.read.name.get_ref()
    }

    /// Its heading.
    pub fn title(&self) -> &str {
        &self.read.title
    }

    /// Its place on the page.
    pub fn order(&self) -> u32 {
        self.read.order
    }

    /// How many runs it is made of.
    pub fn job_count(&self) -> usize {
        Jobs::of(self).all.len()
    }

    /// The values of a series that claims look at.
    pub(crate) fn looked_at(&self, series: usize) -> Vec<&str> {
        let Series { name, value, .. } = &self.series[series];
        let is_of = |claim: &&ClaimText| {
            let than = claim.than.as_ref().is_some_and(|than| than.get_ref() == name);
            than || claim.series.get_ref() == name
        };
        let claims = self.read.claim.iter().filter(is_of);
        let names = claims.map(|claim| claim.value.as_ref().map_or(*value, |of| of.get_ref()));
        names.collect::<BTreeSet<&str>>().into_iter().collect()
    }

    pub(crate) fn is_map(&self) -> bool {
        self.read.kind == Kind::Map
    }

    /// What one series is told in one job.
    pub(crate) fn settings(&self, job: &Job, series: usize) -> Settings {
        let series = &self.series[series];
        let mut settings = series.settings[job.panel].clone();
        let mut set = |rule: Option<&'static Rule>, value: Option<f64>| {
            if let (Some(rule), Some(value)) = (rule, value) {
                let value = rule.number(value).expect("the axis was read by this rule before");
                settings.set(rule, value);
            }
        };
        set(series.x, job.x.map(|at| self.axes.x[at] * self.read.x.factor));
        set(series.y, job.y.map(|at| self.axes.y[at]));
        if let Some((cost, level)) = self.pinned {
            settings.pin(cost, level);
        }
        settings
    }

    /// Of a sweep in one run: its values, in the setting's unit.
    pub(crate) fn sweep_values(&self) -> Vec<f64> {
        match self.read.x.over {
            Over::Steps => self.axes.x.iter().map(|x| x * self.read.x.factor).collect(),
            Over::Points | Over::Time => Vec::new(),
        }
    }

    pub(crate) fn task<'a>(
        &self,
        settings: &'a Settings,
        values: &'a [f64],
        quick: bool,
    ) -> Task<'a> {
        Task { settings, over: self.read.x.over, values, quick }
    }
}

/// A run, or in a map the runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) panel: usize,
    /// `None`: all of them, to be compared in a cell.
    pub(crate) only: Option<usize>,
    /// `None`: all values in one run.
    pub(crate) x: Option<usize>,
    pub(crate) y: Option<usize>,
}

impl Job {
    /// The series that take part.
    pub(crate) fn series(&self, scenario: &Scenario) -> std::ops::Range<usize> {
        self.only.map_or(0..scenario.series.len(), |only| only..only + 1)
    }

    /// Where everything random in it comes from. Not from the series: all of them get the same
    /// requests, so that what differs is what they make of them.
    pub(crate) fn seed(&self, seed: u64) -> u64 {
        let number = |at: Option<usize>| at.map_or(0, |at| at as u64 + 1);
        let place = (self.panel as u64) << 40 | number(self.x) << 20 | number(self.y);
        load::Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place).bits()
    }
}

/// All jobs of a scenario, in the order of their results.
pub(crate) struct Jobs {
    pub(crate) all: Vec<Job>,
}

impl Jobs {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let each = |count: usize, is_swept: bool| -> Cow<'static, [Option<usize>]> {
            if is_swept { (0..count).map(Some).collect() } else { Cow::Borrowed(&[None]) }
        };
        let series = each(scenario.series.len(), !scenario.is_map());
        let xs = each(scenario.axes.x.len(), scenario.read.x.over == Over::Points);
        let ys = each(scenario.axes.y.len(), scenario.is_map());
        let mut all = Vec::new();
        for panel in 0..scenario.panels.len() {
            for &only in series.iter() {
                for &y in ys.iter() {
                    all.extend(xs.iter().map(|&x| Job { panel, only, x, y }));
                }
            }
        }
        Self { all }
    }
}

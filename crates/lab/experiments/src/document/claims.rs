//! What a scenario claims, and whether its points can show that.

use super::{POINTS_MAX, Reader, VALUES_MAX};
use crate::error::{ScenarioError, line_of, shorten};
use crate::scenario::{ClaimText, Relation, Text};
use crate::sweep::{Jobs, Scenario};
use toml::Spanned;

impl Reader<'_> {
    pub(super) fn papers(&self, read: &Text, panels: &[String]) -> Result<(), ScenarioError> {
        for paper in &read.paper {
            self.word(&paper.name, "-_")?;
            if let Some(panel) = &paper.panel
                && !panels.contains(panel.get_ref())
            {
                let sentence = format!("there is no panel \"{}\"", shorten(panel.get_ref()));
                return Err(self.error(panel, sentence));
            }
            let points = paper.points.get_ref();
            let is_number = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
            if !(1..=VALUES_MAX).contains(&points.len()) || !points.iter().all(is_number) {
                let sentence = format!("`points` are 1 to {VALUES_MAX} pairs of numbers");
                return Err(self.error(&paper.points, sentence));
            }
        }
        Ok(())
    }

    pub(super) fn claims(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        let claims = &scenario.read.claim;
        for (number, claim) in claims.iter().enumerate() {
            let is_twin =
                |one: &ClaimText| (&one.claim, &one.source) == (&claim.claim, &claim.source);
            if claims[..number].iter().any(is_twin) {
                let sentence =
                    format!("\"{}\" is claimed twice by the same source", shorten(&claim.claim));
                return Err(self.error(&claim.series, sentence));
            }
            for name in std::iter::once(&claim.series).chain(&claim.than) {
                let is_series = scenario.series.iter().any(|one| one.name == *name.get_ref());
                let is_paper =
                    scenario.read.paper.iter().any(|one| one.name.get_ref() == name.get_ref());
                if !is_series && !is_paper {
                    let names = scenario.series.iter().map(|one| one.name.as_str());
                    let meant = config::nearest(name.get_ref(), names);
                    let meant =
                        meant.map_or(String::new(), |name| format!(": did you mean \"{name}\"?"));
                    let sentence =
                        format!("no series is called \"{}\"{meant}", shorten(name.get_ref()));
                    return Err(self.error(name, sentence));
                }
            }
            if claim.relation.needs_other() != claim.than.is_some() {
                let sentence =
                    "`than` names the series that a claim compares with, where its relation does";
                return Err(self.error(&claim.series, sentence));
            }
            let is_within = claim.relation == Relation::Within;
            if is_within != claim.up_to.is_some_and(|up_to| up_to >= claim.limit) {
                let sentence = "`up_to` belongs to the relation `within`, and is `limit` or more";
                return Err(self.error(&claim.series, sentence));
            }
            if let Some(panel) = &claim.panel
                && !scenario.panels.contains(panel.get_ref())
            {
                let sentence = format!("there is no panel \"{}\"", shorten(panel.get_ref()));
                return Err(self.error(panel, sentence));
            }
            if let Some(value) = &claim.value {
                let of = scenario.series.iter().find(|one| one.name == *claim.series.get_ref());
                of.map_or(Ok(""), |series| self.value(series.experiment, value))?;
            }
        }
        Ok(())
    }

    /// Whether every run is possible, and how much comes of all.
    pub(super) fn fits(&self, scenario: &Scenario) -> Result<(), ScenarioError> {
        let mut points = 0;
        for job in &Jobs::of(scenario).all {
            for series in job.series(scenario) {
                let settings = scenario.settings(job, series);
                let values = scenario.sweep_values();
                let task = scenario.task(&settings, &values, false);
                let series = &scenario.series[series];
                (series.experiment.check)(&task).map_err(|(key, sentence)| {
                    ScenarioError::new(self.line_of_key(scenario, &series.name, &key), sentence)
                })?;
                points += (series.experiment.rows)(&task);
            }
            if points > POINTS_MAX {
                let sentence =
                    format!("this makes more than {POINTS_MAX} points, the most that are allowed");
                return Err(ScenarioError::new(None, sentence));
            }
        }
        Ok(())
    }

    /// Where a key was set, for one series: there, in its panel, for all, or as an axis.
    pub(super) fn line_of_key(
        &self,
        scenario: &Scenario,
        series: &str,
        key: &str,
    ) -> Option<usize> {
        let read = &scenario.read;
        let of_series = read.series.get_ref().iter().find(|one| one.name.get_ref() == series);
        let layers = of_series.map(|one| &one.set).into_iter();
        let layers = layers.chain(read.panel.iter().map(|panel| &panel.set)).chain([&read.base]);
        let written = layers.filter_map(|layer| layer.get(key)).map(Spanned::span).next();
        let axes = [(&read.x.key, &read.x.values), (&read.y.key, &read.y.values)];
        let is_axis = |axis: &Option<Spanned<String>>| {
            axis.as_ref().is_some_and(|axis| axis.get_ref() == key)
        };
        let axis = axes.into_iter().find(|(axis, _)| is_axis(axis));
        let axis = axis.and_then(|(_, values)| values.as_ref()).map(Spanned::span);
        axis.or(written).map(|span| line_of(self.text, span.start))
    }
}

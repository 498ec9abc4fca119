//! A scenario: what is simulated, point by point, and how the figure of it looks.
//!
//! Its text is TOML. The parts here are read by serde, which refuses every field that it does not
//! know; what the settings of an experiment may hold is `setting.rs` and the experiments' own
//! tables.

use std::collections::BTreeMap;

use report::{Kind, Origin, Scale, Whose};
use serde::Deserialize;
use toml::Spanned;

/// Settings as they were written, with their place.
pub(crate) type Layer = BTreeMap<String, Spanned<toml::Value>>;

/// The whole text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    /// A word of lower-case letters, figures and hyphens: the figure's name and that of its files.
    pub(crate) name: Spanned<String>,
    /// Its place on the page.
    #[serde(default)]
    pub(crate) order: u32,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) text: String,
    /// Which model runs.
    pub(crate) experiment: Spanned<String>,
    #[serde(default = "default_seed")]
    pub(crate) seed: u64,
    #[serde(default = "default_kind")]
    pub(crate) kind: Kind,
    pub(crate) x: XText,
    pub(crate) y: YText,
    /// Of a map: what the values in its cells are.
    pub(crate) cell: Option<CellText>,
    /// What all series have in common.
    #[serde(default)]
    pub(crate) base: Layer,
    /// Why these values, by key.
    #[serde(default)]
    pub(crate) sources: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(crate) panel: Vec<PanelText>,
    pub(crate) series: Spanned<Vec<SeriesText>>,
    #[serde(default)]
    pub(crate) paper: Vec<PaperText>,
    #[serde(default)]
    pub(crate) claim: Vec<ClaimText>,
}

fn default_seed() -> u64 {
    1
}

fn default_kind() -> Kind {
    Kind::Lines
}

/// How the values of `x` are gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// A run for each.
    #[default]
    Points,
    /// One run, in which one follows the other.
    Steps,
    /// One run, and `x` is its time.
    Time,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct XText {
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) scale: Scale,
    #[serde(default)]
    pub(crate) over: Over,
    /// The setting that it is.
    pub(crate) key: Option<Spanned<String>>,
    /// What one of the axis is in the setting's unit.
    #[serde(default = "one")]
    pub(crate) factor: f64,
    /// In the axis's unit.
    #[serde(default)]
    pub(crate) values: Option<Spanned<Vec<f64>>>,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct YText {
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) scale: Scale,
    /// Which of the experiment's values; of a map, the one that the best series has least of.
    pub(crate) value: Spanned<String>,
    /// Of a map: the setting that goes up.
    pub(crate) key: Option<Spanned<String>>,
    /// Of a map: its values.
    pub(crate) values: Option<Spanned<Vec<f64>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellText {
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) scale: Scale,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PanelText {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) set: Layer,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesText {
    pub(crate) name: Spanned<String>,
    pub(crate) label: String,
    #[serde(default = "simulated")]
    pub(crate) origin: Origin,
    /// Another model than the scenario's.
    pub(crate) experiment: Option<Spanned<String>>,
    /// Another value than the scenario's.
    pub(crate) value: Option<Spanned<String>>,
    #[serde(default)]
    pub(crate) set: Layer,
}

fn simulated() -> Origin {
    Origin::Simulated
}

/// Points that somebody else found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperText {
    pub(crate) name: Spanned<String>,
    pub(crate) label: String,
    #[serde(default = "paper")]
    pub(crate) origin: Origin,
    /// In one panel; without it in all.
    pub(crate) panel: Option<Spanned<String>>,
    pub(crate) points: Spanned<Vec<(f64, f64)>>,
}

fn paper() -> Origin {
    Origin::Paper
}

/// How two series, or the points of one, are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Relation {
    /// `series` is lower than `than` by the share `by` at every point.
    Lower,
    /// It is at one point or more.
    LowerSomewhere,
    /// It is from some point on to the last one.
    LowerFrom,
    /// `series` is higher than `than` by the share `by` at every point.
    Higher,
    /// It is at one point or more.
    HigherSomewhere,
    /// The two differ by the share `by` at most.
    Equal,
    /// The last point is higher than the first by the share `by`, or more.
    Grows,
    /// The last point is lower than the first by the share `by`, or more.
    Falls,
    /// The highest point is above the lowest by the share `by` at most.
    Flat,
    /// `series` still serves what is too much for `than`.
    Outlasts,
    /// No point is above `limit`.
    AtMost,
    /// No point is below `limit`.
    AtLeast,
    /// No point is below `limit` or above `up_to`.
    Within,
}

/// What somebody says, and how it is seen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimText {
    pub(crate) claim: String,
    pub(crate) source: String,
    pub(crate) relation: Relation,
    pub(crate) series: Spanned<String>,
    pub(crate) than: Option<Spanned<String>>,
    /// Without it the first one.
    pub(crate) panel: Option<Spanned<String>>,
    /// From this `x` on.
    pub(crate) from: Option<f64>,
    /// Up to this `x`.
    pub(crate) to: Option<f64>,
    #[serde(default)]
    pub(crate) by: f64,
    /// Of `at_most`, `at_least` and `within`.
    #[serde(default)]
    pub(crate) limit: f64,
    /// Of `within`.
    pub(crate) up_to: Option<f64>,
    /// Another value than that of the axis.
    pub(crate) value: Option<Spanned<String>>,
    /// Whose claim it is.
    #[serde(default)]
    pub(crate) whose: Whose,
    /// Whose number the threshold is: the paper's, in its own words, or this project's.
    #[serde(default)]
    pub(crate) threshold: Threshold,
}

/// Whose number a claim is tested against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Threshold {
    /// The paper's.
    Paper,
    /// This project's.
    #[default]
    Ours,
}

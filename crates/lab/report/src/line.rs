//! One line of a result file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of this form.
pub const SCHEMA_VERSION: u32 = 1;

/// A line: its field `line` says which.
#[expect(
    clippy::large_enum_variant,
    reason = "a line lives until it is written or put in its place"
)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    /// What a figure is. Every shard writes it, always the same.
    Figure(FigureLine),
    /// One point.
    Point(PointLine),
    /// What a paper says, and whether it is so here.
    Claim(Claim),
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line for each series.
    Lines,
    /// Cells with a value each, `x` by `y`: the best series of each cell is named in it.
    Map,
}

/// How an axis runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors.
    Log,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// In which unit; empty for a plain number.
    pub unit: String,
    /// How it runs.
    #[serde(default)]
    pub scale: Scale,
}

/// Where points come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A model, in virtual time.
    Simulated,
    /// Packets on this machine.
    Live,
    /// A paper's own.
    Paper,
    /// Mathematics.
    Theory,
}

/// A series of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesHead {
    /// The name that its points use. Names that differ in nothing but a last word `-live`,
    /// `-paper`, `-theory` or `-simulated` are of one thing, and are drawn in one colour: `sticky`,
    /// `sticky-live`.
    pub name: String,
    /// What the legend says.
    pub label: String,
    /// Where its points come from.
    pub origin: Origin,
    /// How many points it has in every panel when the whole figure was run. Of a map: how many
    /// cells a panel has.
    pub points: usize,
}

/// Something that was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
    /// Why this one: a measurement, a paper's page.
    pub source: String,
}

/// What a figure is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureLine {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its short name: a word of lower-case letters, figures and hyphens.
    pub figure: String,
    /// Its place on the page.
    pub order: u32,
    /// The heading.
    pub title: String,
    /// Whose it is: paper and figure.
    pub source: String,
    /// A few sentences: what is modelled, and how.
    pub text: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Across.
    pub x: Axis,
    /// Up. For a map the second variable.
    pub y: Axis,
    /// Of a map: what the values in its cells are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Axis>,
    /// Small plots side by side with the same axes, by name; one with an empty name when there is
    /// just one.
    pub panels: Vec<String>,
    /// Its series, in the order of the legend.
    pub series: Vec<SeriesHead>,
    /// What was chosen.
    pub parameters: Vec<Parameter>,
    /// Where everything random comes from.
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
}

/// A point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointLine {
    /// Of which figure.
    pub figure: String,
    /// In which panel.
    pub panel: String,
    /// Of which series. Of a map's cell: the best one.
    pub series: String,
    /// In the unit of the axis.
    pub x: f64,
    /// In the unit of the axis.
    pub y: f64,
    /// The band that the true value is in: from the ranges of what was measured, and from chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<(f64, f64)>,
    /// More was asked for than can be served: `y` says nothing but that, and is not drawn on the
    /// line.
    #[serde(default)]
    pub saturated: bool,
    /// What else came out, by name with its unit last: moved_flows, reordered_packets,
    /// drops_packets, p50_us ...; of a map's cell one value for each series that took part, by the
    /// series' name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, f64>,
    /// What each run with a seed of its own had, of the values that claims look at; `saturated` is
    /// 1 where the run was. Of a map's cell what each series had that could serve it in every run.
    /// Empty: it was one run, and `y` is its value; else `y` is the mean of the runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<String, Vec<f64>>,
    /// Of a map's cell: chance alone may have made this series the best one, so the cell has no
    /// winner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tie: bool,
}

/// What a paper says, and whether it is so here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Of which figure.
    pub figure: String,
    /// What is claimed.
    pub claim: String,
    /// Who says it.
    pub source: String,
    /// Whose claim it is.
    #[serde(default)]
    pub whose: Whose,
    /// What is compared, by how much, and whose threshold that is.
    #[serde(default)]
    pub test: String,
    /// Whether it holds here; nothing when runs with other seeds say now one thing and now the
    /// other (then it is open), or when the points that it needs are in another shard.
    pub holds: Option<bool>,
    /// In how many runs with a seed of their own it holds, and of how many; nothing where there was
    /// one run, or where points are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<(u32, u32)>,
    /// With which figures.
    pub because: String,
    /// Costs that move what decides it, and by how much; empty where nobody asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hangs_on: Vec<Swing>,
}

/// What the number that decides a claim is with one cost at either end of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swing {
    /// The cost's name.
    pub cost: String,
    /// With the cost at its least.
    pub low: f64,
    /// With all costs at their medians.
    pub median: f64,
    /// With the cost at its most.
    pub high: f64,
    /// At one of the ends the verdict is another one.
    pub turns: bool,
}

impl Swing {
    /// From the least that it is to the most.
    #[must_use]
    pub fn width(&self) -> f64 {
        let Self { low, median, high, .. } = *self;
        low.max(median).max(high) - low.min(median).min(high)
    }
}

/// Whose claim it is: each has a tally of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// Of the five papers that this project began with.
    Seed,
    /// Of another paper.
    Paper,
    /// This project's own.
    #[default]
    Own,
}

impl Whose {
    /// All, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Seed, Self::Paper, Self::Own];

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Seed => "the five papers",
            Self::Paper => "other papers",
            Self::Own => "this project",
        }
    }
}

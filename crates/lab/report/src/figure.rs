//! A figure as it was put together: what it is, and its points in order.

use crate::line::{Claim, FigureLine, Kind, Origin, PointLine, SeriesHead};

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    head: FigureLine,
    commands: Vec<String>,
    /// By panel, in the order of the panels, then of the series, then along x.
    panels: Vec<Vec<PointLine>>,
    claims: Vec<Claim>,
}

/// How much of a figure is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Points (of a map: cells) that there are.
    pub there: usize,
    /// That there are when the whole figure was run.
    pub promised: usize,
    /// What is missing or too much, series by series, in words; empty when all is well.
    pub lacks: Vec<String>,
}

impl Figure {
    pub(crate) fn new(
        head: FigureLine,
        commands: Vec<String>,
        points: impl Iterator<Item = (usize, PointLine)>,
        claims: Vec<Claim>,
    ) -> Self {
        let mut panels = vec![Vec::new(); head.panels.len()];
        for (panel, point) in points {
            panels[panel].push(point);
        }
        Self { head, commands, panels, claims }
    }

    /// What it is.
    #[must_use]
    pub fn head(&self) -> &FigureLine {
        &self.head
    }

    /// The commands that repeat it: one, or one for each shard.
    #[must_use]
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// What a paper says of it.
    #[must_use]
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Judged anew from all its points, now that they are together.
    pub fn set_claims(&mut self, claims: Vec<Claim>) {
        self.claims = claims;
    }

    /// All points: panel by panel, series by series, along x.
    pub fn points(&self) -> impl Iterator<Item = &PointLine> {
        self.panels.iter().flatten()
    }

    /// The points of one panel, by its number.
    pub(crate) fn panel(&self, panel: usize) -> &[PointLine] {
        &self.panels[panel]
    }

    /// The points of one series in one panel, along x; of a map the cells that it has won.
    pub(crate) fn series<'a>(
        &'a self,
        panel: usize,
        series: &'a SeriesHead,
    ) -> impl Iterator<Item = &'a PointLine> + Clone {
        self.panels[panel].iter().filter(move |point| point.series == series.name)
    }

    /// How many points a series has in one panel, counted as they were promised.
    #[must_use]
    pub fn count(&self, panel: usize, series: &SeriesHead) -> usize {
        match self.head.kind {
            Kind::Lines => self.series(panel, series).count(),
            // All take part in every cell; who has no value there was saturated.
            Kind::Map => self.panels[panel].len(),
        }
    }

    /// How much of it is there.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let FigureLine { panels, series, .. } = &self.head;
        let mut all = Coverage { there: 0, promised: 0, lacks: Vec::new() };
        if self.head.kind == Kind::Map {
            all.there = self.points().count();
            all.promised =
                series.iter().map(|series| series.points).max().unwrap_or(0) * panels.len();
            if all.there < all.promised {
                all.lacks.push("cells are blank: shards are missing".to_owned());
            } else if all.there > all.promised {
                all.lacks.push("there are more cells than were promised".to_owned());
            }
            return all;
        }
        for series in series {
            let counts = (0..panels.len()).map(|panel| self.count(panel, series));
            let there = counts.clone().sum();
            // Nobody runs a paper's points: they are there, maybe of one panel alone.
            let is_paper = series.origin == Origin::Paper;
            let promised = if is_paper { there } else { series.points * panels.len() };
            all.there += there;
            all.promised += promised;
            let SeriesHead { label, .. } = series;
            if counts.clone().any(|count| count > series.points) {
                all.lacks.push(format!("{label} has {there} points, and {promised} were promised"));
            } else if there == 0 && promised > 0 {
                all.lacks.push(format!("{label} was not run here"));
            } else if there < promised {
                all.lacks
                    .push(format!("{label} has {there} of {promised} points: shards are missing"));
            }
        }
        all
    }
}

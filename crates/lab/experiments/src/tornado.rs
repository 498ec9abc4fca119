//! What claims hang on: each cost at either end of what was measured, all others at their median.
//!
//! A band has all costs at their least and all at their most; it does not say which of them
//! matters. Here one cost at a time goes to an end of its range, with the requests of the first
//! run, and each claim says by how much that moves the number that decides it, and whether it turns
//! the verdict.

use std::collections::BTreeSet;

use report::{Claim, Line, PointLine, Swing};
use sim::Level;

use crate::claim;
use crate::own_costs;
use crate::points::rounded;
use crate::sweep::Scenario;

/// Moves of a statistic that are told: less is nothing that a run of other requests would not do.
const LEAST: f64 = 0.005;
/// Costs that are told of a claim.
const TOLD_MAX: usize = 8;

/// The runs that a tornado is made of, and what they have shown.
#[derive(Debug)]
pub struct Tornado {
    costs: Vec<&'static str>,
    median: Decided,
    ends: Vec<[Decided; 2]>,
}

/// Of each claim the number that decides it, and whether it holds.
type Decided = Vec<Option<(f64, bool)>>;

impl Tornado {
    /// The ends in the order in which [`Self::add`] takes them, after the median.
    const ENDS: [Level; 2] = [Level::Low, Level::High];

    /// Of a scenario: nothing has been run yet. Without claims there is nothing that could hang on
    /// a cost.
    pub fn of(scenario: &Scenario) -> Self {
        let mut costs: BTreeSet<&'static str> = BTreeSet::new();
        if !scenario.read.claim.is_empty() && !scenario.is_map() {
            for series in scenario.series.iter().filter(|series| series.experiment.has_costs) {
                let is_open =
                    |key: &&str| series.settings.iter().any(|settings| settings.get(key).is_none());
                costs.extend(own_costs::of(series.experiment).filter(is_open));
            }
        }
        let costs = costs.into_iter().collect();
        Self { costs, median: Vec::new(), ends: Vec::new() }
    }

    /// Which runs are needed: all at the median first, and then each cost at each of its ends.
    pub fn runs(&self) -> Vec<Option<(&'static str, Level)>> {
        let ends = self.costs.iter().flat_map(|cost| Self::ENDS.map(|end| Some((*cost, end))));
        if self.costs.is_empty() { Vec::new() } else { std::iter::once(None).chain(ends).collect() }
    }

    /// What one of these has shown, in their order.
    pub fn add(&mut self, scenario: &Scenario, lines: &[Line]) {
        let points: Vec<PointLine> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Point(point) => Some(point.clone()),
                _ => None,
            })
            .collect();
        let decided = claim::decided(scenario, &points);
        if self.median.is_empty() {
            self.median = decided;
            return;
        }
        match self.ends.last_mut().filter(|[_, high]| high.is_empty()) {
            Some([_, high]) => *high = decided,
            None => self.ends.push([decided, Vec::new()]),
        }
    }

    /// Writes into claims what they hang on, the cost that moves most first.
    pub fn tell(&self, lines: &mut [Line]) {
        let claims = lines.iter_mut().filter_map(|line| match line {
            Line::Claim(claim) => Some(claim),
            _ => None,
        });
        for (number, claim) in claims.enumerate() {
            self.tell_one(number, claim);
        }
    }

    fn tell_one(&self, number: usize, claim: &mut Claim) {
        let Some((middle, holds)) = self.median.get(number).copied().flatten() else { return };
        let of = |(cost, [low, high]): (&&'static str, &[Decided; 2])| {
            let at = |end: &[Option<(f64, bool)>]| {
                end.get(number).copied().flatten().filter(|(statistic, _)| statistic.is_finite())
            };
            let ((low, low_holds), (high, high_holds)) = (at(low)?, at(high)?);
            Some(Swing {
                cost: (*cost).to_owned(),
                low: rounded(low),
                median: rounded(middle),
                high: rounded(high),
                turns: (low_holds != holds) || (high_holds != holds),
            })
        };
        let mut all: Vec<Swing> = self.costs.iter().zip(&self.ends).filter_map(of).collect();
        all.retain(|one| one.turns || one.width() > LEAST * middle.abs());
        all.sort_by(|one, other| {
            (other.turns, other.width())
                .partial_cmp(&(one.turns, one.width()))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        all.truncate(TOLD_MAX);
        if middle.is_finite() {
            claim.hangs_on = all;
        }
    }
}

impl Scenario {
    /// The same with a cost at an end of its range in all runs, and without bands.
    #[must_use]
    pub fn with_cost_at(self, pinned: Option<(&'static str, Level)>) -> Self {
        Self { pinned: pinned.or(Some(("", Level::Median))), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{Costs, Options, Run, Shard, library};

    fn lines(text: &str, pinned: Option<Option<(&'static str, Level)>>) -> (Scenario, Vec<Line>) {
        let parse = || Scenario::parse_with(text, &Costs::default()).expect("it is sound");
        let scenario = match pinned {
            Some(pinned) => parse().with_cost_at(pinned),
            None => parse(),
        };
        let options = Options { seed: None, shard: Shard::WHOLE, threads: 1, quick: true, runs: 1 };
        let mut run = Run::start(Arc::new(scenario), options).expect("there are threads");
        while run.wait(Duration::from_secs(1)).expect("every job can be done") {}
        (parse(), run.lines("calisto sim"))
    }

    #[test]
    fn a_claim_hangs_on_the_cost_that_decides_it_and_not_on_one_that_it_never_meets() {
        let (_, text) =
            library::SCENARIOS.iter().find(|(name, _)| *name == "spin-tax").expect("is");
        let (scenario, mut whole) = lines(text, None);
        let mut tornado = Tornado::of(&scenario);
        for pinned in tornado.runs() {
            let (scenario, lines) = lines(text, Some(pinned));
            tornado.add(&scenario, &lines);
        }
        tornado.tell(&mut whole);
        let claim = whole.iter().find_map(|line| match line {
            Line::Claim(claim) if claim.claim.contains("20 to 28") => Some(claim),
            _ => None,
        });
        let hangs_on = &claim.expect("it is claimed").hangs_on;
        // At full load nothing is left of the tax but what taking an item out takes.
        let item = hangs_on.first().expect("it hangs on something");
        assert_eq!(item.cost, "scan_item", "{hangs_on:?}");
        assert!(item.low < item.median && item.median < item.high, "{item:?}");
        assert!(hangs_on.iter().all(|one| one.cost != "scan_wake"), "{hangs_on:?}");
    }

    #[test]
    fn a_cost_that_all_series_are_told_has_no_ends() {
        let of = |name: &str| Tornado::of(&library::find(name).expect("it is there"));
        assert!(of("spin-tax").costs.contains(&"scan_look"));
        assert!(of("map").runs().is_empty(), "a map has no claims");
        let penalty = of("calisto-penalty");
        assert!(penalty.costs.contains(&"packet") && !penalty.runs().is_empty());
    }
}

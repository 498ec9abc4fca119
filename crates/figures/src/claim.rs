//! Claims, computed from points: what holds here, and with which figures.

use report::{Claim, PointLine};

use crate::library;
use crate::scenario::{ClaimText, Relation};
use crate::sweep::Scenario;

impl Relation {
    /// Whether it compares with another series.
    pub(crate) fn needs_other(self) -> bool {
        match self {
            Self::Grows
            | Self::Falls
            | Self::Flat
            | Self::AtMost
            | Self::AtLeast
            | Self::Within => false,
            Self::Lower
            | Self::LowerSomewhere
            | Self::LowerFrom
            | Self::Higher
            | Self::HigherSomewhere
            | Self::Equal
            | Self::Outlasts => true,
        }
    }
}

/// All claims of a scenario, from the points that there are.
pub(crate) fn all(scenario: &Scenario, points: &[PointLine]) -> Vec<Claim> {
    let claims = scenario.read.claim.iter();
    claims.map(|claim| Evidence { scenario, points, claim }.judged()).collect()
}

/// The claims of a figure that comes with the program, from points of any shard and origin; `None`: there is no
/// such figure. So whoever puts shards together knows what none of them did.
pub fn judge(figure: &str, points: &[PointLine]) -> Option<Vec<Claim>> {
    let scenario = library::find(figure).ok()?;
    Some(all(&scenario, points))
}

/// A point, as far as a claim looks at it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    x: f64,
    /// Infinite where more was asked for than can be served.
    y: f64,
}

struct Evidence<'a> {
    scenario: &'a Scenario,
    points: &'a [PointLine],
    claim: &'a ClaimText,
}

impl Evidence<'_> {
    fn judged(&self) -> Claim {
        let (holds, because) = match self.verdict() {
            Ok((holds, because)) => (Some(holds), because),
            Err(open) => (None, open),
        };
        Claim {
            figure: self.scenario.name().to_owned(),
            claim: self.claim.claim.clone(),
            source: self.claim.source.clone(),
            holds,
            because,
        }
    }

    /// Whether it holds, and with which figures; else why nobody knows.
    fn verdict(&self) -> Result<(bool, String), String> {
        let elsewhere = || "the points that it needs are in other shards".to_owned();
        let own = self.seen(self.claim.series.get_ref()).ok_or_else(elsewhere)?;
        match &self.claim.than {
            None => self.of_one(&own).ok_or_else(elsewhere),
            Some(than) => {
                let other = self.seen(than.get_ref()).ok_or_else(elsewhere)?;
                let pairs: Vec<(Seen, Seen)> = own
                    .iter()
                    .filter_map(|seen| {
                        Some((*seen, *other.iter().find(|other| other.x == seen.x)?))
                    })
                    .collect();
                match self.claim.relation {
                    Relation::Outlasts => self.outlasts(&pairs),
                    _ => self.of_two(&pairs).ok_or_else(elsewhere),
                }
            }
        }
    }

    /// The points of a series that the claim is about; `None` when one is missing.
    fn seen(&self, name: &str) -> Option<Vec<Seen>> {
        let panel =
            self.claim.panel.as_ref().map_or(&self.scenario.panels[0], |panel| panel.get_ref());
        let is_in = |x: f64| {
            self.claim.from.is_none_or(|from| x >= from) && self.claim.to.is_none_or(|to| x <= to)
        };
        if let Some(paper) =
            self.scenario.read.paper.iter().find(|paper| paper.name.get_ref() == name)
        {
            let points = paper.points.get_ref().iter().filter(|(x, _)| is_in(*x));
            return Some(points.map(|&(x, y)| Seen { x, y }).collect());
        }
        let points = self
            .points
            .iter()
            .filter(|point| point.series == name && point.panel == *panel && is_in(point.x));
        let seen: Vec<Seen> = points.filter_map(|point| self.look(point)).collect();
        let wanted = self.scenario.axes.x.iter().filter(|x| is_in(**x)).count();
        (!seen.is_empty() && seen.len() >= wanted).then_some(seen)
    }

    fn look(&self, point: &PointLine) -> Option<Seen> {
        let x = point.x;
        if point.saturated {
            return Some(Seen { x, y: f64::INFINITY });
        }
        let y = match &self.claim.value {
            None => point.y,
            Some(value) => {
                let of = self.scenario.series.iter().find(|one| one.name == point.series)?;
                if of.value == value.get_ref() {
                    point.y
                } else {
                    *point.more.get(value.get_ref())?
                }
            }
        };
        Some(Seen { x, y })
    }

    fn of_one(&self, own: &[Seen]) -> Option<(bool, String)> {
        let served: Vec<Seen> = own.iter().copied().filter(|seen| seen.y.is_finite()).collect();
        let (first, last) = (served.first()?, served.last()?);
        let by = 1.0 + self.claim.by;
        let ends = format!(
            "{} at {} and {} at {}",
            self.amount(first.y),
            self.place(first.x),
            self.amount(last.y),
            self.place(last.x)
        );
        match self.claim.relation {
            Relation::Grows => Some((last.y >= first.y * by, ends)),
            Relation::Falls => Some((last.y <= first.y * (1.0 - self.claim.by), ends)),
            _ => {
                let low = served.iter().copied().min_by(|a, b| a.y.total_cmp(&b.y))?;
                let high = served.iter().copied().max_by(|a, b| a.y.total_cmp(&b.y))?;
                let because = format!(
                    "from {} at {} to {} at {}",
                    self.amount(low.y),
                    self.place(low.x),
                    self.amount(high.y),
                    self.place(high.x)
                );
                let is_saturated = served.len() < own.len();
                let holds = match self.claim.relation {
                    Relation::AtMost => high.y <= self.claim.limit,
                    Relation::AtLeast => low.y >= self.claim.limit,
                    Relation::Within => {
                        let up_to = self.claim.up_to.unwrap_or(f64::INFINITY);
                        low.y >= self.claim.limit && high.y <= up_to
                    }
                    _ => high.y <= low.y * by && !is_saturated,
                };
                Some((holds, because))
            }
        }
    }

    fn of_two(&self, pairs: &[(Seen, Seen)]) -> Option<(bool, String)> {
        let relation = self.claim.relation;
        // Where neither serves what is asked for there is nothing to compare.
        let either = pairs.iter().filter(|(own, other)| own.y.is_finite() || other.y.is_finite());
        let ratios: Vec<(f64, f64)> = either
            .map(|(own, other)| (own.x, if own.y == other.y { 1.0 } else { own.y / other.y }))
            .filter(|(_, ratio)| !ratio.is_nan())
            .collect();
        let by = self.claim.by;
        // By nothing: below. By less than nothing: not much above.
        let low = |ratio: f64| (ratio < 1.0 || by < 0.0) && ratio <= 1.0 - by;
        let high = |ratio: f64| (ratio > 1.0 || by < 0.0) && ratio >= 1.0 + by;
        let least = *ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let most = *ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let range = format!(
            "{} to {}: {} at {} to {} at {}",
            self.label(self.claim.series.get_ref()),
            self.claim.than.as_ref().map_or("", |than| self.label(than.get_ref())),
            difference(least.1),
            self.place(least.0),
            difference(most.1),
            self.place(most.0)
        );
        let every = |fits: &dyn Fn(f64) -> bool| ratios.iter().all(|(_, ratio)| fits(*ratio));
        let some = |fits: &dyn Fn(f64) -> bool| ratios.iter().any(|(_, ratio)| fits(*ratio));
        let holds = match relation {
            Relation::Lower => every(&low),
            Relation::LowerSomewhere => some(&low),
            Relation::Higher => every(&high),
            Relation::HigherSomewhere => some(&high),
            Relation::Equal => every(&|ratio| (ratio - 1.0).abs() <= by),
            _ => {
                let since = ratios.iter().rev().take_while(|(_, ratio)| low(*ratio)).last();
                let from = since
                    .map_or("nowhere".to_owned(), |(x, _)| format!("from {} on", self.place(*x)));
                return Some((since.is_some(), format!("{from}; {range}")));
            }
        };
        Some((holds, range))
    }

    /// Whose last point that is served lies further on. Where nothing was too much for anybody nobody knows.
    fn outlasts(&self, pairs: &[(Seen, Seen)]) -> Result<(bool, String), String> {
        let last = |which: &dyn Fn(&(Seen, Seen)) -> f64| {
            let served = pairs.iter().filter(|pair| which(pair).is_finite());
            served.map(|(own, _)| own.x).fold(f64::NEG_INFINITY, f64::max)
        };
        if let Some((end, _)) = pairs.last()
            && pairs.iter().all(|(own, other)| own.y.is_finite() && other.y.is_finite())
        {
            let end = self.place(end.x);
            return Err(format!("neither is saturated up to {end}, where the sweep ends"));
        }
        let (own, other) = (last(&|(own, _)| own.y), last(&|(_, other)| other.y));
        let shown = |x: f64| if x.is_finite() { self.place(x) } else { "nothing".to_owned() };
        let because = format!("the most that is served: {} and {}", shown(own), shown(other));
        Ok((own > other, because))
    }

    fn label(&self, name: &str) -> &str {
        let own =
            self.scenario.series.iter().find(|one| one.name == name).map(|one| one.label.as_str());
        let paper = || {
            let of = self.scenario.read.paper.iter().find(|one| one.name.get_ref() == name);
            of.map_or("", |paper| paper.label.as_str())
        };
        own.unwrap_or_else(paper)
    }

    fn place(&self, x: f64) -> String {
        with_unit(x, &self.scenario.read.x.unit)
    }

    fn amount(&self, y: f64) -> String {
        let unit = if self.claim.value.is_some() { "" } else { self.scenario.read.y.unit.as_str() };
        with_unit(y, unit)
    }
}

fn with_unit(number: f64, unit: &str) -> String {
    let shown = if number.abs() >= 100.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else if number.abs() >= 10.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.3}")
    };
    if unit.is_empty() { shown } else { format!("{shown} {unit}") }
}

/// A ratio as people say it.
fn difference(ratio: f64) -> String {
    if ratio.is_infinite() {
        "saturated".to_owned()
    } else if ratio == 0.0 {
        "served where the other is saturated".to_owned()
    } else if ratio >= 3.0 {
        format!("x {ratio:.1}")
    } else {
        format!("{:+.1} %", 100.0 * (ratio - 1.0))
    }
}

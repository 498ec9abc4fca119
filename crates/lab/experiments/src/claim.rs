//! Claims, computed from points: what holds here, and with which figures.

mod words;

use report::{Claim, PointLine};

use crate::library;
use crate::points::EVEN;
use crate::scenario::{ClaimText, Relation};
use crate::sweep::Scenario;
use words::{difference, with_unit};

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

/// The claims of a figure that comes with the program, from points of any shard and origin; `None`:
/// there is no such figure. So whoever puts shards together knows what none of them did.
pub fn judge(figure: &str, points: &[PointLine]) -> Option<Vec<Claim>> {
    let scenario = library::find(figure).ok()?;
    Some(all(&scenario, points))
}

/// A point, as far as a claim looks at it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    x: f64,
    /// Infinite where it is a latency and more was asked for than can be served.
    y: f64,
    /// More was asked for than can be served.
    is_saturated: bool,
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
        let own = self.seen(self.claim.series.get_ref())?;
        match &self.claim.than {
            None => self.of_one(&own),
            Some(than) => {
                let other = self.seen(than.get_ref())?;
                let pairs: Vec<(Seen, Seen)> = own
                    .iter()
                    .filter_map(|seen| {
                        Some((*seen, *other.iter().find(|other| other.x == seen.x)?))
                    })
                    .collect();
                match self.claim.relation {
                    Relation::Outlasts => self.outlasts(&pairs),
                    _ => self.of_two(&pairs),
                }
            }
        }
    }

    /// The points of a series that the claim is about, or why there are none.
    fn seen(&self, name: &str) -> Result<Vec<Seen>, String> {
        let panel =
            self.claim.panel.as_ref().map_or(&self.scenario.panels[0], |panel| panel.get_ref());
        let is_in = |x: f64| {
            self.claim.from.is_none_or(|from| x >= from) && self.claim.to.is_none_or(|to| x <= to)
        };
        let nowhere = || format!("{} has no point where the claim looks", self.label(name));
        if let Some(paper) =
            self.scenario.read.paper.iter().find(|paper| paper.name.get_ref() == name)
        {
            let points = paper.points.get_ref().iter().filter(|(x, _)| is_in(*x));
            let seen: Vec<Seen> =
                points.map(|&(x, y)| Seen { x, y, is_saturated: false }).collect();
            return if seen.is_empty() { Err(nowhere()) } else { Ok(seen) };
        }
        let own = self.points.iter().filter(|point| point.series == name && point.panel == *panel);
        let all: Vec<&PointLine> = own.collect();
        let seen: Vec<Seen> = all
            .iter()
            .filter(|point| is_in(point.x))
            .filter_map(|point| self.look(point))
            .collect();
        let wanted = self.scenario.axes.x.iter().filter(|x| is_in(**x)).count();
        let is_sweep = !self.scenario.axes.x.is_empty();
        if (is_sweep && wanted == 0) || (!is_sweep && seen.is_empty() && !all.is_empty()) {
            return Err(nowhere());
        }
        if seen.is_empty() || seen.len() < wanted {
            return Err("the points that it needs are in other shards".to_owned());
        }
        Ok(seen)
    }

    fn look(&self, point: &PointLine) -> Option<Seen> {
        let of = self.scenario.series.iter().find(|one| one.name == point.series)?;
        let value = self.claim.value.as_ref().map_or(of.value, |value| value.get_ref());
        let (x, is_saturated) = (point.x, point.saturated);
        // How long it takes has no end then. How much is served, moved, lost is known all the same.
        let y = if is_saturated && value.ends_with("_us") {
            f64::INFINITY
        } else if of.value == value {
            point.y
        } else {
            *point.more.get(value)?
        };
        Some(Seen { x, y, is_saturated })
    }

    fn of_one(&self, own: &[Seen]) -> Result<(bool, String), String> {
        let served: Vec<Seen> = own.iter().copied().filter(|seen| seen.y.is_finite()).collect();
        let lowest = served.iter().copied().min_by(|a, b| a.y.total_cmp(&b.y));
        let highest = served.iter().copied().max_by(|a, b| a.y.total_cmp(&b.y));
        let (Some(low), Some(high), Some(first), Some(last)) =
            (lowest, highest, served.first(), served.last())
        else {
            return Err("every point that it needs is saturated".to_owned());
        };
        let at = |seen: Seen| format!("{} at {}", self.amount(seen.y), self.place(seen.x));
        let unserved: Vec<&Seen> = own.iter().filter(|seen| seen.y.is_infinite()).collect();
        let and = unserved.first().map_or(String::new(), |seen| {
            format!(
                "; {} of {} points saturated, the first at {}",
                unserved.len(),
                own.len(),
                self.place(seen.x)
            )
        });
        let ends = format!("{} and {}{and}", at(*first), at(*last));
        let range = format!("from {} to {}{and}", at(low), at(high));
        let by = 1.0 + self.claim.by;
        let is_served = unserved.is_empty();
        let ends_served = own.last().is_some_and(|seen| seen.y.is_finite());
        Ok(match self.claim.relation {
            Relation::Grows => (last.y >= first.y * by, ends),
            Relation::Falls => (ends_served && last.y <= first.y * (1.0 - self.claim.by), ends),
            Relation::AtMost => (is_served && high.y <= self.claim.limit, range),
            Relation::AtLeast => (low.y >= self.claim.limit, range),
            Relation::Within => {
                let up_to = self.claim.up_to.unwrap_or(f64::INFINITY);
                (is_served && low.y >= self.claim.limit && high.y <= up_to, range)
            }
            _ => (is_served && high.y <= low.y * by, range),
        })
    }

    fn of_two(&self, pairs: &[(Seen, Seen)]) -> Result<(bool, String), String> {
        let relation = self.claim.relation;
        // Where neither serves what is asked for there is nothing to compare.
        let either = pairs.iter().filter(|(own, other)| own.y.is_finite() || other.y.is_finite());
        let ratios: Vec<(&(Seen, Seen), f64)> = either
            .map(|pair| (pair, if pair.0.y == pair.1.y { 1.0 } else { pair.0.y / pair.1.y }))
            .filter(|(_, ratio)| !ratio.is_nan())
            .collect();
        // One point of many may be lucky: there it takes more than what two runs differ by chance.
        let by = match relation {
            Relation::LowerSomewhere | Relation::HigherSomewhere if self.claim.by >= 0.0 => {
                self.claim.by.max(EVEN)
            }
            _ => self.claim.by,
        };
        // By nothing: below. By less than nothing: not much above.
        let low = |ratio: f64| (ratio < 1.0 || by < 0.0) && ratio <= 1.0 - by;
        let high = |ratio: f64| (ratio > 1.0 || by < 0.0) && ratio >= 1.0 + by;
        let least = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let most = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some((least, _)), Some((most, _))) = (least, most) else {
            let both = "both are saturated, or have no point in common, where the claim looks";
            return Err(both.to_owned());
        };
        let shown = |(own, other): &(Seen, Seen)| {
            format!("{} at {}", difference(own.y, other.y), self.place(own.x))
        };
        let range = format!(
            "{} to {}: {} to {}",
            self.label(self.claim.series.get_ref()),
            self.claim.than.as_ref().map_or("", |than| self.label(than.get_ref())),
            shown(least),
            shown(most)
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
                let from = since.map_or("nowhere".to_owned(), |((own, _), _)| {
                    format!("from {} on", self.place(own.x))
                });
                return Ok((since.is_some(), format!("{from}; {range}")));
            }
        };
        Ok((holds, range))
    }

    /// Whose last point that is served lies further on. Where nothing was too much for anybody
    /// nobody knows.
    fn outlasts(&self, pairs: &[(Seen, Seen)]) -> Result<(bool, String), String> {
        let last = |which: &dyn Fn(&(Seen, Seen)) -> bool| {
            let served = pairs.iter().filter(|pair| !which(pair));
            served.map(|(own, _)| own.x).fold(f64::NEG_INFINITY, f64::max)
        };
        if let Some((end, _)) = pairs.last()
            && pairs.iter().all(|(own, other)| !own.is_saturated && !other.is_saturated)
        {
            let end = self.place(end.x);
            return Err(format!("neither is saturated up to {end}, where the sweep ends"));
        }
        let own = last(&|(own, _)| own.is_saturated);
        let other = last(&|(_, other)| other.is_saturated);
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

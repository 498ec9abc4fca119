//! Claims, computed from points: what holds here, and with which figures.

mod words;

use report::{Claim, PointLine};

use crate::confidence;
use crate::library;
use crate::points::EVEN;
use crate::scenario::{ClaimText, Relation, Threshold};
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

/// Of each claim of a scenario the number that decides it, and whether it holds; nothing where
/// that is not known.
pub(crate) fn decided(scenario: &Scenario, points: &[PointLine]) -> Vec<Option<(f64, bool)>> {
    let claims = scenario.read.claim.iter();
    let verdict = |claim| Evidence { scenario, points, claim }.verdict(None).ok();
    claims.map(|claim| verdict(claim).map(|one| (one.statistic, one.holds))).collect()
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

/// What a claim's points say.
struct Verdict {
    holds: bool,
    /// With which figures.
    because: String,
    /// The number that decides: a ratio of two series, or what is compared with a limit.
    statistic: f64,
}

struct Evidence<'a> {
    scenario: &'a Scenario,
    points: &'a [PointLine],
    claim: &'a ClaimText,
}

impl Evidence<'_> {
    fn judged(&self) -> Claim {
        let (mut holds, because) = match self.verdict(None) {
            Ok(Verdict { holds, because, .. }) => (Some(holds), because),
            Err(open) => (None, open),
        };
        let runs = self.runs();
        if let Some((of, all)) = runs {
            holds = confidence::decided(of, all);
        }
        Claim {
            figure: self.scenario.name().to_owned(),
            claim: self.claim.claim.clone(),
            source: self.claim.source.clone(),
            whose: self.claim.whose,
            test: self.test(),
            holds,
            runs,
            because,
            hangs_on: Vec::new(),
        }
    }

    /// In how many runs it holds, of those that can say. `None`: each point is of one run.
    fn runs(&self) -> Option<(u32, u32)> {
        let longest = |point: &PointLine| point.runs.values().map(Vec::len).max().unwrap_or(0);
        let count = self.points.iter().map(longest).max().filter(|count| *count > 1)?;
        let verdicts = (0..count).filter_map(|run| self.verdict(Some(run)).ok());
        let (holds, of) =
            verdicts.fold((0, 0), |(holds, of), one| (holds + u32::from(one.holds), of + 1));
        (of > 0).then_some((holds, of))
    }

    /// Whether it holds in one run, or by what all have in the mean, and with which figures; else
    /// why that is not known.
    fn verdict(&self, run: Option<usize>) -> Result<Verdict, String> {
        let own = self.seen(self.claim.series.get_ref(), run)?;
        match &self.claim.than {
            None => self.of_one(&own),
            Some(than) => {
                let other = self.seen(than.get_ref(), run)?;
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
    fn seen(&self, name: &str, run: Option<usize>) -> Result<Vec<Seen>, String> {
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
            .filter_map(|point| self.look(point, run))
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

    fn look(&self, point: &PointLine, run: Option<usize>) -> Option<Seen> {
        let of = self.scenario.series.iter().find(|one| one.name == point.series)?;
        let value = self.claim.value.as_ref().map_or(of.value, |value| value.get_ref());
        let of_run = |name: &str| point.runs.get(name)?.get(run?).copied();
        let is_saturated = match run.filter(|_| !point.runs.is_empty()) {
            Some(_) => of_run("saturated") == Some(1.0),
            None => point.saturated,
        };
        let x = point.x;
        // How long it takes has no end then. How much is served, moved, lost is known all the same.
        let y = if is_saturated && value.ends_with("_us") {
            f64::INFINITY
        } else if let Some(own) = of_run(value) {
            own
        } else if of.value == value {
            point.y
        } else {
            *point.more.get(value)?
        };
        Some(Seen { x, y, is_saturated })
    }

    fn of_one(&self, own: &[Seen]) -> Result<Verdict, String> {
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
        let (of_ends, of_all) = (last.y / first.y, high.y / low.y);
        let (holds, because, statistic) = match self.claim.relation {
            Relation::Grows => (last.y >= first.y * by, ends, of_ends),
            Relation::Falls => {
                (ends_served && last.y <= first.y * (1.0 - self.claim.by), ends, of_ends)
            }
            Relation::AtMost => (is_served && high.y <= self.claim.limit, range, high.y),
            Relation::AtLeast => (low.y >= self.claim.limit, range, low.y),
            Relation::Within => {
                let up_to = self.claim.up_to.unwrap_or(f64::INFINITY);
                let is_within = is_served && low.y >= self.claim.limit && high.y <= up_to;
                (is_within, range, if low.y < self.claim.limit { low.y } else { high.y })
            }
            _ => (is_served && high.y <= low.y * by, range, of_all),
        };
        Ok(Verdict { holds, because, statistic })
    }

    fn of_two(&self, pairs: &[(Seen, Seen)]) -> Result<Verdict, String> {
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
        let (Some((least, lowest)), Some((most, highest))) = (least, most) else {
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
        let (lowest, highest) = (*lowest, *highest);
        let (holds, statistic) = match relation {
            Relation::Lower => (every(&low), highest),
            Relation::LowerSomewhere => (some(&low), lowest),
            Relation::Higher => (every(&high), lowest),
            Relation::HigherSomewhere => (some(&high), highest),
            Relation::Equal => {
                let furthest = if highest - 1.0 > 1.0 - lowest { highest } else { lowest };
                (every(&|ratio| (ratio - 1.0).abs() <= by), furthest)
            }
            _ => {
                let since = ratios.iter().rev().take_while(|(_, ratio)| low(*ratio)).last();
                let from = since.map_or("nowhere".to_owned(), |((own, _), _)| {
                    format!("from {} on", self.place(own.x))
                });
                let statistic = ratios.last().map_or(lowest, |(_, ratio)| *ratio);
                let because = format!("{from}; {range}");
                return Ok(Verdict { holds: since.is_some(), because, statistic });
            }
        };
        Ok(Verdict { holds, because: range, statistic })
    }

    /// Whose last point that is served lies further on. Where nothing was too much for anybody
    /// nobody knows.
    fn outlasts(&self, pairs: &[(Seen, Seen)]) -> Result<Verdict, String> {
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
        Ok(Verdict { holds: own > other, because, statistic: own / other })
    }

    /// The statistic, by how much, and whose threshold that is.
    fn test(&self) -> String {
        let ClaimText { series, than, by, limit, up_to, from, to, threshold, .. } = self.claim;
        let of = self.scenario.series.iter().find(|one| one.name == *series.get_ref());
        let value = self.claim.value.as_ref().map(|value| value.get_ref().as_str());
        let value = value.or(of.map(|of| of.value)).unwrap_or("value");
        let share = |by: f64| format!("{:.0} %", 100.0 * by.abs());
        let than = than.as_ref().map_or("", |than| than.get_ref());
        let below = |word: &str| match by {
            by if *by < 0.0 => format!("not {word} {than} by more than {}", share(*by)),
            by if *by > 0.0 => format!("{word} {than} by {} or more", share(*by)),
            _ => format!("{word} {than}"),
        };
        let how = match self.claim.relation {
            Relation::Lower if *by < 0.0 => below("above"),
            Relation::Lower => below("below"),
            Relation::LowerSomewhere => format!("{} at one point or more", below("below")),
            Relation::LowerFrom => format!("{} from some point on", below("below")),
            Relation::Higher if *by < 0.0 => below("below"),
            Relation::Higher => below("above"),
            Relation::HigherSomewhere => format!("{} at one point or more", below("above")),
            Relation::Equal => format!("that of {than} within {}", share(*by)),
            Relation::Grows => format!("at the end {} or more above the begin", share(*by)),
            Relation::Falls => format!("at the end {} or more below the begin", share(*by)),
            Relation::Flat => format!("nowhere {} above its least", share(*by)),
            Relation::Outlasts => format!("served further than {than}"),
            Relation::AtMost => format!("at most {limit}"),
            Relation::AtLeast => format!("at least {limit}"),
            Relation::Within => format!("from {limit} to {}", up_to.unwrap_or(f64::INFINITY)),
        };
        let at = |word: &str, x: &Option<f64>| {
            x.map_or(String::new(), |x| format!(", {word} {}", self.place(x)))
        };
        let whose = match threshold {
            Threshold::Paper => "the paper's",
            Threshold::Ours => "ours",
        };
        let place = format!("{}{}", at("from", from), at("up to", to));
        format!("{value} of {}: {how}{place}; the threshold is {whose}", series.get_ref())
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

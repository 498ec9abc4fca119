//! Lines of many runs as figures: the same lines from several shards once, what contradicts
//! refused.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::check::COLUMNS_MAX;
use crate::differences::Differences;
use crate::error::{Error, SourceLine};
use crate::figure::Figure;
use crate::line::{Axis, Claim, FigureLine, Kind, Line, PointLine, Scale};
use crate::papers::Paper;

/// Points and claims that one page can hold; it would have more than a hundred megabytes beyond
/// that.
const LINES_MAX: usize = 200_000;
/// Figures that one page can hold.
const FIGURES_MAX: usize = 200;
/// Claims of one figure.
const CLAIMS_MAX: usize = 200;
/// Steps of each of a map's axes: more would be cells smaller than a mark.
const STEPS_MAX: usize = 100;
/// Commands that are told of one figure: as many as there were shards.
const COMMANDS_MAX: usize = 128;

/// Everything that was read: what a page is made of.
#[derive(Clone, Debug)]
pub struct Report {
    figures: Vec<Figure>,
    pub(crate) papers: Vec<Paper>,
    pub(crate) against: Option<Differences>,
}

impl Report {
    /// Puts together lines that were not in a file.
    ///
    /// # Errors
    /// As [`read`](crate::read()).
    pub fn of(lines: impl IntoIterator<Item = Line>) -> Result<Self, Error> {
        let mut merger = Merger::default();
        for (before, line) in lines.into_iter().enumerate() {
            merger.add(SourceLine { file: None, line: before + 1 }, line)?;
        }
        merger.finish()
    }

    /// In their order on the page.
    #[must_use]
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// The same, to give figures other claims.
    pub fn figures_mut(&mut self) -> &mut [Figure] {
        &mut self.figures
    }

    /// What runs with other seeds say differently, if there are some.
    #[must_use]
    pub fn against(&self) -> Option<&Differences> {
        self.against.as_ref()
    }

    /// Puts onto the page what runs with other seeds say differently.
    pub fn set_against(&mut self, against: Differences) {
        self.against = Some(against);
    }
}

/// Lines that belong together, as they come.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    heads: BTreeMap<String, Head>,
    points: Vec<(SourceLine, PointLine)>,
    claims: Vec<(SourceLine, Claim)>,
}

#[derive(Debug)]
struct Head {
    place: SourceLine,
    line: FigureLine,
    commands: Vec<String>,
}

impl Merger {
    /// Takes one more line.
    pub(crate) fn add(&mut self, place: SourceLine, line: Line) -> Result<(), Error> {
        if let Err(wrong) = line.check() {
            return Err(Error::Line { place, wrong });
        }
        match line {
            Line::Figure(line) => return self.add_head(place, line),
            Line::Point(point) => self.points.push((place, point)),
            Line::Claim(claim) => self.claims.push((place, claim)),
        }
        if self.points.len() + self.claims.len() > LINES_MAX {
            return Err(Error::TooMuch { what: format!("there are more than {LINES_MAX} points") });
        }
        Ok(())
    }

    /// The command may differ, as every shard has its own.
    fn add_head(&mut self, place: SourceLine, line: FigureLine) -> Result<(), Error> {
        let full = self.heads.len() == FIGURES_MAX;
        match self.heads.entry(line.figure.clone()) {
            Entry::Vacant(_) if full => {
                Err(Error::TooMuch { what: format!("there are more than {FIGURES_MAX} figures") })
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Head { place, commands: vec![line.command.clone()], line });
                Ok(())
            }
            Entry::Occupied(mut occupied) => {
                let Head { place: first, line: known, commands } = occupied.get_mut();
                if let Some(field) = difference(known, &line) {
                    let what = format!("figure {}, {field}", line.figure);
                    return Err(Error::Conflict { what, first: first.clone(), second: place });
                }
                if !commands.contains(&line.command) && commands.len() < COMMANDS_MAX {
                    commands.push(line.command);
                }
                Ok(())
            }
        }
    }

    /// Puts all of it together.
    pub(crate) fn finish(self) -> Result<Report, Error> {
        let Self { heads, points, claims } = self;
        let mut building: BTreeMap<String, Building> = heads
            .into_iter()
            .map(|(name, head)| (name, Building::new(head.line, head.commands)))
            .collect();
        for (place, point) in points {
            find(&mut building, &point.figure, &place)?.add_point(place, point)?;
        }
        for (place, claim) in claims {
            find(&mut building, &claim.figure, &place)?.add_claim(place, claim)?;
        }
        let figures: Result<Vec<Figure>, Error> =
            building.into_values().map(Building::finish).collect();
        let mut figures = figures?;
        figures.sort_by(|a, b| {
            let place = |figure: &Figure| figure.head().order;
            place(a).cmp(&place(b)).then_with(|| a.head().figure.cmp(&b.head().figure))
        });
        Ok(Report { figures, papers: Vec::new(), against: None })
    }
}

fn find<'a>(
    building: &'a mut BTreeMap<String, Building>,
    figure: &str,
    place: &SourceLine,
) -> Result<&'a mut Building, Error> {
    building.get_mut(figure).ok_or_else(|| Error::Line {
        place: place.clone(),
        wrong: format!("it is of the figure {figure:?}, and no file says what that is"),
    })
}

/// The first field, but for the command, on which two lines of one figure differ.
pub(crate) fn difference(one: &FigureLine, other: &FigureLine) -> Option<&'static str> {
    let FigureLine {
        schema_version,
        figure: _,
        order,
        title,
        source,
        text,
        kind,
        x,
        y,
        value,
        panels,
        series,
        parameters,
        seed,
        command: _,
    } = one;
    let same = [
        ("schema_version", *schema_version == other.schema_version),
        ("order", *order == other.order),
        ("title", *title == other.title),
        ("source", *source == other.source),
        ("text", *text == other.text),
        ("kind", *kind == other.kind),
        ("x", *x == other.x),
        ("y", *y == other.y),
        ("value", *value == other.value),
        ("panels", *panels == other.panels),
        ("series", *series == other.series),
        ("parameters", *parameters == other.parameters),
        ("seed", *seed == other.seed),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
}

/// A figure whose points are still coming.
struct Building {
    head: FigureLine,
    commands: Vec<String>,
    /// By panel, series (of a map: none, a cell has one winner) and place on the axes.
    points: BTreeMap<(usize, usize, Key, Key), (SourceLine, PointLine)>,
    /// The names of all values beside the points: the table has a column for each, and a row for
    /// each point.
    columns: BTreeSet<String>,
    claims: Vec<(SourceLine, Claim)>,
}

impl Building {
    fn new(head: FigureLine, commands: Vec<String>) -> Self {
        let (points, columns) = (BTreeMap::new(), BTreeSet::new());
        Self { head, commands, points, columns, claims: Vec::new() }
    }

    fn add_point(&mut self, place: SourceLine, point: PointLine) -> Result<(), Error> {
        let Self { head, points, columns, .. } = self;
        let wrong = |wrong| Error::Line { place: place.clone(), wrong };
        let figure = &head.figure;
        let panel =
            head.panels.iter().position(|panel| *panel == point.panel).ok_or_else(|| {
                wrong(format!(
                    "figure {figure} has no panel {:?}: it names {:?}",
                    point.panel, head.panels
                ))
            })?;
        let series = head.series.iter().position(|series| series.name == point.series);
        let series = series.ok_or_else(|| {
            let names: Vec<_> = head.series.iter().map(|series| &series.name).collect();
            wrong(format!("figure {figure} has no series {:?}: it names {names:?}", point.series))
        })?;
        on_axis("x", &head.x, point.x).map_err(wrong)?;
        on_axis("y", &head.y, point.y).map_err(wrong)?;
        add_columns(columns, figure, &place, &point)?;
        let key = match head.kind {
            Kind::Lines => (panel, series, Key::of(point.x), Key::of(0.0)),
            Kind::Map => (panel, 0, Key::of(point.x), Key::of(point.y)),
        };
        match points.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert((place, point));
                Ok(())
            }
            Entry::Occupied(known) if known.get().1 == point => Ok(()),
            Entry::Occupied(known) => {
                let PointLine { panel, series, x, y, .. } = point;
                let panel =
                    if panel.is_empty() { String::new() } else { format!(", panel {panel}") };
                let at = match head.kind {
                    Kind::Lines => format!(", {series} at x = {x}"),
                    Kind::Map => format!(", cell x = {x}, y = {y}"),
                };
                let what = format!("figure {figure}{panel}{at}");
                Err(Error::Conflict { what, first: known.get().0.clone(), second: place })
            }
        }
    }

    /// A shard that lacks the points leaves a claim open, which another one knows.
    fn add_claim(&mut self, place: SourceLine, claim: Claim) -> Result<(), Error> {
        let Self { head, claims, .. } = self;
        let same = |known: &&mut (SourceLine, Claim)| {
            known.1.claim == claim.claim && known.1.source == claim.source
        };
        let count = claims.len();
        match claims.iter_mut().find(same) {
            None if count == CLAIMS_MAX => {
                let what = format!("figure {} has more than {CLAIMS_MAX} claims", head.figure);
                return Err(Error::TooMuch { what });
            }
            None => claims.push((place, claim)),
            Some(known) if known.1.holds.is_none() => *known = (place, claim),
            Some(known) if claim.holds.is_none() || known.1 == claim => {}
            Some(known) => {
                let what = format!("figure {}, whether {:?} holds", head.figure, claim.claim);
                return Err(Error::Conflict { what, first: known.0.clone(), second: place });
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Figure, Error> {
        let Self { head, commands, points, columns: _, claims } = self;
        if head.kind == Kind::Map {
            let steps = |axis: fn(&PointLine) -> f64| {
                let all = points.values().map(|(_, point)| Key::of(axis(point)));
                all.collect::<BTreeSet<Key>>().len()
            };
            let most = steps(|point| point.x).max(steps(|point| point.y));
            if most > STEPS_MAX {
                let figure = &head.figure;
                let what =
                    format!("the map {figure} has {most} steps on an axis, and {STEPS_MAX} fit");
                return Err(Error::TooMuch { what });
            }
        }
        let points = points.into_iter().map(|((panel, ..), (_, point))| (panel, point));
        let claims = claims.into_iter().map(|(_, claim)| claim).collect();
        Ok(Figure::new(head, commands, points, claims))
    }
}

/// Points of a few names each, all of them different, would make a table of far more cells than
/// there are values.
fn add_columns(
    columns: &mut BTreeSet<String>,
    figure: &str,
    place: &SourceLine,
    point: &PointLine,
) -> Result<(), Error> {
    for name in point.more.keys() {
        if columns.contains(name) {
            continue;
        }
        if columns.len() == COLUMNS_MAX {
            let what = format!(
                "the points of figure {figure} have more than {COLUMNS_MAX} names in more; {name:?} of {place} is one \
                 too many"
            );
            return Err(Error::TooMuch { what });
        }
        columns.insert(name.clone());
    }
    Ok(())
}

fn on_axis(name: &str, axis: &Axis, value: f64) -> Result<(), String> {
    if axis.scale == Scale::Log && value < 0.0 {
        return Err(format!("{name} is {value}, and its axis is logarithmic: 0 or more"));
    }
    Ok(())
}

/// A number as a key; both zeros are one.
#[derive(Clone, Copy, PartialEq)]
struct Key(f64);

impl Key {
    fn of(value: f64) -> Self {
        Self(value + 0.0)
    }
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests;

//! A plot of lines: for each series its points, the line through them and the band around them.

use crate::canvas::{Anchor, Area, Canvas, width};
use crate::cover::covered;
use crate::figure::Figure;
use crate::frame::{Frame, SMALL, Wish};
use crate::line::{Axis, Origin, PointLine, Scale, SeriesHead};
use crate::look::Look;
use crate::number;
use crate::ruler::{Ends, Ruler, Tick};

/// Half the width of a mark.
const MARK: f64 = 4.0;
/// Of a line with more than twice this many points about this many get a mark, the others a dot as
/// wide as the line.
const CROWD: usize = 16;
/// How high the place above the plot is for points that have no y.
const CEILING: f64 = 66.0;
/// A series' own share of it.
const LANE: f64 = 13.0;
/// How high it must be for its name to stand beside it.
const NAMED: f64 = 22.0;
/// What the strip for them is called.
const SATURATED: &str = "saturated";
/// The value beside a point that says how many of its runs, one at each level of the costs,
/// saturate.
const SATURATED_RUNS: &str = "saturated_runs";
/// More bands than these make mud of one another unless they are faint.
const FEW_BANDS: usize = 3;
/// Between the frame and the first and last point.
const INSET: f64 = 12.0;

/// Draws the plot, without the `<svg>` around it: its markup, width and height.
pub(crate) fn draw(figure: &Figure, titled: bool) -> (String, f64, f64) {
    let head = figure.head();
    let across = Ruler::over(head.x.scale, Ends::AtValues, figure.points().map(|point| point.x));
    let up = Ruler::over(head.y.scale, Ends::AtTicks, heights(figure, head.y.scale));
    let widest = up.ticks().iter().map(|tick| width(&tick.label, SMALL)).fold(0.0, f64::max);
    let looks = Look::of_all(&head.series);
    let saturated: Vec<&str> = head
        .series
        .iter()
        .map(|series| series.name.as_str())
        .filter(|name| figure.points().any(|point| point.saturated && point.series == *name))
        .collect();
    let ceiling = match saturated.len() as f64 {
        0.0 => 0.0,
        lanes => (LANE * lanes).clamp(NAMED, CEILING),
    };
    let widest = if ceiling > 0.0 { widest.max(width(SATURATED, SMALL)) } else { widest };
    let wish = Wish { titled, ticks_width: widest + 10.0, height: 0.0, ceiling };
    let mut frame = Frame::new(head, wish);
    let banded = head.series.iter().filter(|series| {
        figure.points().any(|point| point.band.is_some() && point.series == series.name)
    });
    let band = if banded.count() > FEW_BANDS { "band faint" } else { "band" };
    for panel in 0..head.panels.len() {
        let area = frame.panels[panel];
        let labelled = frame.is_first_of_row(panel);
        let sheet = Sheet::new(area, &across, &up, ceiling);
        sheet.axes(&mut frame.canvas, labelled);
        // Bands lie under all lines, so that none hides another series.
        for (series, look) in head.series.iter().zip(&looks) {
            sheet.bands(&mut frame.canvas, (*look, band), figure.series(panel, series));
        }
        for (series, look) in head.series.iter().zip(&looks) {
            let lane = saturated.iter().position(|name| *name == series.name);
            let curve = Curve { series, look: *look, lane, lanes: saturated.len() };
            sheet.curve(&mut frame.canvas, curve, [&head.x, &head.y], figure.series(panel, series));
        }
    }
    frame.legend(figure, &looks, key);
    for note in notes(figure, &across, &up) {
        frame.note(&note);
    }
    let covered = covered(figure, &looks, &up);
    if !covered.is_empty() {
        let covered = covered.join("; ");
        frame.note(&format!(
            "Under the lines of others at every point, to be read in the table: {covered}."
        ));
    }
    frame.finish()
}

/// All that the y axis must have room for.
fn heights(figure: &Figure, scale: Scale) -> impl Iterator<Item = f64> {
    figure.points().filter(|point| !point.saturated).flat_map(move |point| {
        let (low, high) = point.band.unwrap_or((point.y, point.y));
        // The lower end of a band may leave a logarithmic axis, but must not make a zero of it.
        let low = if low > 0.0 || scale == Scale::Linear { low } else { point.y };
        [point.y, low, high]
    })
}

fn key(canvas: &mut Canvas, look: Look, area: Area) {
    let middle = area.y + area.height / 2.0;
    if look.has_line() {
        canvas.line("line", (area.x, middle), (area.right(), middle));
    }
    let size = MARK * look.mark_size();
    canvas.path("mark", &look.shape.outline(area.centre(), middle, size));
}

fn notes(figure: &Figure, across: &Ruler, up: &Ruler) -> Vec<String> {
    let mut notes = Vec::new();
    if figure.points().any(|point| point.saturated) {
        let text = "Arrows in the shaded strip at the top: more was asked for than can be served, so there is no value, \
                    only a queue that grows as long as the run.";
        notes.push(text.to_owned());
    }
    if figure.points().any(|point| point.band.is_some() && !point.saturated) {
        let text = "Shaded bands and whiskers: the range that the value is in, from the ranges of measured costs and \
                    from chance.";
        notes.push(text.to_owned());
    }
    let is_bare = |point: &PointLine| {
        let saturated_runs = point.more.get(SATURATED_RUNS).copied().unwrap_or(0.0);
        saturated_runs > 0.0 && point.band.is_none() && !point.saturated
    };
    if figure.points().any(is_bare) {
        let text = "No band where some runs of a point saturate: with other costs of the measured ranges more is asked \
                    for than can be served, so that nobody knows how wide the band is.";
        notes.push(text.to_owned());
    }
    let axes =
        [("x", across), ("y", up)].map(|(name, ruler)| ruler.has_zero_apart().then_some(name));
    let apart: Vec<&str> = axes.into_iter().flatten().collect();
    if !apart.is_empty() {
        notes.push(format!(
            "Zero has no place on a logarithmic axis: it is set apart, beyond the break of {}.",
            apart.join(" and ")
        ));
    }
    notes
}

/// A panel with its axes.
struct Sheet<'a> {
    /// The whole frame.
    area: Area,
    /// Where values are: the frame without the strip at its top.
    plain: Area,
    across: &'a Ruler,
    up: &'a Ruler,
}

/// A series in a panel.
struct Curve<'a> {
    series: &'a SeriesHead,
    look: Look,
    /// Its place among the series that saturate somewhere.
    lane: Option<usize>,
    lanes: usize,
}

impl<'a> Sheet<'a> {
    fn new(area: Area, across: &'a Ruler, up: &'a Ruler, ceiling: f64) -> Self {
        let plain = Area {
            x: area.x + INSET,
            y: area.y + ceiling,
            width: area.width - 2.0 * INSET,
            height: area.height - ceiling,
        };
        Self { area, plain, across, up }
    }

    fn x(&self, value: f64) -> f64 {
        self.plain.x + self.across.place(value) * self.plain.width
    }

    fn y(&self, value: f64) -> f64 {
        self.plain.bottom() - self.up.place(value) * self.plain.height
    }

    fn axes(&self, canvas: &mut Canvas, labelled: bool) {
        let Self { area, plain, across, up } = self;
        if plain.y > area.y {
            canvas.rectangle("ceiling", Area { height: plain.y - area.y, ..*area });
            if labelled {
                canvas.text("tick", area.x - 6.0, area.y + SMALL - 2.0, Anchor::End, SATURATED);
            }
        }
        // A label that would run into another one stays away.
        let mut free = f64::INFINITY;
        for Tick { value, label } in up.ticks() {
            let y = self.y(*value);
            canvas.line("grid", (area.x, y), (area.right(), y));
            if labelled && y < free {
                canvas.text("tick", area.x - 6.0, y + 4.0, Anchor::End, label);
                free = y - SMALL;
            }
        }
        let mut free = f64::NEG_INFINITY;
        for Tick { value, label } in across.ticks() {
            let x = self.x(*value);
            canvas.line("grid", (x, area.y), (x, area.bottom()));
            let half = width(label, SMALL) / 2.0;
            if x - half > free {
                canvas.text("tick", x, area.bottom() + SMALL + 5.0, Anchor::Middle, label);
                free = x + half + 6.0;
            }
        }
        canvas.rectangle("frame", *area);
        if across.has_zero_apart() {
            let x = plain.x + across.break_at() * plain.width;
            self.break_mark(canvas, (x, area.bottom()), (2.0, 5.0), (5.0, 0.0));
        }
        if up.has_zero_apart() {
            let y = plain.bottom() - up.break_at() * plain.height;
            self.break_mark(canvas, (area.x, y), (5.0, 2.0), (0.0, 5.0));
        }
    }

    /// Two strokes across an axis that is not whole.
    fn break_mark(
        &self,
        canvas: &mut Canvas,
        (x, y): (f64, f64),
        (dx, dy): (f64, f64),
        (apart_x, apart_y): (f64, f64),
    ) {
        for side in [-0.5, 0.5] {
            let (x, y) = (x + side * apart_x, y + side * apart_y);
            canvas.line("break", (x - dx, y + dy), (x + dx, y - dy));
        }
    }

    fn bands<'p>(
        &self,
        canvas: &mut Canvas,
        (look, band): (Look, &str),
        points: impl Iterator<Item = &'p PointLine>,
    ) {
        let ends = |point: &PointLine| {
            let (low, high) = point.band.filter(|_| !point.saturated)?;
            Some((self.x(point.x), self.y(low), self.y(high)))
        };
        let ends: Vec<_> = points.map(ends).collect();
        let runs = ends.split(Option::is_none).filter(|run| !run.is_empty());
        canvas.raw(format_args!("<g class=\"{}\">\n", look.classes()));
        for run in runs {
            let run = || run.iter().flatten();
            let together = look.has_line() && run().count() > 1;
            if together {
                let upper = run().map(|(x, _, high)| (*x, *high));
                let lower = run().rev().map(|(x, low, _)| (*x, *low));
                canvas.polygon(band, &upper.chain(lower).collect::<Vec<_>>());
            } else {
                for &(x, low, high) in run() {
                    canvas.line("whisker", (x, low), (x, high));
                    canvas.line("whisker", (x - 3.0, low), (x + 3.0, low));
                    canvas.line("whisker", (x - 3.0, high), (x + 3.0, high));
                }
            }
        }
        canvas.raw("</g>\n");
    }

    fn curve<'p>(
        &self,
        canvas: &mut Canvas,
        curve: Curve<'_>,
        axes: [&Axis; 2],
        points: impl Iterator<Item = &'p PointLine> + Clone,
    ) {
        let Curve { series, look, lane, lanes } = curve;
        let place =
            |point: &PointLine| (!point.saturated).then(|| (self.x(point.x), self.y(point.y)));
        canvas.raw(format_args!("<g class=\"series {}\">\n", look.classes()));
        let places: Vec<_> = points.clone().map(place).collect();
        if look.has_line() {
            for run in places.split(Option::is_none).filter(|run| run.len() > 1) {
                let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
                canvas.through("line", &run);
            }
        }
        let crowded = look.has_line() && places.len() > 2 * CROWD;
        let every = if crowded { places.len() / CROWD } else { 1 };
        for (number, (point, place)) in points.zip(&places).enumerate() {
            let title = told(series, axes, point);
            let full = number.is_multiple_of(every);
            if let Some((x, y)) = place {
                let (class, size) =
                    if full { ("mark", look.mark_size()) } else { ("mark dot", 0.25) };
                canvas.told_path(class, &look.shape.outline(*x, *y, MARK * size), &title);
            } else {
                let share = (self.plain.y - self.area.y) / lanes.max(1) as f64;
                let y = self.area.y + (lane.unwrap_or(0) as f64 + 0.5) * share;
                let size = (share / 2.0 - 1.0).clamp(2.0, MARK + 0.5);
                canvas.told_path("mark arrow", &arrow(self.x(point.x), y, size), &title);
            }
        }
        canvas.raw("</g>\n");
    }
}

/// An arrow upwards, as the `d` of a path.
fn arrow(x: f64, y: f64, size: f64) -> String {
    let (top, bottom) = (y - size, y + size);
    let (left, right, wing) = (x - 0.7 * size, x + 0.7 * size, y - 0.2 * size);
    format!(
        "M{x:.1} {bottom:.1}L{x:.1} {top:.1}M{left:.1} {wing:.1}L{x:.1} {top:.1}L{right:.1} {wing:.1}"
    )
}

/// What a point says when it is pointed at.
fn told(series: &SeriesHead, [across, up]: [&Axis; 2], point: &PointLine) -> String {
    let value = |axis: &Axis, value| {
        let text = number::result(value);
        if axis.unit.is_empty() { text } else { format!("{text} {}", axis.unit) }
    };
    let SeriesHead { label, .. } = series;
    let at = format!("{label}, {} {}", across.label, value(across, point.x));
    if point.saturated {
        return format!("{at}: saturated");
    }
    let band = point.band.map_or_else(String::new, |(low, high)| {
        format!(" ({} to {})", number::result(low), number::result(high))
    });
    let origin = if series.origin == Origin::Paper { ", the paper's own" } else { "" };
    format!("{at}: {}{band}{origin}", value(up, point.y))
}

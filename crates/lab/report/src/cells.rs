//! A map: a cell for each pair of values, in the colour and with the mark of the series that is
//! best there.

use crate::canvas::{Anchor, Area, Canvas, width};
use crate::figure::Figure;
use crate::frame::{Frame, SMALL, Wish, with_unit};
use crate::line::{Axis, FigureLine, PointLine};
use crate::look::Look;
use crate::number;

/// Half the width of a mark, at most.
const MARK: f64 = 5.5;
/// Letters of values.
const VALUE: f64 = 11.0;
/// How high a cell is in which a mark and a value have room.
const CELL: f64 = 38.0;
/// How high a panel becomes for that.
const PANEL: f64 = 500.0;

/// Draws the map, without the `<svg>` around it: its markup, width and height.
pub(crate) fn draw(figure: &Figure, titled: bool) -> (String, f64, f64) {
    let head = figure.head();
    let columns = steps(figure.points().map(|point| point.x));
    let rows = steps(figure.points().map(|point| point.y));
    let widest = rows.iter().map(|y| width(&number::short(*y), SMALL)).fold(0.0, f64::max);
    let height = (rows.len() as f64 * CELL).min(PANEL);
    let wish = Wish { titled, ticks_width: widest + 10.0, height, ceiling: 0.0 };
    let mut frame = Frame::new(head, wish);
    let looks = Look::of_all(&head.series);
    let values_fit = fit(figure, frame.panels[0], (columns.len(), rows.len()));
    for panel in 0..head.panels.len() {
        let area = frame.panels[panel];
        let grid = Grid { area, columns: &columns, rows: &rows, values_fit };
        let labelled = frame.is_first_of_row(panel);
        grid.ticks(&mut frame.canvas, labelled);
        for (column, x) in columns.iter().enumerate() {
            for (row, y) in rows.iter().enumerate() {
                let is_here = |point: &PointLine| (point.x, point.y) == (*x, *y);
                if !figure.panel(panel).iter().any(is_here) {
                    grid.rectangle(&mut frame.canvas, "absent", (column, row));
                }
            }
        }
        for (series, look) in head.series.iter().zip(&looks) {
            frame.canvas.raw(format_args!("<g class=\"series {}\">\n", look.classes()));
            for point in figure.series(panel, series) {
                grid.cell(&mut frame.canvas, *look, head, point);
            }
            frame.canvas.raw("</g>\n");
        }
        frame.canvas.rectangle("frame", grid.area);
    }
    frame.legend(figure, &looks, key);
    for note in notes(figure, values_fit) {
        frame.note(&note);
    }
    frame.finish()
}

/// The different values, in order.
fn steps(values: impl Iterator<Item = f64>) -> Vec<f64> {
    // Both zeros are one step.
    let mut steps: Vec<f64> = values.map(|value| value + 0.0).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    steps
}

/// What the best series of a cell has there.
fn value_of(point: &PointLine) -> Option<String> {
    point.more.get(&point.series).map(|value| number::tiny(*value))
}

/// Whether every value has room in its cell.
fn fit(figure: &Figure, area: Area, (columns, rows): (usize, usize)) -> bool {
    let room = area.width / columns.max(1) as f64 - 3.0;
    let high = area.height / rows.max(1) as f64 >= 2.0 * MARK + VALUE + 8.0;
    high && figure.points().filter_map(value_of).all(|value| width(&value, VALUE) < room)
}

fn key(canvas: &mut Canvas, look: Look, area: Area) {
    canvas.rectangle("cell", area);
    let middle = area.y + area.height / 2.0;
    canvas.path("mark", &look.shape.outline(area.centre(), middle, MARK * 0.75));
}

fn notes(figure: &Figure, values_fit: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(value) = &figure.head().value {
        let shown = if values_fit { " and its value" } else { ", by its value" };
        notes.push(format!("In each cell the best series{shown}: {}.", with_unit(value)));
    }
    if figure.points().any(|point| point.tie) {
        notes.push("Cells without a mark: the best may be so by chance (t, 95 %).".to_owned());
    }
    if figure.points().any(|point| point.saturated) {
        notes.push(
            "Cells struck through: more was asked for than any of them can serve.".to_owned(),
        );
    }
    notes
}

/// The cells of one panel: columns to the right, rows upwards.
struct Grid<'a> {
    area: Area,
    columns: &'a [f64],
    rows: &'a [f64],
    /// Whether there is room for values: in all cells or in none.
    values_fit: bool,
}

impl Grid<'_> {
    fn cell_at(&self, (column, row): (usize, usize)) -> Area {
        let Self { area, columns, rows, values_fit: _ } = self;
        let (width, height) = (area.width / columns.len() as f64, area.height / rows.len() as f64);
        Area {
            x: area.x + column as f64 * width,
            y: area.bottom() - (row + 1) as f64 * height,
            width,
            height,
        }
    }

    fn ticks(&self, canvas: &mut Canvas, labelled: bool) {
        let mut free = f64::NEG_INFINITY;
        for (number, value) in self.columns.iter().enumerate() {
            let (x, label) = (self.cell_at((number, 0)).centre(), number::short(*value));
            let half = width(&label, SMALL) / 2.0;
            if x - half > free {
                canvas.text("tick", x, self.area.bottom() + SMALL + 5.0, Anchor::Middle, &label);
                free = x + half + 6.0;
            }
        }
        let mut free = f64::INFINITY;
        for (number, value) in self.rows.iter().enumerate().filter(|_| labelled) {
            let cell = self.cell_at((0, number));
            let y = cell.y + cell.height / 2.0 + SMALL / 3.0;
            if y < free {
                canvas.text("tick", self.area.x - 6.0, y, Anchor::End, &number::short(*value));
                free = y - SMALL;
            }
        }
    }

    fn rectangle(&self, canvas: &mut Canvas, class: &str, place: (usize, usize)) {
        let Area { x, y, width, height } = self.cell_at(place);
        // A gap between cells, so that each has an edge of its own.
        let gap = 1.0_f64.min(width / 4.0).min(height / 4.0);
        let (x, y) = (x + gap, y + gap);
        let area = Area { x, y, width: width - 2.0 * gap, height: height - 2.0 * gap };
        canvas.rectangle(class, area);
    }

    fn cell(&self, canvas: &mut Canvas, look: Look, head: &FigureLine, point: &PointLine) {
        let step = |steps: &[f64], value: f64| steps.iter().position(|step| *step == value);
        let places = (step(self.columns, point.x), step(self.rows, point.y));
        let (Some(column), Some(row)) = places else { return };
        let area = self.cell_at((column, row));
        canvas.raw("<g>");
        canvas.raw(format_args!("<title>{}</title>\n", crate::markup::Escaped(&told(head, point))));
        if point.saturated {
            canvas.line(
                "struck",
                (area.x + 3.0, area.bottom() - 3.0),
                (area.right() - 3.0, area.y + 3.0),
            );
            canvas.line(
                "struck",
                (area.x + 3.0, area.y + 3.0),
                (area.right() - 3.0, area.bottom() - 3.0),
            );
            canvas.raw("</g>\n");
            return;
        }
        if point.tie {
            // Neither a colour nor a mark of any series.
            self.rectangle(canvas, "tie", (column, row));
            canvas.raw("</g>\n");
            return;
        }
        self.rectangle(canvas, "cell", (column, row));
        let value = value_of(point).filter(|_| self.values_fit);
        let size = MARK.min(area.width / 3.0).min(area.height / 3.0);
        let middle = area.y + area.height / 2.0;
        let middle = if value.is_some() { middle - VALUE / 2.0 } else { middle };
        canvas.path("mark", &look.shape.outline(area.centre(), middle, size));
        if let Some(value) = value {
            canvas.text(
                "value",
                area.centre(),
                middle + size + VALUE + 1.0,
                Anchor::Middle,
                &value,
            );
        }
        canvas.raw("</g>\n");
    }
}

/// What a cell says when it is pointed at: its place, and what every series does there.
fn told(head: &FigureLine, point: &PointLine) -> String {
    let value = |axis: &Axis, value| {
        let text = number::result(value);
        if axis.unit.is_empty() { text } else { format!("{text} {}", axis.unit) }
    };
    let FigureLine { x, y, series, value: unit, .. } = head;
    let at = format!("{} {}, {} {}", x.label, value(x, point.x), y.label, value(y, point.y));
    let all = series.iter().filter_map(|series| {
        let found = *point.more.get(&series.name)?;
        let text = unit.as_ref().map_or_else(|| number::result(found), |unit| value(unit, found));
        Some(format!("{} {text}", series.label))
    });
    let all: Vec<String> = all.collect();
    let label = series.iter().find(|series| series.name == point.series);
    let label = label.map_or("", |series| series.label.as_str());
    let best = match point {
        PointLine { saturated: true, .. } => "saturated".to_owned(),
        PointLine { tie: true, .. } => format!("{label}, and others as good by chance"),
        _ => format!("{label} is best"),
    };
    if all.is_empty() {
        format!("{at}: {best}")
    } else {
        format!("{at}: {best} ({})", all.join(", "))
    }
}

//! What every plot has: title, panels side by side, names of the axes, legend and notes.

use crate::canvas::{Anchor, Area, Canvas, cut, width, wrap};
use crate::figure::Figure;
use crate::line::{Axis, FigureLine, Origin, SeriesHead};
use crate::look::{Look, origin_name};

/// The width of every plot; pages and viewers scale it.
const WIDTH: f64 = 960.0;
/// Letters of titles.
const TITLE: f64 = 17.0;
/// Letters of labels and the legend.
pub(crate) const LABEL: f64 = 13.0;
/// Letters beside axes, and of notes.
pub(crate) const SMALL: f64 = 12.0;
/// From the baseline of a line of text to the next one.
const LEADING: f64 = 1.4;
/// Between things that do not belong together.
const GAP: f64 = 16.0;
/// The line with a mark that stands for a series in the legend.
const KEY: f64 = 34.0;

/// Where the parts of a plot are.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) canvas: Canvas,
    /// One for each panel.
    pub(crate) panels: Vec<Area>,
    columns: usize,
    /// Below the lowest marks of x axes.
    bottom: f64,
}

/// What is asked of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Whether the title is part of it: on a page it stands above.
    pub(crate) titled: bool,
    /// Pixels to the left of a panel for the marks of its y axis.
    pub(crate) ticks_width: f64,
    /// How high a panel is at least.
    pub(crate) height: f64,
    /// How much higher it is for the points that have no y.
    pub(crate) ceiling: f64,
}

impl Frame {
    /// Draws title, names of panels and of axes.
    pub(crate) fn new(head: &FigureLine, wish: Wish) -> Self {
        let mut canvas = Canvas::default();
        let mut top = 6.0;
        if wish.titled {
            for line in wrap(&head.title, TITLE, WIDTH - 2.0 * GAP) {
                top += TITLE * LEADING;
                canvas.text("title", GAP, top, Anchor::Start, &line);
            }
            for line in wrap(&head.source, SMALL, WIDTH - 2.0 * GAP).iter().take(2) {
                top += SMALL * LEADING;
                canvas.text("quiet", GAP, top, Anchor::Start, line);
            }
            top += GAP;
        }
        let columns = columns(head.panels.len());
        let rows = head.panels.len().div_ceil(columns);
        let named = head.panels.iter().any(|panel| !panel.is_empty());
        let name_height = if named { LABEL * LEADING + 6.0 } else { 6.0 };
        let tick_height = SMALL * LEADING + 8.0;
        let left = LABEL * LEADING + GAP + wish.ticks_width;
        let width = (WIDTH - left - GAP - GAP * (columns - 1) as f64) / columns as f64;
        let height = (width * 0.72).clamp(150.0, 380.0).max(wish.height) + wish.ceiling;
        let mut panels = Vec::new();
        for (number, name) in head.panels.iter().enumerate() {
            let (row, column) = (number / columns, number % columns);
            let area = Area {
                x: left + column as f64 * (width + GAP),
                y: top + name_height + row as f64 * (name_height + height + tick_height + 4.0),
                width,
                height,
            };
            let name = cut(name, LABEL, width);
            canvas.text("name", area.centre(), area.y - 8.0, Anchor::Middle, &name);
            panels.push(area);
        }
        let last = top + rows as f64 * (name_height + height + tick_height + 4.0);
        let middle = (top + name_height + last - tick_height) / 2.0;
        let room = (last - top).max(200.0);
        canvas.upward_text("label", GAP, middle, &cut(&with_unit(&head.y), LABEL, room));
        let bottom = last + LABEL * LEADING;
        let x = left + (WIDTH - left - GAP) / 2.0;
        let label = cut(&with_unit(&head.x), LABEL, WIDTH - left);
        canvas.text("label", x, bottom - 4.0, Anchor::Middle, &label);
        Self { canvas, panels, columns, bottom: bottom + 4.0 }
    }

    /// Whether the panel is the first of its row: only there the y axis has labels.
    pub(crate) fn is_first_of_row(&self, panel: usize) -> bool {
        panel.is_multiple_of(self.columns)
    }

    /// Draws the legend, as many columns as fit. `key` draws what stands for a series, around the
    /// middle of an area.
    pub(crate) fn legend(
        &mut self,
        figure: &Figure,
        looks: &[Look],
        key: impl Fn(&mut Canvas, Look, Area),
    ) {
        let head = figure.head();
        let room = WIDTH - 2.0 * GAP;
        let labels: Vec<String> = head
            .series
            .iter()
            .map(|series| cut(&legend_label(figure, series), LABEL, room - KEY))
            .collect();
        let widest = labels.iter().map(|label| width(label, LABEL)).fold(0.0, f64::max);
        let columns = ((room / (KEY + widest + GAP)) as usize).clamp(1, head.series.len().max(1));
        let column_width = (KEY + widest + 1.5 * GAP).min(room / columns as f64);
        self.canvas.raw("<g class=\"legend\">\n");
        for (number, (label, look)) in labels.iter().zip(looks).enumerate() {
            let x = GAP + (number % columns) as f64 * column_width;
            if number.is_multiple_of(columns) {
                self.bottom += LABEL * LEADING + 2.0;
            }
            let y = self.bottom;
            let area = Area { x, y: y - LABEL, width: KEY - 8.0, height: LABEL };
            self.canvas.raw(format_args!("<g class=\"{}\">\n", look.classes()));
            key(&mut self.canvas, *look, area);
            self.canvas.raw("</g>\n");
            self.canvas.text("entry", x + KEY, y - 1.0, Anchor::Start, label);
        }
        self.canvas.raw("</g>\n");
    }

    /// Writes an explanation below everything else.
    pub(crate) fn note(&mut self, text: &str) {
        self.bottom += 4.0;
        for line in wrap(text, SMALL, WIDTH - 2.0 * GAP) {
            self.bottom += SMALL * LEADING;
            self.canvas.text("quiet", GAP, self.bottom, Anchor::Start, &line);
        }
    }

    /// The drawing, how wide and how high it is.
    pub(crate) fn finish(self) -> (String, f64, f64) {
        (self.canvas.finish(), WIDTH, self.bottom + GAP)
    }
}

/// An axis in words.
pub(crate) fn with_unit(axis: &Axis) -> String {
    let Axis { label, unit, .. } = axis;
    // "Cores (cores)" says nothing twice.
    if unit.is_empty() || label.eq_ignore_ascii_case(unit) {
        label.clone()
    } else {
        format!("{label} ({unit})")
    }
}

fn legend_label(figure: &Figure, series: &SeriesHead) -> String {
    let mut label = series.label.clone();
    let origin = origin_name(series.origin);
    if series.origin != Origin::Simulated && !label.to_lowercase().contains(origin) {
        label += &format!(" ({origin})");
    }
    let panels = 0..figure.head().panels.len();
    if series.points > 0 && panels.map(|panel| figure.count(panel, series)).sum::<usize>() == 0 {
        label += ": not run";
    }
    label
}

fn columns(panels: usize) -> usize {
    match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        3 | 5 | 6 | 9 => 3,
        _ => 4,
    }
}

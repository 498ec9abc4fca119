//! Draws a view: which part stands where, for every size of the screen.

mod cores;
mod figure;
mod grid;
mod head;
mod share;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::{Block, Clear, Widget};

use self::cores::Marks;
use self::grid::{Column, DIM, number, rest, row_of, text};
use self::share::{Wish, share};
use super::view::{App, View};
use super::view_state::ViewState;

/// The smallest screen that shows anything: columns and lines.
pub(super) const SMALLEST: (u16, u16) = (40, 10);
/// From this many columns on, applications are drawn at the left and the rest at the right.
const WIDE: u16 = 140;
/// Below this many lines, whatever can be spared is left out.
const LOW: u16 = 16;
/// From this many lines on, graphs have three, and every thread has one.
const HIGH: u16 = 36;

/// Draws all of it into `area`.
pub(super) fn draw(view: &View, view_state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let (width, height) = SMALLEST;
    if area.width < width || area.height < height {
        draw_too_small(area, buffer);
        return;
    }
    let mut lines = Lines { area };
    head::draw_title(lines.take(2), buffer, view, view_state);
    let graph = if area.height >= HIGH { 3 } else { 1 };
    head::draw_packets(lines.take(graph), buffer, view);
    head::draw_cores_used(lines.take(if view.cores.is_some() { graph } else { 1 }), buffer, view);
    if view.cores.is_some() {
        head::draw_moves(lines.take(1), buffer, view);
    }
    if area.height >= LOW {
        head::draw_dispatcher(lines.take(1), buffer, view);
    }
    if !view_state.printed {
        draw_foot(lines.take_last(), buffer, view_state);
    }
    draw_body(view, view_state, lines.area, buffer);
    if view_state.help {
        draw_help(area, buffer);
    }
}

/// Lines that a screen of this width needs to show everything.
pub(super) fn height(view: &View, width: u16) -> u16 {
    let rows = view.apps.len() + view.threads.len() + view.losses.len();
    let cores = view.cores.as_ref().map_or(0, |cores| cores::height_in_cells(&cores.rows, width));
    // Twice, because cells never take more than half of it; the head's lines, with graphs of three,
    // and a heading and an empty line for each part.
    let rest = u16::try_from(rows + 20).unwrap_or(u16::MAX / 2);
    rest.saturating_add(cores.saturating_mul(2))
}

/// The lines that are not given away yet.
struct Lines {
    area: Rect,
}

impl Lines {
    /// The first `count` of them, or as many as there are.
    fn take(&mut self, count: u16) -> Rect {
        let count = count.min(self.area.height);
        let taken = Rect { height: count, ..self.area };
        self.area.y += count;
        self.area.height -= count;
        taken
    }

    /// The last one.
    fn take_last(&mut self) -> Rect {
        self.area.height = self.area.height.saturating_sub(1);
        Rect { y: self.area.bottom(), height: 1, ..self.area }
    }
}

fn draw_too_small(area: Rect, buffer: &mut Buffer) {
    let (width, height) = SMALLEST;
    let lines =
        [format!("needs {width} x {height},"), format!("has {} x {}", area.width, area.height)];
    for (index, line) in (0..area.height).zip(lines) {
        let place = row_of(area, index);
        buffer.set_stringn(place.x, place.y, line, usize::from(place.width), Style::new());
    }
}

/// Cores, applications, threads and losses: below each other, or in two columns.
fn draw_body(view: &View, view_state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let parts = [Part::Cores, Part::Apps, Part::Losses, Part::Threads];
    if area.width < WIDE {
        draw_parts(&parts, view, view_state, area, buffer);
        return;
    }
    let left = area.width / 5 * 3;
    let (one, other) = parts.split_at(2);
    draw_parts(one, view, view_state, Rect { width: left, ..area }, buffer);
    let right = Rect { x: area.x + left + 2, width: area.width - left - 2, ..area };
    draw_parts(other, view, view_state, right, buffer);
}

/// The wish of a part that has nothing to show.
const NOTHING: Wish = Wish { least: 0, most: 0 };

/// A part of the body. The order is the one on the screen, and who goes without when it is low is
/// the last.
#[derive(Clone, Copy, Debug)]
enum Part {
    Cores,
    Apps,
    Losses,
    Threads,
}

fn draw_parts(
    parts: &[Part],
    view: &View,
    view_state: &ViewState,
    area: Rect,
    buffer: &mut Buffer,
) {
    let gap = u16::from(area.height >= LOW / 2);
    let wish = |part: &Part| {
        let Wish { least, most } = part.wish(view, area);
        // Who shows nothing needs no line of distance either.
        if most == 0 {
            Wish { least, most }
        } else {
            Wish { least: least + gap, most: most.saturating_add(gap) }
        }
    };
    let wishes: Vec<Wish> = parts.iter().map(wish).collect();
    let mut lines = Lines { area };
    for (part, height) in parts.iter().zip(share(area.height, &wishes)) {
        let place = lines.take(height);
        let gap = gap.min(place.height);
        let place = Rect { y: place.y + gap, height: place.height - gap, ..place };
        match part {
            Part::Cores => {
                if let Some(cores) = &view.cores {
                    cores::draw(place, buffer, &cores.rows, &Marks::of(&view.apps));
                }
            }
            Part::Apps => draw_apps(place, buffer, view, view_state),
            Part::Losses => draw_losses(place, buffer, view),
            Part::Threads => draw_threads(place, buffer, view),
        }
    }
}

impl Part {
    fn wish(self, view: &View, area: Rect) -> Wish {
        let most = match self {
            Self::Cores => match &view.cores {
                Some(cores) => cores::height(&cores.rows, area),
                None => return NOTHING,
            },
            Self::Apps => grid::height(view.apps.len()),
            Self::Losses => grid::height(view.losses.len().max(1)),
            // The dispatcher has a line above.
            Self::Threads if area.height < HIGH / 2 => return NOTHING,
            Self::Threads => grid::height(view.threads.len()),
        };
        // A heading and a line.
        Wish { least: 2, most }
    }
}

const APPS: [Column; 11] = [
    text("", 1),
    rest("application"),
    number("packets/s", 11),
    text("state", 10),
    number("cores", 5),
    number("min-max", 7),
    number("waits us", 9),
    number("queued", 7),
    text("class", 7),
    number("grants/s", 9),
    number("revokes/s", 9),
];

fn draw_apps(area: Rect, buffer: &mut Buffer, view: &View, view_state: &ViewState) {
    let marks = Marks::of(&view.apps);
    let mut apps: Vec<&App> = view.apps.iter().collect();
    apps.sort_by(|one, other| view_state.order.compare(one, other));
    let rows: Vec<_> = apps
        .into_iter()
        .map(|app| {
            let dash = || "-".to_owned();
            let cores = app.cores.as_ref();
            let cells = vec![
                cores.map_or_else(String::new, |_| marks.letter(app.number).to_string()),
                app.name.clone(),
                figure::rate(app.packets_per_s),
                state(app),
                cores.map_or_else(dash, |cores| cores.held.to_string()),
                cores.map_or_else(dash, |cores| format!("{}-{}", cores.guaranteed, cores.burst)),
                cores.map_or_else(dash, |cores| figure::quantity(cores.oldest_us)),
                figure::quantity(app.queued as f64),
                cores.map_or_else(dash, |cores| cores.class.clone()),
                figure::rate(cores.and_then(|cores| cores.grants_per_s)),
                figure::rate(cores.and_then(|cores| cores.revokes_per_s)),
            ];
            let style = app.sockets.map_or_else(|| marks.style(app.number), |_| Style::new());
            (style, cells)
        })
        .collect();
    grid::draw(area, buffer, &APPS, &rows);
}

/// What an application does; of a program whose sockets are served, how many there are.
fn state(app: &App) -> String {
    app.sockets.map_or_else(|| app.state.clone(), |sockets| format!("{sockets} sockets"))
}

const THREADS: [Column; 4] =
    [rest("thread"), number("turns/s", 11), number("spins", 7), text("waits", 7)];

fn draw_threads(area: Rect, buffer: &mut Buffer, view: &View) {
    let rows: Vec<_> = view
        .threads
        .iter()
        .map(|thread| {
            let cells = vec![
                thread.name.clone(),
                figure::rate(thread.turns_per_s),
                figure::share(thread.spin_share),
                thread.waiting.unwrap_or("-").to_owned(),
            ];
            (Style::new(), cells)
        })
        .collect();
    grid::draw(area, buffer, &THREADS, &rows);
}

const LOSSES: [Column; 4] =
    [rest("drops and punts"), number("a second", 11), number("in all", 13), text("counted by", 20)];

fn draw_losses(area: Rect, buffer: &mut Buffer, view: &View) {
    let mut rows: Vec<_> = view
        .losses
        .iter()
        .map(|loss| {
            let cells = vec![
                loss.name.clone(),
                figure::quantity(loss.per_s),
                figure::quantity(loss.total as f64),
                loss.place.clone(),
            ];
            (Style::new().fg(Color::Red), cells)
        })
        .collect();
    if rows.is_empty() {
        rows.push((DIM, vec!["none".to_owned()]));
    }
    grid::draw(area, buffer, &LOSSES, &rows);
}

fn draw_foot(area: Rect, buffer: &mut Buffer, view_state: &ViewState) {
    let pause = if view_state.paused { "go on" } else { "pause" };
    let foot = format!("q leave  p {pause}  s sorted by {}  ? help", view_state.order.name());
    buffer.set_stringn(area.x, area.y, foot, usize::from(area.width), DIM);
}

/// What the keys do and what the words mean. It fits the smallest screen.
const HELP: [&str; 8] = [
    "q, Esc, Ctrl-C  leave",
    "p  pause, and go on",
    "s  sort by packets, delay, cores, name",
    "min-max    cores: guaranteed, at most",
    "waits us   age of its oldest item",
    "spins      turns without work",
    "takes      cores taken by force",
    "any key takes this away",
];

fn draw_help(area: Rect, buffer: &mut Buffer) {
    let width = area.width.min(44);
    let height = area.height.min(HELP.len() as u16 + 2);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    Clear.render(place, buffer);
    let block = Block::bordered().title("help");
    let inside = block.inner(place);
    block.render(place, buffer);
    for (index, line) in (0..inside.height).zip(HELP) {
        let line_of = row_of(inside, index);
        buffer.set_stringn(line_of.x, line_of.y, line, usize::from(inside.width), Style::new());
    }
}

#[cfg(test)]
mod tests;

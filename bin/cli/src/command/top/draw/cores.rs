//! The cores and who holds them: a cell each, or a letter each where there are too many.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::grid::{DIM, HEAD, row_of};
use crate::command::top::view::{App, Core};

/// Columns of a cell: a number, a name, a worker, and who is next.
const CELL: u16 = 20;
/// Letters in a group of the compact form.
const GROUP: u16 = 8;

/// The letters by which holders are told apart.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    numbers: Vec<u32>,
}

impl Marks {
    /// A letter for everyone who may hold a core: by number, so that it stays while they do.
    pub(super) fn of(apps: &[App]) -> Self {
        let partners = apps.iter().filter(|app| app.cores.is_some());
        Self { numbers: partners.map(|app| app.number).collect() }
    }

    /// The letter; '+' for those after the 26th, '?' for a stranger.
    pub(super) fn letter(&self, app: u32) -> char {
        match self.index(app).map(u8::try_from) {
            Some(Ok(index)) if index < 26 => char::from(b'a' + index),
            Some(_) => '+',
            None => '?',
        }
    }

    /// The colour that goes with the letter.
    pub(super) fn style(&self, app: u32) -> Style {
        const COLORS: [Color; 6] =
            [Color::Cyan, Color::Green, Color::Yellow, Color::Magenta, Color::Blue, Color::Red];
        let color = self.index(app).map(|index| COLORS[index % COLORS.len()]);
        color.map_or_else(Style::new, |color| Style::new().fg(color))
    }

    fn index(&self, app: u32) -> Option<usize> {
        self.numbers.iter().position(|&number| number == app)
    }
}

/// Lines that the cores need in this area, with the heading: as cells if that leaves half of it to
/// others.
pub(super) fn height(cores: &[Core], area: Rect) -> u16 {
    let cells = height_in_cells(cores, area.width);
    if cells <= area.height / 2 { cells } else { lines_for(cores, letters_in_row(area.width)) }
}

/// Lines that a cell for each core needs, with the heading.
pub(super) fn height_in_cells(cores: &[Core], width: u16) -> u16 {
    lines_for(cores, usize::from(width / CELL).max(1))
}

fn lines_for(cores: &[Core], in_row: usize) -> u16 {
    u16::try_from(cores.len().div_ceil(in_row) + 1).unwrap_or(u16::MAX / 4)
}

/// As many whole groups of letters as fit behind the number of the row's first core.
fn letters_in_row(width: u16) -> usize {
    let groups = width.saturating_sub(5) / (GROUP + 1);
    usize::from((groups * GROUP).max(GROUP))
}

/// Draws a heading and the cores: a cell each if there is room, else a letter each.
pub(super) fn draw(area: Rect, buffer: &mut Buffer, cores: &[Core], marks: &Marks) {
    if area.is_empty() {
        return;
    }
    let cells = height_in_cells(cores, area.width) <= area.height;
    let heading =
        if cells { "cores and who holds them" } else { "cores: a holds, A has to leave, . idle" };
    buffer.set_stringn(area.x, area.y, heading, usize::from(area.width), HEAD);
    let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if cells {
        draw_cells(area, buffer, cores, marks);
    } else {
        draw_letters(area, buffer, cores, marks);
    }
}

fn draw_cells(area: Rect, buffer: &mut Buffer, cores: &[Core], marks: &Marks) {
    let in_row = usize::from(area.width / CELL).max(1);
    for (index, core) in cores.iter().enumerate() {
        let (row, column) = (index / in_row, index % in_row);
        let place = row_of(area, row as u16);
        let x = place.x + column as u16 * CELL;
        let width = usize::from(CELL.min(area.width) - 1);
        let number = format!("{:>3} ", core.core);
        let (after, _) = buffer.set_stringn(x, place.y, &number, width, DIM);
        let left = width.saturating_sub(usize::from(after - x));
        buffer.set_stringn(after, place.y, holder(core), left, style(core, marks));
    }
}

/// Who holds it, in few letters: `web.0`, or `web.0>dns` on its way.
fn holder(core: &Core) -> String {
    let Some(name) = &core.app_name else { return "idle".to_owned() };
    let worker = core.worker.map_or_else(String::new, |worker| format!(".{worker}"));
    // Who leaves matters more than the end of a long name.
    let next = match (core.state.as_str(), &core.next) {
        ("leaving", Some(next)) => format!(">{}", short(next, 5)),
        ("leaving", None) => ">".to_owned(),
        _ => String::new(),
    };
    let room = usize::from(CELL - 5).saturating_sub(worker.len() + next.chars().count());
    format!("{}{worker}{next}", short(name, room))
}

fn short(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    let kept: String = name.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn style(core: &Core, marks: &Marks) -> Style {
    let style = core.app.map_or(DIM, |app| marks.style(app));
    if core.state == "leaving" { style.add_modifier(Modifier::REVERSED) } else { style }
}

fn draw_letters(area: Rect, buffer: &mut Buffer, cores: &[Core], marks: &Marks) {
    let in_row = letters_in_row(area.width);
    let rows = cores.chunks(in_row);
    for (index, row) in rows.enumerate().take(usize::from(area.height)) {
        let place = row_of(area, index as u16);
        let last = index + 1 == usize::from(area.height);
        let hidden = cores.len().saturating_sub((index + 1) * in_row);
        if last && hidden > 0 {
            let more = format!("… {} more", hidden + row.len());
            buffer.set_stringn(place.x, place.y, more, usize::from(place.width), DIM);
            return;
        }
        let number = format!("{:>4} ", row.first().map_or(0, |core| core.core));
        buffer.set_stringn(place.x, place.y, number, usize::from(place.width), DIM);
        for (column, core) in row.iter().enumerate() {
            let x = place.x + 5 + column as u16 + column as u16 / GROUP;
            if x < place.right() {
                let letter = letter(core, marks).to_string();
                buffer.set_stringn(x, place.y, letter, 1, style(core, marks));
            }
        }
    }
}

fn letter(core: &Core, marks: &Marks) -> char {
    match core.app.map(|app| marks.letter(app)) {
        Some(letter) if core.state == "leaving" => letter.to_ascii_uppercase(),
        Some(letter) => letter,
        None => '.',
    }
}

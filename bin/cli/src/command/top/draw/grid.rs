//! A table on the screen: columns of fixed width, the least important ones left out where it is
//! narrow, the last rows where it is low.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    /// What stands over it.
    pub(super) head: &'static str,
    /// Columns of the screen; 0: what the others leave.
    pub(super) width: u16,
    /// Numbers stand at the right.
    pub(super) right: bool,
}

/// A column of text as wide as the others allow.
pub(super) const fn rest(head: &'static str) -> Column {
    Column { head, width: 0, right: false }
}

/// A column of text.
pub(super) const fn text(head: &'static str, width: u16) -> Column {
    Column { head, width, right: false }
}

/// A column of numbers.
pub(super) const fn number(head: &'static str, width: u16) -> Column {
    Column { head, width, right: true }
}

/// The narrowest that the widest column of text may become before others are left out.
const REST_MIN: u16 = 10;
/// The widest that it becomes.
const REST_MAX: u16 = 32;

/// Over the table of a section.
pub(super) const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
/// What is there but matters less.
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws heads and rows. The most important columns come first: as many are shown as fit. Each row
/// has a cell for each column, and a style.
pub(super) fn draw(
    area: Rect,
    buffer: &mut Buffer,
    columns: &[Column],
    rows: &[(Style, Vec<String>)],
) {
    if area.is_empty() {
        return;
    }
    let widths = widths(columns, area.width);
    let heads = columns.iter().map(|column| column.head);
    line(row_of(area, 0), buffer, columns, &widths, heads, HEAD);
    let room = usize::from(area.height - 1);
    // The last line says how many there is no room for; a line alone better shows something.
    let shown = if rows.len() > room { room.saturating_sub(1).max(1) } else { rows.len() };
    for (index, (style, cells)) in rows.iter().take(shown.min(room)).enumerate() {
        let area = row_of(area, index as u16 + 1);
        line(area, buffer, columns, &widths, cells.iter().map(String::as_str), *style);
    }
    if shown < rows.len() && shown < room {
        let more = format!("… {} more", rows.len() - shown);
        let area = row_of(area, shown as u16 + 1);
        buffer.set_stringn(area.x, area.y, more, usize::from(area.width), DIM);
    }
}

/// Lines that rows need with their heads.
pub(super) fn height(rows: usize) -> u16 {
    u16::try_from(rows + 1).unwrap_or(u16::MAX)
}

/// The area's `index`-th line.
pub(super) fn row_of(area: Rect, index: u16) -> Rect {
    Rect { y: area.y + index, height: 1, ..area }
}

/// The width of each column that fits, the most important ones first.
fn widths(columns: &[Column], room: u16) -> Vec<u16> {
    let mut widths = Vec::new();
    let mut used = 0;
    for column in columns {
        let width = if column.width == 0 { REST_MIN } else { column.width };
        let gap = u16::from(!widths.is_empty());
        if used + gap + width > room {
            break;
        }
        used += gap + width;
        widths.push(width);
    }
    for (width, _) in widths.iter_mut().zip(columns).filter(|(_, column)| column.width == 0) {
        *width = (*width + room - used).min(REST_MAX);
    }
    widths
}

fn line<'a>(
    area: Rect,
    buffer: &mut Buffer,
    columns: &[Column],
    widths: &[u16],
    cells: impl Iterator<Item = &'a str>,
    style: Style,
) {
    let mut x = area.x;
    for ((column, &width), cell) in columns.iter().zip(widths).zip(cells) {
        let long = Span::raw(cell).width() as u16;
        let skip = if column.right { width.saturating_sub(long) } else { 0 };
        buffer.set_stringn(x + skip, area.y, cell, usize::from(width - skip), style);
        // A number without its end would be another number.
        if long > width && column.right {
            buffer.set_stringn(
                x,
                area.y,
                "#".repeat(usize::from(width)),
                usize::from(width),
                style,
            );
        } else if long > width && width > 0 {
            buffer.set_stringn(x + width - 1, area.y, "…", 1, style);
        }
        x += width + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::text::of_buffer;

    const COLUMNS: [Column; 3] = [rest("name"), number("packets", 7), text("state", 6)];

    fn drawn(width: u16, height: u16, rows: usize) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        let row = |index: usize| {
            (Style::new(), vec![format!("row {index}"), format!("{}", index * 100), "x".to_owned()])
        };
        let rows: Vec<_> = (0..rows).map(row).collect();
        draw(area, &mut buffer, &COLUMNS, &rows);
        of_buffer(&buffer)
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_from_the_end() {
        assert_eq!(drawn(27, 2, 1), "name         packets state\nrow 0              0 x\n");
        assert_eq!(drawn(20, 2, 1), "name         packets\nrow 0              0\n");
        assert_eq!(drawn(12, 2, 1), "name\nrow 0\n");
        assert_eq!(drawn(5, 2, 1), "");
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        assert_eq!(drawn(12, 4, 3), "name\nrow 0\nrow 1\nrow 2\n");
        assert_eq!(drawn(12, 4, 5), "name\nrow 0\nrow 1\n… 3 more\n");
        assert_eq!(drawn(12, 2, 5), "name\nrow 0\n");
        assert_eq!(drawn(12, 1, 5), "name\n");
        assert_eq!(drawn(12, 0, 5), "");
    }

    #[test]
    fn text_is_cut_visibly_and_a_number_is_never_cut() {
        let area = Rect::new(0, 0, 18, 2);
        let mut buffer = Buffer::empty(area);
        let cells = vec!["a name of many letters".to_owned(), "12345678".to_owned(), String::new()];
        draw(area, &mut buffer, &COLUMNS, &[(Style::new(), cells)]);
        assert_eq!(of_buffer(&buffer), "name       packets\na name of… #######\n");
    }
}

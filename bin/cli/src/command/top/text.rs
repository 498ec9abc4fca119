//! A drawn screen as plain text: for pipes, and for tests.

use ratatui::buffer::Buffer;
use ratatui::text::Span;

/// The lines of a buffer without blanks at their ends, and without empty lines at its end.
pub(super) fn of_buffer(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let (start, mut covered) = (text.len(), 0);
        for x in buffer.area.left()..buffer.area.right() {
            if x < covered {
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            // The cells that a wide letter covers are empty.
            covered = x + (Span::raw(symbol).width() as u16).max(1);
            text.push_str(symbol);
        }
        text.truncate(text.trim_end().len().max(start));
        text.push('\n');
    }
    let end = text.trim_end_matches('\n').len();
    text.truncate(end);
    if end > 0 {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn letters_of_any_width_come_out_as_they_went_in() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 4));
        buffer.set_string(0, 1, "ab 漢字 é", Style::new());
        assert_eq!(of_buffer(&buffer), "\nab 漢字 é\n");
    }
}

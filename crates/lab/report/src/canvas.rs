//! Elements of SVG, written one after the other.

use std::fmt::Display;

use crate::markup::Escaped;

/// Where a text is in respect to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A rectangle, in pixels from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Area {
    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }

    pub(crate) fn centre(&self) -> f64 {
        self.x + self.width / 2.0
    }
}

/// What has been drawn.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    text: String,
}

impl Canvas {
    /// Writes markup as it is.
    pub(crate) fn raw(&mut self, markup: impl Display) {
        self.text += &markup.to_string();
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = Escaped(text);
        self.raw(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{text}</text>\n"
        ));
    }

    /// A text that runs upwards, its middle at (`x`, `y`).
    pub(crate) fn upward_text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let text = Escaped(text);
        self.raw(format_args!(
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{text}</text>\n"
        ));
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.raw(format_args!(
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\n"
        ));
    }

    pub(crate) fn rectangle(&mut self, class: &str, area: Area) {
        let Area { x, y, width, height } = area;
        self.raw(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\n"
        ));
    }

    pub(crate) fn path(&mut self, class: &str, d: &str) {
        self.raw(format_args!("<path class=\"{class}\" d=\"{d}\"/>\n"));
    }

    /// A path that tells `title` when it is pointed at.
    pub(crate) fn told_path(&mut self, class: &str, d: &str, title: &str) {
        let title = Escaped(title);
        self.raw(format_args!("<path class=\"{class}\" d=\"{d}\"><title>{title}</title></path>\n"));
    }

    /// Lines through all of `points`, in this order.
    pub(crate) fn through(&mut self, class: &str, points: &[(f64, f64)]) {
        self.path(class, &format!("M{}", joined(points)));
    }

    /// The area with these corners.
    pub(crate) fn polygon(&mut self, class: &str, corners: &[(f64, f64)]) {
        self.path(class, &format!("M{}z", joined(corners)));
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

fn joined(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    points.join("L")
}

/// How wide `text` is about, in letters of `size` pixels: fonts differ, and none is asked.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let of = |character: char| match character {
        'i' | 'j' | 'l' | 'I' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | ';' | '|' | '\''
        | '(' | ')' | '[' | ']' | '!' | '/' => 0.36,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '—' | '…' => 0.92,
        'A'..='Z' => 0.7,
        _ if character < '\u{2E80}' => 0.58,
        _ => 1.0,
    };
    text.chars().map(of).sum::<f64>() * size
}

/// `text`, cut so that it is not wider than `room`.
pub(crate) fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        if width(&short, size) + width("m…", size) > room {
            break;
        }
        short.push(character);
    }
    short.trim_end().to_owned() + "…"
}

/// `text` in lines that are not wider than `room`.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, size, room)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_or_wrapped_within_its_room() {
        let text = "A rather long sentence about the delay of packets in queues";
        let short = cut(text, 13.0, 120.0);
        assert!(short.ends_with('…') && width(&short, 13.0) <= 120.0, "{short}");
        assert_eq!(cut("short", 13.0, 120.0), "short");
        let lines = wrap(text, 13.0, 120.0);
        assert!(
            lines.len() > 2 && lines.iter().all(|line| width(line, 13.0) <= 120.0),
            "{lines:?}"
        );
        assert_eq!(lines.join(" "), text);
        let endless = wrap(&"x".repeat(500), 13.0, 120.0);
        assert!(width(&endless[0], 13.0) <= 120.0, "{endless:?}");
    }
}

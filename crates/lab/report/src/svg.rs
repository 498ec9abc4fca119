//! A figure as a picture.

use std::fmt::Write;

use crate::figure::Figure;
use crate::line::{Kind, Origin};
use crate::look::origin_name;
use crate::markup::Escaped;
use crate::{cells, curves};

/// How everything in a plot looks, by class.
pub(crate) const STYLE: &str = include_str!("plot.css");

impl Figure {
    /// The plot as a file of its own.
    #[must_use]
    pub fn svg(&self) -> String {
        self.element(true)
    }

    /// The plot as a part of a page, which has the title and the style.
    pub(crate) fn inline_svg(&self) -> String {
        self.element(false)
    }

    fn element(&self, alone: bool) -> String {
        let head = self.head();
        let (drawing, width, height) = match head.kind {
            Kind::Lines => curves::draw(self, alone),
            Kind::Map => cells::draw(self, alone),
        };
        // A figure's name holds no underscore, so that no other one begins with this one's
        // identifiers.
        let name = &head.figure;
        let mut svg = String::new();
        if alone {
            svg += "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
        }
        let size = if alone {
            format!(" width=\"{width:.0}\" height=\"{height:.0}\"")
        } else {
            String::new()
        };
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\"{size} \
             viewBox=\"0 0 {width:.0} {height:.0}\" aria-labelledby=\"{name}_title {name}_what\">"
        );
        let _ = writeln!(svg, "<title id=\"{name}_title\">{}</title>", Escaped(&head.title));
        let _ = writeln!(svg, "<desc id=\"{name}_what\">{}</desc>", Escaped(&self.summary()));
        if alone {
            let _ = writeln!(svg, "<style>\n{STYLE}</style>");
        }
        let _ = writeln!(svg, "<rect class=\"back\" width=\"{width:.0}\" height=\"{height:.0}\"/>");
        svg += &drawing;
        svg += "</svg>\n";
        svg
    }

    /// For readers who do not see the picture: what is on which axis, of which system.
    fn summary(&self) -> String {
        let head = self.head();
        let series: Vec<String> = head
            .series
            .iter()
            .map(|series| match series.origin {
                Origin::Simulated => series.label.clone(),
                origin => format!("{} ({})", series.label, origin_name(origin)),
            })
            .collect();
        let (x, y) = (crate::frame::with_unit(&head.x), crate::frame::with_unit(&head.y));
        let points = self.coverage().there;
        match head.kind {
            Kind::Lines => format!("{y} against {x}, {points} points of: {}.", series.join(", ")),
            Kind::Map => format!("The best of {} by {x} and {y}.", series.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests;

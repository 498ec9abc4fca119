//! What tells one series from another: a colour, a shape, and the way its line is drawn.

use crate::line::{Origin, SeriesHead};

/// Colours of `plot.css`, chosen so that they differ for colour-blind eyes, too (Okabe and Ito's).
pub(crate) const COLOURS: usize = 8;

/// A mark at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    TriangleDown,
    Cross,
    Pentagon,
    Plus,
    Star,
}

/// One more than there are colours, so that a colour that comes again comes with another shape.
const SHAPES: [Shape; COLOURS + 1] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::TriangleDown,
    Shape::Cross,
    Shape::Pentagon,
    Shape::Plus,
    Shape::Star,
];

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The number of its colour.
    pub(crate) colour: usize,
    pub(crate) shape: Shape,
    pub(crate) origin: Origin,
}

impl Look {
    /// The looks of all series of a figure, in their order.
    pub(crate) fn of_all(series: &[SeriesHead]) -> Vec<Self> {
        let mut subjects: Vec<&str> = Vec::new();
        let mut looks = Vec::new();
        for series in series {
            let subject = subject(&series.name);
            let number = subjects.iter().position(|known| *known == subject);
            let number = number.unwrap_or(subjects.len());
            if number == subjects.len() {
                subjects.push(subject);
            }
            let shape = SHAPES[number % SHAPES.len()];
            looks.push(Self { colour: number % COLOURS, shape, origin: series.origin });
        }
        looks
    }

    /// The classes of `plot.css` that make it so.
    pub(crate) fn classes(self) -> String {
        format!("c{} {}", self.colour, origin_name(self.origin))
    }

    /// Whether its points are joined by a line.
    pub(crate) fn has_line(self) -> bool {
        self.origin != Origin::Paper
    }

    /// Half the width of its marks, against the usual one. Theory is the line rather than its
    /// points.
    pub(crate) fn mark_size(self) -> f64 {
        match self.origin {
            Origin::Theory => 0.5,
            Origin::Paper => 1.15,
            Origin::Simulated | Origin::Live => 1.0,
        }
    }
}

/// An origin in a word.
pub(crate) fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Simulated => "simulated",
        Origin::Live => "live",
        Origin::Paper => "paper",
        Origin::Theory => "theory",
    }
}

/// What a series is about: its name without the origin at its end.
fn subject(name: &str) -> &str {
    let origins = [Origin::Simulated, Origin::Live, Origin::Paper, Origin::Theory];
    let stripped = origins.iter().find_map(|origin| {
        name.strip_suffix(origin_name(*origin))?.strip_suffix('-').filter(|rest| !rest.is_empty())
    });
    stripped.unwrap_or(name)
}

impl Shape {
    /// Its outline around (`x`, `y`), `radius` large, as the `d` of a path.
    pub(crate) fn outline(self, x: f64, y: f64, radius: f64) -> String {
        let corners: &[(f64, f64)] = match self {
            Self::Circle => {
                return format!(
                    "M{:.1} {y:.1}a{radius:.1} {radius:.1} 0 1 0 {:.1} 0a{radius:.1} {radius:.1} 0 1 0 {:.1} 0z",
                    x - radius,
                    2.0 * radius,
                    -2.0 * radius
                );
            }
            Self::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Self::Triangle => &[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
            Self::TriangleDown => &[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
            Self::Diamond => &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
            Self::Pentagon => {
                &[(0.0, -1.15), (1.09, -0.36), (0.68, 0.93), (-0.68, 0.93), (-1.09, -0.36)]
            }
            Self::Plus => &[
                (-0.4, -1.2),
                (0.4, -1.2),
                (0.4, -0.4),
                (1.2, -0.4),
                (1.2, 0.4),
                (0.4, 0.4),
                (0.4, 1.2),
                (-0.4, 1.2),
                (-0.4, 0.4),
                (-1.2, 0.4),
                (-1.2, -0.4),
                (-0.4, -0.4),
            ],
            Self::Cross => &[
                (-0.6, -1.1),
                (0.0, -0.5),
                (0.6, -1.1),
                (1.1, -0.6),
                (0.5, 0.0),
                (1.1, 0.6),
                (0.6, 1.1),
                (0.0, 0.5),
                (-0.6, 1.1),
                (-1.1, 0.6),
                (-0.5, 0.0),
                (-1.1, -0.6),
            ],
            Self::Star => &[
                (0.0, -1.3),
                (0.35, -0.45),
                (1.24, -0.4),
                (0.55, 0.2),
                (0.76, 1.05),
                (0.0, 0.58),
                (-0.76, 1.05),
                (-0.55, 0.2),
                (-1.24, -0.4),
                (-0.35, -0.45),
            ],
        };
        let corner =
            |(dx, dy): &(f64, f64)| format!("{:.1} {:.1}", x + dx * radius, y + dy * radius);
        let corners: Vec<String> = corners.iter().map(corner).collect();
        format!("M{}z", corners.join("L"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn no_two_things_look_alike() {
        let series: Vec<_> = (0..64).map(|n| sample::series(&format!("s{n}"), "label")).collect();
        let looks = Look::of_all(&series);
        for (number, look) in looks.iter().enumerate() {
            assert!(!looks[..number].contains(look), "{number}");
        }
        let shapes: Vec<_> = looks[..SHAPES.len()].iter().map(|look| look.shape).collect();
        assert_eq!(shapes, SHAPES);
    }

    #[test]
    fn one_thing_from_two_origins_has_one_colour_and_two_looks() {
        let mut paper = sample::series("sticky-paper", "label");
        paper.origin = Origin::Paper;
        let series = [sample::series("modulo", "label"), sample::series("sticky", "label"), paper];
        let [_, ours, theirs] = Look::of_all(&series)[..] else { panic!("three series") };
        assert_eq!((ours.colour, ours.shape), (theirs.colour, theirs.shape));
        assert_ne!(ours.classes(), theirs.classes());
        assert_eq!(subject("-live"), "-live");
        assert_eq!(subject("live"), "live");
    }
}

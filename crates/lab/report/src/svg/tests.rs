//! Plots, read back.

use crate::line::{FigureLine, Line, Origin, PointLine, Scale};
use crate::sample;
use crate::xml::{Element, elements};
use crate::{Figure, Report};

fn figure(lines: impl IntoIterator<Item = Line>) -> Figure {
    Report::of(lines).expect("the lines are right").figures()[0].clone()
}

fn drawn(figure: &Figure) -> Vec<Element> {
    let svg = figure.svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let elements = elements(&svg);
    let picture = &elements[0];
    let size = (picture.number("width"), picture.number("height"));
    for element in elements.iter().filter(|element| element.path.ends_with("/text")) {
        if element.attribute("x").is_empty() {
            continue;
        }
        let (x, y) = (element.number("x"), element.number("y"));
        assert!((0.0..size.0).contains(&x) && (0.0..size.1).contains(&y), "{element:?}");
    }
    elements
}

fn texts(elements: &[Element]) -> Vec<&str> {
    let texts = elements.iter().filter(|element| element.path.ends_with("/text"));
    texts.map(|element| element.text.as_str()).collect()
}

/// How many marks each series has, series after series, panel after panel.
fn marks(elements: &[Element]) -> Vec<usize> {
    let mut counts = Vec::new();
    for element in elements {
        if element.has_class("series") {
            counts.push(0);
        } else if element.has_class("mark") && !element.path.contains("/g/g/") {
            *counts.last_mut().expect("a mark is of a series") += 1;
        }
    }
    counts
}

fn with_points(head: FigureLine, points: impl IntoIterator<Item = PointLine>) -> Figure {
    figure([Line::Figure(head)].into_iter().chain(points.into_iter().map(Line::Point)))
}

#[test]
fn a_plot_has_title_axes_with_units_legend_and_all_its_points() {
    let elements = drawn(&figure(sample::lines()));
    let texts = texts(&elements);
    for text in ["Delay against load", "Offered load (kpps)", "p99 latency (us)", "One", "Two"] {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    assert_eq!(marks(&elements), [3, 3]);
    let lines = elements.iter().filter(|element| element.has_class("line"));
    assert_eq!(lines.count(), 4, "two in the plot and two in the legend");
}

#[test]
fn each_point_tells_its_numbers() {
    let mut point = sample::point("one", 3.0, 70.0);
    point.band = Some((60.5, 80.0));
    let elements = drawn(&with_points(sample::figure(), [point]));
    let told: Vec<_> = elements.iter().filter(|e| e.path.ends_with("/path/title")).collect();
    assert_eq!(told[0].text, "One, Offered load 3 kpps: 70 us (60.5 to 80)");
    assert_eq!(elements.iter().filter(|element| element.has_class("whisker")).count(), 3);
}

#[test]
fn bands_are_drawn_from_point_to_point() {
    let points = [1.0, 2.0, 3.0].map(|x| {
        let mut point = sample::point("one", x, 10.0 * x);
        point.band = Some((9.0 * x, 12.0 * x));
        point
    });
    let elements = drawn(&with_points(sample::figure(), points));
    let band = elements.iter().find(|element| element.has_class("band")).expect("there is one");
    assert_eq!(band.attribute("d").matches('L').count(), 5);
}

#[test]
fn origins_differ_in_more_than_colour() {
    let mut head = sample::figure();
    let origins = [Origin::Simulated, Origin::Live, Origin::Paper, Origin::Theory];
    head.series = ["s", "s-live", "s-paper", "s-theory"]
        .into_iter()
        .zip(origins)
        .map(|(name, origin)| crate::SeriesHead { origin, ..sample::series(name, "S") })
        .collect();
    let names: Vec<String> = head.series.iter().map(|series| series.name.clone()).collect();
    let points = names.iter().flat_map(|name| [1.0, 2.0].map(|x| sample::point(name, x, x)));
    let elements = drawn(&with_points(head, points));
    let classes: Vec<_> = elements.iter().filter(|e| e.has_class("series")).collect();
    let classes: Vec<_> = classes.iter().map(|element| element.attribute("class")).collect();
    let expected = ["series c0 simulated", "series c0 live", "series c0 paper", "series c0 theory"];
    assert_eq!(classes, expected);
    let lines = elements.iter().filter(|e| e.has_class("line") && !e.path.contains("/g/g/"));
    assert_eq!(lines.count(), 3, "a paper's points are marks alone");
    let texts = texts(&elements);
    for label in ["S", "S (live)", "S (paper)", "S (theory)"] {
        assert!(texts.contains(&label), "{label} is not in {texts:?}");
    }
}

#[test]
fn a_saturated_point_is_an_arrow_above_the_plot_and_not_on_the_line() {
    let mut over = sample::point("one", 4.0, 1e9);
    over.saturated = true;
    let points = [sample::point("one", 1.0, 10.0), sample::point("one", 2.0, 20.0), over];
    let elements = drawn(&with_points(sample::figure(), points));
    assert_eq!(marks(&elements), [3, 0]);
    assert_eq!(elements.iter().filter(|element| element.has_class("arrow")).count(), 1);
    let line = elements.iter().find(|element| element.has_class("line")).expect("two are joined");
    assert_eq!(line.attribute("d").matches('L').count(), 1);
    let texts = texts(&elements);
    assert!(texts.iter().any(|text| text.contains("more was asked for")), "{texts:?}");
    assert!(
        !texts.iter().any(|text| text.ends_with('G')),
        "the axis has no room for it: {texts:?}"
    );
}

#[test]
fn zeros_on_logarithmic_axes_are_drawn_beside_a_break_and_explained() {
    let mut head = sample::figure();
    head.x.scale = Scale::Log;
    head.y.scale = Scale::Log;
    let points = [(0.0, 0.0), (1.0, 5.0), (1000.0, 20_000.0)];
    let points = points.map(|(x, y)| sample::point("one", x, y));
    let elements = drawn(&with_points(head, points));
    assert_eq!(marks(&elements), [3, 0]);
    assert_eq!(elements.iter().filter(|element| element.has_class("break")).count(), 4);
    let texts = texts(&elements);
    assert!(texts.iter().any(|text| text.contains("break of x and y")), "{texts:?}");
    assert_eq!(texts.iter().filter(|text| **text == "0").count(), 2);
}

#[test]
fn a_figure_without_points_is_an_empty_plot_that_says_so() {
    for scale in [Scale::Linear, Scale::Log] {
        let mut head = sample::figure();
        head.x.scale = scale;
        head.y.scale = scale;
        let elements = drawn(&figure([Line::Figure(head)]));
        assert_eq!(marks(&elements), [0, 0]);
        assert!(texts(&elements).contains(&"One: not run"));
    }
    let head = sample::map().swap_remove(0);
    assert_eq!(marks(&drawn(&figure([head]))), [0, 0]);
}

#[test]
fn one_point_alone_is_drawn_in_every_scale() {
    for scale in [Scale::Linear, Scale::Log] {
        for value in [0.0, 1e-18, 7.0, 1e18] {
            let mut head = sample::figure();
            head.x.scale = scale;
            head.y.scale = scale;
            let elements = drawn(&with_points(head, [sample::point("two", value, value)]));
            assert_eq!(marks(&elements), [0, 1]);
        }
    }
}

#[test]
fn panels_stand_side_by_side_with_their_names_and_do_not_overlap() {
    for count in 1..=24 {
        let mut head = sample::figure();
        head.panels = (0..count).map(|number| format!("panel {number}")).collect();
        let points = head
            .panels
            .clone()
            .into_iter()
            .map(|panel| PointLine { panel, ..sample::point("one", 1.0, 1.0) });
        let elements = drawn(&with_points(head, points));
        let frames: Vec<_> = elements.iter().filter(|e| e.has_class("frame")).collect();
        assert_eq!(frames.len(), count);
        for (number, a) in frames.iter().enumerate() {
            for b in &frames[..number] {
                let apart = |at: &str, size: &str| {
                    a.number(at) >= b.number(at) + b.number(size)
                        || b.number(at) >= a.number(at) + a.number(size)
                };
                assert!(apart("x", "width") || apart("y", "height"), "{a:?} and {b:?}");
            }
        }
        let names = texts(&elements).into_iter().filter(|text| text.starts_with("panel "));
        assert_eq!(names.count(), count);
    }
}

#[test]
fn a_map_has_a_cell_for_each_point_with_mark_value_and_explanation() {
    let elements = drawn(&figure(sample::map()));
    let inside = |class: &str| {
        let cells = elements.iter().filter(|e| e.has_class(class) && e.path.ends_with("/g/g/rect"));
        cells.count()
    };
    assert_eq!(inside("cell"), 3 + 2, "three in the map and two in the legend");
    assert_eq!(elements.iter().filter(|element| element.has_class("struck")).count(), 2);
    let texts = texts(&elements);
    let values: Vec<_> = elements.iter().filter(|element| element.has_class("value")).collect();
    let values: Vec<_> = values.iter().map(|element| element.text.as_str()).collect();
    assert_eq!(values, ["10", "10", "20"]);
    for text in ["Offered load (kpps)", "Skew", "one", "two", "0.5", "1.2"] {
        assert!(texts.contains(&text), "{text} is not in {texts:?}");
    }
    assert!(texts.iter().any(|text| text.contains("p99 latency (us)")), "{texts:?}");
    let told: Vec<_> = elements.iter().filter(|e| e.path.ends_with("/g/g/title")).collect();
    let expected = "Offered load 0.5 kpps, Skew 0: one is best (one 10 us, two 20 us)";
    assert_eq!(told[0].text, expected);
}

#[test]
fn long_and_hostile_names_stay_text_within_the_picture() {
    let hostile = "</text><script>alert(1)</script>\u{0}\u{202E}&\"'".repeat(5);
    let cut: String = hostile.chars().take(64).collect();
    let mut head = sample::figure();
    head.title = hostile.chars().take(200).collect();
    head.source.clone_from(&hostile);
    head.x.label.clone_from(&cut);
    head.y.unit.clone_from(&cut);
    head.panels = vec![cut.clone()];
    head.series[0].label = hostile.chars().take(200).collect();
    head.series[1].name.clone_from(&cut);
    let point = PointLine { panel: cut.clone(), ..sample::point(&cut, 1.0, 1.0) };
    let figure = with_points(head, [point]);
    let elements = drawn(&figure);
    assert!(!elements.iter().any(|element| element.path.contains("script")));
    assert!(!figure.svg().contains(['\u{0}', '\u{202E}']));
}

#[test]
fn a_series_that_lies_under_others_is_told_by_name() {
    let points = |name: &'static str, dy: f64| {
        [1.0, 2.0, 3.0].map(|x| sample::point(name, x, 100.0 * x + dy))
    };
    let covered = |dy: f64| {
        let all = points("one", 0.0).into_iter().chain(points("two", dy));
        let elements = drawn(&with_points(sample::figure(), all));
        let told = |text: &&str| text.starts_with("Under the lines of others");
        texts(&elements).iter().find(|text| told(text)).map(|text| (*text).to_owned())
    };
    let text = covered(1.0).expect("a pixel is too little to be seen");
    assert!(text.ends_with("to be read in the table: One."), "{text}");
    assert_eq!(covered(50.0), None);
}

#[test]
fn a_map_that_is_whole_lacks_nothing_though_a_series_is_saturated_in_a_cell() {
    let mut lines = sample::map();
    if let Line::Point(cell) = &mut lines[1] {
        cell.more.remove("two");
    }
    let coverage = figure(lines.clone()).coverage();
    assert_eq!((coverage.there, coverage.promised, coverage.lacks.len()), (4, 4, 0));
    lines.pop();
    let coverage = figure(lines).coverage();
    assert_eq!((coverage.there, coverage.promised, coverage.lacks.len()), (3, 4, 1));
}

#[test]
fn a_cell_whose_best_series_may_be_so_by_chance_has_no_mark_and_the_caption_says_why() {
    let all = elements(&figure(sample::map()).svg()).len();
    let mut lines = sample::map();
    if let Line::Point(cell) = &mut lines[1] {
        cell.tie = true;
    }
    let elements = drawn(&figure(lines));
    assert_eq!(elements.iter().filter(|element| element.has_class("tie")).count(), 1);
    assert!(elements.len() < all, "a mark and a value less");
    let told = |part: &str| elements.iter().any(|element| element.text.contains(part));
    assert!(told("may be so by chance") && told("others as good by chance"));
}

#[test]
fn a_value_without_a_band_because_some_of_its_runs_saturate_is_explained() {
    let explained = |saturated_runs: f64, band, saturated| {
        let mut point = PointLine { band, saturated, ..sample::point("one", 2.0, 20.0) };
        point.more.insert("saturated_runs".to_owned(), saturated_runs);
        let elements = drawn(&with_points(sample::figure(), [point]));
        texts(&elements).iter().any(|text| text.starts_with("No band where"))
    };
    assert!(explained(2.0, None, false));
    assert!(!explained(0.0, None, false), "none of its runs saturates");
    assert!(!explained(2.0, Some((10.0, 30.0)), false), "it has one");
    assert!(!explained(4.0, None, true), "it has no value either");
}

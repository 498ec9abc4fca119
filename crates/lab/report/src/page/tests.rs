//! The page, read back.

use crate::line::{Claim, FigureLine, Line, PointLine, Whose};
use crate::sample;
use crate::xml::{Element, elements};
use crate::{Report, Verdicts};

fn page(lines: impl IntoIterator<Item = Line>) -> String {
    Report::of(lines).expect("the lines are right").page()
}

fn texts<'a>(elements: &'a [Element], end: &str) -> Vec<&'a str> {
    let found = elements.iter().filter(|element| element.path.ends_with(end));
    found.map(|element| element.text.as_str()).collect()
}

#[test]
fn the_page_begins_with_what_holds_and_what_does_not() {
    let elements = elements(&page(sample::lines()));
    let summary = texts(&elements, "header/p");
    let all = "1 figure, 6 points, 2 claims: 1 holds here, 1 does not.";
    assert_eq!(summary, [all, "Of other papers: 2 claims: 1 holds here, 1 does not."]);
    let links: Vec<_> = elements.iter().filter(|e| e.path.ends_with("nav/ol/li/a")).collect();
    assert_eq!(
        (links[0].attribute("href"), links[0].text.as_str()),
        ("#fig", "Delay against load")
    );
    let verdicts = elements.iter().filter(|element| element.has_class("verdict"));
    let verdicts: Vec<_> = verdicts.map(|element| element.text.as_str()).collect();
    let both = ["\u{2713} holds", "\u{2717} does not hold"];
    assert_eq!(verdicts, [both, both].concat(), "at the top and at the figure");
}

#[test]
fn claims_of_the_seed_papers_of_others_and_our_own_have_a_sum_each_and_open_ones_are_counted() {
    let mut lines = sample::lines();
    let all = [
        (Whose::Seed, Some(true), Some((27, 30))),
        (Whose::Seed, None, Some((6, 10))),
        (Whose::Own, Some(true), Some((10, 10))),
        (Whose::Own, None, None),
    ];
    lines.retain(|line| !matches!(line, Line::Claim(_)));
    lines.extend(all.map(|(whose, holds, runs)| {
        let claim = sample::claim(holds);
        Line::Claim(Claim { claim: format!("{whose:?}{holds:?}"), whose, runs, ..claim })
    }));
    let page = page(lines);
    for line in [
        "4 claims: 2 hold here, 0 do not, 1 open, 1 not known.",
        "<p>Of the five papers: 2 claims: 1 holds here, 0 do not, 1 open.</p>",
        "<p>Of this project: 2 claims: 1 holds here, 0 do not, 1 not known.</p>",
        "\u{2713} holds<br/><span class=\"quiet\">in 27 of 30 runs</span>",
        "? is open<br/><span class=\"quiet\">in 6 of 10 runs</span>",
        "? is not known</td>",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(!page.contains("Of other papers"), "{page}");
}

#[test]
fn a_figure_comes_with_points_parameters_seed_and_command() {
    let page = page(sample::lines());
    let elements = elements(&page);
    let rows = elements.iter().filter(|e| e.path.ends_with("details/div/table/tr")).count();
    assert_eq!(rows, (1 + 6) + (1 + 1 + 1), "heads, points, a parameter and the seed");
    let cells = texts(&elements, "table/tr/td");
    for text in ["One", "40", "80", "cores", "the paper, section 4", "7"] {
        assert!(cells.contains(&text), "{text} is not in {cells:?}");
    }
    assert_eq!(texts(&elements, "section/pre"), ["calisto sim fig\n"]);
    assert_eq!(elements.iter().filter(|e| e.path.ends_with("figure/svg")).count(), 1);
}

#[test]
fn every_value_beside_a_point_has_a_column() {
    let mut lines = sample::lines();
    for line in &mut lines {
        if let Line::Point(point) = line {
            point.more.insert("moved_flows".to_owned(), point.x + 0.25);
            point.saturated = point.x > 2.0;
        }
    }
    let elements = elements(&page(lines));
    assert!(texts(&elements, "tr/th").contains(&"moved_flows"));
    let cells = texts(&elements, "tr/td");
    assert_eq!(cells.iter().filter(|text| **text == "4.25").count(), 2);
    assert_eq!(cells.iter().filter(|text| **text == "saturated").count(), 2);
}

#[test]
fn a_page_without_all_shards_says_how_much_is_missing() {
    let mut lines = sample::lines();
    lines.remove(1);
    let page = page(lines);
    assert!(page.contains("<b>5 of 6 points.</b>"), "{page}");
    assert!(page.contains("One has 2 of 3 points: shards are missing."), "{page}");
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_runs_nothing() {
    let page = page([sample::lines(), hostile()].concat());
    let elements = elements(&page);
    for element in &elements {
        for bad in ["script", "/img", "/link", "iframe", "object"] {
            assert!(!element.path.contains(bad), "{element:?}");
        }
        for (name, value) in &element.attributes {
            assert!(!name.starts_with("on") && name != "src", "{element:?}");
            assert!(name != "href" || value.starts_with('#'), "{element:?}");
        }
    }
    assert!(!page.contains("@import") && !page.contains("url("));
}

#[test]
fn identifiers_on_the_page_are_there_once() {
    let elements = elements(&page([sample::lines(), hostile()].concat()));
    let mut seen = std::collections::BTreeSet::new();
    for element in &elements {
        let id = element.attribute("id");
        assert!(id.is_empty() || seen.insert(id), "{id}");
    }
    for element in elements.iter().filter(|element| element.path.ends_with('a')) {
        let target = element.attribute("href").trim_start_matches('#');
        assert!(target.is_empty() || seen.contains(target), "{target}");
    }
}

#[test]
fn figures_come_in_their_order() {
    let mut other = sample::figure();
    "another".clone_into(&mut other.figure);
    other.order = 0;
    let report = Report::of([Line::Figure(sample::figure()), Line::Figure(other)]);
    let report = report.expect("the lines are right");
    let names: Vec<_> = report.figures().iter().map(|figure| &figure.head().figure).collect();
    assert_eq!(names, ["another", "fig"]);
}

#[test]
fn verdicts_are_counted_in_words() {
    let claims = [None, Some(true), Some(false), Some(false)].map(sample::claim);
    let verdicts = Verdicts::of(&claims);
    assert_eq!(verdicts.to_string(), "4 claims: 1 holds here, 2 do not, 1 not known");
    assert_eq!(Verdicts::of(&[]).to_string(), "no claims");
}

/// A figure all of whose texts want to be markup.
fn hostile() -> Vec<Line> {
    let evil = "</td><script src='//evil/x'>\"</script><img onerror=x>\u{1}".to_owned();
    let mut head = FigureLine {
        figure: "evil".to_owned(),
        title: evil.clone(),
        source: evil.clone(),
        text: evil.clone(),
        command: evil.clone(),
        panels: vec![evil.clone()],
        ..sample::figure()
    };
    for axis in [&mut head.x, &mut head.y] {
        axis.label.clone_from(&evil);
        axis.unit.clone_from(&evil);
    }
    head.series[0].name.clone_from(&evil);
    head.series[0].label.clone_from(&evil);
    let parameter = &mut head.parameters[0];
    for text in [&mut parameter.name, &mut parameter.value, &mut parameter.source] {
        text.clone_from(&evil);
    }
    let point = PointLine {
        figure: "evil".to_owned(),
        panel: evil.clone(),
        more: [(evil.clone(), 1.0)].into(),
        ..sample::point(&evil, 1.0, 1.0)
    };
    let mut claim = sample::claim(None);
    "evil".clone_into(&mut claim.figure);
    for text in [&mut claim.claim, &mut claim.source, &mut claim.because] {
        text.clone_from(&evil);
    }
    vec![Line::Figure(head), Line::Point(point), Line::Claim(claim)]
}

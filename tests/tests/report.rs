//! `calisto report` as people use it: results of several runs in a folder, one page out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use report::{Axis, Claim, FigureLine, Kind, Line, Origin, PointLine, Scale, SeriesHead};
use whole::{binary, run};

/// A folder of its own, which goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("calisto-report-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("results")).expect("the temporary folder is ours");
        Self(path)
    }

    fn write(&self, file: &str, lines: &[Line]) {
        let json = |line| serde_json::to_string(line).expect("lines are JSON") + "\n";
        let text: String = lines.iter().map(json).collect();
        fs::write(self.0.join("results").join(file), text).expect("the folder is ours");
    }

    fn report(&self, words: &[&str]) -> (ExitStatus, String, String) {
        run(Command::new(binary("calisto")).arg("report").args(words).current_dir(&self.0))
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn results_of_two_machines_become_one_page_and_a_picture_of_each_figure() {
    let folder = Folder::new("two");
    let (head, [one, two]) = (head("delay"), ["sticky", "modulo"].map(points));
    folder.write("a.jsonl", &[vec![head.clone()], one].concat());
    folder.write("b.jsonl", &[vec![head, claim()], two].concat());
    let (status, out, said) = folder.report(&["--svg", "plots", "-j"]);
    assert!(status.success(), "{said}");
    let made: serde_json::Value = serde_json::from_str(&out).expect("one line of JSON");
    assert_eq!(made["schema_version"], 1);
    let figure = &made["figures"][0];
    assert_eq!((&figure["points"], &figure["promised_points"]), (&6.into(), &6.into()), "{out}");
    assert_eq!((&figure["lacks"], &figure["claims_that_hold"]), (&[(); 0].into(), &1.into()));
    let page = folder.text("report.html");
    for text in
        ["Offered load (kpps)", "p99 latency (us)", "Sticky holds flows", "calisto sim delay"]
    {
        assert!(page.contains(text), "{text} is not on the page");
    }
    let picture = folder.text("plots/delay.svg");
    assert_eq!(figure["svg"], "plots/delay.svg");
    assert_eq!(picture.matches("class=\"mark\"").count(), 6 + 2, "the points and the legend");
}

#[test]
fn a_missing_shard_is_told_and_the_page_made_all_the_same() {
    let folder = Folder::new("shard");
    folder.write("a.jsonl", &[vec![head("delay")], points("sticky")].concat());
    let (status, out, said) = folder.report(&["-o", "page.html"]);
    assert!(status.success(), "{said}");
    assert!(out.contains("delay: modulo was not run here"), "{out}");
    assert!(folder.text("page.html").contains("<b>3 of 6 points.</b>"));
}

#[test]
fn a_bad_line_is_told_with_its_place_and_no_page_is_made() {
    let folder = Folder::new("bad");
    folder.write("a.jsonl", &[head("delay")]);
    fs::write(folder.0.join("results/b.jsonl"), "\n{\"line\":\"point\",\"x\":}\n").expect("ours");
    let (status, _, said) = folder.report(&[]);
    assert_eq!(status.code(), Some(1));
    assert!(said.starts_with("calisto: results/b.jsonl:2: no JSON: "), "{said}");
    assert!(!Path::new(&folder.0).join("report.html").exists());
}

#[test]
fn two_runs_that_contradict_are_told_apart() {
    let folder = Folder::new("contradict");
    let other: Vec<Line> = points("sticky")
        .into_iter()
        .map(|line| match line {
            Line::Point(point) => Line::Point(PointLine { y: point.y + 1.0, ..point }),
            other => other,
        })
        .collect();
    folder.write("a.jsonl", &[vec![head("delay")], points("sticky")].concat());
    folder.write("b.jsonl", &other);
    let (status, _, said) = folder.report(&["results"]);
    assert_eq!(status.code(), Some(1));
    assert!(
        said.contains("sticky at x = 1: results/a.jsonl:2 and results/b.jsonl:1 differ"),
        "{said}"
    );
}

#[test]
fn who_has_no_results_is_told_how_to_make_some() {
    let folder = Folder::new("none");
    for words in [&[][..], &["elsewhere"]] {
        let (status, _, said) = folder.report(words);
        assert_eq!(status.code(), Some(1));
        assert!(said.contains("calisto sim --all"), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}

fn head(figure: &str) -> Line {
    let axis = |label: &str, unit: &str, scale| {
        let (label, unit) = (label.to_owned(), unit.to_owned());
        Axis { label, unit, scale }
    };
    let series = ["modulo", "sticky"].map(|name| SeriesHead {
        name: name.to_owned(),
        label: name.to_owned(),
        origin: Origin::Simulated,
        points: 3,
    });
    Line::Figure(FigureLine {
        schema_version: report::SCHEMA_VERSION,
        figure: figure.to_owned(),
        order: 1,
        title: "Delay".to_owned(),
        source: String::new(),
        text: String::new(),
        kind: Kind::Lines,
        x: axis("Offered load", "kpps", Scale::Linear),
        y: axis("p99 latency", "us", Scale::Log),
        value: None,
        panels: vec![String::new()],
        series: series.into(),
        parameters: Vec::new(),
        seed: 7,
        command: format!("calisto sim {figure}"),
    })
}

fn points(series: &str) -> Vec<Line> {
    let point = |x: f64| {
        Line::Point(PointLine {
            figure: "delay".to_owned(),
            panel: String::new(),
            series: series.to_owned(),
            x,
            y: 10.0 * x,
            band: None,
            saturated: false,
            more: std::collections::BTreeMap::new(),
        })
    };
    [1.0, 2.0, 3.0].map(point).into()
}

fn claim() -> Line {
    Line::Claim(Claim {
        figure: "delay".to_owned(),
        claim: "Sticky holds flows".to_owned(),
        source: "A paper".to_owned(),
        holds: Some(true),
        because: "0 flows moved".to_owned(),
    })
}

//! `calisto report` as people use it: results of several runs in a folder, one page out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use report::{Axis, Claim, FigureLine, Kind, Line, Origin, PointLine, Scale, SeriesHead, Whose};
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
fn a_page_that_has_no_room_leaves_the_old_one_and_nothing_beside_it() {
    let folder = Folder::new("full");
    folder.write("a.jsonl", &[vec![head("delay")], points("sticky")].concat());
    fs::write(folder.0.join("report.html"), "the old page").expect("the folder is ours");
    // A file may grow to a block, as if the disk were full then.
    let words = "trap '' XFSZ; ulimit -f 1; exec \"$0\" report";
    let mut shell = Command::new("sh");
    let (status, _, said) =
        run(shell.args(["-c", words]).arg(binary("calisto")).current_dir(&folder.0));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.starts_with("calisto: cannot write report.html: "), "{said}");
    assert_eq!(folder.text("report.html"), "the old page");
    assert_eq!(fs::read_dir(&folder.0).expect("it is ours").count(), 2, "results and the page");
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
fn nothing_in_a_result_file_reaches_the_terminal_but_as_text() {
    // It would set the window's title, and ring.
    let evil = "\u{1b}]0;x\u{7}\u{9b}2J";
    let Line::Figure(mut figure) = head("delay") else { panic!("it is the figure") };
    let SeriesHead { name, label, .. } = &mut figure.series[0];
    (*name, *label) = (evil.to_owned(), evil.to_owned());
    let figure = Line::Figure(figure);
    let point = |y: f64, more: f64| {
        let Some(Line::Point(point)) = points(evil).pop() else { panic!("it is a point") };
        Line::Point(PointLine { y, more: [(evil.to_owned(), more)].into(), ..point })
    };
    let cases: [(&str, &[Line], &str); 3] = [
        ("lacks", &[], "was not run here"),
        ("conflict", &[point(1.0, 1.0), point(2.0, 1.0)], "differ; remove the file"),
        ("column", &[point(1.0, 1e99)], "it must be 0, or from"),
    ];
    for (case, lines, expected) in cases {
        let folder = Folder::new(case);
        folder.write(&format!("{evil}.jsonl"), &[std::slice::from_ref(&figure), lines].concat());
        let (_, out, said) = folder.report(&[]);
        let all = out + &said;
        assert!(all.contains(expected) && all.contains("\\u{1b}]0;x"), "{case}: {all:?}");
        assert!(!all.replace('\n', "").contains(char::is_control), "{case}: {all:?}");
    }
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

#[test]
fn every_figure_of_the_program_has_a_plot_with_labels_units_legend_and_the_promised_points() {
    for (name, _) in experiments::library::SCENARIOS {
        let (head, given, lines) = complete(name);
        let report = report::Report::of(lines).unwrap_or_else(|error| panic!("{name}: {error}"));
        let [figure] = report.figures() else { panic!("{name}: {report:?}") };
        let coverage = figure.coverage();
        assert_eq!((coverage.lacks.len(), coverage.there), (0, coverage.promised), "{name}");
        let svg = figure.svg();
        let (plot, legend) = svg.split_once("<g class=\"legend\">").expect("a plot has a legend");
        let texts = texts(&svg);
        for panel in &head.panels {
            assert!(panel.is_empty() || texts.contains(panel), "{name}: {panel:?} is missing");
        }
        // A long text is on several lines.
        let prose = texts.join(" ");
        assert!(prose.contains(&head.title), "{name}: {:?} is missing", head.title);
        for axis in [&head.x, &head.y] {
            let label = labelled(name, axis);
            assert!(texts.contains(&label), "{name}: {label:?} is missing from {texts:?}");
        }
        // What stands in the cells of a map is said in a sentence.
        if let Some(axis) = &head.value {
            assert!(prose.contains(&labelled(name, axis)), "{name}: {axis:?} is missing");
        }
        for series in &head.series {
            let label = escaped(&series.label);
            assert!(legend.contains(&label), "{name}: {label} is not in the legend");
        }
        let groups: Vec<&str> = plot.split("<g class=\"series ").skip(1).collect();
        assert_eq!(groups.len(), head.series.len() * head.panels.len(), "{name}");
        let marks = |group: &str| group.matches("class=\"mark").count();
        match head.kind {
            Kind::Lines => {
                let all = head.panels.iter().flat_map(|panel| {
                    head.series.iter().map(move |series| (panel.as_str(), series))
                });
                for (group, (panel, series)) in groups.iter().zip(all) {
                    let promised = given.of(panel, series).unwrap_or(series.points);
                    assert_eq!(marks(group), promised, "{name}, {panel:?}, {}", series.name);
                }
            }
            Kind::Map => {
                let cells: usize = groups.iter().map(|group| marks(group)).sum();
                assert_eq!(cells, coverage.promised, "{name}");
            }
        }
        let page = report.page();
        for parameter in &head.parameters {
            assert!(page.contains(&escaped(&parameter.source)), "{name}: {parameter:?}");
        }
        assert!(page.contains(&format!("seed {}", head.seed)), "{name}");
    }
}

#[test]
fn the_sweep_on_real_packets_stands_right_after_the_simulated_one() {
    // It first says what its figure is. Without `ip` it ends there, has made nothing, and need not
    // be root's.
    let words = "python=$(python3 -c 'import sys; print(sys.executable)') && PATH=/nowhere exec \"$python\" \"$0\"";
    let script = whole::project().join("script/live-sweep");
    let (_, out, said) = run(Command::new("sh").args(["-c", words]).arg(script));
    let live: Line = serde_json::from_str(out.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {out}{said}"));
    let Line::Figure(figure) = live.clone() else { panic!("{live:?}") };
    let [six, seven] = ["calisto-6", "calisto-7"].map(|name| complete(name).0);
    for (one, other) in [(&figure.x, &six.x), (&figure.y, &six.y)] {
        assert_eq!((&one.label, &one.unit), (&other.label, &other.unit));
    }
    let report = report::Report::of([seven, six].map(Line::Figure).into_iter().chain([live]));
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let names = report.figures().iter().map(|figure| figure.head().figure.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["calisto-6", "calisto-6-live", "calisto-7"]);
}

/// Axes of plain numbers: of all others a label without a unit is a fault.
const WITHOUT_UNIT: &[(&str, &str)] = &[
    ("demo-moves", "Workers before one more comes"),
    ("fairness", "Flows"),
    ("fairness", "Jain's index"),
    ("incast", "Senders"),
    ("incast-queue", "Senders"),
    ("map", "Exponent of Zipf's law"),
    ("netslices-ipsec", "CPUs"),
    ("rss-skew", "Exponent of Zipf's law (0: all flows alike)"),
    ("spin-cores", "Cores"),
    ("spin-ipc", "Instructions a cycle while awake"),
    ("spin-latency", "Queues"),
    ("spin-peak", "Queues"),
    ("spin-qwait", "Queues"),
    ("tas-connections", "Connections"),
    // The label is the unit.
    ("tas-cores", "Cores"),
];

/// How a plot names an axis of a figure: with its unit.
fn labelled(figure: &str, Axis { label, unit, .. }: &Axis) -> String {
    let is_plain = unit.is_empty() || unit.eq_ignore_ascii_case(label);
    let may_be_plain = WITHOUT_UNIT.contains(&(figure, label.as_str()));
    assert_eq!(is_plain, may_be_plain, "{figure}: {label:?} has the unit {unit:?}");
    if is_plain { label.clone() } else { format!("{label} ({unit})") }
}

/// All texts of a picture.
fn texts(svg: &str) -> Vec<String> {
    let texts = svg.split("<text ").skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once('>')?;
        Some(rest.split_once("</text>")?.0)
    });
    texts.map(plain).collect()
}

/// The points that a figure's file gives, a paper's and those measured elsewhere: by panel and
/// series.
struct Given(BTreeMap<(String, String), usize>);

impl Given {
    fn new(lines: &[Line]) -> Self {
        let mut counts = BTreeMap::new();
        for line in lines {
            if let Line::Point(point) = line {
                *counts.entry((point.panel.clone(), point.series.clone())).or_default() += 1;
            }
        }
        Self(counts)
    }

    /// How many a series has in one panel; nothing for a series that is run.
    fn of(&self, panel: &str, series: &SeriesHead) -> Option<usize> {
        let is_given = self.0.keys().any(|(_, name)| *name == series.name);
        let key = (panel.to_owned(), series.name.clone());
        is_given.then(|| self.0.get(&key).copied().unwrap_or(0))
    }
}

/// What a figure of the program is, the points that its file gives, and lines with these and as
/// many others as it promises. The values of those are made up: what they are in truth takes
/// minutes, and is the matter of crate `experiments`.
fn complete(name: &str) -> (FigureLine, Given, Vec<Line>) {
    let scenario = experiments::library::find(name).unwrap_or_else(|error| panic!("{error}"));
    // A part that has no job: the run ends at once, and its lines are all that needs none.
    let shard = "100000/100000".parse().expect("it is a part");
    let options = experiments::Options { seed: None, shard, threads: 1, quick: true, runs: 1 };
    let run = experiments::Run::start(Arc::new(scenario), options).expect("there is a thread");
    let mut lines = run.lines("calisto sim");
    let given = Given::new(&lines);
    let Some(Line::Figure(head)) = lines.first().cloned() else { panic!("{name}: {lines:?}") };
    for series in head.series.iter().filter(|series| series.origin == Origin::Paper) {
        let counts = head.panels.iter().map(|panel| given.of(panel, series).unwrap_or(0));
        // The same in each panel that has any.
        let counts: Vec<usize> = counts.filter(|count| *count > 0).collect();
        assert!(!counts.is_empty(), "{name}: {} has no point", series.name);
        assert!(counts.iter().all(|count| *count == series.points), "{name}: {}", series.name);
    }
    let point = |panel: &str, series: &SeriesHead, x: usize, y: usize| {
        Line::Point(PointLine {
            figure: name.to_owned(),
            panel: panel.to_owned(),
            series: series.name.clone(),
            x: x as f64 + 1.0,
            y: y as f64 + 1.0,
            band: None,
            saturated: false,
            more: [(series.name.clone(), 1.0)].into(),
            runs: BTreeMap::new(),
            tie: false,
        })
    };
    for panel in &head.panels {
        match head.kind {
            Kind::Lines => {
                for series in head.series.iter().filter(|series| given.of(panel, series).is_none())
                {
                    lines.extend((0..series.points).map(|x| point(panel, series, x, x)));
                }
            }
            Kind::Map => {
                let cells = (0..head.series[0].points).zip(head.series.iter().cycle());
                lines.extend(cells.map(|(cell, series)| point(panel, series, cell % 6, cell / 6)));
            }
        }
    }
    (head, given, lines)
}

/// What stands so in markup.
fn plain(markup: &str) -> String {
    let text = markup.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#39;", "'").replace("&amp;", "&")
}

/// As it stands in markup.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
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
            more: BTreeMap::new(),
            runs: BTreeMap::new(),
            tie: false,
        })
    };
    [1.0, 2.0, 3.0].map(point).into()
}

fn claim() -> Line {
    Line::Claim(Claim {
        figure: "delay".to_owned(),
        claim: "Sticky holds flows".to_owned(),
        source: "A paper".to_owned(),
        whose: Whose::Paper,
        test: "moved_flows of sticky: at most 0".to_owned(),
        runs: None,
        holds: Some(true),
        because: "0 flows moved".to_owned(),
        hangs_on: Vec::new(),
    })
}

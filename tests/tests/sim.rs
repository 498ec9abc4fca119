//! `calisto sim` as people and batch systems use it: figures, own scenarios, parts of a sweep, a
//! stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use whole::{Program, binary, run};

/// A scenario that is over in a moment.
const QUEUE: &str = r#"
name = "queue"
title = "One queue"
source = "theory"
text = "One server."
experiment = "station"
x = { label = "load", unit = "kpps", key = "rate", factor = 1000, values = [10, 50, 90, 150] }
y = { label = "mean", unit = "us", value = "mean_us" }
base = { cores = 1, mean = "10us", packets = 5000 }
[[series]]
name = "constant"
label = "constant"
[[series]]
name = "exponential"
label = "exponential"
set = { distribution = "exponential" }
[[claim]]
claim = "Constant work waits less"
source = "Pollaczek and Khinchin"
relation = "lower"
series = "constant"
than = "exponential"
from = 50
to = 90
"#;

/// A folder of this test, gone when it is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("calisto-sim-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder is ours");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("the folder is ours");
        path.to_str().expect("it is a plain name").to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is ours");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("it can be read").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sim(results: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("calisto"));
    command.arg("sim").args(words).arg("-o").arg(results);
    let (status, out, said) = run(&mut command);
    (status.code(), out, said)
}

#[test]
fn a_scenario_of_ones_own_gives_a_table_and_a_file_and_saturation_is_said() {
    let folder = Folder::new("own");
    let scenario = folder.file("mine.toml", QUEUE);
    let results = folder.0.join("results");
    let (code, out, said) = sim(&results, &[&scenario]);
    assert_eq!(code, Some(0), "{said}");
    for words in [
        "One queue",
        "load (kpps)",
        "saturated",
        "holds in 10 of 10 runs: Constant work waits less",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let text = fs::read_to_string(results.join("queue.jsonl")).expect("it was written");
    let (_, again, _) = sim(&results, &[&scenario, "-j", "--threads", "1"]);
    assert_eq!(again, text, "what is printed is what is written, and the same each time");
    let other = sim(&results, &[&scenario, "-j", "--seed", "2"]).1;
    assert_ne!(other, text);
    let points = text.lines().filter(|line| line.contains("\"line\":\"point\"")).count();
    assert_eq!(points, 8);
}

#[test]
fn parts_run_anywhere_and_merge_into_the_whole() {
    let folder = Folder::new("parts");
    let scenario = folder.file("mine.toml", QUEUE);
    let (whole, parts) = (folder.0.join("whole"), folder.0.join("parts"));
    assert_eq!(sim(&whole, &[&scenario]).0, Some(0));
    for part in ["1/3", "2/3", "3/3"] {
        assert_eq!(sim(&parts, &[&scenario, "--shard", part]).0, Some(0));
    }
    let (code, _, said) = sim(&parts, &[&scenario, "--merge"]);
    assert_eq!(code, Some(0), "{said}");
    let read = |folder: &Path| fs::read_to_string(folder.join("queue.jsonl")).expect("it is there");
    assert_eq!(read(&parts), read(&whole));
    assert_eq!(sim(&parts, &[&scenario, "--shard", "2/3", "--seed", "7"]).0, Some(0));
    let (code, _, said) = sim(&parts, &[&scenario, "--merge"]);
    assert_eq!(code, Some(1), "a part of another run is no part of this one: {said}");
    assert!(said.contains("--seed 7"), "{said}");
    let (code, _, said) = sim(&folder.0.join("empty"), &[&scenario, "--merge"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("empty"), "it says where: {said}");
}

#[test]
fn nonsense_is_said_with_field_line_and_range_and_nothing_is_written() {
    let folder = Folder::new("nonsense");
    let results = folder.0.join("results");
    for (good, bad, words) in [
        ("cores = 1,", "cores = 0,", &["line 9", "`cores` is 0", "1 to 1024"][..]),
        ("[10, 50, 90, 150]", "[-1, 5]", &["line 7", "`rate`"]),
        ("\"exponential\" }", "\"exponental\" }", &["did you mean \"exponential\"?"]),
    ] {
        let text = QUEUE.replace(good, bad);
        let scenario = folder.file("bad.toml", &text);
        let (code, out, said) = sim(&results, &[&scenario]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{bad}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{bad}: {said}");
        assert!(!results.exists(), "nothing is written");
    }
}

#[test]
fn what_a_scenario_may_hold_is_told_to_programs_as_well() {
    let folder = Folder::new("settings");
    let (code, out, said) = sim(&folder.0, &["--settings", "-j"]);
    assert_eq!(code, Some(0), "{said}");
    let told: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    let models = told["models"].as_array().expect("a list");
    let text = sim(&folder.0, &["--settings"]).1;
    for model in models {
        let experiment = model["experiment"].as_str().expect("a name");
        assert!(text.contains(&format!("experiment = \"{experiment}\"")), "{experiment}");
        assert!(model["settings"][0]["key"].is_string(), "{model}");
    }
    assert_eq!(models.len(), text.matches("experiment = ").count());
}

#[test]
fn a_figure_that_comes_along_is_listed_printed_and_run() {
    let folder = Folder::new("figure");
    let list = sim(&folder.0, &["--list"]).1;
    for figure in ["calisto-6", "spin-latency", "tas-connections", "map"] {
        assert!(list.contains(figure), "{list}");
    }
    let text = sim(&folder.0, &["--print", "spin-latency"]).1;
    let scenario = folder.file("copy.toml", &text);
    let (code, out, said) = sim(&folder.0, &["spin-latency", "--quick", "-j"]);
    assert_eq!(code, Some(0), "{said}");
    let copy = sim(&folder.0, &[&scenario, "--quick", "-j"]).1;
    // The command that repeats it is the only thing that differs.
    let points = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(points(&copy), points(&out));
    let (code, _, said) = sim(&folder.0, &["spin-latency", &scenario, "--quick"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("same file"), "{said}");
}

#[test]
fn a_stop_leaves_no_half_a_file() {
    let folder = Folder::new("stop");
    let long = QUEUE.replace("packets = 5000", "packets = 20000000");
    let scenario = folder.file("long.toml", &long);
    let results = folder.0.join("results");
    let mut command = Command::new(binary("calisto"));
    command.args(["sim", &scenario, "-o"]).arg(&results);
    let mut program = Program::spawn(&mut command);
    // It says how far it is when it takes longer than people like to wait without a word.
    program.wait_until_it_says("of 8 runs");
    program.signal(Signal::INT);
    let finished = program.end();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.said);
    assert!(finished.said.contains("nothing of queue was written"), "{}", finished.said);
    assert!(!results.exists(), "{:?}", folder.names());
}

//! Parts of a sweep: together they are the whole to the byte, and what does not belong together is
//! refused.

use std::fs;
use std::path::PathBuf;

use super::{SMALL, claims, lines, options, small};
use crate::{Options, Scenario, Shard, store};

/// A folder with files of parts, gone when the test is over.
struct Parts {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Parts {
    fn new(name: &str) -> Self {
        let name = format!("calisto-parts-{name}-{}", std::process::id());
        Self { folder: std::env::temp_dir().join(name), files: Vec::new() }
    }

    /// Runs a part of a scenario, as the command line would.
    fn add(&mut self, scenario: Scenario, part: &str, more: &str, options: Options) {
        let name = format!("{}.jsonl", self.files.len());
        let command = format!("calisto sim it{more} --shard {part}");
        let shard: Shard = part.parse().expect("it is a shard");
        let lines = lines_of(scenario, &command, Options { shard, ..options });
        self.files.push(store::write(&self.folder, &name, &lines).expect("the folder is ours"));
    }

    fn refused(&self) -> String {
        store::merge(&small(), &self.files).expect_err("they are no whole")
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn lines_of(scenario: Scenario, command: &str, options: Options) -> Vec<report::Line> {
    let mut lines = lines(scenario, options);
    if let Some(report::Line::Figure(head)) = lines.first_mut() {
        command.clone_into(&mut head.command);
    }
    lines
}

fn usual() -> Options {
    options(1, Shard::WHOLE)
}

#[test]
fn parts_put_together_are_the_whole_to_the_byte() {
    let mut parts = Parts::new("whole");
    for part in ["1/5", "2/5", "3/5", "4/5", "5/5"] {
        parts.add(small(), part, " --seed 7", Options { seed: Some(7), ..usual() });
    }
    let options = Options { seed: Some(7), ..options(2, Shard::WHOLE) };
    let whole = lines_of(small(), "calisto sim it --seed 7", options);
    let merged = store::merge(&small(), &parts.files).expect("they belong together");
    assert_eq!(store::to_text(&merged), store::to_text(&whole), "and so is the command");
    let first = lines(small(), Options { shard: "1/5".parse().expect("a shard"), ..usual() });
    let open = claims(&first).iter().filter(|claim| claim.holds.is_none()).count();
    assert_eq!((open, claims(&whole)[0].holds), (1, Some(true)), "a part does not judge the whole");
}

#[test]
fn a_part_that_is_missing_is_said_with_what_it_lacks() {
    let mut parts = Parts::new("missing");
    parts.add(small(), "1/2", "", usual());
    let says = parts.refused();
    assert!(says.contains("parts are missing") && says.contains("of 3 points"), "{says}");
    assert!(store::merge(&small(), &[]).is_err(), "nothing is no whole");
}

#[test]
fn parts_of_other_runs_are_refused() {
    let seeded = Options { seed: Some(7), ..usual() };
    let long = Options { quick: false, ..usual() };
    let changed = || Scenario::parse(&SMALL.replace("mean = \"10us\"", "mean = \"9us\""));
    let other = || Scenario::parse(&SMALL.replace("name = \"small\"", "name = \"other\""));
    for (name, scenario, more, options, words) in [
        ("seed", small(), " --seed 7", seeded, "differ in nothing but --shard"),
        ("quick", small(), "", long, "differ"),
        ("options", small(), " --quick", long, "differ in nothing but --shard"),
        ("text", changed().expect("it is sound"), "", usual(), "parameters"),
        ("figure", other().expect("it is sound"), "", usual(), "is of the figure other"),
    ] {
        let mut parts = Parts::new(name);
        parts.add(small(), "1/2", "", usual());
        parts.add(small(), "2/2", "", usual());
        parts.add(scenario, "2/2", more, options);
        let says = parts.refused();
        assert!(says.contains(words), "{name}: {says}");
    }
}

#[test]
fn parts_of_an_older_text_of_the_scenario_are_not_given_its_new_head() {
    let mut parts = Parts::new("older");
    let older = || Scenario::parse(&SMALL.replace("title = \"A queue\"", "title = \"A line\""));
    parts.add(older().expect("it is sound"), "1/1", "", usual());
    assert!(parts.refused().contains("another text"), "{}", parts.refused());
}

//! The pages under `docs/reference` that the programs themselves write, and the commands in all
//! documents.
//!
//! `REFERENCE=write cargo test -p calisto-lab reference` writes the pages anew; without it the
//! tests compare them with what the code says now.

mod blocks;
mod commands;
mod configuration;
mod counters;
mod reasons;

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folder of the project.
fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().find(|folder| folder.join("docs/SUMMARY.md").is_file());
    root.expect("the package lies in the project").to_owned()
}

/// A page is what `page` says, or is written so.
fn holds(name: &str, page: &str) {
    let path = project().join("docs/reference").join(name);
    if std::env::var_os("REFERENCE").is_some_and(|what| what == "write") {
        std::fs::write(&path, page).expect("the page can be written");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let different = there.lines().zip(page.lines()).position(|(old, new)| old != new);
    let line = different.unwrap_or(there.lines().count().min(page.lines().count())) + 1;
    assert!(
        there == page,
        "{name} is out of date from line {line} on: run `REFERENCE=write cargo test -p calisto-lab reference`"
    );
}

/// The note at the head of every such page.
const GENERATED: &str = "This page is written by the code it describes; a test compares the two. Do not edit it:\n\
    `REFERENCE=write cargo test -p calisto-lab reference` writes it anew.\n";

/// A table in Markdown.
struct Table(String);

impl Table {
    fn new(heads: &[&str]) -> Self {
        let mut table = Self(String::new());
        table.row(heads);
        table.0.push_str(&"|---".repeat(heads.len()));
        table.0.push_str("|\n");
        table
    }

    fn row(&mut self, cells: &[&str]) {
        for cell in cells {
            let cell = cell.replace('|', "\\|");
            // A text cannot fail to be written to.
            let _ = write!(self.0, "| {} ", cell.trim());
        }
        self.0.push_str("|\n");
    }
}

/// The steering and core policies.
#[test]
fn policies() {
    let mut page = format!("# Policies\n\n{GENERATED}\n## Steering policies\n\n");
    page.push_str("`calisto steer set NAME`, or `steer.policy` of the configuration.\n\n");
    page.push_str(&named(policy::steer::NAMES.iter()));
    page.push_str("\n## Core policies\n\n");
    page.push_str("`calisto cores set NAME`, or `cores.policy` of the configuration.\n\n");
    page.push_str(&named(policy::cores::NAMES.iter()));
    holds("policies.md", &page);
}

fn named<'a>(names: impl Iterator<Item = &'a (&'a str, &'a str)>) -> String {
    let mut table = Table::new(&["policy", "what it does"]);
    for (name, help) in names {
        table.row(&[&format!("`{name}`"), help]);
    }
    table.0
}

#[test]
fn the_page_about_ports_is_right() {
    let page = std::fs::read_to_string(project().join("docs/reference/ports.md"));
    let page = page.expect("the page is there");
    for example in page.split('`').skip(1).step_by(2).filter(|code| code.contains(':')) {
        if !example.contains("KIND") {
            example.parse::<port::PortSpec>().unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }
    for kind in ["xdp", "af_packet", "tap", "pcap"] {
        // What is unknown is refused with what is known.
        let nothing = format!("{kind}:x,no_option_has_such_a_name=");
        let said = nothing.parse::<port::PortSpec>().expect_err(kind).to_string();
        let (_, known) = said.split_once("known are ").expect(&said);
        let (_, options) = page.split_once(&format!("## Options of `{kind}`")).expect(kind);
        let options = options.split("\n## ").next().unwrap_or_default();
        for option in known.split(", ") {
            let is_told = ["`", "="].iter().any(|end| options.contains(&format!("`{option}{end}")));
            assert!(is_told, "ports.md does not explain {option} of {kind}");
        }
    }
}

//! Commands in documents and module headers: `cargo`, `cargo xtask` and `script/` know every one.
//!
//! What `calisto` knows is a test of the command line itself.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::finding::Finding;
use crate::workspace::{SourceFile, Workspace};

/// Commands of cargo, and of what the project installs beside it.
const CARGO: [&str; 16] = [
    "add", "bench", "build", "check", "clippy", "deny", "doc", "fmt", "fuzz", "install",
    "metadata", "miri", "run", "test", "tree", "update",
];

/// What stands before a command.
const BEFORE: [&str; 8] = ["$", "sudo", "-E", "env", "exec", "nice", "nohup", "time"];

/// What there is to be named.
pub(super) struct Known {
    packages: BTreeSet<String>,
    /// Of every package: `test`, `example` and so on, and the name.
    targets: BTreeSet<(String, String)>,
    /// What `cargo xtask` says of itself.
    xtask: &'static str,
}

impl Known {
    pub(super) fn of(workspace: &Workspace, xtask: &'static str) -> Self {
        let packages = workspace.packages.iter();
        let targets = packages.clone().flat_map(|package| package.targets.iter().cloned());
        Self {
            packages: packages.clone().map(|package| package.name.clone()).collect(),
            targets: targets.collect(),
            xtask,
        }
    }
}

pub(super) fn check(files: &[SourceFile], known: &Known, findings: &mut Vec<Finding>) {
    for file in files {
        let commands = if file.path.ends_with(".md") {
            commands_of(&file.text)
        } else if file.path.ends_with(".rs") {
            commands_of(&header(&file.text))
        } else {
            continue;
        };
        for (line, words) in commands {
            if let Err(why) = accept(&words, known, files) {
                let said = format!("`{}`: {why}", words.join(" "));
                findings.push(Finding::new(&file.path, line, said));
            }
        }
    }
}

/// The text of a Rust file's `//!` comments, each on its line.
fn header(text: &str) -> String {
    let of = |line: &str| {
        let line = line.trim_start().strip_prefix("//!").unwrap_or_default();
        line.strip_prefix(' ').unwrap_or(line).to_owned()
    };
    text.lines().map(of).collect::<Vec<_>>().join("\n")
}

/// The words of each command, with its line: of blocks, and of code in the running text.
fn commands_of(text: &str) -> Vec<(usize, Vec<String>)> {
    let line_of = |at: usize| 1 + text[..at].matches('\n').count();
    let mut commands = Vec::new();
    let mut block: Option<String> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let is_shell = match &kind {
                    CodeBlockKind::Indented => true,
                    CodeBlockKind::Fenced(language) => ["", "sh", "text"].contains(&&**language),
                };
                block = is_shell.then(String::new);
            }
            Event::Text(words) => block.iter_mut().for_each(|block| block.push_str(&words)),
            Event::End(TagEnd::CodeBlock) => {
                let block = block.take().unwrap_or_default().replace("\\\n", " ");
                let line = line_of(range.start);
                commands.extend(block.lines().flat_map(of_line).map(|words| (line, words)));
            }
            Event::Code(words) => {
                let line = line_of(range.start);
                commands.extend(of_line(&words).into_iter().map(|words| (line, words)));
            }
            _ => {}
        }
    }
    commands
}

/// The words of each command of a line of shell, as far as they are ours to know.
fn of_line(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split(['|', ';', '&', '>']);
    let words = parts.map(|part| part.split_whitespace().skip_while(|word| is_before(word)));
    let words = words.map(|words| words.map(str::to_owned).collect::<Vec<_>>());
    words.filter(|words| words.first().is_some_and(|word| is_ours(word))).collect()
}

/// Whether a word stands before the command: a variable, or a command that runs another one.
fn is_before(word: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_uppercase() || letter == '_' || letter == '"';
    let is_variable = word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_name));
    is_variable || BEFORE.contains(&word)
}

fn is_ours(word: &str) -> bool {
    word == "cargo" || word.starts_with("script/") && word.len() > "script/".len()
}

/// Whether there is such a command.
fn accept(words: &[String], known: &Known, files: &[SourceFile]) -> Result<(), String> {
    let mut words = words.iter().map(String::as_str).filter(|word| !word.starts_with('+'));
    let first = words.next().unwrap_or_default();
    if let Some(script) = files.iter().find(|file| file.path == first) {
        let mut options = words.filter(|word| word.starts_with("--"));
        return match options.find(|option| !names(&script.text, option)) {
            Some(option) => Err(format!("{first} does not know {option}")),
            None => Ok(()),
        };
    }
    if first != "cargo" {
        return Err(format!("there is no {first}"));
    }
    match words.next().unwrap_or_default() {
        "" => Ok(()),
        "xtask" => match words.find(|word| !names(known.xtask, word)) {
            Some(word) => Err(format!("`cargo xtask` does not know {word}")),
            None => Ok(()),
        },
        command if CARGO.contains(&command) => selected(words, known),
        command => Err(format!("cargo does not know {command}")),
    }
}

/// Whether the packages and targets that cargo is to take are there.
fn selected<'a>(mut words: impl Iterator<Item = &'a str>, known: &Known) -> Result<(), String> {
    while let Some(word) = words.next().filter(|word| *word != "--") {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        let kind = match option {
            "-p" | "--package" | "--exclude" => "package",
            "--test" | "--example" | "--bin" | "--bench" => &option[2..],
            _ => continue,
        };
        let name = value.or_else(|| words.next()).unwrap_or_default();
        let is_known = match kind {
            "package" => known.packages.contains(name),
            kind => known.targets.contains(&(kind.to_owned(), name.to_owned())),
        };
        // A name in capitals stands for any.
        if !is_known && name.contains(|letter: char| letter.is_ascii_lowercase()) {
            return Err(format!("there is no {kind} {name}"));
        }
    }
    Ok(())
}

/// Whether a usage names the word.
fn names(usage: &str, word: &str) -> bool {
    let joins = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let word = word.split('=').next().unwrap_or(word);
    usage.split(|letter| !joins(letter)).any(|known| known == word)
}

//! Commands in documents, messages and comments: the command line knows every one of them.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::project;
use crate::args::whole;

#[test]
fn every_command_in_a_document_is_one_that_the_command_line_knows() {
    let mut commands = 0;
    let mut wrong = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a text");
        let name = path.strip_prefix(project()).unwrap_or(&path).display().to_string();
        for words in commands_of(&text) {
            commands += 1;
            if let Err(why) = accept(&words) {
                wrong.push(format!("{name}: `{}`: {why}", words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands >= 80, "only {commands} commands were found in all documents");
}

#[test]
fn every_command_in_a_message_or_a_comment_is_one_that_the_command_line_knows() {
    let mut sources = Vec::new();
    for folder in ["crates", "bin"] {
        collect(&project().join(folder), true, "rs", &mut sources);
    }
    let mut commands = 0;
    let mut wrong = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("a text");
        for words in text.split("`calisto ").skip(1).filter_map(|rest| {
            let word = rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
            begun(&format!("calisto {}", word.into_iter().next()?))
        }) {
            commands += 1;
            if let Err(why) = accept(&words) {
                wrong.push(format!("{}: `{}`: {why}", path.display(), words.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands >= 80, "only {commands} commands were found in all sources");
}

/// The project's own documents.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&project(), false, "md", &mut found);
    collect(&project().join("docs"), true, "md", &mut found);
    found
}

fn collect(folder: &Path, deep: bool, end: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() && deep {
            collect(&path, deep, end, found);
        } else if path.extension().is_some_and(|is| is == end) {
            found.push(path);
        }
    }
}

/// Whether the command line can be what is written.
fn accept(words: &[String]) -> Result<(), String> {
    match whole().try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => Ok(()),
        Err(error) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// The words of every `calisto` of a document: in blocks of shell, whole; in the running text as
/// far as its first word.
fn commands_of(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut block = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let is_shell = match &kind {
                    CodeBlockKind::Indented => true,
                    CodeBlockKind::Fenced(language) => ["", "sh"].contains(&&**language),
                };
                block = is_shell.then(String::new);
            }
            Event::Text(words) => block.iter_mut().for_each(|block| block.push_str(&words)),
            Event::End(TagEnd::CodeBlock) => {
                let block = block.take().unwrap_or_default().replace("\\\n", " ");
                commands.extend(block.lines().flat_map(commands_of_line));
            }
            Event::Code(words) => commands.extend(begun(&words)),
            _ => {}
        }
    }
    commands
}

/// `calisto COMMAND` of the running text, for which help is asked: its options may be left out
/// there.
fn begun(code: &str) -> Option<Vec<String>> {
    let mut words = code.strip_prefix("calisto ")?.split_whitespace();
    let command = words.next().filter(|word| word.starts_with(char::is_lowercase))?;
    let command = command.trim_end_matches(['.', ',', ';']);
    (command != "help").then(|| ["calisto", command, "--help"].map(str::to_owned).to_vec())
}

/// The words of each `calisto` of a line of shell.
fn commands_of_line(line: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut depth = 0_u32;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '#' if word.is_none() && quote.is_none() => break,
            '\'' | '"' if quote == Some(letter) => quote = None,
            '\'' | '"' if quote.is_none() => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            '$' if letters.peek() == Some(&'(') => {
                depth += 1;
                word.get_or_insert_default().push(letter);
            }
            ')' if depth > 0 => depth -= 1,
            _ if quote.is_some() || depth > 0 => word.get_or_insert_default().push(letter),
            _ if letter.is_whitespace() => words.extend(word.take()),
            '|' | ';' | '&' | '<' => {
                words.extend(word.take());
                commands.extend(ours(&std::mem::take(&mut words)));
            }
            // The number of a redirected descriptor is no argument.
            '>' => {
                words.extend(word.take().filter(|word| word != "2"));
                commands.extend(ours(&std::mem::take(&mut words)));
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    commands.extend(ours(&words));
    commands
}

/// The words from `calisto` on, if that is what runs.
fn ours(words: &[String]) -> Option<Vec<String>> {
    let in_namespace = ["ip", "netns", "exec"];
    let is_wrapped = words.len() > 4 && words.iter().zip(in_namespace).all(|(word, of)| word == of);
    let words = if is_wrapped { &words[4..] } else { words };
    (words.first()? == "calisto").then(|| words.to_vec())
}

#[test]
fn commands_are_found_between_what_else_is_on_a_line() {
    let line = "ip netns exec r calisto nf run $n.toml & calisto run -- sh -c 'a; b' 2>x | calisto ss # calisto";
    let found: Vec<String> = commands_of_line(line).iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, ["calisto nf run $n.toml", "calisto run -- sh -c a; b", "calisto ss"]);
    let text = "    calisto up\n\n```text\ncalisto down\n```\n\n`calisto bench`, `calisto help X` or `cali`\n";
    let found: Vec<String> = commands_of(text).iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, ["calisto up", "calisto bench --help"]);
}

#[test]
fn a_command_or_an_option_that_is_not_there_is_refused() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for line in ["calisto fly", "calisto status --fast", "calisto workers many"] {
        assert!(accept(&words(line)).is_err(), "{line}");
    }
    for line in ["calisto status", "calisto workers 4", "calisto cores set --help"] {
        assert_eq!(accept(&words(line)), Ok(()), "{line}");
    }
}

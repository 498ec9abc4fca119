//! `configuration.md`: every key with its values and its default.

use std::fmt::Write;

use config::{Config, Key};

use super::{GENERATED, Table, holds};

const ABOUT: &str = "\
The daemon reads TOML: `calisto up --config FILE`. Any key can be set on the command line by its full\n\
name, as in `--set steer.groups=1048576`. An unknown key is refused with the nearest known one, a value\n\
out of range with what is allowed. `calisto up --print-config` prints what the settings amount to.\n";

#[test]
fn configuration() {
    let mut page = format!("# Configuration\n\n{GENERATED}\n{ABOUT}");
    let keys = config::keys();
    for of_section in keys.chunk_by(|a, b| a.section == b.section) {
        let section = of_section.first().map_or("", |key| key.section);
        let (open, close) = if section == "tenant" { ("[[", "]]") } else { ("[", "]") };
        let _ = match section {
            "" => write!(page, "\n## Above the first section\n\n"),
            _ => write!(page, "\n## `{open}{section}{close}`\n\n"),
        };
        if let Some(purpose) = config::section(section) {
            let _ = write!(page, "{}\n\n", capitalised(purpose.trim()));
        }
        let mut table = Table::new(&["key", "what it is", "values", "default"]);
        for Key { name, allowed, help, default, .. } in of_section {
            table.row(&[&format!("`{name}`"), help, allowed, &quoted(default)]);
        }
        page.push_str(&table.0);
    }
    let defaults = Config::default().to_toml();
    let _ = write!(page, "\n## All defaults\n\n```toml\n{}\n```\n", defaults.trim());
    holds("configuration.md", &page);
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// As code, if it can be written in a file.
fn quoted(default: &str) -> String {
    let is_value = default.starts_with(['"', '[']) || ["true", "false"].contains(&default);
    let is_number = default.chars().all(|letter| letter.is_ascii_digit());
    if !default.is_empty() && (is_value || is_number) {
        return format!("`{default}`");
    }
    default.to_owned()
}

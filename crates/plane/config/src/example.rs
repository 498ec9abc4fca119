//! A configuration file to begin with: every key with its explanation and its default, as comments.

use std::fmt::Write;

use crate::manual::{Key, keys, section};
use crate::rule::TENANT;

/// Columns of a comment.
const WIDTH: usize = 96;

/// The whole file. With nothing changed it says nothing, so that every default holds.
pub fn example() -> String {
    let mut text = String::from(
        "# Configuration of calistod(8); calisto.toml(5) is the same as a manual page.\n\
         # Every key is here with its default. Remove the # before a key to change it; then:\n\
         #   calisto config check FILE\n",
    );
    let mut current = "";
    for key in keys() {
        if key.section != current {
            current = key.section;
            begin_section(&mut text, current);
        }
        write_key(&mut text, &key);
    }
    text
}

fn begin_section(text: &mut String, name: &str) {
    text.push('\n');
    comment(text, &section(name).unwrap_or_default());
    match name {
        // Without a user it would be refused.
        TENANT => writeln!(text, "#[[{TENANT}]]"),
        name => writeln!(text, "[{name}]"),
    }
    .expect("a string takes all that is written");
}

fn write_key(text: &mut String, key: &Key) {
    text.push('\n');
    comment(text, &key.help);
    comment(text, &format!("Allowed: {}.", key.allowed));
    let is_toml = format!("x = {}", key.default).parse::<toml::Table>().is_ok();
    match is_toml {
        true => writeln!(text, "#{} = {}", key.name, key.default),
        false if key.default.is_empty() => writeln!(text, "#{} =", key.name),
        false => writeln!(text, "#{} =    # default: {}", key.name, key.default),
    }
    .expect("a string takes all that is written");
}

/// Words as comments of at most [`WIDTH`] columns.
fn comment(text: &mut String, words: &str) {
    let mut columns = 0;
    for word in words.split_whitespace() {
        let width = word.chars().count() + 1;
        if columns == 0 || columns + width > WIDTH {
            text.push_str(if columns == 0 { "#" } else { "\n#" });
            columns = 1;
        }
        text.push(' ');
        text.push_str(word);
        columns += width;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn as_it_is_and_with_every_default_written_out_it_is_the_default_configuration() {
        let text = example();
        assert_eq!(Config::parse(&text), Ok(Config::default()));
        let (above, _) = text.split_once("#[[tenant]]").expect("tenants come last");
        let written = above.lines().filter_map(|line| {
            let is_key = line.starts_with('#') && !line.starts_with("# ");
            match is_key {
                true if line.contains("# default: ") => None,
                true => line.strip_prefix('#'),
                false => Some(line),
            }
        });
        let written = written.collect::<Vec<_>>().join("\n");
        assert!(written.contains("\ngroups = 65536\n"), "{written}");
        assert_eq!(Config::parse(&written), Ok(Config::default()));
    }

    #[test]
    fn every_key_is_in_it_and_no_line_is_wide() {
        let text = example();
        for key in keys() {
            let line = format!("\n#{} =", key.name);
            assert!(text.contains(&line), "{line}");
        }
        for line in text.lines().filter(|line| line.starts_with("# ")) {
            assert!(line.chars().count() <= WIDTH + 4, "{line}");
        }
    }
}

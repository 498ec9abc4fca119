//! Every key explained: what its documentation says, what it may hold, and its default.

use crate::config::Config;
use crate::rule::{RULES, TENANT};
use crate::tenant::Tenant;

/// The files whose structures are the sections of a configuration.
const FILES: [&str; 7] = [
    include_str!("config.rs"),
    include_str!("workers.rs"),
    include_str!("wait.rs"),
    include_str!("tcp.rs"),
    include_str!("sockets.rs"),
    include_str!("log.rs"),
    include_str!("tenant.rs"),
];

/// A key of the configuration, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its section; empty above the first one.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// What it may hold.
    pub allowed: String,
    /// What it is for, in sentences.
    pub help: String,
    /// What it holds when nothing is said: as TOML, or in words where TOML has none.
    pub default: String,
}

/// Every key, in the order in which a configuration is written.
pub fn keys() -> Vec<Key> {
    let defaults = toml::Table::try_from(Config::default()).expect("plain values are TOML");
    let tenant = toml::Table::try_from(Tenant::default_of(1000)).expect("plain values are TOML");
    let key = |rule: &crate::rule::Rule| {
        let told = documentation(&structure(rule.section), Some(rule.key)).unwrap_or_default();
        let (help, said) = told.rsplit_once("Default: ").unwrap_or((&told, ""));
        let section = match rule.section {
            "" => Some(&defaults),
            TENANT => Some(&tenant),
            section => defaults.get(section).and_then(toml::Value::as_table),
        };
        // Whose rule a `[[tenant]]` is has no default.
        let held = section.and_then(|keys| keys.get(rule.key)).filter(|_| !said.is_empty());
        Key {
            section: rule.section,
            name: rule.key,
            allowed: rule.kind.to_string(),
            help: help.trim().to_owned(),
            default: held
                .map_or_else(|| said.trim_end_matches('.').to_owned(), ToString::to_string),
        }
    };
    RULES.iter().map(key).collect()
}

/// What a section is for, as a sentence; nothing for the keys above the first one.
pub fn section(name: &str) -> Option<String> {
    let told = documentation(&structure(name), None)?;
    let (_, purpose) = told.split_once(": ")?;
    let mut letters = purpose.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect())
}

/// The name of the structure that is a section.
fn structure(section: &str) -> String {
    let mut letters = section.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => "Config".to_owned(),
    }
}

/// The documentation of a structure, or of one of its fields, in one line.
fn documentation(structure: &str, field: Option<&str>) -> Option<String> {
    let begins = format!("pub struct {structure} {{");
    let text = FILES.iter().find(|text| text.lines().any(|line| line == begins))?;
    let mut told = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        let code = line.trim();
        if let Some(words) = code.strip_prefix("///") {
            told.push_str(words);
            continue;
        }
        // Attributes stand between documentation and what is documented.
        if code.starts_with("#[") {
            continue;
        }
        is_inside |= line == begins;
        let is_field = field.is_some_and(|name| {
            let rest = code.strip_prefix("pub ").and_then(|rest| rest.strip_prefix(name));
            is_inside && rest.is_some_and(|rest| rest.starts_with(':'))
        });
        if is_field || (field.is_none() && is_inside) {
            return Some(told.trim().to_owned());
        }
        told.clear();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_says_what_it_is_for_and_what_it_holds_without_being_set() {
        for Key { section, name, allowed, help, default } in keys() {
            assert!(!allowed.is_empty(), "{section}.{name}");
            assert!(help.len() > 10 && help.ends_with(['.', '`']), "{section}.{name}: {help:?}");
            assert!(!default.is_empty() || (section, name) == (TENANT, "uid"), "{section}.{name}");
        }
    }

    #[test]
    fn every_section_says_what_it_is_for() {
        for section in RULES.iter().map(|rule| rule.section).filter(|name| !name.is_empty()) {
            let told = super::section(section);
            assert!(told.is_some_and(|told| told.len() > 15), "{section}");
        }
    }

    #[test]
    fn a_default_in_the_documentation_is_the_one_that_holds() {
        for key in keys() {
            let told = documentation(&structure(key.section), Some(key.name)).expect("it has one");
            let Some((_, said)) = told.rsplit_once("Default: ") else { continue };
            let said = said.trim_end_matches('.').replace([' ', '`'], "");
            let is_plain = said.chars().all(|letter| letter.is_ascii_digit())
                || ["true", "false"].contains(&said.as_str());
            if is_plain {
                assert_eq!(key.default, said, "{}.{}", key.section, key.name);
            }
        }
    }
}

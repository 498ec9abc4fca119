//! One `key=value` of a command line.

use toml::de::{DeTable, DeValue};

use crate::document;
use crate::error::{ConfigError, shorten};
use crate::rule::{Kind, Rule, TENANT};
use crate::value;

/// The tree of a configuration with other values at some keys.
pub(crate) fn set_all<'a>(
    mut table: toml::Table,
    assignments: impl IntoIterator<Item = &'a str>,
) -> Result<toml::Table, ConfigError> {
    for assignment in assignments {
        let (rule, value) = read(assignment)?;
        let home = match rule.section {
            "" => &mut table,
            section => table
                .get_mut(section)
                .and_then(toml::Value::as_table_mut)
                .expect("a written configuration has every section"),
        };
        home.insert(rule.key.to_owned(), value);
    }
    Ok(table)
}

/// The key of an assignment, and a value that it may hold.
fn read(assignment: &str) -> Result<(&'static Rule, toml::Value), ConfigError> {
    let Some((path, value)) = assignment.split_once('=') else {
        let says = format!(
            "`{}` sets nothing: write KEY=VALUE, for example steer.policy=modulo",
            shorten(assignment)
        );
        return Err(ConfigError::syntax(None, says));
    };
    let (path, value) = (path.trim(), value.trim());
    let (section, key) = path.split_once('.').unwrap_or(("", path));
    let refused = |says| ConfigError::at(None, path, says);
    if section == TENANT {
        return Err(refused(format!(
            "tenants are set in a file, below `[[{TENANT}]]`: which of them is meant here?"
        )));
    }
    // No value is meant here; a table would turn the talk to sections.
    let rule = document::known(section, key, &DeValue::Boolean(true)).map_err(refused)?;
    let line = format!("value = {}", as_toml(rule, value));
    let one = DeTable::parse(&line).ok();
    // A value with a line break in it could bring keys of its own.
    let parsed = one.as_ref().filter(|one| one.get_ref().len() == 1);
    let Some(parsed) = parsed.and_then(|one| one.get_ref().get("value")) else {
        return Err(refused(format!(
            "`{}` is {}; allowed is {}",
            rule.path(),
            shorten(value),
            rule.kind
        )));
    };
    value::check(rule, parsed.get_ref()).map_err(refused)?;
    let mut one: toml::Table = toml::from_str(&line).expect("it has been parsed a moment ago");
    Ok((rule, one.remove("value").expect("the line has this key")))
}

/// The value with the quotes and brackets that a command line may leave out.
fn as_toml(rule: &Rule, value: &str) -> String {
    match rule.kind {
        Kind::Word(_) | Kind::Text(_) => quoted(value),
        Kind::Texts(_) if value.is_empty() => "[]".to_owned(),
        // Not split at commas: a port's options are written with them.
        Kind::Texts(_) if !value.starts_with('[') => format!("[{}]", quoted(value)),
        Kind::Cpus(_) if !value.starts_with('[') => format!("[{value}]"),
        _ => value.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    if text.starts_with(['"', '\'']) {
        text.to_owned()
    } else {
        toml::Value::String(text.trim().to_owned()).to_string()
    }
}

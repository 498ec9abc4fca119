//! A configuration file with other values at some keys, its comments and its order left as they
//! are.

use toml_edit::{Array, DocumentMut, Item, Table, Value};

use crate::config::Config;
use crate::error::ConfigError;

/// A value to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
    /// An array of texts, one a line if there are several.
    Texts(Vec<String>),
}

/// `text` with `values` at their keys (`section.key`); what it says already stays as it is written,
/// and what has come to be the default of a key that it does not mention is not added.
///
/// # Errors
/// The text is no configuration, or would not be one with these values.
pub fn rewrite(text: &str, values: &[(String, NewValue)]) -> Result<String, ConfigError> {
    let before = Config::parse(text)?;
    let known = toml::Table::try_from(&before).expect("a tree of plain values can be written");
    let mut document = text.parse::<DocumentMut>().map_err(|error| {
        ConfigError::syntax(None, format!("this is not TOML: {}", error.message()))
    })?;
    for (path, value) in values {
        let (section, key) = path.split_once('.').unwrap_or(("", path));
        let here = match section {
            "" => known.get(key),
            section => known.get(section).and_then(|section| section.get(key)),
        };
        if here.is_some_and(|here| value.is(here)) {
            continue;
        }
        let home = match section {
            "" => document.as_item_mut(),
            section => document.entry(section).or_insert_with(|| Item::Table(Table::new())),
        };
        let refused = || ConfigError::at(None, path, format!("`{section}` is no section"));
        put(home.as_table_like_mut().ok_or_else(refused)?.entry(key).or_insert(Item::None), value);
    }
    let text = document.to_string();
    Config::parse(&text)?;
    Ok(text)
}

/// Puts a value in the place of another, with the comment behind it.
fn put(item: &mut Item, value: &NewValue) {
    let mut new = value.as_toml();
    if let Some(old) = item.as_value() {
        *new.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(new);
}

impl NewValue {
    fn is(&self, other: &toml::Value) -> bool {
        match self {
            Self::Number(number) => other.as_integer() == Some(*number),
            Self::Text(text) => other.as_str() == Some(text),
            Self::Texts(texts) => other.as_array().is_some_and(|others| {
                others.len() == texts.len()
                    && others.iter().zip(texts).all(|(other, text)| other.as_str() == Some(text))
            }),
        }
    }

    fn as_toml(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Texts(texts) => {
                let mut array: Array = texts.iter().map(String::as_str).collect();
                if texts.len() > 1 {
                    array.iter_mut().for_each(|item| item.decor_mut().set_prefix("\n    "));
                    array.set_trailing("\n");
                    array.set_trailing_comma(true);
                }
                array.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str, values: &[(&str, NewValue)]) -> String {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        rewrite(text, &values.collect::<Vec<_>>()).expect("it stays a configuration")
    }

    #[test]
    fn comments_order_and_what_is_right_already_stay() {
        let text = "# mine\nports = [\"xdp:eth1\"] # the fast one\n\n[steer] # who\n#groups = 7\n\
                    policy = \"sticky\" # by default\n\n[workers]\ncount = 2\n";
        let values = [
            ("steer.policy", NewValue::Text("modulo".to_owned())),
            ("workers.count", NewValue::Number(2)),
            ("log.level", NewValue::Text("info".to_owned())),
        ];
        assert_eq!(rewritten(text, &values), text.replace("\"sticky\"", "\"modulo\""));
    }

    #[test]
    fn sections_and_arrays_are_added_where_there_are_none() {
        let pins = ["group 1 = 0", "group 2 = 0"].map(str::to_owned).to_vec();
        let text = "ports = [\"xdp:eth1\"]\n";
        let values = [
            ("steer.pins", NewValue::Texts(pins.clone())),
            ("log.sockets", NewValue::Text("debug".to_owned())),
        ];
        let new = rewritten(text, &values);
        let config = Config::parse(&new).expect("it is one");
        assert_eq!(config.steer.pins, pins);
        assert_eq!(config.log.sockets, crate::LogLevel::by_name("debug"));
        assert!(new.starts_with(text) && new.contains("\n    \"group 1 = 0\",\n"), "{new}");
        // It is the same the second time, and empty when nothing is pinned any more.
        assert_eq!(rewritten(&new, &values), new);
        let none = rewritten(&new, &[("steer.pins", NewValue::Texts(Vec::new()))]);
        assert!(none.contains("pins = []"), "{none}");
        // Sections in one line, as few write them.
        let one = rewritten("workers = { count = 2 }\n", &[("workers.count", NewValue::Number(3))]);
        assert_eq!(one, "workers = { count = 3 }\n");
    }

    #[test]
    fn what_would_be_no_configuration_is_refused() {
        let wrong = [("workers.count".to_owned(), NewValue::Number(0))];
        let error = rewrite("", &wrong).expect_err("there is a worker at least");
        assert_eq!(error.key(), Some("workers.count"));
        rewrite("prots = []\n", &[]).expect_err("it was none before");
    }
}

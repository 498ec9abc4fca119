//! Where the keys of a text stand, for code that judges values by more than their own rules.

use toml::de::{DeTable, DeValue};

use crate::document::{entries, line_of};

/// The lines of a text's keys, and of what is listed below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: String,
    line: usize,
    /// Of each item, where the value is an array.
    items: Vec<usize>,
}

impl Places {
    /// The places of a text; none of one that is no TOML.
    pub fn of(text: &str) -> Self {
        let Ok(document) = DeTable::parse(text) else { return Self::default() };
        let place = |entry: &crate::document::Entry<'_>| Place {
            path: entry.path(),
            line: line_of(text, entry.start),
            items: items(text, entry.value),
        };
        Self { places: entries(document.get_ref()).iter().map(place).collect() }
    }

    /// The line, from 1, of a key such as `steer.policy`; of the `index`-th item of its array where
    /// one is meant, or, of keys below `[[tenant]]`, of the `index`-th that has it. `None`: the
    /// text does not mention it.
    pub fn line(&self, path: &str, index: Option<usize>) -> Option<usize> {
        let found: Vec<&Place> = self.places.iter().filter(|place| place.path == path).collect();
        let first = found.first()?;
        let meant = index.and_then(|index| match first.items.get(index) {
            Some(line) => Some(*line),
            None => found.get(index).map(|place| place.line),
        });
        Some(meant.unwrap_or(first.line))
    }
}

fn items(text: &str, value: &DeValue<'_>) -> Vec<usize> {
    let array = value.as_array().into_iter().flatten();
    array.map(|item| line_of(text, item.span().start)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ports = [\n  \"xdp:a\",\n  \"xdp:b\",\n]\n[steer]\npolicy = \"sticky\"\n\
                        [[tenant]]\nuid = 1\n[[tenant]]\nuid = 2\n";

    #[test]
    fn keys_their_items_and_their_repetitions_are_found_by_line() {
        let places = Places::of(TEXT);
        assert_eq!(places.line("ports", None), Some(1));
        assert_eq!(places.line("ports", Some(1)), Some(3));
        assert_eq!(places.line("ports", Some(9)), Some(1));
        assert_eq!(places.line("steer.policy", None), Some(6));
        assert_eq!(places.line("tenant.uid", Some(0)), Some(8));
        assert_eq!(places.line("tenant.uid", Some(1)), Some(10));
        assert_eq!(places.line("steer.groups", None), None);
        assert_eq!(Places::of("no = toml = ").line("no", None), None);
    }
}

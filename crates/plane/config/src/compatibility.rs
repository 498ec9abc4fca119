//! Files of versions before are still read, whatever has come since.

use toml::de::DeTable;

use crate::Config;
use crate::document::entries;
use crate::rule::{self, RULES};

/// Each version with a file that has all of its keys. One is added when a version is tagged; none
/// is ever changed afterwards.
const VERSIONS: [(&str, &str); 1] = [("0.1.0", include_str!("../compatibility/0.1.0.toml"))];

#[test]
fn files_of_versions_before_are_read_with_all_their_keys() {
    for (version, text) in VERSIONS {
        let config = Config::parse(text).unwrap_or_else(|error| panic!("{version}: {error}"));
        assert_ne!(config, Config::default(), "{version}");
    }
}

#[test]
fn the_first_version_had_these_keys() {
    let (_, text) = VERSIONS[0];
    let document = DeTable::parse(text).expect("it is TOML");
    let keys: Vec<String> = entries(document.get_ref()).iter().map(|entry| entry.path()).collect();
    let is_there = |rule: &&rule::Rule| keys.contains(&rule::join(rule.section, rule.key));
    // Keys that have come since are in no file of it; there were as many as these.
    assert!(RULES.iter().filter(is_there).count() >= 76, "{}", keys.len());
}

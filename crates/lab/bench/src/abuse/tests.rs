//! Every case is listed once, and a small attack gives figures.

use super::*;

#[test]
fn every_case_has_its_own_name_and_says_what_it_is() {
    for (at, case) in CASES.iter().enumerate() {
        assert!(!case.help.is_empty(), "{}", case.name);
        assert!(CASES[..at].iter().all(|other| other.name != case.name), "{}", case.name);
    }
}

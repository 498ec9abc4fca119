//! The differences that are documented, each with its reason: the table of
//! `docs/reference/differences.md`.

use crate::script::Step;

/// One of them.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its row in the table.
    pub(crate) name: &'static str,
    /// Whether it is why the last of these calls had these outcomes, Linux's and Calisto's.
    applies: fn(&[Step], &str, &str) -> bool,
}

/// All of them.
pub(crate) const RULES: &[Rule] = &[];

/// The documented reason for which the last of these calls has two outcomes, if there is one.
pub(crate) fn rule_of(steps: &[Step], linux: &str, calisto: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| (rule.applies)(steps, linux, calisto))
}

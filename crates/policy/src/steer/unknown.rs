//! The answer to a policy name that does not exist: what was probably meant, and what there is.

use std::fmt;

use super::NAMES;

/// No policy has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub(super) String);

impl UnknownPolicy {
    /// The policy that was probably meant.
    pub fn suggestion(&self) -> Option<&'static str> {
        let near = NAMES.iter().map(|&(name, _)| (edits(&self.0, name), name));
        // Up to a third of the letters wrong is a slip; more is another word.
        near.filter(|&(edits, name)| edits * 3 <= name.len()).min().map(|(_, name)| name)
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no steering policy is called \"{}\"; ", self.0)?;
        if let Some(name) = self.suggestion() {
            write!(f, "did you mean \"{name}\"? ")?;
        }
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        write!(f, "there are {}", names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

/// Letters to insert, delete or change to make `given` into `name` (Levenshtein's distance). What
/// is far too long is not measured: it comes from outside and costs a product of lengths.
fn edits(given: &str, name: &str) -> usize {
    if given.len() > 2 * name.len() {
        return given.len();
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (above, letter) in given.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, other) in name.chars().enumerate() {
            let change = diagonal + usize::from(letter != other);
            diagonal = row[at + 1];
            row[at + 1] = change.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[name.len()]
}

//! The answer to a policy name that does not exist: what was probably meant, and what there is.

use std::fmt;

/// No policy has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    /// What the policies decide.
    kind: &'static str,
    given: String,
    names: &'static [(&'static str, &'static str)],
}

impl UnknownPolicy {
    pub(crate) fn new(
        kind: &'static str,
        given: &str,
        names: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { kind, given: given.to_owned(), names }
    }

    /// The policy that was probably meant.
    pub fn suggestion(&self) -> Option<&'static str> {
        let near = self.names.iter().map(|&(name, _)| (edits(&self.given, name), name));
        // Up to a third of the letters wrong is a slip; more is another word.
        near.filter(|&(edits, name)| edits * 3 <= name.len()).min().map(|(_, name)| name)
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, given, names } = self;
        write!(f, "no {kind} policy is called \"{given}\"; ")?;
        if let Some(name) = self.suggestion() {
            write!(f, "did you mean \"{name}\"? ")?;
        }
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
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

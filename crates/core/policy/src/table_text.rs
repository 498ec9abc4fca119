//! The owner table as text: what `calisto steer export` writes and `steer load` reads.
//!
//! First line `groups N`, then runs `FIRST-LAST WORKER` in ascending order, `#` starts a comment.
//! Groups that no line names are unowned. Only the hashed groups appear; pins are listed apart.

use std::fmt;
use std::fmt::Write as _;

use base::WorkerId;

use crate::table::{Entry, OwnerTable};

/// Writes the hashed groups of a table; `entries` may be a copy taken bit by bit.
pub fn export(entries: &[Entry]) -> String {
    let mut text = format!("groups {}\n", entries.len());
    let mut first = 0;
    while first < entries.len() {
        let owner = entries[first].owner();
        let run = entries[first..].iter().take_while(|entry| entry.owner() == owner).count();
        if let Some(worker) = owner {
            writeln!(text, "{}-{} {}", first, first + run - 1, worker).expect("a String takes all");
        }
        first += run;
    }
    text
}

/// Reads what [`export`] writes.
///
/// # Errors
/// The line that is wrong, and what is allowed there.
pub fn import(text: &str) -> Result<Vec<Entry>, ImportError> {
    let mut lines = text
        .lines()
        .zip(1..)
        .map(|(line, number)| (line.split('#').next().unwrap_or("").trim(), number))
        .filter(|(line, _)| !line.is_empty());
    let at = |line, what| ImportError { line, what };
    let (header, number) = lines.next().ok_or(at(1, What::Header))?;
    let groups: u32 = header
        .strip_prefix("groups ")
        .and_then(|count| count.trim().parse().ok())
        .ok_or(at(number, What::Header))?;
    let table = OwnerTable::new(groups, 0).map_err(|_| at(number, What::Groups(groups)))?;
    let mut entries = table.entries().to_vec();
    let mut next_free = 0;
    for (line, number) in lines {
        let (first, last, worker) = run(line).ok_or(at(number, What::Run))?;
        if first < next_free || last < first || last >= groups {
            return Err(at(number, What::Range { next_free, groups }));
        }
        if worker >= WorkerId::LIMIT {
            return Err(at(number, What::Worker(worker)));
        }
        entries[first as usize..=last as usize].fill(Entry::owned_by(WorkerId(worker)));
        next_free = last + 1;
    }
    Ok(entries)
}

fn run(line: &str) -> Option<(u32, u32, u16)> {
    let (range, worker) = line.split_once(char::is_whitespace)?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?, worker.trim().parse().ok()?))
}

/// A text is not an owner table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportError {
    line: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Header,
    Groups(u32),
    Run,
    Range { next_free: u32, groups: u32 },
    Worker(u16),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.what {
            What::Header => write!(f, "the first line must be `groups N`"),
            What::Groups(groups) => write!(
                f,
                "{groups} groups are not possible: a power of two from {} to {}",
                OwnerTable::GROUPS_MIN,
                OwnerTable::GROUPS_MAX
            ),
            What::Run => write!(f, "expected `FIRST-LAST WORKER`, as in `0-4095 2`"),
            What::Range { next_free, groups } => {
                write!(f, "a run must lie in {next_free}-{} and end after it starts", groups - 1)
            }
            What::Worker(worker) => {
                write!(f, "worker {worker} is not possible: ids end at {}", WorkerId::LIMIT - 1)
            }
        }
    }
}

impl std::error::Error for ImportError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_wrong_line_is_named_with_what_is_allowed() {
        for (text, line, sentence) in [
            ("", 1, "groups N"),
            ("# only a comment\n", 1, "groups N"),
            ("groups 100\n", 1, "power of two"),
            ("groups 128\n0-5\n", 2, "FIRST-LAST WORKER"),
            ("groups 128\n0-5 x\n", 2, "FIRST-LAST WORKER"),
            ("groups 128\n0-5 1\n5-9 2\n", 3, "must lie in 6-127"),
            ("groups 128\n0-128 1\n", 2, "must lie in 0-127"),
            ("groups 128\n9-5 1\n", 2, "must lie in 0-127"),
            ("groups 128\n0-5 20000\n", 2, "ids end at 16382"),
        ] {
            let error = import(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{text:?}: {error}");
            assert!(error.contains(sentence), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_single_group_needs_no_range_and_comments_are_skipped() {
        let entries = import("# mine\ngroups 128 # small\n\n7 3\n").expect("well formed");
        assert_eq!(entries[7].owner(), Some(WorkerId(3)));
        assert_eq!(entries.iter().filter(|entry| entry.owner().is_some()).count(), 1);
    }

    proptest! {
        #[test]
        fn what_is_exported_is_imported_the_same(
            owners in proptest::collection::vec(proptest::option::of(0..5_u16), 128),
        ) {
            let entries: Vec<Entry> = owners
                .into_iter()
                .map(|owner| owner.map_or(Entry::UNOWNED, |id| Entry::owned_by(WorkerId(id))))
                .collect();
            prop_assert_eq!(import(&export(&entries)), Ok(entries));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(groups [0-9]{1,4}\n)?[0-9 \n#-]{0,60}") {
            let _ = import(&text);
        }
    }
}

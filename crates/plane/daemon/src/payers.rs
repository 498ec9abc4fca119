//! Who pays for what a user has.
//!
//! A person with subordinate users (subuid(5)) becomes any of 65,536 at will, and would have as
//! many shares of everything. So whoever counts shares counts those of the person: [`payer_of`].
//! What a user may do, and whose a socket is, is another question, and goes by the user.

use std::sync::{PoisonError, RwLock};

/// The subordinate users of this host, as they were read last.
static PERSONS: RwLock<Persons> = RwLock::new(Persons { ranges: Vec::new() });

/// More lines of the file are not read.
const RANGES_MAX: usize = 1 << 16;

/// Whose users are whose.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Persons {
    /// By their first users.
    ranges: Vec<Range>,
}

/// Users from `first` on, which somebody may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u32,
    last: u32,
    payer: u32,
}

/// The user that has a share for this one: itself, or whose subordinate it is.
pub(crate) fn payer_of(uid: u32) -> u32 {
    PERSONS.read().unwrap_or_else(PoisonError::into_inner).payer_of(uid)
}

/// Reads whose users are whose, for all that is counted from now on.
pub(crate) fn read() {
    let text = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
    set(Persons::parse(&text, sys::users::uid_of));
}

pub(crate) fn set(persons: Persons) {
    *PERSONS.write().unwrap_or_else(PoisonError::into_inner) = persons;
}

impl Persons {
    /// What the lines of subuid(5) say: `name-or-number:first:count`. Those that say nothing are
    /// left out.
    pub(crate) fn parse(text: &str, uid_of: impl Fn(&str) -> Option<u32>) -> Self {
        let range = |line: &str| {
            let mut fields = line.trim().split(':');
            let (owner, first) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
            let count: u32 = fields.next()?.parse().ok()?;
            let last = first.saturating_add(count.checked_sub(1)?);
            let payer = match owner.parse().ok().or_else(|| uid_of(owner))? {
                // Root lends them to containers, which are not root and have one share.
                0 => first,
                owner => owner,
            };
            Some(Range { first, last, payer })
        };
        let mut ranges: Vec<Range> = text.lines().filter_map(range).take(RANGES_MAX).collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    fn payer_of(&self, uid: u32) -> u32 {
        // The nearest that begins before it: ranges that overlap are a mistake of the file's.
        let after = self.ranges.partition_point(|range| range.first <= uid);
        let before = after.checked_sub(1).map(|at| self.ranges[at]);
        before.filter(|range| uid != 0 && uid <= range.last).map_or(uid, |range| range.payer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_a_subordinate_is_paid_for_by_whose_it_is_and_others_by_themselves() {
        let text = "ann:100000:65536\n1001:200000:10\nroot:300000:65536\n\
                    nobody-here:400000:10\nann:x:1\nann:500000:0\n0:4294967290:100\n";
        let uid_of =
            |name: &str| [("ann", 1000), ("root", 0)].into_iter().find(|(is, _)| *is == name);
        let persons = Persons::parse(text, |name| uid_of(name).map(|(_, uid)| uid));
        for (uid, payer) in [
            (0, 0),
            (1000, 1000),
            (99_999, 99_999),
            (100_000, 1000),
            (165_535, 1000),
            (165_536, 165_536),
            (200_009, 1001),
            (200_010, 200_010),
            (300_001, 300_000),
            (400_001, 400_001),
            (500_000, 500_000),
            (u32::MAX, 4_294_967_290),
        ] {
            assert_eq!(persons.payer_of(uid), payer, "{uid}");
        }
        // Whatever the file says, root is root.
        assert_eq!(Persons::parse("1000:0:10", |_| None).payer_of(0), 0);
    }
}

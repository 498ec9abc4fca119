//! Tables as runs of equal entries: `[count, entry, count, entry, ...]`, an entry as its bits.

use serde::{Deserialize, Deserializer, Serializer};

use crate::table::{Entry, OwnerTable};

/// Entries of a table, at most: hashed groups, and as many virtual ones.
pub(super) const ENTRIES_MAX: usize = 2 * OwnerTable::GROUPS_MAX as usize;

pub(super) fn serialize<S: Serializer>(entries: &[Entry], to: S) -> Result<S::Ok, S::Error> {
    let runs = entries.chunk_by(|one, next| one == next);
    to.collect_seq(runs.flat_map(|run| [run.len() as u32, u32::from(run[0].bits())]))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Entry>, D::Error> {
    use serde::de::Error;
    let runs = Vec::<u32>::deserialize(from)?;
    let mut entries = Vec::new();
    for run in runs.chunks(2) {
        let &[count, bits] = run else {
            return Err(D::Error::custom("a table is pairs of a count and an entry"));
        };
        let bits = u16::try_from(bits)
            .map_err(|_| D::Error::custom(format_args!("an entry has 16 bits, not {bits}")))?;
        let len = entries.len() + count as usize;
        if len > ENTRIES_MAX {
            return Err(D::Error::custom(format_args!("a table has at most {ENTRIES_MAX} groups")));
        }
        entries.resize(len, Entry::from_bits(bits));
    }
    Ok(entries)
}

//! What became of the connections, as it is said in the end.

use std::fmt;

/// What became of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) given: u32,
    /// Nobody has accepted them, their library does not follow, or their descriptor is in no
    /// process that can be seen.
    pub(super) unnamed: u32,
    /// They did not stand, or have urgent data.
    pub(super) state: u32,
    /// Their program was in the middle of a copy, or the time was over.
    pub(super) busy: u32,
    /// At a port that is not their program's to have.
    pub(super) port: u32,
    /// Their program has written what cannot be.
    pub(super) violation: u32,
    /// By the kernel, or their program has taken nothing.
    pub(super) refused: u32,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, unnamed, state, busy, port, violation, refused } = *self;
        let lost = unnamed + state + busy + port + violation + refused;
        write!(f, "the kernel goes on with {given} connections; {lost} are lost")?;
        let reasons = [
            (unnamed, "without a descriptor that could be found"),
            (state, "in no state to go on"),
            (busy, "of programs that were busy"),
            (port, "at ports below 1024 that are not their programs'"),
            (violation, "of programs that violated the protocol"),
            (refused, "refused"),
        ];
        let mut between = " (";
        for (count, what) in reasons.iter().filter(|(count, _)| *count > 0) {
            write!(f, "{between}{count} {what}")?;
            between = ", ";
        }
        f.write_str(if lost > 0 { ")" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_said_with_its_reasons() {
        let all = Counts { given: 7, ..Counts::default() };
        assert_eq!(all.to_string(), "the kernel goes on with 7 connections; 0 are lost");
        let some = Counts { state: 2, busy: 1, ..all };
        let says = "3 are lost (2 in no state to go on, 1 of programs that were busy)";
        assert!(some.to_string().ends_with(says), "{some}");
    }
}

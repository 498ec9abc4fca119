//! What a socket is ready for, in the bits of poll(2).

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of conditions; its bits are those of poll(2) and, below [`Self::RDHUP`], of epoll(7) too.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Readiness(u32);

impl Readiness {
    /// Nothing.
    pub const EMPTY: Self = Self(0);
    /// There are bytes, a datagram, a connection to accept, or the end of the stream.
    pub const IN: Self = Self(0x001);
    /// There is urgent data.
    pub const PRI: Self = Self(0x002);
    /// There is room for more bytes, or a call would fail at once.
    pub const OUT: Self = Self(0x004);
    /// An error waits to be read. Reported whether it is asked for or not.
    pub const ERR: Self = Self(0x008);
    /// Both directions have ended. Reported whether it is asked for or not.
    pub const HUP: Self = Self(0x010);
    /// The peer will send no more, or nothing more is read.
    pub const RDHUP: Self = Self(0x2000);
    /// What is reported without being asked for.
    pub const ALWAYS: Self = Self(Self::ERR.0 | Self::HUP.0);

    /// The conditions that these bits of poll(2) name; unknown bits are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        let known = Self::IN.0 | Self::PRI.0 | Self::OUT.0 | Self::ALWAYS.0 | Self::RDHUP.0;
        Self(bits & known)
    }

    /// As bits of poll(2).
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among them.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those that a caller asking for `want` is told.
    pub const fn for_want(self, want: Self) -> Self {
        Self(self.0 & (want.0 | Self::ALWAYS.0))
    }

    /// `self` when `condition` holds, else nothing.
    pub(crate) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::EMPTY }
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Readiness {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Readiness {
    type Output = Self;

    fn not(self) -> Self {
        Self::from_bits(!self.0)
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::IN, "IN"),
            (Self::PRI, "PRI"),
            (Self::OUT, "OUT"),
            (Self::ERR, "ERR"),
            (Self::HUP, "HUP"),
            (Self::RDHUP, "RDHUP"),
        ];
        let mut rest = names.iter().filter(|(bit, _)| self.contains(*bit));
        let Some((_, first)) = rest.next() else { return f.write_str("nothing") };
        f.write_str(first)?;
        rest.try_for_each(|(_, name)| write!(f, " | {name}"))
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::PollFlags;

    use super::*;

    #[test]
    fn its_bits_are_those_of_poll() {
        let pairs = [
            (Readiness::IN, PollFlags::IN),
            (Readiness::PRI, PollFlags::PRI),
            (Readiness::OUT, PollFlags::OUT),
            (Readiness::ERR, PollFlags::ERR),
            (Readiness::HUP, PollFlags::HUP),
            (Readiness::RDHUP, PollFlags::RDHUP),
        ];
        for (ours, kernels) in pairs {
            assert_eq!(ours.bits(), u32::from(kernels.bits()), "{ours:?}");
        }
    }

    #[test]
    fn errors_and_hang_ups_are_told_without_being_asked_for() {
        let all = !Readiness::EMPTY;
        assert_eq!(all.for_want(Readiness::EMPTY), Readiness::ALWAYS);
        assert_eq!(all.for_want(Readiness::IN), Readiness::IN | Readiness::ALWAYS);
        assert_eq!(Readiness::IN.for_want(Readiness::OUT), Readiness::EMPTY);
    }

    #[test]
    fn it_prints_the_names_that_manuals_use() {
        assert_eq!(format!("{:?}", Readiness::IN | Readiness::RDHUP), "IN | RDHUP");
        assert_eq!(format!("{:?}", Readiness::EMPTY), "nothing");
        assert_eq!(Readiness::from_bits(u32::MAX), !Readiness::EMPTY);
    }
}

//! Sequence numbers, which wrap (RFC 9293 section 3.4).

use std::ops::{Add, AddAssign, Sub};

/// A sequence number.
///
/// It has an order only among numbers less than 2^31 apart, so it is no `Ord`: whoever compares
/// has to say so with [`Self::is_before`] and its kin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether it comes before `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// Whether it comes after `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// Numbers from `earlier` to this one; huge when it is not earlier.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    #[must_use]
    pub const fn earlier(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    #[inline]
    fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    #[inline]
    fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, count: u32) {
        *self = *self + count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_lies_less_than_half_the_circle_ahead_comes_after(
            start: u32,
            ahead in 1_u32..0x7fff_ffff,
        ) {
            let (first, second) = (Seq(start), Seq(start) + ahead);
            prop_assert!(first.is_before(second) && second.is_after(first));
            prop_assert!(!second.is_before(first) && !first.is_before(first));
            prop_assert_eq!(second.since(first), ahead);
            prop_assert_eq!((first.later(second), first.earlier(second)), (second, first));
            prop_assert_eq!(second - ahead, first);
        }
    }
}

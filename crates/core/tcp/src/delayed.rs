//! How eager a flow is to acknowledge what has come: what Linux counts for that.

/// Segments acknowledged at once, at most (Linux's TCP_MAX_QUICKACKS).
pub(crate) const QUICK_MAX: u8 = 16;
/// As high as [`Eager::pushed`] counts.
pub(crate) const PUSHED_TWICE: u8 = 2;

/// What decides how long an acknowledgement waits, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eager(u8);

impl Eager {
    /// That of a flow to which nothing ever came.
    pub(crate) const NEW: Self = Self(QUICK_MAX << 2);

    /// Segments that are acknowledged at once from now on, so that a peer in slow start is not
    /// slowed down.
    pub(crate) const fn quick(self) -> u8 {
        self.0 >> 2
    }

    pub(crate) const fn set_quick(&mut self, quick: u8) {
        self.0 = (quick << 2) | self.pushed();
    }

    /// Segments since the last acknowledgement that seem to end what the peer had to say: none, one
    /// or several.
    pub(crate) const fn pushed(self) -> u8 {
        self.0 & 0b11
    }

    pub(crate) const fn set_pushed(&mut self, pushed: u8) {
        self.0 = (self.0 & !0b11) | pushed;
    }

    /// All that has come is acknowledged.
    #[inline]
    pub(crate) const fn acknowledged(&mut self) {
        self.set_pushed(0);
    }

    /// Whether something came that was acknowledged at once: never, if nothing ever came.
    #[inline]
    pub(crate) const fn has_heard(self) -> bool {
        self.quick() < QUICK_MAX
    }
}

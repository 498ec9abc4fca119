//! The fuzzer's bytes, read as a program: short, and never out of step after a change.

/// Bytes that are left. Past the end all are zero, so that any cut of an input is an input.
pub(crate) struct Program<'a> {
    rest: &'a [u8],
}

impl<'a> Program<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether there is more.
    pub(crate) const fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    pub(crate) fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// That many of the next bytes, or as many as there are.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// One of `choices`, by the bits of `bits` from `shift` on.
    pub(crate) fn pick<T: Copy, const N: usize>(bits: u8, shift: u32, choices: [T; N]) -> T {
        choices[usize::from(bits >> shift) % N]
    }
}

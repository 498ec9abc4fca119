//! Big-endian words and byte arrays at an offset, with the bounds checked.

/// The 16-bit word at `at`.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// The `N` bytes at `at`.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Writes `value` at `at`; false, and nothing written, when it does not fit.
#[inline]
#[must_use]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> bool {
    match bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        Some(place) => {
            *place = value;
            true
        }
        None => false,
    }
}

/// Exchanges the `N` bytes at `first` with the `N` bytes right behind them.
#[inline]
#[must_use]
pub(crate) fn swap_adjacent<const N: usize>(bytes: &mut [u8], first: usize) -> bool {
    let Some((one, rest)) =
        bytes.get_mut(first..).and_then(|rest| rest.split_first_chunk_mut::<N>())
    else {
        return false;
    };
    match rest.first_chunk_mut::<N>() {
        Some(other) => {
            std::mem::swap(one, other);
            true
        }
        None => false,
    }
}

//! The options of a segment as the engine uses them: read all at once, written with padding.

use wire::tcp::{Options, TcpOption};

use crate::Seq;

/// Largest window shift that counts (RFC 7323 section 2.3: a larger one is taken as this one).
pub(crate) const SHIFT_MAX: u8 = 14;
/// What a segment may carry unless its receiver says more (RFC 9293 section 3.7.1).
pub(crate) const DEFAULT_MSS_V4: u16 = 536;
/// The same over IPv6.
pub(crate) const DEFAULT_MSS_V6: u16 = 1220;
/// Bytes that the timestamps option takes with its padding.
pub(crate) const TIMESTAMPS_BYTES: u16 = 12;
/// The first four bytes of the timestamps option as every stack lays it out (RFC 7323 appendix A).
pub(crate) const TIMESTAMPS_START: [u8; 4] = [1, 1, 8, 10];

/// The options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) mss: Option<u16>,
    pub(crate) shift: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) sack_blocks: [(Seq, Seq); 4],
    pub(crate) sack_count: u8,
    /// The options ended in something that is none; what came before it counts.
    pub(crate) is_broken: bool,
}

/// Both fields of the timestamps option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamps {
    pub(crate) value: u32,
    pub(crate) echo: u32,
}

impl Parsed {
    /// Reads all; of an option that comes twice the last counts, as in Linux.
    pub(crate) fn read(options: Options<'_>) -> Self {
        let mut parsed = Self::default();
        for option in options {
            match option {
                // A segment without room for data would never get anything across.
                TcpOption::MaximumSegment(mss) => parsed.mss = (mss > 0).then_some(mss),
                TcpOption::WindowScale(shift) => parsed.shift = Some(shift.min(SHIFT_MAX)),
                TcpOption::SackPermitted => parsed.sack_permitted = true,
                TcpOption::Timestamps { value, echo } => {
                    parsed.timestamps = Some(Timestamps { value, echo });
                }
                TcpOption::Sack(ranges) => {
                    parsed.sack_count = 0;
                    let (ranges, _) = ranges.as_chunks::<8>();
                    for (place, [a, b, c, d, e, f, g, h]) in
                        parsed.sack_blocks.iter_mut().zip(ranges)
                    {
                        let start = Seq(u32::from_be_bytes([*a, *b, *c, *d]));
                        *place = (start, Seq(u32::from_be_bytes([*e, *f, *g, *h])));
                        parsed.sack_count += 1;
                    }
                }
                TcpOption::Other { .. } => {}
                TcpOption::Broken => parsed.is_broken = true,
            }
        }
        parsed
    }

    /// The ranges of the SACK option, as sent: first number, number behind the last.
    pub(crate) fn sack(&self) -> &[(Seq, Seq)] {
        &self.sack_blocks[..usize::from(self.sack_count)]
    }
}

/// Options being written, at most 40 bytes.
#[derive(Clone, Copy, Debug)]
pub struct OptionBytes {
    bytes: [u8; 40],
    len: u8,
}

impl OptionBytes {
    /// None at all.
    pub const NONE: Self = Self { bytes: [0; 40], len: 0 };

    /// Timestamps and nothing else.
    #[inline]
    pub(crate) const fn of_timestamps(stamps: Timestamps) -> Self {
        let mut options = Self::NONE;
        let [a, b, c, d] = TIMESTAMPS_START;
        let [v0, v1, v2, v3] = stamps.value.to_be_bytes();
        let [e0, e1, e2, e3] = stamps.echo.to_be_bytes();
        let bytes = [a, b, c, d, v0, v1, v2, v3, e0, e1, e2, e3];
        let mut at = 0;
        while at < bytes.len() {
            options.bytes[at] = bytes[at];
            at += 1;
        }
        options.len = 12;
        options
    }

    /// What was written, a multiple of four bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    #[inline]
    fn put<const N: usize>(&mut self, option: [u8; N]) -> bool {
        let at = usize::from(self.len);
        let Some(place) = self.bytes.get_mut(at..at + N) else { return false };
        place.copy_from_slice(&option);
        // At most 40, as `place` exists.
        self.len += N as u8;
        true
    }

    #[inline]
    pub(crate) fn mss(&mut self, mss: u16) {
        let [high, low] = mss.to_be_bytes();
        self.put([2, 4, high, low]);
    }

    #[inline]
    pub(crate) fn window_scale(&mut self, shift: u8) {
        self.put([1, 3, 3, shift]);
    }

    /// SACK and timestamps of a SYN: with both, the one is the other's padding, as in Linux.
    pub(crate) fn syn_options(&mut self, has_sack: bool, stamps: Option<Timestamps>) {
        match (has_sack, stamps) {
            (true, Some(stamps)) => {
                self.put([4, 2, 8, 10]);
                self.put(stamps.value.to_be_bytes());
                self.put(stamps.echo.to_be_bytes());
            }
            (true, None) => drop(self.put([1, 1, 4, 2])),
            (false, Some(stamps)) => self.timestamps(stamps),
            (false, None) => {}
        }
    }

    #[inline]
    pub(crate) fn timestamps(&mut self, stamps: Timestamps) {
        let [a, b, c, d] = TIMESTAMPS_START;
        let [v0, v1, v2, v3] = stamps.value.to_be_bytes();
        let [e0, e1, e2, e3] = stamps.echo.to_be_bytes();
        self.put([a, b, c, d, v0, v1, v2, v3, e0, e1, e2, e3]);
    }

    /// As many of `ranges` as fit.
    pub(crate) fn sack(&mut self, ranges: &[(Seq, Seq)]) {
        let room = (40 - usize::from(self.len)).saturating_sub(4) / 8;
        let count = ranges.len().min(room);
        if count == 0 {
            return;
        }
        self.put([1, 1, 5, 2 + 8 * count as u8]);
        for (start, end) in &ranges[..count] {
            self.put(start.0.to_be_bytes());
            self.put(end.0.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn everything_written_is_read_back() {
        let mut options = OptionBytes::NONE;
        options.mss(1460);
        options.syn_options(true, Some(Timestamps { value: 7, echo: u32::MAX }));
        options.window_scale(9);
        assert_eq!(options.as_slice().len(), 20, "as long as Linux's");
        let parsed = Parsed::read(Options::new(options.as_slice()));
        let expected = Parsed {
            mss: Some(1460),
            shift: Some(9),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 7, echo: u32::MAX }),
            ..Parsed::default()
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn beside_timestamps_three_sack_ranges_fit() {
        let ranges =
            [(Seq(1), Seq(2)), (Seq(5), Seq(9)), (Seq(0), Seq(u32::MAX)), (Seq(3), Seq(4))];
        let mut options = OptionBytes::NONE;
        options.timestamps(Timestamps { value: 1, echo: 2 });
        options.sack(&ranges);
        let parsed = Parsed::read(Options::new(options.as_slice()));
        assert_eq!(parsed.sack(), &ranges[..3]);
        let mut alone = OptionBytes::NONE;
        alone.sack(&ranges);
        assert_eq!(Parsed::read(Options::new(alone.as_slice())).sack(), &ranges);
    }

    #[test]
    fn a_shift_above_fourteen_counts_as_fourteen_and_an_mss_of_zero_as_none() {
        let parsed = Parsed::read(Options::new(&[3, 3, 255, 2, 4, 0, 0]));
        assert_eq!((parsed.shift, parsed.mss), (Some(14), None));
    }

    #[test]
    fn a_length_of_zero_ends_the_options_and_what_came_before_counts() {
        let parsed = Parsed::read(Options::new(&[2, 4, 5, 180, 5, 0, 3, 3, 7]));
        assert_eq!((parsed.mss, parsed.shift, parsed.is_broken), (Some(1460), None, true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..41)) {
            prop_assert!(Parsed::read(Options::new(&bytes)).sack().len() <= 4);
        }
    }
}

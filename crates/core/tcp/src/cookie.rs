//! SYN cookies (RFC 4987 section 3.6): half-open connections that cost no memory.
//!
//! When a listener's half-open connections are too many, the answer to a SYN carries all that is
//! needed to make the connection from the acknowledgement: the MSS and the time in its sequence
//! number, scaling, SACK and ECN in the low bits of its timestamp.

use base::Nanos;
use wire::{FlowKey, tcp};

use crate::Seq;
use crate::options::Parsed;
use crate::secret::{Purpose, Secret};

/// Sizes that an MSS is rounded down to.
const SIZES: [u16; 8] = [48, 536, 1220, 1300, 1380, 1440, 1460, 8940];
/// A cookie's clock advances so often; one is good for two of these periods.
const PERIOD: Nanos = Nanos::from_secs(64);
/// Low bits of a timestamp that carry options: shift or 15, SACK, ECN.
const STAMP_BITS: u32 = 6;
const NO_SHIFT: u8 = 15;

/// What a cookie remembers of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) mss: u16,
    pub(crate) shift: Option<u8>,
    pub(crate) has_sack: bool,
    pub(crate) has_ecn: bool,
}

/// Eight bits of time and size, 24 of a hash over them, the flow and the peer's first number.
fn number(secret: &Secret, key: &FlowKey, irs: Seq, period: u64, size: usize) -> Seq {
    let number = (u64::from(irs.0) << 32) ^ (period << 3) ^ size as u64;
    let hash = secret.hash(Purpose::Cookie, Some(key), number) as u32;
    Seq((hash & !0xff) | ((period as u32 & 0x1f) << 3) | size as u32)
}

/// The first number of the answer to a SYN.
pub(crate) fn make(secret: &Secret, key: &FlowKey, irs: Seq, mss: u16, now: Nanos) -> Seq {
    let size = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0);
    number(secret, key, irs, now.0 / PERIOD.0, size)
}

/// The timestamp of the answer: the clock, a little earlier, with the options in its low bits.
pub(crate) fn stamp(clock: u32, options: &Parsed, has_ecn: bool) -> u32 {
    let shift = options.shift.unwrap_or(NO_SHIFT);
    let bits =
        u32::from(shift) | (u32::from(options.sack_permitted) << 4) | (u32::from(has_ecn) << 5);
    let stamp = (clock >> STAMP_BITS << STAMP_BITS) | bits;
    // A timestamp must not be ahead of those that follow it.
    if stamp.wrapping_sub(clock).cast_signed() > 0 {
        stamp.wrapping_sub(1 << STAMP_BITS)
    } else {
        stamp
    }
}

/// What `ack`, the acknowledgement of a cookie, remembers; nothing if it is none of ours or too
/// old.
pub(crate) fn open(
    secret: &Secret,
    key: &FlowKey,
    header: &tcp::Header,
    options: &Parsed,
    now: Nanos,
) -> Option<Remembered> {
    let cookie = Seq(header.acknowledgement) - 1;
    let irs = Seq(header.sequence) - 1;
    let present = now.0 / PERIOD.0;
    let size = (cookie.0 & 7) as usize;
    let period = [present, present.saturating_sub(1)]
        .into_iter()
        .find(|period| *period as u32 & 0x1f == (cookie.0 >> 3) & 0x1f)?;
    if number(secret, key, irs, period, size) != cookie {
        return None;
    }
    let mss = SIZES[size];
    // Without a timestamp there was no room to remember more.
    let Some(stamps) = options.timestamps else {
        return Some(Remembered { mss, shift: None, has_sack: false, has_ecn: false });
    };
    let shift = (stamps.echo & 0xf) as u8;
    Some(Remembered {
        mss,
        shift: (shift != NO_SHIFT).then_some(shift),
        has_sack: stamps.echo & 0x10 != 0,
        has_ecn: stamps.echo & 0x20 != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::Timestamps;

    fn key() -> FlowKey {
        "tcp 10.0.0.1:5000 -> 10.0.0.2:7".parse().unwrap()
    }

    fn answer(cookie: Seq, irs: Seq, echo: Option<u32>) -> (tcp::Header, Parsed) {
        let header = tcp::Header {
            source_port: 5000,
            destination_port: 7,
            sequence: (irs + 1).0,
            acknowledgement: (cookie + 1).0,
            header_bytes: 20,
            flags: tcp::ACK,
            window: 100,
            checksum: 0,
            urgent: 0,
        };
        let timestamps = echo.map(|echo| Timestamps { value: 1, echo });
        (header, Parsed { timestamps, ..Parsed::default() })
    }

    proptest! {
        #[test]
        fn a_cookie_remembers_the_syn_for_two_minutes_and_nothing_else_opens_it(
            key_bytes: [u8; 16],
            irs: u32,
            now in 0_u64..1 << 50,
            later in 0_u64..60_000_000_000,
            mss in 48_u16..9000,
            shift in prop::option::of(0_u8..15),
            sack: bool,
            ecn: bool,
            clock: u32,
            flipped in 0_u32..32,
        ) {
            let secret = Secret::new(key_bytes);
            let now = Nanos(now);
            let offered = Parsed { shift, sack_permitted: sack, ..Parsed::default() };
            let cookie = make(&secret, &key(), Seq(irs), mss, now);
            let stamp = stamp(clock, &offered, ecn);
            prop_assert!(clock.wrapping_sub(stamp) < 64);

            let (header, options) = answer(cookie, Seq(irs), Some(stamp));
            let opened = open(&secret, &key(), &header, &options, now + Nanos(later));
            let remembered = opened.expect("it is fresh");
            prop_assert!(remembered.mss <= mss);
            prop_assert_eq!(
                (remembered.shift, remembered.has_sack, remembered.has_ecn), (shift, sack, ecn)
            );

            let much_later = now + Nanos(3 * PERIOD.0);
            prop_assert_eq!(open(&secret, &key(), &header, &options, much_later), None);
            let (foreign, _) = answer(Seq(cookie.0 ^ (1 << flipped)), Seq(irs), None);
            prop_assert_eq!(open(&secret, &key(), &foreign, &options, now), None);
            let (foreign, _) = answer(cookie, Seq(irs ^ (1 << flipped)), None);
            prop_assert_eq!(open(&secret, &key(), &foreign, &options, now), None);
            let (plain, options) = answer(cookie, Seq(irs), None);
            let remembered = open(&secret, &key(), &plain, &options, now).expect("it is fresh");
            prop_assert_eq!((remembered.shift, remembered.has_sack), (None, false));
        }
    }
}

//! What only we can compute: first sequence numbers, timestamp offsets, cookies.
//!
//! One key of 128 bits, given at the start, and SipHash-2-4 of whatever is to be hidden.

use std::hash::{Hash, Hasher};

use base::Nanos;
use siphasher::sip::SipHasher24;
use wire::FlowKey;

use crate::Seq;

/// The engine's key.
#[derive(Clone)]
pub(crate) struct Secret([u8; 16]);

/// What a hash is for, so that one never tells anything of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    FirstNumber,
    TimestampOffset,
    Cookie,
    Port,
}

impl Secret {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// 64 bits of `purpose`, the flow and a number.
    pub(crate) fn hash(&self, purpose: Purpose, flow: Option<&FlowKey>, number: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(purpose as u8);
        hasher.write_u64(number);
        flow.hash(&mut hasher);
        hasher.finish()
    }

    /// The first number of a connection (RFC 6528 section 3): a clock that advances every 4 us,
    /// plus an offset of the flow's own.
    pub(crate) fn first_number(&self, flow: &FlowKey, now: Nanos) -> Seq {
        let clock = (now.0 / 4_000) as u32;
        Seq(clock) + self.hash(Purpose::FirstNumber, Some(flow), 0) as u32
    }

    /// What is added to the flow's timestamps (RFC 7323 section 5.4).
    pub(crate) fn timestamp_offset(&self, flow: &FlowKey) -> u32 {
        self.hash(Purpose::TimestampOffset, Some(flow), 0) as u32
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(text: &str) -> FlowKey {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_number_of_the_same_flow_grows_by_one_every_four_microseconds() {
        let secret = Secret::new([7; 16]);
        let flow = flow("tcp 10.0.0.1:5000 -> 10.0.0.2:7");
        let first = secret.first_number(&flow, Nanos::from_secs(1));
        let second = secret.first_number(&flow, Nanos::from_secs(1) + Nanos::from_micros(4000));
        assert_eq!(second.since(first), 1000);
    }

    #[test]
    fn other_flows_other_purposes_and_other_keys_give_other_numbers() {
        let one = flow("tcp 10.0.0.1:5000 -> 10.0.0.2:7");
        let other = flow("tcp 10.0.0.1:5001 -> 10.0.0.2:7");
        let (secret, foreign) = (Secret::new([7; 16]), Secret::new([8; 16]));
        let hash = |secret: &Secret, flow| secret.hash(Purpose::Cookie, Some(flow), 0);
        assert_ne!(hash(&secret, &one), hash(&secret, &other));
        assert_ne!(hash(&secret, &one), hash(&foreign, &one));
        assert_ne!(hash(&secret, &one), secret.hash(Purpose::FirstNumber, Some(&one), 0));
        assert_eq!(format!("{secret:?}"), "Secret", "no log ever shows it");
    }
}

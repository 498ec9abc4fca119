//! Any bytes as a DNS query: a response within the limits, or nothing.
#![no_main]

use std::sync::LazyLock;

use examples::dns::{Ignored, RESPONSE_BYTES_MAX, Record, Zone, answer};
use libfuzzer_sys::fuzz_target;

static ZONE: LazyLock<Zone> = LazyLock::new(|| {
    let long = format!("a TXT {}", "x".repeat(900));
    let records = ["a A 192.0.2.1", "b.a AAAA 2001:db8::1", &long];
    records.iter().map(|text| text.parse::<Record>().expect("it is one")).collect()
});

fuzz_target!(|input: (u16, &[u8])| {
    let (room, query) = input;
    let mut out = vec![0; usize::from(room) % 2000];
    if let Ok(len) = answer(query, &ZONE, 60, &mut out) {
        assert!((12..=RESPONSE_BYTES_MAX).contains(&len));
        assert_eq!(out[..2], query[..2]);
        // What was answered is never answered again: there are no loops.
        assert_eq!(answer(&out[..len], &ZONE, 60, &mut [0; 512]), Err(Ignored::Response));
    }
});

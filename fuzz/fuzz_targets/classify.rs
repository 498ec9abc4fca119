//! A valid packet, changed at a few places: classified, hashed, turned around, verified.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use wire::build::{TcpSegment, UdpPacket};
use wire::{Protocol, Toeplitz, checksum, reply};

/// What the packet is made of.
#[derive(Debug)]
struct Input {
    is_tcp: bool,
    is_ipv6: bool,
    vlan: Option<u16>,
    ports: (u16, u16),
    payload: Vec<u8>,
    /// What stands between the fixed IP header and its payload: places in [`OPTIONS`] or
    /// [`EXTENSIONS`].
    inserted: Vec<u8>,
    changes: Vec<(u16, u8)>,
    padding: u8,
    payload_len: Option<u16>,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let inserted = u.int_in_range(0..=9)?;
        Ok(Self {
            is_tcp: u.arbitrary()?,
            is_ipv6: u.arbitrary()?,
            vlan: u.arbitrary()?,
            ports: u.arbitrary()?,
            inserted: u.bytes(inserted)?.to_vec(),
            changes: (0..u.int_in_range(0..=4)?).map(|_| u.arbitrary()).collect::<Result<_>>()?,
            padding: u.int_in_range(0..=32)?,
            payload_len: if u.arbitrary()? { Some(u.int_in_range(0..=64)?) } else { None },
            payload: u.arbitrary()?,
        })
    }
}

static TOEPLITZ: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(Toeplitz::symmetric(0x6d5a)));

fuzz_target!(|input: Input| {
    let Some(mut frame) = build(&input) else {
        return;
    };
    if input.changes.is_empty() && input.inserted.is_empty() {
        let flow = fuzz::flow(&frame).expect("what was built is a flow");
        assert!(checksum::verify(&frame, &flow), "what was built verifies");
        assert_eq!(usize::from(flow.payload_len), input.payload.len());
    }
    for (at, byte) in &input.changes {
        let at = usize::from(*at) % frame.len();
        frame[at] = *byte;
    }
    let Some(flow) = fuzz::flow(&frame) else {
        return;
    };
    let _ = checksum::verify(&frame, &flow);
    assert_eq!(TOEPLITZ.hash(&flow.key), TOEPLITZ.hash(&flow.key.reversed()));

    let before = frame.clone();
    let offsets = (flow.l3_offset, flow.l4_offset);
    let Some(bytes) = reply::turn_around(&mut frame, offsets, input.payload_len) else {
        let is_refused = flow.key.protocol() == Protocol::Tcp
            || input.payload_len.is_some_and(|wanted| wanted > flow.payload_len)
            || is_signed(&before, flow.l3_offset);
        assert!(is_refused, "{flow:?} could have been answered");
        assert_eq!(frame, before, "a refused packet stays as it is");
        return;
    };
    assert!(!is_signed(&before, flow.l3_offset), "an answer cannot be signed");
    let answer = &mut frame[..usize::from(bytes)];
    let back = fuzz::flow(answer).expect("an answer is a flow");
    assert_eq!(back.key, flow.key.reversed());
    assert_eq!(back.payload_len, input.payload_len.unwrap_or(flow.payload_len));
    assert!(checksum::verify(answer, &back), "an answer verifies");
    assert_eq!(reply::turn_around(answer, offsets, None), Some(bytes));
    assert_eq!(fuzz::flow(answer).map(|again| again.key), Some(flow.key));
    assert_eq!(answer[..12], before[..12], "turned around twice");
});

/// The packet of `input` before its changes.
fn build(input: &Input) -> Option<Vec<u8>> {
    let ip = |last: u8| match input.is_ipv6 {
        true => std::net::IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
        false => std::net::IpAddr::from([10, 0, 0, last]),
    };
    let (source_mac, destination_mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let (source, destination) = ((ip(1), input.ports.0).into(), (ip(2), input.ports.1).into());
    let (payload, vlan) = (input.payload.as_slice(), input.vlan);
    // The headers of a tagged IPv6 segment are 78 bytes.
    let mut frame = vec![0; payload.len() + 78];
    let bytes = if input.is_tcp {
        let (sequence, acknowledgement, flags, window) = (1, 2, wire::tcp::ACK, 3);
        TcpSegment {
            source_mac,
            destination_mac,
            source,
            destination,
            sequence,
            acknowledgement,
            flags,
            window,
            payload,
            vlan,
        }
        .write(&mut frame)
    } else {
        UdpPacket { source_mac, destination_mac, source, destination, payload, vlan }
            .write(&mut frame)
    };
    frame.truncate(bytes?);
    insert(&mut frame, input)?;
    frame.extend(std::iter::repeat_n(0xaa, usize::from(input.padding)));
    Some(frame)
}

/// IPv4 options of four bytes: end, no operation, record route, router alert, source route.
const OPTIONS: [[u8; 4]; 5] =
    [[0, 0, 0, 0], [1, 1, 1, 1], [7, 4, 4, 0], [148, 4, 0, 0], [131, 4, 4, 0]];

/// IPv6 extension headers: their number, and their bytes but for the number of the next one.
const EXTENSIONS: [(u8, &[u8]); 8] = [
    (0, &[0, 1, 4, 0, 0, 0, 0]),
    (60, &[0, 0, 0, 0x1e, 0, 1, 0]),
    (60, &[1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (60, &[15, 1, 124]),
    (43, &[0, 4, 0, 0, 0, 0, 0]),
    (44, &[0, 0, 0, 0, 0, 0, 9]),
    (44, &[0, 0, 8, 0, 0, 0, 9]),
    (51, &[4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
];

/// Puts options or extension headers into the packet, each valid by itself, and corrects lengths.
fn insert(frame: &mut Vec<u8>, input: &Input) -> Option<()> {
    if input.inserted.is_empty() {
        return Some(());
    }
    let l3 = if input.vlan.is_some() { 18 } else { 14 };
    let (length_at, fixed) = if input.is_ipv6 { (l3 + 4, 40) } else { (l3 + 2, 20) };
    let mut inserted = Vec::new();
    if input.is_ipv6 {
        let transport = frame[l3 + 6];
        let chosen = |place: &u8| EXTENSIONS[usize::from(*place) % EXTENSIONS.len()];
        frame[l3 + 6] = chosen(&input.inserted[0]).0;
        for (position, place) in input.inserted.iter().enumerate() {
            let next = input.inserted.get(position + 1).map_or(transport, |place| chosen(place).0);
            let bytes = chosen(place).1;
            inserted.push(next);
            inserted.extend(bytes);
            // One entry is short because most of its 128 bytes are the padding of one option.
            inserted.resize(inserted.len().next_multiple_of(8) + padding(bytes), 0);
        }
    } else {
        for place in &input.inserted {
            inserted.extend(OPTIONS[usize::from(*place) % OPTIONS.len()]);
        }
        frame[l3] += u8::try_from(inserted.len() / 4).ok()?;
    }
    let length = u16::from_be_bytes([frame[length_at], frame[length_at + 1]]);
    let length = length.checked_add(u16::try_from(inserted.len()).ok()?)?;
    frame[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    frame.splice(l3 + fixed..l3 + fixed, inserted);
    Some(())
}

/// Bytes that the header which starts with `bytes` has behind its last word written out.
fn padding(bytes: &[u8]) -> usize {
    if bytes.len() == 3 { 120 } else { 0 }
}

/// Whether an IPv6 authentication header stands in the chain of a valid packet.
fn is_signed(frame: &[u8], l3: u16) -> bool {
    let packet = &frame[usize::from(l3)..];
    packet[0] >> 4 == 6
        && wire::ipv6::walk(&packet[40..], packet[6]).is_ok_and(|transport| transport.is_signed)
}

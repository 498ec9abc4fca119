//! Files of every kind, whole and damaged.

use proptest::prelude::*;

use super::*;

/// Numbers in one byte order.
struct Bytes {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl Bytes {
    fn new(big_endian: bool) -> Self {
        Self { big_endian, bytes: Vec::new() }
    }

    fn word(mut self, value: u32) -> Self {
        let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend_from_slice(&bytes);
        self
    }

    fn half(mut self, value: u16) -> Self {
        let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend_from_slice(&bytes);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A pcapng block.
    fn block(self, kind: u32, body: Self) -> Self {
        let padded = body.bytes.len().next_multiple_of(4);
        let mut body = body.bytes;
        body.resize(padded, 0);
        let length = padded as u32 + 12;
        self.word(kind).word(length).raw(&body).word(length)
    }
}

fn classic(big_endian: bool, magic: u32) -> Bytes {
    Bytes::new(big_endian).word(magic).half(2).half(4).word(0).word(0).word(65535).word(1)
}

fn ng(big_endian: bool, options: &[u8], link_type: u16) -> Bytes {
    let section = Bytes::new(big_endian).word(0x1a2b_3c4d).half(1).half(0).raw(&[0xff; 8]);
    let description = Bytes::new(big_endian).half(link_type).half(0).word(0).raw(options);
    Bytes::new(big_endian).block(Ng::SECTION_HEADER, section).block(1, description)
}

fn enhanced(big_endian: bool, interface: u32, units: u64, packet: &[u8], wire: u32) -> Bytes {
    Bytes::new(big_endian)
        .word(interface)
        .word((units >> 32) as u32)
        .word(units as u32)
        .word(packet.len() as u32)
        .word(wire)
        .raw(packet)
}

/// Time, bytes and length on the wire of each packet.
type Packets = Vec<(u64, Vec<u8>, u32)>;

/// All packets until the end or the damage.
fn read(file: &[u8], room: usize) -> (Packets, Option<Damage>) {
    let mut reader = match PcapReader::new(file) {
        Ok(reader) => reader,
        Err(damage) => return (Vec::new(), Some(damage)),
    };
    let mut all = Vec::new();
    let mut buffer = vec![0; room];
    loop {
        match reader.next(&mut buffer) {
            Ok(None) => return (all, None),
            Err(damage) => return (all, Some(damage)),
            Ok(Some(Record { time, len, wire_bytes })) => {
                let bytes = len.map(|len| buffer[..len].to_vec()).unwrap_or_default();
                all.push((time.0, bytes, wire_bytes));
            }
        }
    }
}

#[test]
fn classic_files_of_both_orders_and_resolutions_are_read() {
    for big_endian in [false, true] {
        for (magic, nanos) in [(0xa1b2_c3d4, 5_000), (0xa1b2_3c4d, 5)] {
            let file = classic(big_endian, magic)
                .word(3)
                .word(5)
                .word(4)
                .word(60)
                .raw(b"abcd")
                .word(4)
                .word(0)
                .word(0)
                .word(0)
                .word(4)
                .word(1)
                .word(2)
                .word(2)
                .raw(b"ef");
            let (all, damage) = read(&file.bytes, 100);
            assert_eq!(damage, None);
            assert_eq!(all[0], (3_000_000_000 + nanos, b"abcd".to_vec(), 60));
            assert_eq!(all[1].1, b"");
            assert_eq!(all[2].1, b"ef");
        }
    }
}

#[test]
fn pcapng_files_of_both_orders_are_read() {
    for big_endian in [false, true] {
        let file = ng(big_endian, &[], 1)
            .block(0x0bad, Bytes::new(big_endian).raw(&[7; 21]))
            .block(6, enhanced(big_endian, 0, 5_000_001, b"abcde", 60))
            .block(3, Bytes::new(big_endian).word(3).raw(b"xyz"));
        let (all, damage) = read(&file.bytes, 100);
        assert_eq!(damage, None);
        assert_eq!(all[0], (5_000_001_000, b"abcde".to_vec(), 60));
        assert_eq!(all[1], (0, b"xyz".to_vec(), 3));
    }
}

#[test]
fn pcapng_times_follow_resolution_and_offset() {
    let nine = [9, 0, 1, 0, 9, 0, 0, 0];
    let offset = [14, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (options, units, nanos) in [
        (nine.to_vec(), 7, 7),
        (vec![9, 0, 1, 0, 0x80 | 10, 0, 0, 0], 512, 500_000_000),
        (offset.to_vec(), 1, 2_000_001_000),
        ([nine.to_vec(), offset.to_vec(), vec![0; 4]].concat(), 7, 2_000_000_007),
    ] {
        let file = ng(false, &options, 1).block(6, enhanced(false, 0, units, b"a", 1));
        let (all, damage) = read(&file.bytes, 100);
        assert_eq!((all[0].0, damage), (nanos, None), "{options:?}");
    }
}

#[test]
fn packets_of_another_link_or_an_unknown_interface_are_skipped() {
    let file = ng(false, &[], 113)
        .block(6, enhanced(false, 0, 1, b"cooked", 6))
        .block(3, Bytes::new(false).word(3).raw(b"xyz"))
        .block(6, enhanced(false, 9, 1, b"nobody", 6))
        .raw(&ng(false, &[], 1).bytes)
        .block(6, enhanced(false, 0, 1, b"ether", 5));
    let (all, damage) = read(&file.bytes, 100);
    assert_eq!(damage, None);
    assert_eq!(all.len(), 1, "a new section starts its interfaces anew");
    assert_eq!(all[0].1, b"ether");
}

#[test]
fn whoever_asks_for_any_link_gets_every_packet_and_its_link() {
    let classic = classic(true, 0xa1b2_c3d4).bytes;
    let cooked = [&classic[..22], &[0, 113]].concat();
    let cooked = Bytes::new(true).raw(&cooked).word(1).word(0).word(2).word(9).raw(b"ab").bytes;
    let mut reader = PcapReader::of_any_link(&cooked[..]).expect("a good header");
    assert_eq!(reader.link_type(), Some(113));
    let mut buffer = [0; 100];
    let next = reader.next_linked(&mut buffer).expect("no damage").expect("a record");
    assert_eq!((next.link_type, next.record.len, next.record.wire_bytes), (Some(113), Some(2), 9));
    assert_eq!(reader.next_linked(&mut buffer), Ok(None));

    for big_endian in [false, true] {
        let old =
            Bytes::new(big_endian).half(0).half(3).word(0).word(7).word(3).word(5).raw(b"old");
        let file = ng(big_endian, &[], 113)
            .block(6, enhanced(big_endian, 0, 1, b"cooked", 6))
            .block(2, old)
            .block(6, enhanced(big_endian, 9, 1, b"nobody", 6))
            .block(3, Bytes::new(big_endian).word(3).raw(b"xyz"));
        let mut reader = PcapReader::of_any_link(&file.bytes[..]).expect("a good header");
        assert_eq!(reader.link_type(), None, "each interface has its own");
        let mut all = Vec::new();
        while let Some(next) = reader.next_linked(&mut buffer).expect("no damage") {
            let len = next.record.len.expect("the buffer is long enough");
            all.push((next.link_type, next.record.time.0, buffer[..len].to_vec()));
        }
        let expected = [
            (Some(113), 1_000, b"cooked".to_vec()),
            (Some(113), 7_000, b"old".to_vec()),
            (None, 0, b"nobody".to_vec()),
            (Some(113), 0, b"xyz".to_vec()),
        ];
        assert_eq!(all, expected);
    }
}

#[test]
fn a_packet_larger_than_the_buffer_is_skipped_and_reading_goes_on() {
    let file = classic(false, 0xa1b2_c3d4)
        .word(1)
        .word(0)
        .word(300)
        .word(300)
        .raw(&[1; 300])
        .word(2)
        .word(0)
        .word(2)
        .word(2)
        .raw(b"ok");
    let mut reader = PcapReader::new(&file.bytes[..]).expect("a good header");
    let mut buffer = [0; 100];
    let first = reader.next(&mut buffer).expect("no damage").expect("a record");
    assert_eq!((first.len, first.wire_bytes), (None, 300));
    let second = reader.next(&mut buffer).expect("no damage").expect("a record");
    assert_eq!(second.len, Some(2));
}

#[test]
fn damage_is_told_apart() {
    let good = classic(false, 0xa1b2_c3d4);
    let record = |captured: u32| {
        classic(false, 0xa1b2_c3d4).word(0).word(0).word(captured).word(9).raw(b"abc").bytes
    };
    for (file, sentence) in [
        (b"GIF89a...".to_vec(), "not a capture file"),
        (b"".to_vec(), "ends in the middle"),
        (good.bytes[..23].to_vec(), "ends in the middle"),
        (record(4), "ends in the middle"),
        (record(u32::MAX), "claims 4294967295 bytes"),
        (record(RECORD_BYTES_MAX + 1), "claims 262145 bytes"),
        (
            classic(false, 0xa1b2_c3d4).bytes[..20].iter().copied().chain([101, 0, 0, 0]).collect(),
            "link type 101",
        ),
        (Bytes::new(false).word(Ng::SECTION_HEADER).word(28).word(7).bytes, "not a capture file"),
        (ng(false, &[], 1).word(6).word(13).bytes, "block claims 13 bytes"),
        (ng(false, &[], 1).block(6, Bytes::new(false).word(1)).bytes, "packet block claims 4"),
        (
            ng(false, &[], 1)
                .block(6, Bytes::new(false).word(0).word(0).word(0).word(50).word(50).raw(b"abc"))
                .bytes,
            "packet claims 50 bytes",
        ),
        (ng(false, &[9, 0, 1, 0, 0xff, 0, 0, 0], 1).bytes, "time resolution"),
        (ng(false, &[], 1).word(6).word(60).word(0).bytes, "ends in the middle"),
    ] {
        let damage = read(&file, 100).1.expect(sentence).to_string();
        assert!(damage.contains(sentence), "{damage:?} instead of {sentence:?}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut file = Vec::new();
    let mut writer = crate::pcap::PcapWriter::new(&mut file).expect("memory can be written");
    writer.write(Nanos(1_700_000_000_123_456_789), b"first").expect("memory can be written");
    writer.write(Nanos(1_700_000_001_000_000_001), &[9; 1500]).expect("memory can be written");
    let (all, damage) = read(&file, 2048);
    assert_eq!(damage, None);
    assert_eq!(all[0], (1_700_000_000_123_456_789, b"first".to_vec(), 5));
    assert_eq!(all[1], (1_700_000_001_000_000_001, vec![9; 1500], 1500));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn no_bytes_make_the_reader_panic_or_hang(
        start in 0..4usize,
        noise in prop::collection::vec(any::<u8>(), 0..400),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut file = match start {
            0 => Vec::new(),
            1 => classic(true, 0xa1b2_c3d4).word(0).word(0).word(3).word(3).raw(b"abc").bytes,
            2 => ng(false, &[9, 0, 1, 0, 9, 0, 0, 0], 1)
                .block(6, enhanced(false, 0, 7, b"abcde", 60))
                .bytes,
            _ => ng(true, &[], 1).block(3, Bytes::new(true).word(3).raw(b"xyz")).bytes,
        };
        file.extend_from_slice(&noise);
        if !file.is_empty() {
            for (index, value) in flips {
                *index.get_mut(&mut file) = value;
            }
        }
        let (all, _) = read(&file, 64);
        prop_assert!(all.len() <= file.len() / 12 + 1);
    }
}

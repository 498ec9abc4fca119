//! Whatever comes in: nothing panics, grows beyond its room or touches another packet.

use proptest::prelude::*;

use super::*;

/// Packets that were valid once.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let seeds = vec![
        udp(FOUR, b"hello"),
        udp(SIX, b"hello"),
        tcp(FOUR, &[1; 700]),
        tcp(SIX, &[1; 1440]),
        udp([FOUR[0], "192.0.2.1:9"], &[2; 1400]),
        udp([SIX[0], "[2001:db8::1]:9"], &[2; 1400]),
        ipv4(1, &[148, 4, 0, 0], &[3, 0, 0, 0, 0, 0, 0, 0]),
        ipv6(0, &[44, 0, 5, 2, 0, 0, 1, 0, 58, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4]),
    ];
    let changes = prop::collection::vec((0..90usize, any::<u8>()), 0..5);
    (prop::sample::select(seeds), changes, any::<bool>(), prop::option::of(0..200usize)).prop_map(
        |(mut packet, changes, is_corrected, len)| {
            for (place, value) in changes {
                if let Some(byte) = packet.get_mut(place) {
                    *byte = value;
                }
            }
            if is_corrected && packet.len() > 14 {
                correct_checksum(&mut packet);
            }
            packet.truncate(len.unwrap_or(usize::MAX));
            packet
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_packet_in_a_batch_becomes_what_it_becomes_alone(
        packets in prop::collection::vec((any_packet(), 0..6u16, any::<bool>()), 1..20),
    ) {
        let mut frames = Frames::new();
        let slices: Vec<&[u8]> = packets.iter().map(|(packet, _, _)| &packet[..]).collect();
        let mut batch = frames.batch(&slices);
        let mut verdicts = Verdicts::new();
        for (index, (frame, (_, port, is_decided))) in batch.iter_mut().zip(&packets).enumerate() {
            frame.meta_mut().port = PortId(*port);
            if *is_decided {
                verdicts[index] = Verdict::Drop;
            }
        }
        // Decided ones beside the others must not matter; a burst of 50 messages is never used up.
        let mut together = router();
        together.process(&mut batch, &mut verdicts, Nanos::ZERO);
        let mut alone = router();
        for (index, (packet, port, is_decided)) in packets.iter().enumerate() {
            let bytes = batch[index].bytes();
            if *is_decided {
                prop_assert_eq!(bytes, &packet[..]);
                continue;
            }
            let (verdict, expected) = run_at(&mut alone, PortId(*port), packet, Nanos::ZERO);
            prop_assert_eq!(verdicts[index], verdict);
            prop_assert_eq!(bytes, &expected[..]);
            match verdict {
                Verdict::Drop => prop_assert_eq!(bytes, &packet[..]),
                Verdict::Out(_) => prop_assert!(bytes.len() <= packet.len().max(14 + 1280)),
                Verdict::Next => prop_assert!(false, "a router decides"),
            }
        }
        prop_assert_eq!(counted(&together), counted(&alone));
        let all: u64 = counted(&alone)
            .iter()
            .filter(|(name, _)| !name.starts_with("icmp") && **name != "wanted_full")
            .map(|(_, count)| count)
            .sum();
        prop_assert_eq!(all as usize, packets.iter().filter(|(_, _, decided)| !decided).count());
        frames.give(batch);
    }

    #[test]
    fn the_header_checksum_is_right_after_the_ttl_whatever_the_header_is(
        header in any::<[u8; 20]>(),
        options in prop::collection::vec(Just([1u8; 4]), 0..3),
    ) {
        let mut packet = ipv4(header[9], &options.concat(), b"some payload");
        // Type of service, identification, flags and fragment offset, TTL.
        packet[15] = header[1];
        packet[18..22].copy_from_slice(&header[4..8]);
        if packet[20] & 0x1f == 0x1f {
            // So far behind, it might end beyond the longest packet: that is another test's.
            packet[20] &= !0x10;
        }
        packet[22] = header[8].max(2);
        correct_checksum(&mut packet);
        let (verdict, bytes) = run(&mut router(), &packet);
        prop_assert_eq!(verdict, Verdict::Out(OUT));
        prop_assert_eq!(bytes, forwarded(&packet, BOB_MAC));
    }
}

#[test]
fn a_fragment_beyond_the_longest_packet_is_malformed_and_never_cut_into_a_first_one() {
    // Cut for the next link, its second piece would begin at 65,536 and so at zero.
    for (offset, options) in [(8008_u16, vec![]), (8190, vec![]), (8191, vec![7, 3, 4, 0])] {
        let mut router = router().holding_packets();
        let mut packet = ipv4(17, &options, &[9; 1480]);
        packet[20..22].copy_from_slice(&offset.to_be_bytes());
        correct_checksum(&mut packet);
        let (verdict, bytes) = run(&mut router, &packet);
        assert!(verdict == Verdict::Drop && bytes == packet, "{offset}");
        assert_eq!(counted(&router), BTreeMap::from([("ipv4_fragment_end", 1)]), "{offset}");
        assert!(!router.is_due(Nanos::ZERO));
    }
}

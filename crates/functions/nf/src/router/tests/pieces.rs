//! Tests of packets that are cut for a link with a smaller MTU.

use proptest::prelude::*;

use super::*;

fn set_mtu(router: &mut Router, mtu: u32) {
    let interface = Interface { mtu, ..*router.fib().interface(OUT).expect("it is there") };
    router.apply(&FibChange::Interface { port: OUT, interface: Some(interface) });
}

/// What leaves for one packet, in order.
fn sent(router: &mut Router, packet: &[u8]) -> Vec<Vec<u8>> {
    let (verdict, first) = run(router, packet);
    let mut all = if verdict == Verdict::Out(OUT) { vec![first] } else { Vec::new() };
    let mut frames = Frames::new();
    while router.is_due(Nanos::ZERO) {
        let (mut batch, mut verdicts) = (Batch::new(), Verdicts::new());
        router.release(&mut batch, Nanos::ZERO, &mut || Some(frames.frame(&[])));
        router.process(&mut batch, &mut verdicts, Nanos::ZERO);
        for (n, frame) in batch.iter().enumerate() {
            assert_eq!(verdicts[n], Verdict::Out(OUT));
            all.push(frame.bytes().to_vec());
        }
        frames.give(batch);
    }
    all
}

/// Puts pieces together as RFC 815 does: the payload of the whole, and the offset of its first
/// byte.
fn together(pieces: &[Vec<u8>], mtu: usize) -> (Vec<u8>, usize, bool) {
    let mut parts = Vec::new();
    for piece in pieces {
        let packet = &piece[14..];
        let header = usize::from(packet[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let word = u16::from_be_bytes([packet[6], packet[7]]);
        assert!(total <= mtu && packet.len() >= total, "{total} of {mtu}");
        assert_eq!(wire::checksum::of(&packet[..header]), 0, "the header's checksum");
        assert_eq!(packet[8], 63, "each router is counted once");
        let at = usize::from(word & 0x1fff) * 8;
        parts.push((at, packet[header..total].to_vec(), word & 0x2000 != 0));
    }
    parts.sort();
    let first = parts[0].0;
    let mut whole = Vec::new();
    for (at, part, _) in &parts {
        assert_eq!(*at, first + whole.len(), "no gap and nothing twice");
        whole.extend(part);
    }
    let last = parts.len() - 1;
    assert!(parts[..last].iter().all(|(.., more)| *more));
    (whole, first, parts[last].2)
}

proptest! {
    #[test]
    fn the_pieces_of_a_packet_are_the_packet_and_each_fits(
        payload in prop::collection::vec(any::<u8>(), 60..1400),
        options in 0..=10usize,
        mtu in 108..700u32,
        offset in 0..100u16,
        more in any::<bool>(),
    ) {
        let mut router = router().holding_packets();
        set_mtu(&mut router, mtu);
        let mut packet = ipv4(17, &vec![1; options * 4], &payload);
        let word = offset | if more { 0x2000 } else { 0 };
        packet[20..22].copy_from_slice(&word.to_be_bytes());
        packet[18..20].copy_from_slice(&[0x12, 0x34]);
        correct_checksum(&mut packet);
        let pieces = sent(&mut router, &packet);
        let header = 20 + options * 4;
        let each = (mtu as usize - header) & !7;
        let fits = header + payload.len() <= mtu as usize;
        let count = if fits { 1 } else { payload.len().div_ceil(each) };
        prop_assert_eq!(pieces.len(), count, "no more than there must be");
        let (whole, first, has_more) = together(&pieces, mtu as usize);
        prop_assert_eq!(&whole, &payload);
        prop_assert_eq!((first, has_more), (usize::from(offset) * 8, more));
        for piece in &pieces {
            prop_assert_eq!(&piece[18..20], &[0x12, 0x34]);
            prop_assert_eq!(&piece[..6], &BOB_MAC);
        }
        prop_assert_eq!(router.counts().fragmented, u64::from(!fits));
    }
}

#[test]
fn options_that_are_not_to_be_copied_are_in_the_first_piece_only() {
    let mut router = router().holding_packets();
    set_mtu(&mut router, 200);
    // Router alert, which is to be copied; record route, which is not; the end.
    let options = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0];
    let pieces = sent(&mut router, &ipv4(17, &options, &[9; 400]));
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[0][34..46], options);
    for later in &pieces[1..] {
        assert_eq!(later[34..46], [148, 4, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
    }
}

#[test]
fn what_must_not_be_cut_is_refused_and_its_sender_told() {
    let mut router = router().holding_packets();
    set_mtu(&mut router, 200);
    let mut packet = ipv4(17, &[], &[9; 400]);
    packet[20] = 0x40;
    correct_checksum(&mut packet);
    let (verdict, bytes) = run(&mut router, &packet);
    assert_eq!((verdict, bytes[34..36].to_vec()), (Verdict::Out(IN), vec![3, 4]));
    assert_eq!(router.counts().too_big, 1);
    assert!(!router.is_due(Nanos::ZERO));
}

#[test]
fn more_pieces_than_there_is_room_for_are_dropped_with_their_packet() {
    let mut router = router().holding_packets();
    set_mtu(&mut router, 68);
    let packet = ipv4(17, &[], &[9; 1400]);
    let mut cut = 0;
    while router.counts().fragments_no_room == 0 {
        let (verdict, _) = run(&mut router, &packet);
        cut += usize::from(verdict == Verdict::Out(OUT));
    }
    assert_eq!(router.counts().fragmented, cut as u64);
    // 1400 bytes are 29 pieces of 48 and one of 8, of which the first needs no room.
    assert_eq!(cut, 128 / 29);
    let mut frames = Frames::new();
    let mut batch = Batch::new();
    router.release(&mut batch, Nanos::ZERO, &mut || None);
    assert!(batch.is_empty() && router.is_due(Nanos::ZERO), "they wait for frames");
    let mut left = 40;
    let mut some = || {
        left -= 1;
        (left >= 0).then(|| frames.frame(&[]))
    };
    router.release(&mut batch, Nanos::ZERO, &mut some);
    assert_eq!(batch.len(), 40);
    frames.give(batch);
    let rest = sent(&mut router, &udp(FOUR, b"short"));
    assert_eq!(rest.len(), 1 + cut * 29 - 40);
    let ends = rest[1..].iter().filter(|piece| piece[20] & 0x20 == 0).count();
    assert_eq!(ends, cut - 1, "in order: the first forty had one last piece among them");
}

#[test]
fn an_open_checksum_is_closed_before_a_packet_is_cut() {
    let mut router = router().holding_packets();
    set_mtu(&mut router, 200);
    let mut complete = udp(FOUR, &[7; 400]);
    complete[20] = 0;
    correct_checksum(&mut complete);
    let mut open = complete.clone();
    let sum = wire::checksum::Sum::ZERO.bytes(&open[26..34]).word(17).word(408).fold();
    open[40..42].copy_from_slice(&sum.to_be_bytes());
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[&open]);
    batch[0].meta_mut().port = IN;
    batch[0].meta_mut().checksum = base::ChecksumState::Partial;
    let mut verdicts = Verdicts::new();
    router.process(&mut batch, &mut verdicts, Nanos::ZERO);
    assert_eq!(verdicts[0], Verdict::Out(OUT));
    assert_eq!(batch[0].bytes()[40..42], complete[40..42]);
    assert_eq!(batch[0].meta().tx_checksum, base::TxChecksum::Complete);
    frames.give(batch);
}
